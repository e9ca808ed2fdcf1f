/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program at each end: sends messages of all kinds, keeps some that it has
 * received, and closes. The list is simple: message n of a side has tag n, and
 * its bytes depend on n only. The peer must receive 0, 1, 2, ... up to the last
 * accepted one.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

#define PIECES_MAX	3000
#define INLINE_MAX	48
#define PATTERN		8192
struct end ends[2];
struct rdmamsg_listener *listener;
bool plain;
static char port[8];			/* of the listener */
static uint8_t pattern[PATTERN];

const uint8_t *bytes_of(const struct end *from, uint32_t n)
{
	return pattern + (n * 97 + (uint32_t)from->index * 1201) %
	       (PATTERN - SIZE_MAX_MSG);
}

static uint32_t any_size(void)
{
	switch (sim_below(8)) {
	case 0:
		return 0;
	case 1:
	case 2:
	case 3:
		return sim_below(INLINE_MAX + 2);
	case 4:
	case 5:
		return sim_below(EAGER_MAX + 2);
	case 6:
		return EAGER_MAX + sim_below(PIECES_MAX - EAGER_MAX + 2);
	default:
		return PIECES_MAX + sim_below(SIZE_MAX_MSG - PIECES_MAX + 1);
	}
}

/* ---- sending ----------------------------------------------------------- */

bool end_can_send(const struct end *e)
{
	return e->connected && !e->closed && !e->closing && !e->blocked &&
	       e->sent < e->to_send;
}

/* A message of these entries, which may have a timeout. */
static int send_entries(struct end *e, uint32_t n, uint32_t tag,
			const struct rdmamsg_sge sge[2], void *cookie)
{
	struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = sge,
		.count = 2, .tag = tag, .cookie = cookie,
	};

	e->out[n].timed = late_give(e, &op);
	return rdmamsg_post(e->ep, &op);
}

static int send_borrowed(struct end *e, uint32_t n, uint32_t tag, uint32_t len)
{
	uint8_t *mem = malloc(len + 1);
	uint32_t cut = sim_below(len + 1);
	struct iovec iov[2] = { { mem, cut }, { mem + cut, len - cut } };
	const struct rdmamsg_sge sge[2] = {
		{ mem, cut, NULL }, { mem + cut, len - cut, NULL },
	};
	void *cookie = (void *)(uintptr_t)(n + 1);
	int ret;

	memcpy(mem, bytes_of(e, n), len);
	ret = e->times ? send_entries(e, n, tag, sge, cookie) :
	      rdmamsg_sendv(e->ep, iov, 2, tag, cookie);
	if (ret)
		free(mem);
	else
		e->out[n].borrowed = mem;
	return ret;
}

/* The bytes never change, so the peer may read them at any time. */
static int send_regions(struct end *e, uint32_t n, uint32_t tag, uint32_t len,
			void *cookie)
{
	uint8_t *mem = pattern + (bytes_of(e, n) - pattern);
	uint32_t cut = sim_below(len + 1);
	const struct rdmamsg_sge sge[2] = {
		{ mem, cut, e->bytes },
		{ mem + cut, len - cut, sim_once_in(4) ? NULL : e->bytes },
	};

	return send_entries(e, n, tag, sge, cookie);
}

static int send_msg(struct end *e, uint32_t n, uint32_t tag, uint32_t len,
		    void *cookie)
{
	struct rdmamsg_msg *msg = sim_once_in(2) ? incoming_take(e, len) : NULL;
	int ret = msg ? 0 : rdmamsg_msg_alloc(e->ep, len, &msg);

	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), bytes_of(e, n), len);
	ret = rdmamsg_msg_send(e->ep, msg, tag, cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

void end_send(struct end *e)
{
	uint32_t n = e->sent, len = any_size(), how = sim_below(5);
	uint32_t tag = n | (sim_once_in(8) ? TAG_FULL : 0);
	bool value = end_can_touch(e) && sim_once_in(4);
	void *cookie = how ? (void *)(uintptr_t)(n + 1) : NULL;
	int ret;

	/* the call may complete the message */
	e->out[n].cookie = cookie ? COOKIE_OUT : COOKIE_NONE;
	e->out[n].len = len;
	e->out[n].value = value;
	e->out[n].canceled = e->out[n].timed = e->out[n].timed_out = false;
	e->out[n].borrowed = NULL;
	onesided_note(e, e->out[n].versions);
	e->sent++;
	e->calling = true;
	if (value)
		ret = onesided_write_imm(e, n, cookie);
	else if (how == 2)
		ret = send_borrowed(e, n, tag, len);
	else if (how == 3)
		ret = send_msg(e, n, tag, len, cookie);
	else if (how == 4)
		ret = send_regions(e, n, tag, len, cookie);
	else
		ret = rdmamsg_send(e->ep, bytes_of(e, n), len, tag, cookie);
	e->calling = false;
	sim_trace("%d: sends %s %u of %u bytes, way %u: %d\n", e->index,
		  value ? "value" : "message", n, len, how, ret);
	if (!ret)
		return;
	e->sent--;
	if (ret == -EAGAIN)
		e->blocked = true;
	else if (ret == -ESHUTDOWN)
		e->to_send = e->sent;
	else
		sim_fail("%d: sending message %u: %d, %s", e->index, n, ret,
			 rdmamsg_error());
}

/* ---- callbacks --------------------------------------------------------- */

static struct end *end_of(const struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->closed)
		sim_fail("%d: a callback after on_closed", e->index);
	if (e->calling)
		sim_fail("%d: a callback within a call", e->index);
	return e;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = end_of(ep);

	sim_trace("%d: connected\n", e->index);
	if (e->connected)
		sim_fail("%d: connected twice", e->index);
	e->ep = ep;
	e->connected = true;
	onesided_connected(e);
	inside_callback(e);
}

/* Returns the number of the message or value that is delivered. */
static uint32_t next_of(struct end *e)
{
	flow_check_delivery(e);
	flow_skip_canceled(e);
	return e->received++;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = end_of(ep), *from = &ends[!e->index];
	uint32_t n = next_of(e), was = number_of(rdmamsg_msg_tag(msg));

	sim_trace("%d: receives message %u of %zu bytes\n", e->index, was,
		  rdmamsg_msg_len(msg));
	if (was != n)
		sim_fail("%d: message %u where %u was due", e->index, was, n);
	incoming_check(e, msg);
	onesided_check_noted(from, from->out[n].versions);
	if (e->held_count < HELD && sim_once_in(4))
		e->held[e->held_count++] = msg;
	else
		incoming_free(e, msg);
	inside_callback(e);
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	struct end *e = end_of(ep);
	int ret = incoming_ask(e, ep, number_of(tag), len, &dst->data);

	inside_callback(e);
	return ret;
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	struct end *e = end_of(ep), *from = &ends[!e->index];
	uint32_t n = next_of(e);

	sim_trace("%d: receives value %u\n", e->index, value);
	if (value != n)
		sim_fail("%d: value %u where %u was due", e->index, value, n);
	if (n >= from->sent || !from->out[n].value)
		sim_fail("%d: value %u was never sent", e->index, n);
	onesided_check_noted(from, from->out[n].versions);
	inside_callback(e);
}

/* The message has ended. */
static void ended(struct end *e, uint32_t n, int status)
{
	if (status == RDMAMSG_TIMED_OUT)
		late_check_taken(e, n);
	if (status == RDMAMSG_TIMED_OUT && !e->out[n].canceled)
		e->out[n].timed_out = true;
	else if (!flow_may_have(e, n, status))
		sim_fail("%d: message %u has status %d: %s", e->index, n,
			 status, rdmamsg_ep_reason(e->ep)->text);
	/* finds a later use of this memory */
	if (e->out[n].borrowed)
		memset(e->out[n].borrowed, 0xee, e->out[n].len);
	free(e->out[n].borrowed);
	e->out[n].borrowed = NULL;
}

static void complete(struct end *e, uint32_t n, int status)
{
	sim_trace("%d: completes message %u, status %d\n", e->index, n, status);
	if (n >= e->sent || e->out[n].cookie == COOKIE_NONE)
		sim_fail("%d: cookie %u was never given", e->index, n);
	if (e->out[n].cookie != COOKIE_OUT)
		sim_fail("%d: cookie %u comes twice", e->index, n);
	if (late_complete(e, &e->out[n].cookie, e->out[n].timed, status))
		ended(e, n, status);
	else if (e->out[n].canceled)
		sim_fail("%d: cancelled message %u is overdue", e->index, n);
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = end_of(ep);

	if (!onesided_complete(e, cookie, status))
		complete(e, (uint32_t)(uintptr_t)cookie - 1, status);
	inside_callback(e);
}

static void message_late(struct end *e, uint32_t n, int status)
{
	sim_trace("%d: ends message %u late, status %d\n", e->index, n,
		  status);
	if (n >= e->sent || e->out[n].cookie != COOKIE_OVERDUE)
		sim_fail("%d: message %u is late, but not overdue", e->index,
			 n);
	e->out[n].cookie = COOKIE_BACK;
	if (status == RDMAMSG_TIMED_OUT)
		sim_fail("%d: message %u is overdue, then taken back",
			 e->index, n);
	ended(e, n, status);
}

void ends_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = end_of(ep);

	totals.late++;
	if (!onesided_late(e, cookie, status))
		message_late(e, (uint32_t)(uintptr_t)cookie - 1, status);
	inside_callback(e);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct end *e = end_of(ep);

	e->blocked = false;
	inside_callback(e);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = end_of(ep);

	sim_trace("%d: closed: %s\n", e->index, why->text);
	e->closed = true;
	incoming_closed(e);
	e->why = *why;
	e->ep = NULL;
	inside_closed(e, ep);
}

static void not_moved(struct end *e)
{
	if (e->index)
		sim_fail("1: has not moved, but only 0 connects");
	if (!ends[0].asked && !ends[1].asked)
		sim_fail("0: has not moved, but nobody has asked");
	ends[0].moving = ends[1].moving = false;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	struct end *e = end_of(ep);

	sim_trace("%d: path %s: %s\n", e->index,
		  rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change), ev->text);
	switch (ev->change) {
	case RDMAMSG_PATH_CHANGE_DOWN:
		if (e->down)
			sim_fail("%d: loses its lane twice", e->index);
		if (!deaths_done && !ends[0].asked && !ends[1].asked &&
		    !aborted && !e->closing && !ends[!e->index].closing)
			sim_fail("%d: loses its lane without a reason",
				 e->index);
		e->down = true;
		break;
	case RDMAMSG_PATH_CHANGE_RESUMED:
		if (!e->down)
			sim_fail("%d: has resumed, but lost no lane", e->index);
		e->down = e->moving = false;
		e->resumes++;
		break;
	case RDMAMSG_PATH_CHANGE_NOT_MOVED:
		not_moved(e);
		break;
	default:
		break;
	}
	inside_callback(e);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = on_complete,
	.on_writable = on_writable, .on_closed = on_closed, .on_path = on_path,
	.on_written = on_written, .on_incoming = on_incoming,
};

/* ---- from open to close ------------------------------------------------ */

static void must(int ret, const char *what)
{
	if (ret < 0)
		sim_fail("%s: %s", what, rdmamsg_error());
}

static void options_of(struct end *e, struct rdmamsg_ep_options *o,
		       struct rdmamsg_ep_tuning *t,
		       const struct rdmamsg_failover *f, uint32_t flags)
{
	*t = (struct rdmamsg_ep_tuning){
		.size = sizeof(*t), .max_copy = SIZE_MAX_MSG,
		.inline_max = INLINE_MAX, .eager_max = EAGER_MAX,
		.pieces_max = PIECES_MAX, .responder_resources = 4,
		.fetch_timeout_ms = RDMAMSG_NONE,
		.stall_after_ms = RDMAMSG_NONE,
	};
	*o = (struct rdmamsg_ep_options){
		.size = sizeof(*o), .user = e, .handlers = &handlers,
		.max_msg_size = SIZE_MAX_MSG, .failover = f, .tuning = t,
		.timeout_ms = 30000, .close_timeout_ms = 600000,
		.flags = flags,
	};
	/* seeds keep their schedules if this order stays */
	if (sim_once_in(8))
		o->flags |= RDMAMSG_EP_FULL_HEADERS;
	t->recv_depth = 1 + sim_below(8);
	t->send_depth = 1 + sim_below(8);
	o->send_queue = sim_once_in(2) ? sim_below(4) : 0;
	o->dead_after_ms = 1000u << sim_below(5);
	t->initiator_depth = 1 + sim_below(4);
}

static void open_end(int i)
{
	struct end *e = &ends[i];
	const struct rdmamsg_options o = {
		.size = sizeof(o), .submit_depth = 16, .user = e,
	};

	*e = (struct end){ .index = i };
	e->to_send = sim_below(MESSAGES / 2 + 1);
	e->moves = !plain && sim_once_in(2) ? sim_below(MOVES + 1) : 0;
	e->waits = sim_once_in(2);
	must(rdmamsg_open(&e->ctx, &o), "rdmamsg_open");
	onesided_open(e);
	must(rdmamsg_region_create(e->ctx, pattern, PATTERN,
				   RDMAMSG_ACCESS_READ, &e->bytes),
	     "creating the region of the bytes");
	flow_open(e);
	inside_open(e);
	incoming_open(e);
	late_open(e);
}

bool ends_prove_writes(void)
{
	return !sim_loose || !plain;
}

void ends_open(void)
{
	const struct rdmamsg_failover f = {
		.size = sizeof(f), .rungs = RDMAMSG_RUNG_LANE |
		(sim_once_in(4) ? (uint32_t)RDMAMSG_RUNG_STANDBY : 0),
		.timeout_ms = 120000, .keep_bytes = 65536,
	};
	const uint32_t flags = sim_once_in(4) ? (uint32_t)RDMAMSG_EP_CRC : 0;
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;
	const struct rdmamsg_listen_options l = {
		.size = sizeof(l), .ep = &o,
	};

	for (uint32_t i = 0; !pattern[1] && i < PATTERN; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 256 * 13 + 1);
	open_end(0);
	open_end(1);
	aborted = false;
	ends[sim_below(2)].may_close = true;
	if (sim_once_in(4))
		ends[0].may_close = ends[1].may_close = true;
	options_of(&ends[1], &o, &t, plain ? NULL : &f, flags);
	must(rdmamsg_listen(ends[1].ctx, "127.0.0.1", "0", &l, &listener),
	     "rdmamsg_listen");
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	options_of(&ends[0], &o, &t, plain ? NULL : &f, flags);
	must(rdmamsg_connect(ends[0].ctx, "127.0.0.1", port, &o, NULL),
	     "rdmamsg_connect");
}

bool end_can_free(const struct end *e)
{
	return e->held_count;
}

void end_free(struct end *e)
{
	uint32_t at = sim_below(e->held_count);

	incoming_free(e, e->held[at]);
	e->held[at] = e->held[--e->held_count];
}

bool end_can_close(const struct end *e)
{
	return e->may_close && e->connected && !e->closed && !e->closing &&
	       e->sent == e->to_send && e->touched == e->to_touch &&
	       !(e->waits && (ends[0].moving || ends[1].moving));
}

void end_close(struct end *e)
{
	sim_trace("%d: closes\n", e->index);
	e->closing = true;
	e->paused = false;
	e->calling = true;
	rdmamsg_ep_close(e->ep);
	e->calling = false;
}

bool end_can_move(const struct end *e)
{
	return e->connected && !e->closed && !e->closing && e->moves;
}

/* The side that has connected may name the address. */
void end_move(struct end *e)
{
	struct rdmamsg_migrate_options o = { .size = sizeof(o), .lane = 1 };
	int ret;

	if (!e->index && sim_once_in(4)) {
		o.host = "127.0.0.1";
		o.service = port;
	}
	e->calling = true;
	ret = rdmamsg_ep_migrate(e->ep, &o);
	e->calling = false;
	sim_trace("%d: moves: %d\n", e->index, ret);
	e->moves--;
	/*
	 * A request of the peer may come at any time. In a callback, the
	 * library may know of a loss that on_path tells next.
	 */
	if (ret == -EBUSY && !e->index && !e->down && !e->moving &&
	    !ends[1].asked && !e->within)
		sim_fail("0: is busy, but does not move");
	if (ret == -EBUSY || ret == -ESHUTDOWN)
		return;
	if (ret || e->down)
		sim_fail("%d: moving: %d, %s", e->index, ret, rdmamsg_error());
	totals.moves++;
	e->asked = e->moving = true;
}

static void check_end(struct end *e)
{
	const struct end *from = &ends[!e->index];

	flow_skip_canceled(e);
	if (!flow_may_end(e))
		sim_fail("%d: closed with another reason: %s", e->index,
			 e->why.text);
	if (!aborted && e->received != from->sent)
		sim_fail("%d: has received %u of %u messages", e->index,
			 e->received, from->sent);
	for (uint32_t n = 0; n < e->sent; n++)
		if (e->out[n].cookie == COOKIE_OUT ||
		    e->out[n].cookie == COOKIE_OVERDUE)
			sim_fail("%d: cookie %u has not come back", e->index,
				 n);
	onesided_check(e);
	totals.messages += e->received;
	totals.resumes += e->resumes;
}

void ends_check(void)
{
	check_end(&ends[0]);
	check_end(&ends[1]);
}

void ends_close(void)
{
	for (int i = 0; i < 2; i++) {
		while (end_can_free(&ends[i]))
			end_free(&ends[i]);
		rdmamsg_close(ends[i].ctx);
	}
	listener = NULL;
}
