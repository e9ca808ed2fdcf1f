/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers that know what everybody knows: addresses, an access key, the
 * protocol, a request that was seen. A server has a target of DC, a group with
 * repair and listeners, one with a pre-shared key, and an innocent uses the first
 * two all the time. Each flood has a budget: memory of the server for a stranger,
 * answers for what it sends, and the time until the innocent is served. Only on
 * the soft HCA, which has DC everywhere. iWARP has no groups.
 * Usage: strangers [ADDRESS]
 */
#include "base/ctx.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/port.h"
#include "dc/session.h"
#include "group/carrier.h"
#include "group/group.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/resume.h"
#include "soft/soft.h"
#include "wire/dc_frame.h"
#include "wire/frame.h"
#include "together.h"
#include "wire/proto.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KEY		0x5eedu
#define GROUP		"239.1.2.77"
#define SENDERS		10
#define KEPT		256u
#define HELLOS		5000
#define GUESSES		5000
#define NACKS		2000
#define RANGES		64u	/* of a request */
#define ASKS		150
#define CONNECTS	20
#define REPLAYS		5
#define REPLAY_MS	500		/* in which a replay may try */
#define SECRET		"a pre-shared key of a test"
#define WIDE		256		/* senders, at a target of its own */
#define NOBODY		65534
#define STEP_MS		60000
#define SMALL		(64u << 10)	/* bytes, for all HELLOs together */
#define SERVED_MS	15000u	/* for a message of an innocent */

static struct shared {
	struct harm harm;
	_Atomic uint32_t dc_port, wide_port, port, keyed_port, tcp_port;
	_Atomic bool quit, want;
	_Atomic uint32_t rounds, heard;	/* of the innocent */
	_Atomic uint64_t longest;	/* ms, of its messages since goes_on() */
	_Atomic uint32_t kill_at;	/* a port of DC; 0: kill nobody */
	_Atomic uint32_t to_kill, killed;
	_Atomic bool is_sending;	/* the process that is next */
	uint64_t heap;			/* of the server, in bytes */
	struct rdmamsg_dc_target_attr target, wide;
	uint32_t bound;			/* initiators of 'wide' */
	struct rdmamsg_group_stats group;
} *shared;

static const char *address = "127.0.0.1";
static bool iwarp;

#define UNTIL_DOING(what, step) \
	do { \
		uint64_t end_ = now_ms() + STEP_MS; \
		while (!(what) && now_ms() < end_) \
			step; \
	} while (0)
#define UNTIL(what)	UNTIL_DOING(what, usleep(1000))

/* ---- the server -------------------------------------------------------- */

static void on_dc_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
			  uint64_t sender)
{
	rdmamsg_msg_free(msg);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
}

static void tell(struct rdmamsg_dc_target *t, struct rdmamsg_dc_target *wide,
		 struct rdmamsg_group *g)
{
	shared->heap = mallinfo2().uordblks;
	shared->target.size = sizeof(shared->target);
	shared->wide.size = sizeof(shared->wide);
	shared->bound = wide->dc ? wide->dc->bound : 0;
	shared->group.size = sizeof(shared->group);
	if (rdmamsg_dc_target_query(t, &shared->target) ||
	    rdmamsg_dc_target_query(wide, &shared->wide) ||
	    (g && rdmamsg_group_get_stats(g, &shared->group)))
		harmed("server: %s", rdmamsg_error());
	shared->want = false;
}

static int server(void)
{
	static uint8_t data[3000];
	struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .access_key = KEY, .max_senders = SENDERS,
		.on_message = on_dc_message,
	};
	const struct rdmamsg_group_options go = {
		.size = sizeof(go),
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		/* soon full, so that it does not count as a stranger's */
		.history = KEPT, .history_bytes = 1 << 20,
	};
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = STEP_MS,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .failover = &failover,
	};
	struct rdmamsg_listen_options lo = { .size = sizeof(lo), .ep = &ep };
	struct rdmamsg_dc_target *t, *wide;
	struct rdmamsg_listener *l;
	struct rdmamsg_group *g = NULL;
	struct rdmamsg *ctx;
	int ret;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_dc_target_create(ctx, address, "0", &to, &t) ||
	    (!iwarp && rdmamsg_group_join(ctx, GROUP, &go, &g)) ||
	    rdmamsg_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->port = rdmamsg_listener_port(l);
	if (!iwarp && rdmamsg_oob_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->tcp_port = rdmamsg_listener_port(l);
	lo.key = SECRET;
	lo.key_len = strlen(SECRET);
	if (rdmamsg_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->keyed_port = rdmamsg_listener_port(l);
	to.max_senders = WIDE;
	if (rdmamsg_dc_target_create(ctx, address, "0", &to, &wide)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->wide_port = rdmamsg_dc_target_port(wide);
	shared->dc_port = rdmamsg_dc_target_port(t);
	while (!shared->quit) {
		if (rdmamsg_wait(ctx, 5) < 0)
			harmed("server: %s", rdmamsg_error());
		ret = g ? rdmamsg_publish(g, data, sizeof(data)) : 0;
		if (ret && ret != -EAGAIN && ret != -ENOTCONN)
			harmed("server: %s", rdmamsg_error());
		if (shared->want)
			tell(t, wide, g);
	}
	rdmamsg_close(ctx);
	return 0;
}

static void ask_server(void)
{
	shared->want = true;
	UNTIL(!shared->want);
}

/* ---- the innocent ------------------------------------------------------ */

static void on_sent(struct rdmamsg_dc_sender *s, struct rdmamsg_dc_address *a,
		    void *cookie, int status)
{
	if (status && !shared->quit)
		harmed("innocent: a message has status %d", status);
	*(bool *)cookie = true;
}

static void on_failed(struct rdmamsg_dc_sender *s,
		      struct rdmamsg_dc_address *a,
		      const struct rdmamsg_reason *why)
{
	if (!shared->quit)
		harmed("innocent: %s", why->text);
}

static void on_heard(struct rdmamsg_group *g,
		     const struct rdmamsg_group_message *msg)
{
	shared->heard++;
}

static void on_gap(struct rdmamsg_group *g,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	harmed("innocent: messages %u to %u are lost", first, last);
}

static int dc_address(struct rdmamsg *ctx, uint32_t to, void (*sent)(
			struct rdmamsg_dc_sender *, struct rdmamsg_dc_address *,
			void *, int), struct rdmamsg_dc_address **ret)
{
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = sent,
		.on_failed = on_failed, .path = RDMAMSG_DC_NATIVE,
	};
	struct rdmamsg_dc_sender *s;
	char port[8];

	snprintf(port, sizeof(port), "%u", to);
	return rdmamsg_dc_sender_create(ctx, &so, &s) ?:
	       rdmamsg_dc_address_create(s, address, port, KEY, NULL, ret);
}

static int innocent(void)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_message = on_heard, .on_gap = on_gap,
	};
	const struct rdmamsg_group_options go = {
		.size = sizeof(go), .handlers = &on,
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
	};
	struct rdmamsg_dc_address *a;
	struct rdmamsg_group *g;
	struct rdmamsg *ctx;
	uint64_t begun = 0;
	bool sent = true;

	UNTIL(shared->dc_port || shared->quit);
	if (rdmamsg_open(&ctx, NULL) ||
	    dc_address(ctx, shared->dc_port, on_sent, &a) ||
	    (!iwarp && rdmamsg_group_join(ctx, GROUP, &go, &g))) {
		harmed("innocent: %s", rdmamsg_error());
		return 1;
	}
	while (!shared->quit) {
		if (sent && begun)
			shared->longest = max(shared->longest,
					      now_ms() - begun);
		if (sent && !rdmamsg_dc_send(a, "x", 1, 0, &sent)) {
			begun = now_ms();
			sent = false;
			shared->rounds++;
		}
		if (rdmamsg_wait(ctx, sent ? 1 : 5) < 0)
			harmed("innocent: %s", rdmamsg_error());
	}
	rdmamsg_close(ctx);
	return 0;
}

/* The innocent goes on with both, and has not waited long since the last call. */
static bool goes_on(void)
{
	const uint32_t rounds = shared->rounds + 10;
	const uint32_t heard = shared->heard + (iwarp ? 0 : 10);

	UNTIL(harm->done || (shared->rounds >= rounds &&
			     shared->heard >= heard));
	if (shared->longest > SERVED_MS)
		harmed("innocent: %llu ms for a message",
		       (unsigned long long)shared->longest);
	shared->longest = 0;
	return !harm->done && shared->rounds >= rounds &&
	       shared->heard >= heard;
}

/* ---- the stranger, with DC --------------------------------------------- */

static struct rdmamsg *ctx;
static bool was_sent;

static void on_stranger_sent(struct rdmamsg_dc_sender *s,
			     struct rdmamsg_dc_address *a, void *cookie,
			     int status)
{
	was_sent = !status;
}

/* Its own session leads to the target. */
static struct dc_session *begin_dc(void)
{
	struct rdmamsg_dc_address *a;

	if (dc_address(ctx, shared->dc_port, on_stranger_sent, &a) ||
	    rdmamsg_dc_send(a, "x", 1, 0, &was_sent))
		return NULL;
	UNTIL_DOING(was_sent, rdmamsg_wait(ctx, 5));
	return was_sent ? a->session : NULL;
}

static bool post(struct dc_session *x, const struct dc_frame *f,
		 const struct dc_hello_frame *h)
{
	uint8_t *slot;

	UNTIL_DOING(rdmamsg__peer_bind(&x->peer) &&
		    rdmamsg__peer_room(&x->peer), rdmamsg_wait(ctx, 1));
	if (!rdmamsg__peer_room(&x->peer))
		return false;
	slot = rdmamsg__peer_slot(&x->peer);
	rdmamsg__dcf_encode(f, slot);
	if (h)
		rdmamsg__dcf_hello_encode(h, slot);
	rdmamsg__peer_send(&x->peer, h ? DCF_HELLO_LEN : DCF_LEN,
			   (struct dc_tx){ .kind = FLIGHT_FRAME });
	return rdmamsg_wait(ctx, 0) >= 0;
}

static uint64_t random64(void)
{
	uint64_t x = 0;

	(void)!getrandom(&x, sizeof(x), 0);
	return x;
}

/* HELLO after HELLO, as many senders. */
static void hellos(struct dc_session *x)
{
	struct dc_frame f = { .type = DCF_HELLO };
	struct dc_hello_frame h = { .key = x->peer.port->key };
	uint64_t heap, sessions;
	uint32_t n = 0;

	rdmamsg__port_place(x->peer.port, &h.place);
	ask_server();
	heap = shared->heap;
	sessions = shared->target.sessions;
	do {
		f.token = random64();
		h.sender = random64();
		h.token = random64();
		h.handle = n;
	} while (post(x, &f, &h) && ++n < HELLOS);
	UNTIL_DOING(!rdmamsg__peer_busy(&x->peer), rdmamsg_wait(ctx, 5));
	ask_server();
	verdict("dc-hellos", n == HELLOS && shared->heap <= heap + SMALL &&
		shared->target.sessions == sessions && goes_on(),
		"%u HELLOs, %lld bytes more at the server, %llu sessions, then "
		"%llu; %s", n, (long long)(shared->heap - heap),
		(unsigned long long)sessions,
		(unsigned long long)shared->target.sessions, harm->text);
}

/* Frames to end the sessions of others, whose handles are small numbers. */
static void guesses(struct dc_session *x)
{
	uint64_t sessions = shared->target.sessions;
	uint32_t n = 0;
	struct dc_frame f = { .type = DCF_BYE };

	do {
		f.handle = n % 8;
		f.token = random64();
	} while (post(x, &f, NULL) && ++n < GUESSES);
	UNTIL_DOING(!rdmamsg__peer_busy(&x->peer), rdmamsg_wait(ctx, 5));
	ask_server();
	verdict("dc-guesses", n == GUESSES && goes_on() &&
		shared->target.sessions == sessions, "%u guesses, %llu "
		"sessions, then %llu; %s", n, (unsigned long long)sessions,
		(unsigned long long)shared->target.sessions, harm->text);
}

#include "killed.h"

/* ---- the stranger, in the group ---------------------------------------- */

static struct rdmamsg_group *join(void)
{
	const struct rdmamsg_group_options go = {
		.size = sizeof(go), .flags = RDMAMSG_GROUP_SUBSCRIBE,
	};
	struct rdmamsg_group *g;

	if (rdmamsg_group_join(ctx, GROUP, &go, &g))
		return NULL;
	UNTIL_DOING(!list_empty(&g->members), rdmamsg_wait(ctx, 5));
	return list_empty(&g->members) ? NULL : g;
}

/* Ranges of each kind, around the next number of a publisher. */
static struct frame_range range(uint32_t next, uint32_t n)
{
	const uint32_t oldest = next - KEPT;

	switch (n % 8) {
	case 0:		/* overlaps with those before and after it */
		return (struct frame_range){ oldest + n / 8 % KEPT, KEPT / 2,
					     0, FRAME_TO_END };
	case 1:		/* without an end */
		return (struct frame_range){ oldest, UINT32_MAX, 0,
					     FRAME_TO_END };
	case 2:		/* begins long ago, and passes the end */
		return (struct frame_range){ next - 0x7fffffff, UINT32_MAX, 0,
					     FRAME_TO_END };
	case 3:		/* not published yet */
		return (struct frame_range){ next + 0x10000, 0x10000, 0,
					     FRAME_TO_END };
	case 4:		/* backwards: refused */
		return (struct frame_range){ oldest, 1, 9, 3 };
	case 5:		/* fragments that the message has not */
		return (struct frame_range){ next - 1, 1, 500, 60000 };
	case 6:		/* around the wrap */
		return (struct frame_range){ UINT32_MAX - n, 2 * n + 1, 0,
					     FRAME_TO_END };
	default:	/* nothing: refused */
		return (struct frame_range){ oldest, 0, 0, FRAME_TO_END };
	}
}

/* A NACK of one range of everything, or of many of all kinds. */
static void fill(struct frame *f, uint8_t *payload, uint32_t next, uint32_t n)
{
	const struct frame_range all = { next - KEPT, KEPT, 0, FRAME_TO_END };
	const bool one = n % 2;

	f->length = one ? 1 : RANGES;
	f->data_len = f->length * FRAME_RANGE_LEN;
	for (uint32_t i = 0; i < f->length; i++) {
		const struct frame_range r = one ? all : range(next, n + i);

		rdmamsg__range_encode(&r, payload + i * FRAME_RANGE_LEN);
	}
}

/* Asks for the whole history, again and again, and for what is not there. */
static void nacks(void)
{
	static uint8_t payload[RANGES * FRAME_RANGE_LEN];
	struct rdmamsg_group *g = join();
	const struct member *m = g ? list_first(&g->members, struct member,
						node) : NULL;
	struct frame f = { .type = FRAME_NACK, .data = payload };
	struct rdmamsg_group_stats before;
	uint64_t begun = now_ms(), most;
	struct carrier_to to;
	uint32_t n = 0;

	if (!m || rdmamsg__carrier_way(g->carrier, &m->from, &to)) {
		verdict("group-requests", false, "no publisher: %s",
			rdmamsg_error());
		return;
	}
	ask_server();
	before = shared->group;
	f.sender = m->who.id;
	while (n < NACKS && now_ms() < begun + STEP_MS) {
		fill(&f, payload, m->stream.next, n);
		n += !rdmamsg__group_send_frame(g, &to, &f);
		(void)rdmamsg_wait(ctx, 0);
	}
	rdmamsg__carrier_drop_ah(g->carrier, to.ah);
	UNTIL_DOING((ask_server(), shared->group.requests >=
		     before.requests + NACKS / 2), rdmamsg_wait(ctx, 5));
	/* of the last second before it, and meanwhile */
	most = 4 * (shared->group.sent_datagrams -
		    shared->group.sent_repeated) +
	       50 * ((now_ms() - begun) / 1000 + 2);
	verdict("group-requests", n == NACKS && goes_on() &&
		shared->group.sent_repeated - before.sent_repeated <= most,
		"%u requests, %llu datagrams for them, at most %llu; %s", n,
		(unsigned long long)(shared->group.sent_repeated -
				     before.sent_repeated),
		(unsigned long long)most, harm->text);
}

/* ---- the stranger, at the listener ------------------------------------- */

static struct rdma_event_channel *channel;

/* Waits for the event, whose private data may be a hello. */
static bool await(enum rdma_cm_event_type type, struct proto_hello *ret)
{
	struct pollfd fd = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;
	bool good;

	if (poll(&fd, 1, STEP_MS) != 1 || soft_cma_get_cm_event(channel, &ev))
		return false;
	good = ev->event == type;
	if (ret)
		(void)rdmamsg__hello_decode(ret, ev->param.conn.private_data,
					    ev->param.conn.private_data_len);
	(void)soft_cma_ack_cm_event(ev);
	return good;
}

/* Returns true if the request is rejected. */
static bool ask_for_session(struct proto_hello *ret)
{
	uint8_t hello[PROTO_HELLO_MAX], data[PROTO_LANE_DATA_LEN];
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)shared->port),
	};
	struct rdma_conn_param param = { .private_data = hello, .qp_num = 1 };
	struct rdma_cm_id *id;
	bool good;
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = PROTO_FEATURE_RESUME | PROTO_FEATURE_LANE,
		.epoch = 1, .data = data, .data_len = sizeof(data),
	};

	(void)!getrandom(data, sizeof(data), 0);
	param.private_data_len = (uint8_t)rdmamsg__hello_encode(&h, hello);
	inet_pton(AF_INET, address, &at.sin_addr);
	if (soft_cma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return false;
	good = !soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000) &&
	       await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL) &&
	       !soft_cma_resolve_route(id, 2000) &&
	       await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) &&
	       !soft_cma_connect(id, &param) &&
	       await(RDMA_CM_EVENT_REJECTED, ret);
	(void)soft_cma_destroy_id(id);
	return good;
}

static bool connect_once(void)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = STEP_MS,
	};
	struct rdmamsg_ep *ep;
	char port[8];

	snprintf(port, sizeof(port), "%u", shared->port);
	if (rdmamsg_connect_wait(ctx, address, port, &opts, STEP_MS, &ep))
		return false;
	(void)rdmamsg_ep_close_wait(ep, STEP_MS);
	return true;
}

/* Sessions that nobody has, with new connections between them. */
static void sessions(void)
{
	uint64_t begun = now_ms();
	uint32_t told = 0, later = 0, other = 0, let_in = 0;

	channel = soft_cma_create_event_channel();
	for (uint32_t i = 0; channel && i < ASKS; i++) {
		struct proto_hello h = { 0 };

		if (!ask_for_session(&h))
			other++;
		else if (h.reject == PROTO_REJECT_SESSION)
			told++;
		else if (h.reject == PROTO_REJECT_LIMIT &&
			 rdmamsg__limit_passes(h.limit))
			later++;
		let_in += i % 50 == 0 && connect_once();
	}
	if (channel)
		soft_cma_destroy_event_channel(channel);
	verdict("sessions-of-nobody", told + later == ASKS && let_in == 3 &&
		told <= DOOR_ASKS * ((now_ms() - begun) / 1000 + 1) &&
		goes_on(), "%u told, %u later, %u otherwise; %u new "
		"connections; %s", told, later, other, let_in, harm->text);
}

#include "tcp.h"

/* ---- the stranger, with a request that it has seen --------------------- */

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	*(bool *)rdmamsg_ep_user(ep) = true;
}

/* Connects with another lane, if this one is lost. */
static struct rdmamsg_ep *resumable(struct rdmamsg *of, uint32_t port,
				    uint32_t ms, bool *closed)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_closed = on_closed,
	};
	char service[8];
	const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = ms, .host = address, .service = service,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = STEP_MS, .handlers = &on,
		.user = closed, .failover = &failover,
	};
	struct rdmamsg_ep *ep;

	*closed = false;
	snprintf(service, sizeof(service), "%u", port);
	return rdmamsg_connect_wait(of, address, service, &opts, STEP_MS, &ep) ?
	       NULL : ep;
}

static void cut(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TRANSPORT,
			   -ETIMEDOUT, "the test has cut the lane");
	rdmamsg__ep_kill(ep);
}

#include "thieves.h"

/* The owner is served, over the lane that it has and over the next one. */
static bool is_served(struct rdmamsg *of, struct rdmamsg_ep *owner,
		      const bool *closed)
{
	if (rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS))
		return false;
	cut(owner);
	UNTIL_DOING(*closed || owner->resume->resumes,
		    (void)rdmamsg_wait(of, 5));
	return !*closed && owner->resume->resumes == 1 &&
	       !rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS);
}

static void replays(void)
{
	const struct rdmamsg_options oo = {
		.size = sizeof(oo), .key = SECRET, .key_len = strlen(SECRET),
	};
	struct rdmamsg_ep *owner;
	struct rdmamsg *of;
	uint32_t taken = 0;
	bool closed, served;

	if (rdmamsg_open(&of, &oo)) {
		verdict("replays", false, "%s", rdmamsg_error());
		return;
	}
	owner = resumable(of, shared->keyed_port, STEP_MS, &closed);
	if (!owner || !owner->resume->agreed) {
		verdict("replays", false, "no session: %s", rdmamsg_error());
		rdmamsg_close(of);
		return;
	}
	for (uint32_t i = 0; i < REPLAYS; i++)
		taken += replay(owner, 0);
	served = is_served(of, owner, &closed);
	/* the owner has used this request; older ones, and one far ahead */
	taken += replay(owner, -1);
	taken += replay(owner, -1000);
	taken += replay(owner, 1000);
	served = served && !rdmamsg_send_wait(owner, "x", 1, 0, STEP_MS);
	verdict("replays", !taken && served && goes_on(),
		"%u of %u replays got the session; the owner %s served; %s",
		taken, REPLAYS + 3, served ? "is" : "is not", harm->text);
	rdmamsg_close(of);
	rdmamsg_ep_release(owner);
}

/* ---- another user of the host ------------------------------------------ */

/* Fills the backlogs of all nodes, as fast as it can. */
static int crowd(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const unsigned int uid = getuid();

	/* the kernel forgets the parent's end with the user */
	if (setgid(NOBODY) || setuid(NOBODY) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		return 1;
	for (unsigned int i = 0; !shared->quit; i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1,
				 "rdmamsg-soft/%u/%s/node/%u", uid,
				 getenv("RDMAMSG_SOFT_FABRIC"), i % 4);

		(void)connect(fd, (struct sockaddr *)&un,
			      (socklen_t)(offsetof(struct sockaddr_un,
						   sun_path) + 1 + (size_t)n));
		close(fd);
	}
	/* a sanitizer cannot look for leaks as this user */
	_exit(0);
}

static void connects(void)
{
	uint32_t n = 0;

	while (n < CONNECTS && connect_once())
		n++;
	verdict("crowded-names", n == CONNECTS && goes_on(),
		"%u of %u have connected: %s; %s", n, CONNECTS,
		n == CONNECTS ? "" : rdmamsg_error(), harm->text);
}

/* ---- all --------------------------------------------------------------- */

/* DC is by connections there, and their requests need a queue pair. */
static const char *const not_on_iwarp[] = {
	"dc-hellos # iWARP has no datagrams",
	"dc-guesses # iWARP has no datagrams",
	"dc-killed # iWARP has no datagrams",
	"group-requests # iWARP has no datagrams",
	"sessions-of-nobody # iWARP connects queue pairs only",
	"tcp-strangers # iWARP connects by the connection manager", NULL,
};

static void by_datagrams(void)
{
	struct dc_session *x = begin_dc();

	if (x) {
		hellos(x);
		guesses(x);
	} else {
		verdict("dc", false, "no session: %s", rdmamsg_error());
	}
	killed();
	nacks();
}

int main(int argc, char **argv)
{
	const char *device = getenv("RDMAMSG_DEVICE");
	const char *link = getenv("RDMAMSG_SOFT_LINK");
	pid_t pids[5];
	int n = 3;

	if (!device || strcmp(device, "soft") ||
	    !getenv("RDMAMSG_SOFT_FABRIC")) {
		fprintf(stderr, "only on the soft HCA, in a fabric of its "
			"own\n");
		return 77;
	}
	if (argc > 1)
		address = argv[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	harm = &shared->harm;
	iwarp = link && !strcmp(link, "iwarp");
	pids[0] = start(server);
	pids[1] = start(innocent);
	pids[2] = start(killer);
	UNTIL(harm->done || iwarp || shared->heard >= 2 * KEPT);
	/* only root can become another user */
	while (!getuid() && n < 5)
		pids[n++] = start(crowd);
	if (rdmamsg_open(&ctx, NULL) || !goes_on()) {
		printf("not ok innocent: %s %s\n", harm->text,
		       rdmamsg_error());
		return 1;
	}
	if (iwarp) {
		for (const char *const *one = not_on_iwarp; *one; one++)
			printf("skip %s\n", *one);
	} else {
		by_datagrams();
		sessions();
		tcp_crowd();
	}
	replays();
	connects();
	verdict("innocent", goes_on(), "%u rounds, %u messages heard; %s",
		shared->rounds, shared->heard, harm->text);
	shared->quit = true;
	rdmamsg_close(ctx);
	while (n-- > 3)
		ended_well(pids[n], "crowd");
	ended_well(pids[2], "killer");
	ended_well(pids[1], "innocent");
	ended_well(pids[0], "server");
	return failures ? 1 : 0;
}
