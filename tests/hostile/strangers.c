/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers that know what everybody knows: addresses, an access key, the
 * protocol, a request that was seen. A server has a target of DC, a group with
 * repair and listeners, one with a pre-shared key, and an innocent uses the first
 * two all the time. Each attack has a budget, see budget.h. Only on the soft HCA,
 * which has DC everywhere. iWARP has no groups.
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
#include "group/quota.h"
#include "group/requests.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/resume.h"
#include "soft/fabric/count.h"
#include "soft/soft.h"
#include "wire/dc_frame.h"
#include "wire/frame.h"
#include "wire/proto.h"
#include "together.h"

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
#define MESSAGE_LEN	3000u		/* of the group */
#define PUBLISH_MS	10u		/* so that it keeps those of 2.5 s */
#define KNOWN		256u	/* senders of DC that may send */
#define WARM		8u	/* connections */
#define CONNECT_MS	10000u	/* until connected, if options name no time */
#define TCP_BACKLOG	16u
#define SECRET		"a pre-shared key of a test"
#define WIDE		256		/* senders, at a target of its own */
#define STEP_MS		60000
#define SMALL		(64u << 10)	/* bytes that are no stranger's */
#define SERVED_MS	15000u	/* for a message of an innocent */

static struct shared {
	struct harm harm;
	_Atomic uint32_t dc_port, wide_port, tcp_port;
	_Atomic uint32_t port, other_port, keyed_port;	/* by the CM */
	_Atomic bool quit, want, anew;
	_Atomic uint32_t rounds, heard;	/* of the innocent */
	_Atomic uint64_t longest;	/* ms, of its messages since goes_on() */
	uint64_t waited;		/* before goes_on() */
	_Atomic uint64_t known[KNOWN];	/* senders of DC */
	_Atomic uint32_t known_count;
	_Atomic bool crowded;		/* all other users connect */
	_Atomic uint32_t kill_at;	/* a port of DC; 0: kill nobody */
	_Atomic uint32_t to_kill, killed;
	_Atomic bool is_sending;	/* the process that is next */
	uint64_t heap, peak;		/* of the server, in bytes */
	uint64_t counted, forgotten;	/* of them, of prove_heap() */
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

#include "heap.h"

/* ---- the server -------------------------------------------------------- */

static bool is_known(uint64_t sender)
{
	for (uint32_t i = 0; i < min(shared->known_count, KNOWN); i++)
		if (shared->known[i] == sender)
			return true;
	return false;
}

/* Everybody whose session it is sends the same. */
static void on_dc_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
			  uint64_t sender)
{
	if (msg->len != 1 || *(const char *)msg->data != 'x')
		harmed("server: a forged message of %u bytes", msg->len);
	if (!is_known(sender))
		harmed("server: a message of nobody");
	rdmamsg_msg_free(msg);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
}

static void note_heap(const struct rdmamsg *of)
{
	shared->heap = heap(of);
	shared->peak = max(shared->peak, shared->heap);
}

static void tell(struct rdmamsg_dc_target *t, struct rdmamsg_dc_target *wide,
		 struct rdmamsg_group *g)
{
	if (shared->anew)
		shared->peak = shared->heap;
	shared->anew = false;
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

static void publish(struct rdmamsg_group *g)
{
	static uint8_t data[MESSAGE_LEN];
	const int ret = rdmamsg_group_publish(g, data, sizeof(data));

	if (ret && ret != -EAGAIN && ret != -ENOTCONN)
		harmed("server: %s", rdmamsg_error());
}

static int server(void)
{
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
	static const struct rdmamsg_ep_handlers on = {
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
	uint64_t published_at = 0;

	count_heap();
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_dc_target_create(ctx, address, "0", &to, &t) ||
	    (!iwarp && rdmamsg_group_join(ctx, GROUP, &go, &g)) ||
	    rdmamsg_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->port = rdmamsg_listener_port(l);
	lo.backlog = TCP_BACKLOG;
	if (!iwarp && rdmamsg_oob_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->tcp_port = rdmamsg_listener_port(l);
	lo.backlog = 0;
	/* shall refuse thieves for what they ask, and not for their address */
	lo.slow_ms = 1;
	if (rdmamsg_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->other_port = rdmamsg_listener_port(l);
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
	prove_heap(ctx);
	shared->wide_port = rdmamsg_dc_target_port(wide);
	shared->dc_port = rdmamsg_dc_target_port(t);
	while (!shared->quit) {
		if (rdmamsg_wait(ctx, 5) < 0)
			harmed("server: %s", rdmamsg_error());
		if (g && now_ms() >= published_at + PUBLISH_MS) {
			published_at = now_ms();
			publish(g);
		}
		note_heap(ctx);
		if (shared->want)
			tell(t, wide, g);
	}
	rdmamsg_close(ctx);
	return 0;
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

static uint64_t heard_at;		/* ms */

/* begun: ms, 0: it waits for nothing. */
static void waits(uint64_t begun, const char *what)
{
	const uint64_t ms = begun ? now_ms() - begun : 0;

	shared->longest = max(shared->longest, ms);
	if (ms > SERVED_MS && !shared->quit)
		harmed("innocent: %llu ms for a message of %s",
		       (unsigned long long)ms, what);
}

static void on_heard(struct rdmamsg_group *g,
		     const struct rdmamsg_group_message *msg)
{
	waits(heard_at, "the group");
	heard_at = now_ms();
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
	int err = rdmamsg_dc_sender_create(ctx, &so, &s);

	if (err)
		return err;
	shared->known[shared->known_count++ % KNOWN] = s->id;
	snprintf(port, sizeof(port), "%u", to);
	return rdmamsg_dc_address_create(s, address, port, KEY, NULL, ret);
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
		waits(begun, "DC");
		waits(heard_at, "the group");
		if (sent)
			begun = 0;
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

	/* an innocent that waits for long says so itself */
	UNTIL(harm->done || (shared->rounds >= rounds &&
			     shared->heard >= heard));
	shared->waited = shared->longest;
	shared->longest = 0;
	return !harm->done && shared->rounds >= rounds &&
	       shared->heard >= heard;
}

/* ---- the strangers ----------------------------------------------------- */

static struct rdmamsg *ctx;
static struct soft_dev *dev;

static void ask_server(void)
{
	shared->want = true;
	UNTIL(!shared->want);
}

#include "budget.h"

/* ---- with DC ----------------------------------------------------------- */

static bool was_sent;

static void on_stranger_sent(struct rdmamsg_dc_sender *s,
			     struct rdmamsg_dc_address *a, void *cookie,
			     int status)
{
	was_sent = !status;
}

#include "floods.h"
#include "killed.h"
#include "nacks.h"

/* ---- at listeners ------------------------------------------------------ */

static struct rdmamsg_ep *connects(void)
{
	const struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct rdmamsg_ep *ep;
	char port[8];

	snprintf(port, sizeof(port), "%u", shared->port);
	return rdmamsg_connect_wait(ctx, address, port, &opts, STEP_MS, &ep) ?
	       NULL : ep;
}

/* Returns the ms until connected, or UINT64_MAX. */
static uint64_t connect_once(void)
{
	const uint64_t begun = now_ms();
	struct rdmamsg_ep *ep = connects();
	const uint64_t took = ep ? now_ms() - begun : UINT64_MAX;

	if (ep)
		(void)rdmamsg_ep_close_wait(ep, STEP_MS);
	return took;
}

/* The server's pool keeps what connections at the same time have needed. */
static void warm_up(void)
{
	struct rdmamsg_ep *ep[WARM];

	for (unsigned int i = 0; i < WARM; i++)
		ep[i] = connects();
	for (unsigned int i = 0; i < WARM; i++)
		if (ep[i])
			(void)rdmamsg_ep_close_wait(ep[i], STEP_MS);
}

#include "asks.h"
#include "tcp.h"

/* ---- with a request that was seen -------------------------------------- */

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	*(bool *)rdmamsg_ep_user(ep) = true;
}

/* Connects with another lane, if this one is lost. */
static struct rdmamsg_ep *resumable(struct rdmamsg *of, uint32_t port,
				    uint32_t ms, bool *closed)
{
	static const struct rdmamsg_ep_handlers on = {
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
#include "users.h"

/* ---- all --------------------------------------------------------------- */

/* DC is by connections there, and their requests need a queue pair. */
static const char *const not_on_iwarp[] = {
	"dc-hellos # iWARP has no datagrams",
	"dc-guesses # iWARP has no datagrams",
	"dc-killed # iWARP has no datagrams",
	"group-requests # iWARP has no datagrams",
	"sessions-of-nobody # iWARP connects queue pairs only",
	"tcp-silent # iWARP connects by the connection manager",
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
	pid_t pids[3], users[USERS];
	unsigned int n = 0;

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
	UNTIL(harm->done || iwarp || shared->heard >= KEPT + 10);
	while (can_crowd() && n < USERS) {
		users[n] = start(n < USERS_ALWAYS ? crowd_always : crowd_later);
		n++;
	}
	if (rdmamsg_open(&ctx, NULL) || soft_open(&dev) || !goes_on()) {
		printf("not ok innocent: %s %s\n", harm->text,
		       rdmamsg_error());
		return 1;
	}
	heap_is_counted();
	warm_up();
	if (iwarp) {
		for (const char *const *one = not_on_iwarp; *one; one++)
			printf("skip %s\n", *one);
	} else {
		by_datagrams();
		sessions();
		tcp_silent();
		tcp_garbage();
	}
	crowded_names();
	/* the server keeps what the thieves leave for a while */
	replays("replays", shared->keyed_port, SECRET);
	replays("replays-without-key", shared->other_port, NULL);
	verdict("innocent", goes_on(), "%u rounds, %u messages heard; %s",
		shared->rounds, shared->heard, harm->text);
	shared->quit = true;
	soft_dev_put(dev);
	rdmamsg_close(ctx);
	while (n--)
		ended_well(users[n], "crowd");
	ended_well(pids[2], "killer");
	ended_well(pids[1], "innocent");
	ended_well(pids[0], "server");
	return failures ? 1 : 0;
}
