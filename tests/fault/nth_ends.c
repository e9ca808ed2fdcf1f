/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two ends of every scenario: contexts, connecting, and callbacks that
 * check what arrives and when.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/post.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nth.h"

struct end ends[2] = {
	{ .name = "server" }, { .name = "client" },
};
struct rdmamsg *ctxs[CTXS];
struct rdmamsg_listener *listener;
const char *address = "10.9.0.1";
bool sound;			/* no call fails now */
bool moving;			/* requests go to another context */
bool joint;				/* another context shares the port */
bool exporting;			/* requests get a key */
bool shared;			/* all contexts share receives */
bool own_cq;			/* RDMAMSG_EP_OWN_CQ */
bool narrow;
bool guarded;			/* both ends */
bool keyed;			/* all contexts */
bool oob;			/* without the CM */
const char *host = "rxe-host";
bool by_name;
bool patient;			/* the client */
bool failover;			/* both ends */
bool lanes;
int reported;			/* errors that the library reported */
int events;			/* calls of on_event */
char failure[512];		/* of this run; "": none */
char what[128];			/* the run, for the alarm */
uint8_t pattern[LARGEST + 256];
static uint8_t incoming[2][ITEMS][SCATTERED];	/* of server, client */
struct rdmamsg_msg *kept;	/* a message that is not freed at once */
bool keeping;
struct rdmamsg_layout *scattered;
struct rdmamsg_pd *domain;
struct rdmamsg_pool *inbound;

#define LOG_LINES	40
static char log_ring[LOG_LINES][200];
static unsigned int log_at_line;

void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	snprintf(log_ring[log_at_line++ % LOG_LINES], sizeof(log_ring[0]),
		 "%s", line);
}

static void on_dump(void *arg, const char *line)
{
	on_log(arg, RDMAMSG_LOG_DEBUG, line);
}

void log_start(void)
{
	log_at_line = 0;
}

void log_print(void)
{
	unsigned int first = log_at_line > LOG_LINES ?
			     log_at_line - LOG_LINES : 0;

	while (first != log_at_line)
		printf("#   %s\n", log_ring[first++ % LOG_LINES]);
	fflush(stdout);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	if (failure[0])
		return;
	va_start(ap, fmt);
	vsnprintf(failure, sizeof(failure), fmt, ap);
	va_end(ap);
	for (int i = 0; i < CTXS; i++)
		if (ctxs[i])
			rdmamsg_dump(ctxs[i], on_dump, NULL);
}

void on_alarm(int sig)
{
	printf("not ok %s: hangs\n", what);
	log_print();
	_exit(1);
}

static char last_text[256];

void texts_start(void)
{
	snprintf(last_text, sizeof(last_text), "%s", rdmamsg_error());
}

/* A call that succeeds despite a fault below must leave the error text. */
static void check_text(void)
{
	if (strcmp(last_text, rdmamsg_error()))
		fail("a success left a text: %s", rdmamsg_error());
}

/* A call that fails must set an error text. Returns ret. */
int told(int ret)
{
	if (ret < 0) {
		reported++;
		if (!rdmamsg_error()[0])
			fail("%d without a text", ret);
		texts_start();
	} else {
		check_text();
	}
	return ret;
}

/* ---- callbacks -------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->ep && e->ep != ep)
		fail("%s: a second endpoint", e->name);
	if (e->closed && (e == &ends[CLIENT] || e->connected))
		fail("%s: connected after on_closed", e->name);
	e->closed = 0;		/* of an earlier endpoint, see on_closed() */
	e->ep = ep;
	e->connected = true;
}

/* Returns the bytes of a message, also of one in the layout. */
static const uint8_t *bytes_of(const struct rdmamsg_msg *msg)
{
	static uint8_t copy[SCATTERED];

	if (rdmamsg_msg_data(msg))
		return rdmamsg_msg_data(msg);
	if (rdmamsg_layout_copy_out(scattered,
				    rdmamsg_msg_tag(msg) * SCATTERED, copy,
				    rdmamsg_msg_len(msg)))
		fail("a message in a layout: %s", rdmamsg_error());
	return copy;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (e->closed)
		fail("%s: a message after on_closed", e->name);
	if (tag < e->next || tag >= ITEMS)
		fail("%s: message %u where %u was next", e->name, tag, e->next);
	else if (memcmp(bytes_of(msg), pattern + tag, rdmamsg_msg_len(msg)))
		fail("%s: message %u is damaged", e->name, tag);
	else
		e->peer->items[tag].received = true;
	e->next = tag + 1;
	if (keeping && !kept)
		kept = msg;
	else
		rdmamsg_msg_free(msg);
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (tag >= ITEMS || len > sizeof(incoming[0][0]))
		return 0;
	/* after an error in other memory */
	if (scattered && e == &ends[SERVER])
		(void)told(rdmamsg_layout_recv(ep, scattered, tag * SCATTERED));
	else if (tag % 2)
		dst->data = incoming[e - ends][tag];
	return 0;
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct item *item = cookie;

	if (e->closed)
		fail("%s: a completion after on_closed", e->name);
	if (item->state != ACCEPTED || item->overdue)
		fail("%s: item %td completes in state %d", e->name,
		     item - e->items, item->state);
	item->overdue = status == RDMAMSG_OVERDUE;
	if (item->overdue)
		return;
	item->state = DONE;
	item->status = status;
	reported += status != 0;
}

void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct item *item = cookie;

	if (e->closed)
		fail("%s: on_late after on_closed", e->name);
	if (item->state != ACCEPTED || !item->overdue)
		fail("%s: item %td is late in state %d", e->name,
		     item - e->items, item->state);
	item->state = DONE;
	item->status = status;
	reported += status != 0;
}

static void on_writable(struct rdmamsg_ep *ep)
{
	((struct end *)rdmamsg_ep_user(ep))->writable = true;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_ep_user(ep);

	/* an earlier endpoint, of a request whose sender had gone */
	if (e == &ends[SERVER] && ep != e->ep && (oob || e->connected) &&
	    ep != e->last)
		return;
	e->last = ep;
	if (e->closed++)
		fail("%s: closed twice", e->name);
	for (int i = 0; i < ITEMS; i++)
		if (e->items[i].state == ACCEPTED)
			fail("%s: closed, and item %d has not ended", e->name,
			     i);
	if (!why->cause || !why->who || !why->text[0])
		fail("%s: closed without a reason", e->name);
	for (int i = 0; i < ITEMS; i++)
		if (why->cause == RDMAMSG_CAUSE_CLOSED &&
		    e->items[i].status == -ECANCELED)
			fail("%s: a graceful close, and item %d is lost",
			     e->name, i);
	e->why = *why;
	e->ep = NULL;
	if (!e->expected_end || why->error)
		reported++;
}

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	events++;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers),
	.on_connected = on_connected, .on_message = on_message,
	.on_incoming = on_incoming, .on_complete = on_complete,
	.on_writable = on_writable, .on_closed = on_closed,
};

static const struct rdmamsg_failover alternate = {
	.size = sizeof(alternate), .rungs = RDMAMSG_RUNG_PATH,
};

static const struct rdmamsg_failover others = {
	.size = sizeof(others), .rungs = RDMAMSG_RUNG_LANE, .timeout_ms = 400,
};

static struct rdmamsg_ep_options ep_options(int who)
{
	static struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = 4,
	};

	tuning.send_depth = narrow ? 1 : 0;
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options),
		.user = &ends[who], .handlers = &handlers,
		/* with a failed call some cases wait as long as this */
		.timeout_ms = sound ? BODY_MS - 5000 : 5000,
		.close_timeout_ms = 2000,
		.dead_after_ms = 4000, .send_queue = narrow ? 1 : 8,
		.tuning = &tuning,
		.flags = (own_cq ? RDMAMSG_EP_OWN_CQ : 0u) |
			 (guarded ? RDMAMSG_EP_GUARD : 0u) |
			 (patient && who == CLIENT ? RDMAMSG_EP_RETRY : 0u),
		.pd = who == CLIENT ? domain : NULL,
		.recv_pool = who == SERVER ? inbound : NULL,
		.setup_data = "setup", .setup_data_len = 5,
		.hello_data = "hello", .hello_data_len = 5,
		.failover = failover ? &alternate : lanes ? &others : NULL,
	};
}

static void moved(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg)
{
	struct rdmamsg_ep_options opts = ep_options(SERVER);

	told(rdmamsg_request_accept(req, &opts, NULL));
}

/* The peer gets a key with the reply. The context frees the region. */
static void export_and_accept(struct rdmamsg_request *req)
{
	static uint8_t far[4096];
	struct rdmamsg_ep_options opts = ep_options(SERVER);
	struct rdmamsg_region *region;
	struct rdmamsg_key key;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_READ, &region)) ||
	    told(rdmamsg_request_get_key(req, region, &key))) {
		told(rdmamsg_request_reject(req, "no", 2));
		return;
	}
	opts.setup_data = &key;
	opts.setup_data_len = sizeof(key);
	told(rdmamsg_request_accept(req, &opts, NULL));
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options opts = ep_options(SERVER);

	if (exporting)
		export_and_accept(req);
	else if (!moving)
		told(rdmamsg_request_accept(req, &opts, NULL));
	else if (told(rdmamsg_request_move(req, ctxs[OTHER], moved, NULL)))
		told(rdmamsg_request_reject(req, "no", 2));
}

/* ---- steps of scenarios ----------------------------------------------- */

void turn(int ms)
{
	struct pollfd fds[CTXS];

	for (int i = 0; i < CTXS; i++)
		fds[i] = (struct pollfd){
			ctxs[i] ? rdmamsg_fd(ctxs[i]) : -1, POLLIN, 0,
		};
	(void)poll(fds, CTXS, ms);
	for (int i = 0; i < CTXS; i++)
		if (fds[i].revents && ctxs[i] && rdmamsg_process(ctxs[i]) < 0)
			fail("rdmamsg_process: %s", rdmamsg_error());
	check_text();
}

bool drive(bool (*done)(void), int ms)
{
	uint64_t end = rdmamsg__now_ms() + (uint64_t)ms;

	while (!done()) {
		if (failure[0] || rdmamsg__now_ms() >= end)
			return false;
		turn(20);
	}
	return true;
}

void open_ctx(int i)
{
	/* a resized queue, and an event soon */
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 1100, .limit = 1000,
	};
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.srq = shared ? &srq : NULL,
	};

	if (keyed) {
		opts.key = "the key of each context";
		opts.key_len = strlen(opts.key);
	}
	if (!ctxs[i] && told(rdmamsg_open(&ctxs[i], &opts)))
		ctxs[i] = NULL;
}

static struct rdmamsg_listener *joint_listener;	/* of OTHER */

void close_ctx(int i)
{
	if (i == SERVER) {
		listener = NULL;
		inbound = NULL;
	}
	if (i == OTHER)
		joint_listener = NULL;
	rdmamsg_close(ctxs[i]);
	ctxs[i] = NULL;
}

void open_all(void)
{
	for (int i = 0; i < CTXS; i++)
		open_ctx(i);
}

void start_listening(void)
{
	struct rdmamsg_ep_options ep = ep_options(SERVER);
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
		.handlers = moving || exporting ? &on : NULL,
		/* as the endpoint's timeout_ms */
		.setup_timeout_ms = sound ? BODY_MS - 5000 : 0,
	};
	char port[8];

	if (listener || !ctxs[SERVER])
		return;
	if (joint)
		opts.flags = RDMAMSG_LISTEN_SHARED;
	if (joint && !joint_listener && ctxs[OTHER] &&
	    told(rdmamsg_listen(ctxs[OTHER], address, "0", &opts,
				&joint_listener)))
		joint_listener = NULL;
	snprintf(port, sizeof(port), "%u",
		 rdmamsg_listener_port(joint_listener));
	if (told((oob ? rdmamsg_oob_listen : rdmamsg_listen)
		 (ctxs[SERVER], address, port, &opts, &listener)))
		listener = NULL;
}

void start_connecting(void)
{
	struct rdmamsg_ep_options opts = ep_options(CLIENT);
	char port[8];

	if (!ctxs[CLIENT] || !listener)
		return;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	if (told((oob ? rdmamsg_oob_connect : rdmamsg_connect)
		 (ctxs[CLIENT], by_name ? host : address, port, &opts,
		  &ends[CLIENT].ep)))
		ends[CLIENT].ep = NULL;
}

static bool is_connected(void)
{
	return (ends[CLIENT].connected && ends[SERVER].connected) ||
	       ends[CLIENT].closed || !ends[CLIENT].ep;
}

bool is_closed(void)
{
	return !ends[CLIENT].ep && !ends[SERVER].ep;
}

bool no_endpoints(void)
{
	for (int i = 0; i < CTXS; i++)
		if (ctxs[i] && ctxs[i]->sessions->ep_count)
			return false;
	return true;
}

void forget_ends(void)
{
	for (int i = 0; i < 2; i++) {
		const char *name = ends[i].name;

		memset(&ends[i], 0, sizeof(ends[i]));
		ends[i].name = name;
		ends[i].peer = &ends[!i];
	}
}

void do_connect(void)
{
	start_connecting();
	if (!drive(is_connected, BODY_MS))
		fail("connecting: neither connected nor closed");
}
