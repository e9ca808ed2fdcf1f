/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations. Each end has a region for its peer:
 *
 *	TARGET	8 slots that the peer writes
 *	SOURCE	8 slots that the peer's memory is written from
 *	CONST	bytes that the peer reads
 *	INTO	8 slots that the peer's CONST is read into
 *	WORD	counted by the peer
 *
 * Write number k goes to slot k % 8 and begins with its number and that of the
 * next message. The peer checks it when on_written or the stamp of a later
 * message says that it is there, and its own stamps free the slot again.
 */
#include "worker.h"
#include "../post.h"

#include <errno.h>
#include <string.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

#define PLACES		8u
#define PLACE		(24u << 10)
#define TARGET		0u
#define SOURCE		(PLACES * PLACE)
#define CONST		(2 * PLACES * PLACE)
#define INTO		(CONST + PLACE)
#define WORD		(INTO + PLACES * PLACE)
#define REGION		(WORD + 64)
#define ACCESS		(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_ATOMIC | RDMAMSG_ACCESS_LOCAL_WRITE)
#define WRITES		0x40000000u	/* content numbers of writes */
#define READS		0x50000000u
#define SMALL		256u		/* small writes are copied */

enum kind { KIND_WRITE, KIND_READ, KIND_ATOMIC, KINDS };
enum draw { DRAW_LEN = 10, DRAW_IMM, DRAW_FROM, DRAW_SWAP };

struct mark {
	uint32_t write, next; /* number of the write, and of the next message */
};

struct onesided {
	struct rdmamsg_region *region;
	uint8_t *mem;
	struct rdmamsg_key mine, peer;
	bool have_mine, have_peer;
	uint32_t posted[KINDS], done[KINDS];	/* in order of the calls */
	bool busy[KINDS][PLACES];
	uint64_t result[PLACES];
	uint32_t acked;			/* writes that the peer has checked */
	uint32_t checked;		/* checked writes of the peer */
};

/* ---- beginning and end ------------------------------------------------ */

void onesided_start(struct conn *c)
{
	struct onesided *os;
	int ret;

	if (!c->plan.onesided)
		return;
	os = own_alloc(sizeof(*os));
	memset(os, 0, sizeof(*os));
	os->mem = own_alloc(REGION);
	memset(os->mem, 0, REGION);
	content_fill(&c->plan, c->side, READS, os->mem + CONST, 0, PLACE);
	c->os = os;
	ret = rdmamsg_region_create(w.ctx, os->mem, REGION, ACCESS,
				    &os->region);
	if (!ret)
		ret = rdmamsg_region_get_key(os->region, c->ep, &os->mine);
	if (ret && !w.rough)
		VIOLATION(c, "region: %d, %s", ret, rdmamsg_error());
	os->have_mine = !ret;
}

/* Writes into the first message whether there is a key, and the key. */
void onesided_key(struct conn *c, uint8_t *dst)
{
	memset(dst, 0, 64);
	dst[0] = c->os->have_mine;
	memcpy(dst + 8, c->os->mine.bytes, sizeof(c->os->mine.bytes));
}

void onesided_import(struct conn *c, const uint8_t *src)
{
	struct onesided *os = c->os;

	if (!src[0])
		return;
	if (rdmamsg_key_import(src + 8, sizeof(os->peer), &os->peer))
		VIOLATION(c, "key: %s", rdmamsg_error());
	else
		os->have_peer = true;
}

void onesided_closed(struct conn *c)
{
	struct onesided *os = c->os;

	if (!os)
		return;
	for (int kind = 0; kind < KINDS; kind++)
		if (os->posted[kind] != os->done[kind])
			VIOLATION(c, "%u one-sided operations of kind %d have "
				  "not completed", os->posted[kind] -
				  os->done[kind], kind);
	memcpy(&c->r->word, os->mem + WORD, 8);
	c->r->word_known = true;
	if (rdmamsg_region_destroy(os->region) && !w.rough)
		VIOLATION(c, "region_destroy: %s", rdmamsg_error());
	__real_free(os->mem);
	__real_free(os);
	c->os = NULL;
}

/* ---- writes: both ends know what each is ------------------------------ */

static uint32_t write_len(const struct conn *c, int side, uint32_t k)
{
	uint32_t draw = plan_draw(&c->plan, side, k, DRAW_LEN);

	return sizeof(struct mark) + (draw % 3 ? draw / 3 % SMALL :
				      draw / 3 % (PLACE - 16));
}

static bool write_tells(const struct conn *c, int side, uint32_t k)
{
	return plan_draw(&c->plan, side, k, DRAW_IMM) % 3 == 0;
}

static void check_write(struct conn *c, uint32_t k, bool told)
{
	uint32_t len = write_len(c, !c->side, k) - sizeof(struct mark), next;
	const uint8_t *at = c->os->mem + TARGET + k % PLACES * PLACE;
	struct mark m;

	memcpy(&m, at, sizeof(m));
	if (m.write != k) {
		VIOLATION(c, "write %u is not there, but %u", k, m.write);
		return;
	}
	if (content_check(&c->plan, !c->side, WRITES + k, at + sizeof(m), 0,
			  len) != len)
		VIOLATION(c, "write %u of %u bytes is wrong", k, len);
	/* the program may have refused later messages, and others time out */
	for (next = c->r->next; c->rx[next] == RX_REFUSED ||
	     plan_timeout(&c->plan, !c->side, next); )
		next++;
	if (told && (m.next < c->r->next || m.next > next))
		VIOLATION(c, "write %u, sent before message %u, is told "
			  "before message %u", k, m.next, next);
}

static void check_writes(struct conn *c, uint32_t end, bool last_told)
{
	struct onesided *os = c->os;

	if (end - os->checked > PLACES) {
		VIOLATION(c, "writes up to %u, of which %u are checked", end,
			  os->checked);
		return;
	}
	while (os->checked != end) {
		check_write(c, os->checked, last_told &&
			    os->checked + 1 == end);
		os->checked++;
	}
}

void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	struct conn *c = rdmamsg_ep_user(ep);

	if (c->r->closed || c->r->abort_called)
		VIOLATION(c, "on_written after the end");
	if (!c->os || !write_tells(c, !c->side, value) ||
	    value < c->os->checked) {
		w.j->doubled++;
		VIOLATION(c, "on_written of %u, which is not due", value);
		return;
	}
	c->r->imms_received++;
	check_writes(c, value + 1, true);
}

void onesided_stamp(const struct conn *c, struct stamp *s)
{
	if (!c->os)
		return;
	s->writes_posted = c->os->posted[KIND_WRITE];
	s->writes_seen = c->os->checked;
}

void onesided_stamped(struct conn *c, const struct stamp *s)
{
	if (!c->os)
		return;
	/* writes with on_written have been checked before this message */
	if (s->writes_posted != c->os->checked)
		check_writes(c, s->writes_posted, false);
	if (s->writes_seen > c->os->posted[KIND_WRITE])
		VIOLATION(c, "%u writes were seen, %u posted", s->writes_seen,
			  c->os->posted[KIND_WRITE]);
	c->os->acked = s->writes_seen;
}

/* ---- operations ------------------------------------------------------- */

static void *cookie_of(enum kind kind, uint32_t k)
{
	return (void *)(COOKIE_RMA | (uintptr_t)kind << 36 |
			((uintptr_t)k + 1));
}

static int do_write(struct conn *c, uint32_t k)
{
	struct onesided *os = c->os;
	uint32_t len = write_len(c, c->side, k), place = k % PLACES * PLACE;
	uint8_t *src = os->mem + SOURCE + place;
	struct mark m = { k, c->r->sent };
	bool copied = len < SMALL && k & 1;
	struct rdmamsg_sge s = { src, len, copied ? NULL : os->region };
	int ret;

	if (k - os->acked >= PLACES)
		return -EBUSY;
	memcpy(src, &m, sizeof(m));
	content_fill(&c->plan, c->side, WRITES + k, src + sizeof(m), 0,
		     len - (uint32_t)sizeof(m));
	ret = write_tells(c, c->side, k)
		      ? post_notify(c->ep, &s, 1, &os->peer, TARGET + place, k,
				    0, cookie_of(KIND_WRITE, k))
		      : rdmamsg_write(c->ep, &s, 1, &os->peer, TARGET + place,
				      0, cookie_of(KIND_WRITE, k));
	if (copied)
		memset(src, 0xcc, len);
	if (!ret && write_tells(c, c->side, k))
		c->r->imms_accepted++;
	return ret;
}

static uint32_t read_from(const struct conn *c, uint32_t k)
{
	return plan_draw(&c->plan, c->side, k, DRAW_FROM) % (PLACE / 2);
}

static uint32_t read_len(const struct conn *c, uint32_t k)
{
	return 1 + plan_draw(&c->plan, c->side, k, DRAW_FROM) / PLACE %
	       (PLACE / 2);
}

static int do_read(struct conn *c, uint32_t k)
{
	struct onesided *os = c->os;
	struct rdmamsg_sge s = {
		os->mem + INTO + k % PLACES * PLACE, read_len(c, k), os->region,
	};

	memset(s.data, 0, s.len);
	return rdmamsg_read(c->ep, &s, 1, &os->peer, CONST + read_from(c, k),
			    0, cookie_of(KIND_READ, k));
}

/* Each atomic adds one, so that atomic k finds the value k. */
static int do_atomic(struct conn *c, uint32_t k)
{
	struct onesided *os = c->os;
	uint64_t *result = &os->result[k % PLACES];
	void *cookie = cookie_of(KIND_ATOMIC, k);
	int ret;

	/* the value that is expected is not known any more */
	if (c->r->atomics_in_doubt)
		return -EBUSY;
	if (plan_draw(&c->plan, c->side, k, DRAW_SWAP) & 1)
		ret = rdmamsg_compare_swap(c->ep, &os->peer, WORD, k, k + 1,
					   result, 0, cookie);
	else
		ret = rdmamsg_fetch_add(c->ep, &os->peer, WORD, 1, result, 0,
					cookie);
	c->r->atomics_accepted += !ret;
	return ret;
}

void onesided_some(struct conn *c)
{
	static int (*const todo[KINDS])(struct conn *c, uint32_t k) = {
		do_write, do_read, do_atomic,
	};
	struct onesided *os = c->os;
	enum kind kind = (enum kind)rng_below(&w.rng, is_iwarp() ? KIND_ATOMIC :
							     KINDS);
	uint32_t k;
	int ret;

	if (!os || !os->have_peer || c->blocked || c->shut || w.finishing ||
	    !conn_is_up(c) || os->busy[kind][os->posted[kind] % PLACES])
		return;
	k = os->posted[kind];
	ret = todo[kind](c, k);
	if (!ret) {
		os->posted[kind]++;
		os->busy[kind][k % PLACES] = true;
		c->r->rma_accepted++;
	} else if (ret == -EAGAIN) {
		c->blocked = true;
		c->blocked_at = now_ms();
	} else if (ret == -ESHUTDOWN) {
		c->shut = true;
	} else if (ret != -EBUSY && !w.rough) {
		VIOLATION(c, "one-sided operation %u of kind %d: %d, %s", k,
			  (int)kind, ret, rdmamsg_error());
	}
}

static void check_result(struct conn *c, enum kind kind, uint32_t k)
{
	const struct onesided *os = c->os;
	uint32_t len = read_len(c, k);

	if (kind == KIND_READ &&
	    content_check(&c->plan, !c->side, READS,
			  os->mem + INTO + k % PLACES * PLACE,
			  read_from(c, k), len) != len)
		VIOLATION(c, "read %u of %u bytes is wrong", k, len);
	if (kind != KIND_ATOMIC)
		return;
	c->r->atomics_ok++;
	/* one in doubt may not have been executed, and a swap fails then */
	if (os->result[k % PLACES] != k && !c->r->atomics_in_doubt)
		VIOLATION(c, "atomic %u found %llu there", k,
			  (unsigned long long)os->result[k % PLACES]);
}

void onesided_sent(struct conn *c, void *cookie, int status)
{
	struct onesided *os = c->os;
	uint32_t k = (uint32_t)(uintptr_t)cookie - 1;
	enum kind kind = (enum kind)((uintptr_t)cookie >> 36 & 3);

	if (!os || kind >= KINDS || !os->busy[kind][k % PLACES] ||
	    k >= os->posted[kind]) {
		w.j->doubled++;
		VIOLATION(c, "on_complete of one-sided operation %u of kind %d, "
			  "which is not under way", k, (int)kind);
		return;
	}
	os->busy[kind][k % PLACES] = false;
	os->done[kind]++;
	if (!status) {
		c->r->rma_ok++;
		check_result(c, kind, k);
	} else if (status == RDMAMSG_IN_DOUBT && kind == KIND_ATOMIC &&
		   (w.sc->failover || is_soft_roce())) {
		/* Soft-RoCE can lose a result: rdmamsg_write(3), DOUBT */
		c->r->atomics_in_doubt++;
	} else if (status == -EACCES) {
		c->r->rma_refused++;
	} else if (status != -ECANCELED) {
		VIOLATION(c, "one-sided operation %u of kind %d: status %d", k,
			  (int)kind, status);
	}
}
