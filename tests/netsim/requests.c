/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes requests, and notes what each of them has to change. */
#include "netsim.h"

#include <string.h>

#include "base/util.h"
#include "soft/verbs/calls.h"

/* A request as verbs take it. */
struct work {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
};

bool request_takes_receive(const struct request *r)
{
	return r->op <= OP_SEND_INV || r->op == OP_WRITE_IMM;
}

/* ---- choices ------------------------------------------------------------ */

static bool is_possible(const struct end *e, enum op op)
{
	switch (op) {
	case OP_SEND_INV:
		return e->peer->window == WINDOW_GIVEN;
	case OP_BIND:
		return e->window == WINDOW_IDLE;
	case OP_UNBIND:
		return e->window == WINDOW_OWN;
	default:
		return true;
	}
}

static enum op choose_op(const struct end *e)
{
	uint32_t sum = 0, at, op = 0;

	if (e->posted == e->plan->bad)
		return OP_WRITE + sim_below(OP_CAS - OP_WRITE + 1);
	for (int i = 0; i < OPS; i++)
		sum += is_possible(e, i) ? e->plan->weight[i] : 0;
	if (!sum)
		return OP_WRITE;
	for (at = sim_below(sum);; op++) {
		const uint32_t w = is_possible(e, op) ? e->plan->weight[op] : 0;

		if (at < w)
			return op;
		at -= w;
	}
}

/* The edges of packets are the likeliest. */
static uint32_t choose_length(void)
{
	uint32_t len;

	switch (sim_below(8)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = 1 + sim_below(8);
		break;
	case 2:
		len = plan.mtu - 1 + sim_below(3);
		break;
	case 3:
		len = 2 * plan.mtu - 1 + sim_below(3);
		break;
	case 4:
		len = plan.mtu * (1 + sim_below(4));
		break;
	case 5:
		len = sim_below(plan.mtu);
		break;
	case 6:
		len = plan.most;
		break;
	default:
		len = sim_below(plan.most + 1);
		break;
	}
	return min(len, plan.most);
}

static bool is_signaled(const struct end *e)
{
	const uint32_t next = e->posted + 1;

	/* the program has to notice when it may go on */
	return !(next % e->plan->signal_every) || next == e->plan->requests ||
	       next - e->completed == e->plan->depth;
}

/* ---- what a request changes --------------------------------------------- */

static void note_write(struct end *e, struct request *r)
{
	r->version = ++e->versions;
	e->writer[r->version] = e->posted;
	memcpy(e->image[r->slot] + r->offset,
	       bytes_of_slot(r->slot, r->offset, r->version), r->len);
}

static void note_atomic(struct end *e, struct request *r)
{
	uint64_t *word = &e->word[r->word];

	r->before = r->after = *word;
	r->operand = 1 + sim_below(1000) + ((uint64_t)sim_below(1000) << 32);
	r->compare = sim_once_in(3) ? *word + 1 : *word;
	if (r->op == OP_FAA)
		r->after += r->operand;
	else if (r->compare == r->before)
		r->after = r->operand;
	*word = r->after;
}

/* ---- making it ---------------------------------------------------------- */

static void *memory_of(struct end *e, const struct request *r)
{
	struct memory *m = e->mem;

	return r->op == OP_READ || r->op == OP_FAA || r->op == OP_CAS ?
	       m->sink[e->posted % DEPTH_MAX] :
	       m->source[e->posted % DEPTH_MAX];
}

static void gather(struct end *e, const struct request *r, struct work *w)
{
	const uint32_t cut = sim_once_in(2) ? sim_below(r->len + 1) : r->len;
	const uintptr_t at = (uintptr_t)memory_of(e, r);

	w->sge[0] = (struct ibv_sge){ at, cut, e->mr->lkey };
	w->sge[1] = (struct ibv_sge){ at + cut, r->len - cut, e->mr->lkey };
	w->wr.sg_list = w->sge;
	w->wr.num_sge = cut == r->len ? !!cut : 2;
	if (r->op <= OP_WRITE_IMM && r->len <= 64 && sim_once_in(3))
		w->wr.send_flags |= IBV_SEND_INLINE;
}

static void make_send(struct end *e, struct request *r, struct work *w)
{
	r->len = choose_length();
	r->imm = sim_below(UINT32_MAX);
	memcpy(memory_of(e, r), bytes_of_message(e->posted), r->len);
	w->wr.imm_data = r->imm;
	w->wr.opcode = r->op == OP_SEND ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	if (r->op != OP_SEND_INV)
		return;
	/* behind what reads through the window */
	r->fenced = true;
	r->rkey = e->peer->window_key;
	e->peer->window = WINDOW_RETURNING;
	w->wr.opcode = IBV_WR_SEND_WITH_INV;
	w->wr.invalidate_rkey = r->rkey;
}

/* Chooses bytes of a slot of the peer's memory. */
static void aim(struct end *e, struct request *r, struct work *w)
{
	r->len = choose_length();
	/* no bytes need no key */
	if (e->posted == e->plan->bad)
		r->len = max(r->len, 1u);
	r->slot = sim_below(SLOTS);
	r->offset = sim_below(plan.most - r->len + 1);
	r->rkey = e->peer->mr->rkey;
	if (!r->slot && e->peer->window == WINDOW_GIVEN && sim_once_in(2))
		r->rkey = e->peer->window_key;
	w->wr.wr.rdma.remote_addr = (uintptr_t)e->peer->mem->slot[r->slot] +
				    r->offset;
	w->wr.wr.rdma.rkey = r->rkey;
}

static void make_write(struct end *e, struct request *r, struct work *w)
{
	aim(e, r, w);
	r->imm = sim_below(UINT32_MAX);
	w->wr.imm_data = r->imm;
	w->wr.opcode = r->op == OP_WRITE ? IBV_WR_RDMA_WRITE :
					   IBV_WR_RDMA_WRITE_WITH_IMM;
	note_write(e, r);
	memcpy(memory_of(e, r), bytes_of_slot(r->slot, r->offset, r->version),
	       r->len);
}

static void make_read(struct end *e, struct request *r, struct work *w)
{
	uint8_t *sink = memory_of(e, r);

	aim(e, r, w);
	memset(sink, 0xa5, r->len + GUARD);
	memcpy(e->least[e->posted % DEPTH_MAX], e->image[r->slot] + r->offset,
	       r->len);
	w->wr.opcode = IBV_WR_RDMA_READ;
}

static void make_atomic(struct end *e, struct request *r, struct work *w)
{
	const bool faa = r->op == OP_FAA;

	r->len = sizeof(uint64_t);
	r->word = sim_below(WORDS);
	note_atomic(e, r);
	memset(memory_of(e, r), 0xa5, r->len + GUARD);
	w->wr.wr.atomic.remote_addr = (uintptr_t)&e->peer->mem->word[r->word];
	w->wr.wr.atomic.rkey = r->rkey = e->peer->mr->rkey;
	w->wr.wr.atomic.compare_add = faa ? r->operand : r->compare;
	w->wr.wr.atomic.swap = faa ? 0 : r->operand;
	w->wr.opcode = faa ? IBV_WR_ATOMIC_FETCH_AND_ADD :
			     IBV_WR_ATOMIC_CMP_AND_SWP;
}

static void make_window(struct end *e, struct request *r, struct work *w)
{
	if (r->op == OP_UNBIND) {
		e->window = WINDOW_LEAVING;
		w->wr.opcode = IBV_WR_LOCAL_INV;
		w->wr.invalidate_rkey = r->rkey = e->window_key;
		return;
	}
	e->window = sim_once_in(2) ? WINDOW_OWN : WINDOW_BINDING;
	e->window_key = r->rkey = ibv_inc_rkey(e->window_key);
	w->wr.opcode = IBV_WR_BIND_MW;
	w->wr.bind_mw.mw = e->mw;
	w->wr.bind_mw.rkey = r->rkey;
	w->wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = e->mr, .addr = (uintptr_t)e->mem->slot[0],
		.length = plan.most,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ,
	};
}

/* Nobody has the key, so the peer has to refuse the request. */
static void spoil(const struct request *r, struct work *w)
{
	if (r->op == OP_FAA || r->op == OP_CAS)
		w->wr.wr.atomic.rkey ^= 0xabcd00;
	else
		w->wr.wr.rdma.rkey ^= 0xabcd00;
}

static void make(struct end *e, struct request *r, struct work *w)
{
	static void (*const makers[OPS])(struct end *, struct request *,
					 struct work *) = {
		make_send, make_send, make_send, make_write, make_write,
		make_read, make_atomic, make_atomic, make_window, make_window,
	};

	memset(r, 0, sizeof(*r));
	memset(w, 0, sizeof(*w));
	r->op = choose_op(e);
	r->signaled = is_signaled(e);
	r->fenced = sim_once_in(8);
	makers[r->op](e, r, w);
	if (r->op < OP_BIND)
		gather(e, r, w);
	w->wr.wr_id = e->posted;
	w->wr.send_flags |= (r->signaled ? IBV_SEND_SIGNALED : 0) |
			    (r->fenced ? IBV_SEND_FENCE : 0) |
			    (sim_once_in(4) ? IBV_SEND_SOLICITED : 0);
	if (e->posted == e->plan->bad)
		spoil(r, w);
	if (request_takes_receive(r))
		e->message[e->messages++] = e->posted;
	sim_trace("%d: posts   request %u: op %d, %u bytes, slot %u + %u%s\n",
		  e->index, e->posted, r->op, r->len, r->slot, r->offset,
		  r->fenced ? ", fenced" : "");
}

void requests_post(struct end *e)
{
	const uint32_t free = e->plan->depth - (e->posted - e->completed);
	uint32_t n = min(e->plan->requests - e->posted, free);
	struct work work[DEPTH_MAX];
	struct ibv_send_wr *bad;
	int err;

	n = 1 + sim_below(n);
	for (uint32_t i = 0; i < n; i++) {
		make(e, &e->request[e->posted], &work[i]);
		e->posted++;
		if (i)
			work[i - 1].wr.next = &work[i].wr;
	}
	totals.requests += n;
	err = soft_post_send(e->qp, &work[0].wr, &bad);
	if (err)
		sim_fail("end %d: request %llu: %s", e->index,
			 (unsigned long long)bad->wr_id, strerror(err));
}
