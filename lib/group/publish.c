/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends messages as datagrams. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/op.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/quirks.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/gather.h"
#include "group/group.h"
#include "group/history.h"
#include "group/parity.h"
#include "group/seal.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdmamsg/group.h>
#include <rdmamsg/post.h>

#define DATAGRAM_RATE	200000u	/* for devices without a known rate */

static int check(const struct rdmamsg_group *g, const char *call)
{
	int ret = g ? rdmamsg__ctx_check(g->ctx) :
		  rdmamsg__fail(-EINVAL, "%s: the group is NULL", call);

	if (ret)
		return ret;
	if (!(g->opts.flags & RDMAMSG_GROUP_PUBLISH))
		return rdmamsg__fail(-EPERM, "%s: the group was joined without "
				     "RDMAMSG_GROUP_PUBLISH", call);
	if (g->state >= GROUP_LEAVING ||
	    (g->state != GROUP_JOINED && !g->lost))
		return rdmamsg__fail(-ENOTCONN, "%s: the group is not joined",
				     call);
	return 0;
}

/* Adds up the pieces. */
static int measure(struct gather *from, const char *call)
{
	for (uint32_t i = 0; i < from->count; i++) {
		const struct iovec *v = &from->iov[i];

		if (!v->iov_base && v->iov_len)
			return rdmamsg__fail(-EINVAL, "%s: data is NULL", call);
		if (__builtin_add_overflow(from->len, v->iov_len, &from->len))
			return rdmamsg__fail(-EMSGSIZE, "%s: more bytes than "
					     "a size_t counts", call);
	}
	return 0;
}

static int check_raw_len(const struct rdmamsg_group *g, size_t len,
			 const char *call)
{
	return len <= g->mtu ? 0 :
	       rdmamsg__fail(-EMSGSIZE, "%s: %zu bytes, the MTU is %u: join "
			     "without RDMAMSG_GROUP_RAW for larger messages",
			     call, len, g->mtu);
}

static int check_len(const struct rdmamsg_group *g, size_t len,
		     const char *call)
{
	const uint16_t size = rdmamsg__group_fragment(g);

	if (len > g->opts.max_message)
		return rdmamsg__fail(-EMSGSIZE, "%s: %zu bytes, max_message is "
				     "%u: raise it here and at the subscribers",
				     call, len, g->opts.max_message);
	/* only where the MTU is 256 */
	if (rdmamsg__frame_count((uint32_t)len, size) > FRAME_COUNT_MAX)
		return rdmamsg__fail(-EMSGSIZE, "%s: %zu bytes are more than "
				     "%u datagrams of %u bytes", call, len,
				     FRAME_COUNT_MAX, g->mtu);
	return 0;
}

static int no_room(struct rdmamsg_group *g)
{
	g->want_writable = true;
	g->st.refused++;
	return -EAGAIN;
}

uint32_t rdmamsg__group_copies(const struct rdmamsg_group *g)
{
	return likely(!g->unicast) || !g->audience->count ? 1 :
	       g->audience->count;
}

static bool has_token(struct rdmamsg_group *g, struct pace *p)
{
	if (likely(p->tokens) || rdmamsg__pace_refill(p, rdmamsg__now_ns()))
		return true;
	if (g->pace_timer.pos < 0)
		rdmamsg__timer_set_us(&g->ctx->loop.timers, &g->pace_timer,
				      rdmamsg__pace_wait(p));
	return false;
}

static void take_tokens(struct rdmamsg_group *g, uint32_t count)
{
	rdmamsg__pace_take(&g->pace, count);
	rdmamsg__pace_take(&g->ctx->groups->pace, count);
}

/*
 * Returns true if the send queue and the rate allow a datagram. Else a
 * completion or the timer continues.
 */
static bool has_room(struct rdmamsg_group *g)
{
	if (g->state != GROUP_JOINED && g->state != GROUP_LEAVING)
		return false;
	if (unlikely(rdmamsg__carrier_room(g->carrier) <
		     rdmamsg__group_copies(g))) {
		list_del(&g->wait_node);
		list_add_tail(&g->carrier->waiting, &g->wait_node);
		return false;
	}
	return has_token(g, &g->pace) && has_token(g, &g->ctx->groups->pace);
}

void rdmamsg__group_pace_init(struct rdmamsg_group *g)
{
	uint32_t rate = g->opts.rate;

	if (!rate)
		rate = rdmamsg__quirks(g->carrier->dev->device)->datagram_rate;
	if (!rate)
		rate = DATAGRAM_RATE;
	if (rate == RDMAMSG_NONE)
		rate = 0;
	rdmamsg__pace_init(&g->pace, rate, rdmamsg__now_ns());
	rdmamsg__repair_pace(g, rate / 2);
}

static bool may_send(struct rdmamsg_group *g, uint8_t flags)
{
	return has_room(g) && (!(flags & FRAME_REPEATED) ||
			       rdmamsg__repair_may_send(g));
}

static void was_sent(struct rdmamsg_group *g, uint8_t flags)
{
	take_tokens(g, 1);
	g->fragments += !(flags & FRAME_REPEATED);
	if (flags & FRAME_REPEATED)
		rdmamsg__repair_sent(g);
}

static int send_to_one(struct rdmamsg_group *g, uint32_t len,
		       const struct carrier_to *to)
{
	int ret = rdmamsg__carrier_send(g->carrier, len, to);

	if (unlikely(ret)) {
		g->st.sent_failed++;
		return rdmamsg__fail_verbs(ret, "publishing");
	}
	g->st.sent_datagrams++;
	return 0;
}

/*
 * A copy goes to those whose address is proved. One that is gone costs a wait,
 * and has to prove it again.
 */
static bool gets_copy(struct rdmamsg_group *g, struct subscriber *s)
{
	if (s->proved && !s->way.ah)
		s->proved = !rdmamsg__try(
			rdmamsg__carrier_known_way(g->carrier, &s->at,
						   &s->way));
	return s->proved;
}

/* Returns the last of them, from 'first' on, or count. */
static uint32_t last_copy(struct rdmamsg_group *g, uint32_t first)
{
	struct audience *a = g->audience;

	for (uint32_t i = a->count; i-- > 0;)
		if (gets_copy(g, &a->members[(first + i) % a->count]))
			return i;
	return a->count;
}

/*
 * Without multicast, each subscriber gets its copy; others will ask for what
 * they miss. If the queue is full, it is not always the same ones that do.
 */
static int __attribute__((noinline))
send_to_each(struct rdmamsg_group *g, uint32_t len,
	     const struct carrier_to *to)
{
	struct audience *a = g->audience;
	const uint32_t first = a->count ? g->copied % a->count : 0;
	const uint32_t last = last_copy(g, first);
	const uint8_t *from = rdmamsg__carrier_buffer(g->carrier);
	uint32_t sent = 0;
	int ret = 0;

	for (uint32_t i = 0; i <= last && i < a->count && !ret; i++) {
		struct subscriber *s = &a->members[(first + i) % a->count];
		uint8_t *at = rdmamsg__carrier_buffer(g->carrier);
		struct carrier_to with;

		if (!gets_copy(g, s) || !at)
			continue;
		with = s->way;
		if (at != from)
			memcpy(at, from, len);
		if (i == last) {
			with.signaled = to->signaled;
			with.note = to->note;
		}
		ret = send_to_one(g, len, &with);
		sent += !ret;
	}
	g->copied++;
	/* the caller takes one */
	if (sent > 1)
		take_tokens(g, sent - 1);
	return sent ? 0 : ret;
}

static int send_datagram(struct rdmamsg_group *g, uint32_t len,
			 const struct carrier_to *to)
{
	return likely(to->ah) ? send_to_one(g, len, to) :
	       send_to_each(g, len, to);
}

/* n: the message as sent_messages counts it */
static struct carrier_to destination(struct rdmamsg_group *g, uint64_t n)
{
	struct carrier_to to = g->to;

	if (g->on.on_sent)
		to.note = (struct carrier_note){ g, n };
	return to;
}

void rdmamsg__group_was_sent(struct rdmamsg_group *g, uint64_t n)
{
	if (g->state == GROUP_JOINED || g->state == GROUP_LEAVING)
		rdmamsg__tell(&g->ctx->loop, g->on.on_sent, g, n);
}

/* A message that could not be sent whole leaves out its number. */
bool rdmamsg__group_sent_early(struct rdmamsg_group *g, uint64_t n)
{
	if (!g->untold_count)
		g->untold = n;
	if (n != g->untold + g->untold_count)
		return false;
	g->untold_count++;
	return true;
}

void rdmamsg__group_tell_sent(struct rdmamsg_group *g)
{
	while (g->untold_count) {
		g->untold_count--;
		rdmamsg__group_was_sent(g, g->untold++);
	}
}

/* Sends the frame after what follows its payload. */
static int finish(struct rdmamsg_group *g, const struct frame *f, uint8_t *buf,
		  const struct carrier_to *to)
{
	uint32_t len = FRAME_HDR_LEN + f->data_len;
	int ret;

	if (likely(!f->sealed))
		return send_datagram(g, len, to);
	len += rdmamsg__challenge_encode(f, buf + len);
	ret = rdmamsg__seal_put(g->seal, buf, len);
	return ret ? ret : send_datagram(g, len + FRAME_SEAL_LEN, to);
}

int rdmamsg__group_send_frame(struct rdmamsg_group *g,
			      const struct carrier_to *to,
			      const struct frame *f)
{
	uint8_t *buf = rdmamsg__carrier_buffer(g->carrier);
	struct frame with = *f;

	if (!buf)
		return -EAGAIN;
	with.sealed = g->seal != NULL;
	rdmamsg__frame_encode(&with, buf);
	if (f->data_len)
		memcpy(buf + FRAME_HDR_LEN, f->data, f->data_len);
	return finish(g, &with, buf, to);
}

int rdmamsg__group_say(struct rdmamsg_group *g)
{
	const struct frame f = {
		.type = FRAME_HEARTBEAT,
		.flags = (g->repair ? FRAME_REPAIRS : 0u) |
			 (g->flush.runs || g->flow.blocked ? FRAME_ASKS : 0u),
		.audience = rdmamsg__subscribers(g),
		.sender = g->id, .number = rdmamsg__group_sent(g),
		.oldest = rdmamsg__repair_oldest(g),
	};

	return rdmamsg__try(rdmamsg__group_send_frame(g, &g->to, &f));
}

static int send_fragment(struct rdmamsg_group *g, const struct carrier_to *to,
			 const struct frame *f, const struct gather *from)
{
	uint8_t *buf = rdmamsg__carrier_buffer(g->carrier);
	int ret;

	if (!buf)
		return -EAGAIN;
	rdmamsg__frame_encode(f, buf);
	rdmamsg__gather_copy(from, (size_t)f->index * f->size,
			     buf + FRAME_HDR_LEN, f->data_len);
	ret = finish(g, f, buf, to);
	if (unlikely(g->parity) && !ret && !(f->flags & FRAME_REPEATED))
		rdmamsg__parity_add(g->parity, f, buf + FRAME_HDR_LEN);
	return ret;
}

/* ---- parity ------------------------------------------------------------ */

/* A parity that cannot be sent is left out: subscribers ask, then. */
static void send_parity(struct rdmamsg_group *g)
{
	struct frame f = {
		.type = FRAME_PARITY, .flags = FRAME_REPAIRS, .sender = g->id,
		.audience = rdmamsg__subscribers(g),
		.oldest = rdmamsg__repair_oldest(g),
		.size = rdmamsg__group_fragment(g),
	};

	rdmamsg__parity_end(g->parity, &f);
	if (rdmamsg__try(rdmamsg__group_send_frame(g, &g->to, &f)))
		return;
	take_tokens(g, 1);
	g->st.sent_parity++;
}

static bool block_is_full(const struct rdmamsg_group *g)
{
	return unlikely(g->parity) && g->parity->count == g->opts.parity;
}

void rdmamsg__group_end_block(struct rdmamsg_group *g)
{
	if (g->parity && g->parity->count && has_room(g))
		send_parity(g);
}

int rdmamsg__group_send(struct rdmamsg_group *g, const struct carrier_to *to,
			uint32_t number, const struct gather *from,
			uint8_t flags, uint32_t *index, uint32_t last)
{
	const uint32_t len = (uint32_t)from->len;
	struct frame f = {
		.type = FRAME_DATA, .sender = g->id, .number = number,
		.flags = flags | (g->repair ? FRAME_REPAIRS : 0u),
		.audience = rdmamsg__subscribers(g),
		.oldest = rdmamsg__repair_oldest(g), .length = len,
		.size = rdmamsg__group_fragment(g), .sealed = g->seal != NULL,
	};
	uint32_t count = rdmamsg__frame_count(len, f.size);
	struct carrier_to with = *to;

	for (; *index < count && *index <= last; ++*index) {
		uint32_t at = *index * f.size;
		int ret;

		/* there was no room behind the block */
		if (block_is_full(g) && !(flags & FRAME_REPEATED)) {
			if (!has_room(g))
				return -EAGAIN;
			send_parity(g);
		}
		f.index = (uint16_t)*index;
		f.data_len = min(len - at, (uint32_t)f.size);
		if (!may_send(g, flags))
			return -EAGAIN;
		with.note = *index + 1 == count ? to->note :
			    (struct carrier_note){ 0 };
		with.signaled = to->signaled || with.note.group;
		ret = send_fragment(g, &with, &f, from);
		if (ret)
			return ret;
		was_sent(g, flags);
		if (block_is_full(g))
			rdmamsg__group_end_block(g);
	}
	return 0;
}

/* ---- messages --------------------------------------------------------- */

/*
 * A message that is not sent completely. The rest is sent when there is room.
 */
struct pending {
	uint32_t number, index;		/* index: the next fragment */
	struct gather from;		/* of one piece: */
	struct iovec piece;		/* in the history, or below */
};

uint32_t rdmamsg__group_sent(const struct rdmamsg_group *g)
{
	return g->pending ? g->pending->number : g->number;
}

static inline int send_new(struct rdmamsg_group *g, uint32_t number,
			   uint64_t n, const struct gather *from,
			   uint32_t *index)
{
	const struct carrier_to to = destination(g, n);


	return rdmamsg__group_send(g, &to, number, from,
				   rdmamsg__flow_flags(g, number), index,
				   UINT32_MAX);
}

/* 'from' is in the history, or else it is the program's and is copied. */
static int wait_for_room(struct rdmamsg_group *g, const struct gather *from,
			 uint32_t index)
{
	struct pending *p = malloc(sizeof(*p) + (g->repair ? 0 : from->len));

	if (!p)
		return rdmamsg__fail(-ENOMEM, "no memory to publish %zu bytes",
				     from->len);
	*p = (struct pending){
		.number = g->number, .index = index,
		.from = { &p->piece, 1, from->len },
		.piece = { p + 1, from->len },
	};
	if (g->repair)
		p->piece = from->iov[0];
	else
		rdmamsg__gather_copy(from, 0, (uint8_t *)(p + 1), from->len);
	g->pending = p;
	return 0;
}

/* Sends the message, whose memory stays for what is sent later. */
static int send_numbered(struct rdmamsg_group *g, const struct gather *from)
{
	uint32_t index = 0;
	int ret = send_new(g, g->number, g->st.sent_messages + 1, from,
			   &index);

	if (ret == -EAGAIN)
		ret = wait_for_room(g, from, index);
	/* fragments may have been sent, so do not use the number again */
	if (!ret || index)
		g->number++;
	else if (g->repair)
		rdmamsg__repair_take_back(g);
	if (!ret) {
		g->st.sent_messages++;
		g->st.sent_bytes += from->len;
	}
	return ret;
}

static int send_kept(struct rdmamsg_group *g, const struct gather *from)
{
	const struct kept *k;
	int ret = rdmamsg__repair_keep(g, from, &k);

	if (ret == -EAGAIN)
		return no_room(g);
	if (ret)
		return ret;
	ret = send_numbered(g, &(struct gather){
		&(struct iovec){ (void *)(uintptr_t)k->data, k->len }, 1,
		k->len,
	});
	if (!ret)
		rdmamsg__repair_beat(g);
	return ret;
}

/* Returns true if no message is pending any more. */
static bool pump(struct rdmamsg_group *g)
{
	struct pending *p = g->pending;
	int ret;

	if (!p)
		return true;
	ret = send_new(g, p->number, g->st.sent_messages, &p->from, &p->index);
	if (ret == -EAGAIN)
		return false;
	if (ret)
		log_error("message %u of a group could not be sent whole: %s",
			  p->number, rdmamsg__text());
	free(p);
	g->pending = NULL;
	/* subscribers can ask for the last datagram only from now on */
	if (g->state == GROUP_LEAVING && g->repair)
		rdmamsg__repair_leave(g);
	return true;
}

/*
 * Makes room in a callback, where no completion is handled before it returns. A
 * message that was accepted before goes first.
 */
static bool __attribute__((noinline)) make_room(struct rdmamsg_group *g)
{
	if (!g->ctx->loop.in_callback || g->state != GROUP_JOINED)
		return false;
	for (;;) {
		const bool sent = pump(g);

		if (rdmamsg__carrier_room(g->carrier))
			return sent && has_room(g);
		if (!rdmamsg__carrier_make_room(g->carrier))
			return false;
	}
}

static bool takes_message(struct rdmamsg_group *g)
{
	return likely(!g->pending && has_room(g)) || make_room(g);
}

static int publish_raw(struct rdmamsg_group *g, const struct gather *from,
		       const uint32_t *imm)
{
	struct carrier_to to = destination(g, g->st.sent_messages + 1);
	int ret;

	if (!takes_message(g))
		return no_room(g);
	rdmamsg__gather_copy(from, 0, rdmamsg__carrier_buffer(g->carrier),
			     from->len);
	to.imm = imm;
	to.signaled = true;		/* perhaps the last before leaving */
	ret = send_datagram(g, (uint32_t)from->len, &to);
	if (ret)
		return ret;
	take_tokens(g, 1);
	g->st.sent_messages++;
	g->st.sent_bytes += from->len;
	return 0;
}

static int publish_frames(struct rdmamsg_group *g, const struct gather *from)
{
	if (!takes_message(g) || !rdmamsg__flow_allows(g))
		return no_room(g);
	return g->repair ? send_kept(g, from) : send_numbered(g, from);
}

static int publish(struct rdmamsg_group *g, const char *call,
		   struct gather *from, const uint32_t *imm)
{
	const bool raw = g->opts.flags & RDMAMSG_GROUP_RAW;
	int ret = measure(from, call);

	if (!ret)
		ret = raw ? check_raw_len(g, from->len, call) :
		      check_len(g, from->len, call);
	if (ret)
		return ret;
	return raw ? publish_raw(g, from, imm) : publish_frames(g, from);
}

int rdmamsg_group_publish(struct rdmamsg_group *g, const void *data, size_t len)
{
	const struct iovec piece = { (void *)(uintptr_t)data, len };
	int ret = check(g, __func__);

	return ret ? ret : publish(g, __func__,
				   &(struct gather){ &piece, 1, 0 }, NULL);
}

/* No cookie: the memory is copied, and on_sent counts the messages. */
static const struct op_taker taker = {
	.call = "rdmamsg_group_post", .kinds = OP_KIND(SEND),
	.send = OP_HAS(flags) | OP_HAS(sge) | OP_HAS(count) | OP_HAS(imm),
};

static int check_flags(const struct rdmamsg_group *g, uint32_t flags)
{
	if (flags & ~(uint32_t)RDMAMSG_OP_IMM)
		return rdmamsg__fail(-EINVAL, "%s: flags 0x%x: SEND has "
				     "RDMAMSG_OP_IMM", taker.call, flags);
	if (flags && !(g->opts.flags & RDMAMSG_GROUP_RAW))
		return rdmamsg__fail(-EOPNOTSUPP, "%s: the group was joined "
				     "without RDMAMSG_GROUP_RAW, and frames "
				     "have no immediate data", taker.call);
	return 0;
}

int rdmamsg_group_post(struct rdmamsg_group *g, const struct rdmamsg_op *given)
{
	struct iovec pieces[RDMAMSG_SEGMENTS_MAX];
	struct rdmamsg_op op;
	int ret = check(g, taker.call);

	if (!ret)
		ret = rdmamsg__op_take(&op, given, &taker);
	if (!ret)
		ret = check_flags(g, op.flags);
	if (!ret)
		ret = rdmamsg__op_plain(&op, &taker, pieces);
	return ret ? ret : publish(g, taker.call,
				   &(struct gather){ pieces, op.count, 0 },
				   op.flags ? &op.imm : NULL);
}

void rdmamsg__group_writable(struct rdmamsg_group *g)
{
	if (g->state != GROUP_JOINED && g->state != GROUP_LEAVING)
		return;
	rdmamsg__repair_pump(g);
	if (!pump(g))
		return;
	if (unlikely(g->leaving_sent)) {
		rdmamsg__leave_sent(g);
		return;
	}
	if (!g->want_writable || g->state != GROUP_JOINED || !has_room(g) ||
	    !rdmamsg__flow_allows(g))
		return;
	g->want_writable = false;
	rdmamsg__tell(&g->ctx->loop, g->on.on_writable, g);
}
