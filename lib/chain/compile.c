/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes requests of the steps of a chain. The queues take turns as in a run in
 * which each message is there at once, so every step comes after those for
 * which it waits.
 *
 * A message stays in the slot of its receive, and later steps use it there. A
 * result of a calculation has a place of its own. So nothing is overwritten
 * that a request may still read.
 */
#include "base/base.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/native.h"
#include "device/cross.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define WORD		sizeof(uint64_t)
#define REQUESTS_FEW	32u

struct compiling {
	struct native *n;
	const struct rdmamsg_chain *c;
	uint32_t step;			/* that is being compiled */
	struct {
		uint32_t head, done, allowed;
		uint8_t enabler;	/* queue, or NO_QUEUE */
		uint32_t grant;		/* first that is not used, or NO_STEP */
		uint32_t last_grant;
	} q[RDMAMSG_CHAIN_QUEUES];
	/* by the step that enables: allows the steps from 'at' on */
	struct {
		uint32_t at, next;
	} grants[NATIVE_STEPS];
};

static int refuse(const struct compiling *x, const char *why)
{
	char text[80];

	return rdmamsg__fail(-EOPNOTSUPP, "chain: %s does not run natively: %s",
			     rdmamsg__step_text(x->c, x->step, text,
						sizeof(text)), why);
}

/* ---- memory ------------------------------------------------------------ */

static const char in_parts[] = "its memory is a part of another step's";

static int new_area(struct compiling *x, size_t len, uint8_t **ret)
{
	const size_t size = (len + WORD - 1) & ~(WORD - 1);

	if (size > NATIVE_AREAS - x->n->area_used)
		return refuse(x, "the steps have more than 64 KB of memory");
	*ret = x->n->areas + x->n->area_used;
	x->n->area_used += size;
	return 0;
}

static bool overlap(const struct place *p, const uint8_t *user, size_t len)
{
	return user < p->user + p->len && p->user < user + len;
}

/*
 * Returns true if the place has all these bytes in the same order. Only whole
 * words are in network order, so a part of a word is not.
 */
static bool covers(const struct place *p, const uint8_t *user, size_t len)
{
	const size_t at = (size_t)(user - p->user);

	return user >= p->user && user + len <= p->user + p->len &&
	       !(at % WORD) && (!(len % WORD) || (at + len) / WORD ==
						 p->len / WORD);
}

static int new_place(struct compiling *x, const struct place *p)
{
	if (x->n->place_count == NATIVE_STEPS)
		return refuse(x, "the steps have too many memories");
	x->n->places[x->n->place_count++] = *p;
	return 0;
}

/* Finds the bytes that the step reads, or copies them from the program. */
static int source(struct compiling *x, const void *user, size_t len,
		  struct ibv_sge *ret)
{
	struct place made = {
		.user = user, .len = len, .lkey = x->n->mr->lkey,
	};
	int err;

	for (uint32_t i = 0; i < x->n->place_count; i++) {
		const struct place *p = &x->n->places[i];

		if (!overlap(p, user, len))
			continue;
		if (covers(p, user, len)) {
			*ret = (struct ibv_sge){
				(uintptr_t)p->at +
				(size_t)((const uint8_t *)user - p->user),
				(uint32_t)len, p->lkey,
			};
			return 0;
		}
		if (p->result)
			return refuse(x, in_parts);
	}
	err = new_area(x, len, &made.at);
	if (!err)
		err = new_place(x, &made);
	if (err)
		return err;
	rdmamsg__channel_copy(made.at, user, len);
	*ret = (struct ibv_sge){ (uintptr_t)made.at, (uint32_t)len, made.lkey };
	return 0;
}

/* From this step on, what the program has at 'user' is at 'at'. */
static int result(struct compiling *x, const void *user, size_t len,
		  uint8_t *at, uint32_t lkey)
{
	const struct place made = {
		.user = user, .len = len, .at = at, .lkey = lkey,
		.result = true,
	};
	uint32_t i = 0;

	while (i < x->n->place_count) {
		struct place *p = &x->n->places[i];

		if (overlap(p, user, len) && p->result &&
		    (p->user != user || p->len != len))
			return refuse(x, in_parts);
		/* older bytes are not read any more */
		if (overlap(p, user, len))
			*p = x->n->places[--x->n->place_count];
		else
			i++;
	}
	return new_place(x, &made);
}

void rdmamsg__native_results(const struct native *n)
{
	for (uint32_t i = 0; i < n->place_count; i++) {
		const struct place *p = &n->places[i];

		if (p->result)
			rdmamsg__channel_copy((uint8_t *)(uintptr_t)p->user,
					      p->at, p->len);
	}
}

/* ---- requests ---------------------------------------------------------- */

static int add(struct compiling *x, const struct request *r, uint32_t *count,
	       uint32_t most)
{
	struct native *n = x->n;
	uint32_t room = max(2 * n->request_room, REQUESTS_FEW);
	struct request *requests;

	if (*count == most)
		return refuse(x, "too many requests of one queue pair");
	if (n->request_count == n->request_room) {
		requests = realloc(n->requests, room * sizeof(*requests));
		if (!requests)
			return rdmamsg__fail(-ENOMEM, "no memory for requests");
		n->requests = requests;
		n->request_room = room;
	}
	n->requests[n->request_count++] = *r;
	++*count;
	return 0;
}

/* Lets the queue pair wait for all steps of the queue so far. */
static int wait_for(struct compiling *x, const struct nqueue *q,
		    const struct cross *to, struct seen *seen, uint32_t *count,
		    uint32_t most)
{
	struct request r = { .to = to, .kind = REQUEST_WAIT };
	int err = 0;

	if (seen->mark != q->marks) {
		r.wait = (struct cond){ q->num, q->marks };
		err = add(x, &r, count, most);
	}
	for (uint32_t i = max(q->unmarked, seen->conds); i < q->count && !err;
	     i++) {
		r.wait = q->conds[i];
		err = add(x, &r, count, most);
	}
	*seen = (struct seen){ q->marks, q->count };
	return err;
}

static int add_cond(struct compiling *x, struct nqueue *q, struct cond c)
{
	for (uint32_t i = q->unmarked; i < q->count; i++)
		if (q->conds[i].num == c.num &&
		    (int32_t)(q->conds[i].index - c.index) >= 0)
			return 0;
	if (q->count == NATIVE_CONDS)
		return refuse(x, "the queue waits for too much");
	q->conds[q->count++] = c;
	return 0;
}

/* The queue waits for what the other queue had waited for by this moment. */
static int add_moment(struct compiling *x, struct nqueue *q,
		      const struct nqueue *other, const struct moment *m)
{
	int err = 0;

	if (m->mark != other->first_mark)
		err = add_cond(x, q, (struct cond){ other->num, m->mark });
	for (uint32_t i = m->from; i < m->to && !err; i++)
		err = add_cond(x, q, other->conds[i]);
	return err;
}

/* ---- steps ------------------------------------------------------------- */

/* Finds the channel of the step, and takes its endpoint into the run. */
static int join(struct compiling *x, const struct nqueue *q, struct chain_ep *e,
		struct channel **ret)
{
	struct channel *ch = e->channel;
	struct native *n = x->n;

	*ret = ch;
	if (ch->in_run)
		return 0;
	if (ch->dev != n->dev)
		return refuse(x, "the endpoints are on several devices or in "
			      "several protection domains");
	if (n->end_count == NATIVE_ENDS)
		return refuse(x, "the chain has more than 32 endpoints");
	n->ends[n->end_count++] = e;
	ch->in_run = true;
	ch->was_sent = ch->sent;
	ch->was_used = ch->used;
	ch->requests = 0;
	ch->seen = (struct seen){ q->first_mark, 0 };
	return 0;
}

static int compile_send(struct compiling *x, struct nqueue *q,
			const struct step *s)
{
	struct request r = {
		.kind = REQUEST_SEND, .signaled = true, .send.tag = s->tag,
	};
	struct channel *ch;
	int err;

	if (s->len > CHANNEL_BYTES)
		return refuse(x, "a message has at most 4096 bytes");
	err = join(x, q, s->end, &ch);
	if (!err && ch->sent == ch->was_sent)
		ch->seen = (struct seen){ q->first_mark, 0 };
	if (!err && s->len)
		err = source(x, s->a, s->len, &r.send.sge);
	r.to = err ? NULL : &ch->cross;
	if (!err)
		err = wait_for(x, q, r.to, &ch->seen, &ch->requests,
			       CHANNEL_SENDS / 2);
	if (!err)
		err = add(x, &r, &ch->requests, CHANNEL_SENDS / 2);
	if (!err)
		ch->sent++;
	return err;
}

static int compile_recv(struct compiling *x, struct nqueue *q,
			const struct step *s)
{
	struct native *n = x->n;
	struct channel *ch;
	int err;

	if (s->len > CHANNEL_BYTES)
		return refuse(x, "a message has at most 4096 bytes");
	err = join(x, q, s->end, &ch);
	if (err)
		return err;
	if (ch->used - ch->was_used == CHANNEL_SLOTS / 2)
		return refuse(x, "a run receives at most 8 messages of an "
			      "endpoint");
	n->expected[n->expected_count++] = (struct expected){
		.step = x->step, .index = ch->used, .end = s->end,
	};
	if (s->len)
		err = result(x, s->dst, s->len,
			     rdmamsg__channel_slot(ch, ch->used), ch->mr->lkey);
	ch->used++;
	return err ? err : add_cond(x, q, (struct cond){ ch->recv_num,
							 ch->used });
}

static int op_of(struct compiling *x, const struct step *s, enum cross_op *ret)
{
	switch ((enum rdmamsg_calc_op)s->op) {
	case RDMAMSG_CALC_ADD:
		*ret = CROSS_ADD;
		break;
	case RDMAMSG_CALC_AND:
		*ret = CROSS_AND;
		break;
	case RDMAMSG_CALC_OR:
		*ret = CROSS_OR;
		break;
	case RDMAMSG_CALC_XOR:
		*ret = CROSS_XOR;
		break;
	default:
		return refuse(x, "devices have no MIN and MAX");
	}
	/* devices may differ in which NaN they make */
	return *ret == CROSS_ADD && s->type == RDMAMSG_CALC_DOUBLE ?
	       refuse(x, "devices do not add doubles as the library does") : 0;
}

/* The last element makes the mark. */
static int add_calcs(struct compiling *x, struct nqueue *q, struct request *r,
		     size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		r->signaled = i + 1 == count;
		err = add(x, r, &q->requests, NATIVE_CALCS / 2);
		r->calc.a += WORD;
		r->calc.b += WORD;
		r->calc.to += WORD;
	}
	q->marks++;
	q->unmarked = q->count;
	return err;
}

static int compile_calc(struct compiling *x, uint32_t queue,
			const struct step *s)
{
	struct nqueue *q = x->n->queues[queue];
	struct request r = { .to = &q->cross, .kind = REQUEST_CALC };
	const size_t len = s->len * WORD;
	struct ibv_sge a, b;
	uint8_t *to = NULL;
	int err;

	if (!len)
		return 0;
	if (s->len > NATIVE_COUNT)
		return refuse(x, "a calculation has at most 32 elements");
	err = op_of(x, s, &r.calc.op);
	if (!err)
		err = rdmamsg__native_calculates(x->n, queue);
	if (!err)
		err = source(x, s->a, len, &a);
	if (!err)
		err = source(x, s->b, len, &b);
	if (!err)
		err = new_area(x, len, &to);
	if (!err)
		err = wait_for(x, q, r.to, &q->seen, &q->requests,
			       NATIVE_CALCS / 2);
	if (err)
		return err;
	r.calc.a = a.addr;
	r.calc.a_lkey = a.lkey;
	r.calc.b = b.addr;
	r.calc.b_lkey = b.lkey;
	r.calc.to = (uintptr_t)to;
	r.calc.rkey = x->n->mr->rkey;
	err = add_calcs(x, q, &r, s->len);
	return err ? err : result(x, s->dst, len, to, x->n->mr->lkey);
}

static int compile_wait(struct compiling *x, struct nqueue *q,
			const struct step *s)
{
	uint32_t at = x->c->queues[s->other].first;

	if (!s->n)
		return 0;
	for (uint32_t i = 1; i < s->n; i++)
		at = x->c->steps[at].next;
	return add_moment(x, q, x->n->queues[s->other], &x->n->moments[at]);
}

static struct moment now(const struct nqueue *q)
{
	return (struct moment){ q->marks, q->unmarked, q->count };
}

/* The other queue waits for this moment before the steps that it allows. */
static int compile_enable(struct compiling *x, uint32_t queue,
			  const struct step *s)
{
	const uint32_t most = s->n ? s->n : x->c->queues[s->other].count;
	uint32_t *last = &x->q[s->other].last_grant;

	if (x->q[s->other].enabler != NO_QUEUE &&
	    x->q[s->other].enabler != queue)
		return refuse(x, "another queue enables the same one");
	x->q[s->other].enabler = (uint8_t)queue;
	if (most <= x->q[s->other].allowed)
		return 0;
	x->grants[x->step].at = x->q[s->other].allowed;
	x->grants[x->step].next = NO_STEP;
	if (x->q[s->other].grant == NO_STEP)
		x->q[s->other].grant = x->step;
	else
		x->grants[*last].next = x->step;
	*last = x->step;
	x->q[s->other].allowed = most;
	return 0;
}

/* Lets the queue wait for what enables its next step. */
static int use_grants(struct compiling *x, uint32_t queue)
{
	const struct nqueue *by = NULL;
	uint32_t *at = &x->q[queue].grant;
	int err = 0;

	if (*at != NO_STEP)
		by = x->n->queues[x->q[queue].enabler];
	while (!err && *at != NO_STEP &&
	       x->grants[*at].at <= x->q[queue].done) {
		err = add_moment(x, x->n->queues[queue], by,
				 &x->n->moments[*at]);
		*at = x->grants[*at].next;
	}
	return err;
}

static int compile_step(struct compiling *x, uint32_t queue)
{
	const struct step *s = &x->c->steps[x->step];
	struct nqueue *q = x->n->queues[queue];
	int err = use_grants(x, queue);

	if (err)
		return err;
	switch ((enum step_kind)s->kind) {
	case STEP_SEND:
		err = compile_send(x, q, s);
		break;
	case STEP_RECV:
		err = compile_recv(x, q, s);
		break;
	case STEP_WAIT:
		err = compile_wait(x, q, s);
		break;
	case STEP_ENABLE:
		err = compile_enable(x, queue, s);
		break;
	case STEP_CALC:
		err = compile_calc(x, queue, s);
		break;
	}
	x->n->moments[x->step] = now(q);
	return err;
}

/* ---- the chain --------------------------------------------------------- */

/* Returns true if the head of the queue need not wait any more. */
static bool may_go(const struct compiling *x, uint32_t queue)
{
	const uint32_t head = x->q[queue].head;
	const struct step *s;

	if (head == NO_STEP || x->q[queue].done >= x->q[queue].allowed)
		return false;
	s = &x->c->steps[head];
	return s->kind != STEP_WAIT || x->q[s->other].done >= s->n;
}

static int compile_all(struct compiling *x)
{
	bool goes_on = true;
	int err = 0;

	while (goes_on && !err) {
		goes_on = false;
		for (uint32_t i = 0; i < x->c->queue_count && !err; i++)
			while (!err && may_go(x, i)) {
				x->step = x->q[i].head;
				err = compile_step(x, i);
				x->q[i].head = x->c->steps[x->step].next;
				x->q[i].done++;
				goes_on = true;
			}
	}
	return err;
}

static int begin(struct compiling *x)
{
	struct native *n = x->n;
	int err = 0;

	n->area_used = 0;
	n->request_count = 0;
	n->place_count = n->expected_count = n->end_count = 0;
	for (uint32_t i = 0; i < x->c->queue_count && !err; i++) {
		err = rdmamsg__native_queue(n, i);
		if (err)
			break;
		n->queues[i]->first_mark = n->queues[i]->marks;
		n->queues[i]->seen = (struct seen){ n->queues[i]->marks, 0 };
		n->queues[i]->requests = n->queues[i]->unmarked =
			n->queues[i]->count = 0;
		x->q[i].head = x->c->queues[i].first;
		x->q[i].done = 0;
		x->q[i].allowed = x->c->managed >> i & 1 ? 0 : UINT32_MAX;
		x->q[i].enabler = NO_QUEUE;
		x->q[i].grant = NO_STEP;
	}
	if (!err && x->c->count > NATIVE_STEPS)
		err = rdmamsg__fail(-EOPNOTSUPP, "chain: a native run has at "
				    "most %u steps", NATIVE_STEPS);
	return err;
}

static void undo(struct compiling *x)
{
	for (uint32_t i = 0; i < x->n->end_count; i++) {
		struct channel *ch = x->n->ends[i]->channel;

		ch->sent = ch->was_sent;
		ch->used = ch->was_used;
		ch->in_run = false;
	}
	for (uint32_t i = 0; i < x->c->queue_count; i++)
		if (x->n->queues[i])
			x->n->queues[i]->marks = x->n->queues[i]->first_mark;
	x->n->end_count = 0;
}

int rdmamsg__native_compile(struct native *n)
{
	struct compiling x = { .n = n, .c = n->chain };
	int err = begin(&x);

	if (err)
		return err;
	err = compile_all(&x);
	if (err)
		undo(&x);
	return err;
}
