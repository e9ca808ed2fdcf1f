/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Incoming messages are checked byte for byte, held, refused or given memory.
 */
#include "worker.h"

#include <errno.h>
#include <string.h>

#define GUARD		16	/* guard bytes behind memory of on_incoming */
#define FAR		70000	/* numbers that are searched for a tag */
#define HOLD_MS		300

enum draw { DRAW_REFUSE = 5, DRAW_SUPPLY, DRAW_HOLD, DRAW_SCATTER };

static bool decides(const struct conn *c, uint32_t n, uint32_t what,
		    uint32_t permille)
{
	return plan_draw(&c->plan, !c->side, n, what) % 1000 < permille;
}

/* Returns the first number from 'from' on with this tag, or UINT32_MAX. */
static uint32_t number_of(const struct conn *c, uint32_t from, uint32_t tag)
{
	uint32_t end = c->plan.side[!c->side].count;

	for (uint32_t n = from; n < end && n - from < FAR; n++)
		if (plan_tag(&c->plan, !c->side, n) == tag)
			return n;
	return UINT32_MAX;
}

/* ---- announced messages ----------------------------------------------- */

/*
 * Returns true if the library can hold the message. A larger one would end the
 * connection.
 */
static bool fits(size_t len)
{
	return !w.sc->max_registered ||
	       len <= ((size_t)w.sc->max_registered << 10) / 16;
}

int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		struct rdmamsg_buffer *dst)
{
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t n = number_of(c, c->asked, tag);

	if (c->r->closed || c->r->abort_called)
		VIOLATION(c, "on_incoming after the end");
	if (n == UINT32_MAX || len != plan_size(&c->plan, !c->side, n)) {
		VIOLATION(c, "on_incoming of %zu bytes, tag %u: no such "
			  "message behind %u", len, tag, c->asked);
		return -EINVAL;
	}
	c->asked = n + 1;
	if (decides(c, n, DRAW_REFUSE, w.sc->refuse)) {
		c->rx[n] = RX_REFUSED;
		return -EPERM;
	}
	c->rx[n] = RX_OFFERED;
	if (!decides(c, n, DRAW_SUPPLY, w.sc->supply) && fits(len))
		return 0;
	if (decides(c, n, DRAW_SCATTER, w.sc->scatter) &&
	    scatter_lend(c, ep, n, len))
		return 0;
	c->in[n] = own_alloc(len + GUARD);
	memset(c->in[n], 0x55, len + GUARD);
	dst->data = c->in[n];
	return 0;
}

static void check_memory(struct conn *c, uint32_t n, const uint8_t *data,
			 size_t len)
{
	static const uint8_t guard[GUARD] = { [0 ... GUARD - 1] = 0x55 };

	if (data != c->in[n] && !w.rough)
		VIOLATION(c, "message %u is not in the memory of on_incoming",
			  n);
	if (memcmp(c->in[n] + len, guard, GUARD))
		VIOLATION(c, "message %u: bytes behind its memory have changed",
			  n);
}

/* ---- arrived messages ------------------------------------------------- */

/*
 * Returns the number of the message with this tag, and notes skipped numbers.
 */
static uint32_t number_due(struct conn *c, uint32_t tag)
{
	uint32_t n = c->r->next, at;

	while (n < c->plan.side[!c->side].count && c->rx[n] == RX_REFUSED)
		n++;
	at = number_of(c, n, tag);
	if (at == UINT32_MAX) {
		w.j->doubled++;
		VIOLATION(c, "a message with tag %u where %u was due", tag, n);
		return at;
	}
	/* the judge compares skipped messages with the sender's states */
	for (; n < at; n++)
		if (c->rx[n] != RX_REFUSED)
			c->rx[n] = RX_SKIPPED;
	return at;
}

static void check(struct conn *c, uint32_t n, const uint8_t *data, size_t len)
{
	size_t from = len < sizeof(struct stamp) ? 0 : sizeof(struct stamp);
	size_t good;
	struct stamp s;

	if (len != plan_size(&c->plan, !c->side, n)) {
		VIOLATION(c, "message %u has %zu bytes, not %u", n, len,
			  plan_size(&c->plan, !c->side, n));
		return;
	}
	if (from) {
		memcpy(&s, data, sizeof(s));
		if (s.magic != 0x63616f73 || s.id != c->r->id ||
		    s.number != n || s.size != len ||
		    s.side != (uint32_t)!c->side) {
			VIOLATION(c, "message %u says that it is number %u of "
				  "connection %08x", n, s.number, s.id);
			return;
		}
		if (!n && c->plan.onesided) {
			onesided_import(c, data + from);
			return;
		}
		onesided_stamped(c, &s);
	}
	good = content_check(&c->plan, !c->side, n, data + from, from,
			     len - from);
	if (good != len - from)
		VIOLATION(c, "message %u of %zu bytes is wrong at byte %zu", n,
			  len, from + good);
}

static void hold(struct rdmamsg_msg *msg, uint8_t *mem)
{
	struct held *h = own_alloc(sizeof(*h));

	/* one owner again, and freed as any thread could */
	if (rng_chance(&w.rng, 300) && !rdmamsg_msg_ref(msg))
		rdmamsg_msg_free(msg);
	h->msg = msg;
	h->mem = mem;
	h->until = now_ms() + rng_below(&w.rng, HOLD_MS);
	h->next = w.held;
	w.held = h;
}

void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t n = number_due(c, rdmamsg_msg_tag(msg));
	const uint8_t *data = rdmamsg_msg_data(msg);
	size_t len = rdmamsg_msg_len(msg);
	uint8_t *mem, *copy = NULL;

	if (c->r->closed || c->r->abort_called || !c->r->connected)
		VIOLATION(c, "on_message when it is not connected");
	if (n == UINT32_MAX) {
		rdmamsg_msg_free(msg);
		return;
	}
	if (c->scattered[n] && data)
		VIOLATION(c, "message %u is not in its layout", n);
	if (c->scattered[n])
		data = copy = scatter_take(c, n, len);
	check(c, n, data, len);
	__real_free(copy);
	mem = c->in[n];
	if (mem)
		check_memory(c, n, data, len);
	c->in[n] = NULL;
	c->rx[n] = RX_RECEIVED;
	c->r->next = n + 1;
	c->r->bytes_received += len;
	if (!w.finishing && decides(c, n, DRAW_HOLD, w.sc->hold)) {
		hold(msg, mem);
	} else {
		rdmamsg_msg_free(msg);
		__real_free(mem);
	}
	if (rng_chance(&w.rng, 100))
		send_some(c, 2);
	conn_ends(c);
}

/* The program frees the memory of messages that never arrived. */
void receive_forget(struct conn *c)
{
	for (uint32_t n = 0; n < c->r->room; n++) {
		__real_free(c->in[n]);
		c->in[n] = NULL;
		scatter_forget(c, n);
	}
}

/* ---- held ------------------------------------------------------------- */

void held_step(bool all)
{
	struct held **p = &w.held;
	uint64_t now = now_ms();

	while (*p) {
		struct held *h = *p;

		if (!all && now < h->until) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		rdmamsg_msg_free(h->msg);
		__real_free(h->mem);
		__real_free(h);
	}
}

struct rdmamsg_msg *held_take(size_t len)
{
	struct held **p = &w.held;

	if (rng_chance(&w.rng, 500))
		return NULL;
	for (int i = 0; *p && i < 8; i++, p = &(*p)->next) {
		struct held *h = *p;
		struct rdmamsg_msg *msg = h->msg;

		/* memory of on_incoming has to stay until the send completes */
		if (h->mem || !rdmamsg_msg_data(msg) ||
		    rdmamsg_msg_len(msg) < len ||
		    rdmamsg_msg_set_len(msg, len))
			continue;
		*p = h->next;
		__real_free(h);
		return msg;
	}
	return NULL;
}
