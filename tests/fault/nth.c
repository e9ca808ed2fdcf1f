/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every scenario is run once to count the calls that it makes below the
 * library, then again for each of them: with that one failing, and with that
 * one and all later ones failing. Whatever fails, it is reported, every
 * accepted cookie ends exactly once, nothing hangs, nothing is left, and the
 * same contexts can connect again.
 *
 * Usage: nth [SCENARIO[/CALL[/N]]]...
 * The device is that of RDMAMSG_VM_ADDR, 10.9.0.1 if there is no such thing.
 */
#include "internal.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faulty.h"

#define HANG_S		60	/* one run, at most */
#define BODY_MS		30000	/* what is reported is reported within */
#define ITEMS		12
#define LARGEST		(1200 * 1000)

enum { SERVER, CLIENT, OTHER, CTXS };

struct item {
	enum { NOT_SENT, REFUSED, ACCEPTED, DONE } state;
	int status;
	bool received;
};

struct end {
	const char *name;
	struct rdmamsg_ep *ep;		/* NULL: none, or closed */
	bool connected;
	int closed;			/* how often */
	struct rdmamsg_reason why;
	struct item items[ITEMS];	/* sent by this end */
	uint32_t next;			/* tag expected from the other */
	struct end *peer;
	bool writable;
	bool expected_end;		/* closing is what was asked for */
};

static struct end ends[2] = {
	{ .name = "server" }, { .name = "client" },
};
static struct rdmamsg *ctxs[CTXS];
static struct rdmamsg_listener *listener;
static const char *address = "10.9.0.1";
static bool moving;			/* requests go to another context */
static bool shared;			/* receives, in every context */
static bool own_cq;			/* for the rest, each its own */
static bool oob;			/* without the CM */
static const char *host;		/* a name, if not the address */
static int reported;			/* errors that the library told of */
static int events;			/* on_event */
static char failure[512];		/* of this run; "": good */
static char what[128];			/* the run, for the alarm */
static uint8_t pattern[LARGEST + 256];
static uint8_t incoming[2][ITEMS][65536];	/* of server, client */
static struct rdmamsg_msg *kept;	/* a message that is not freed at once */
static bool keeping;

/* ---- verdicts --------------------------------------------------------- */

#define LOG_LINES	40
static char log_ring[LOG_LINES][200];
static unsigned int log_at_line;

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	snprintf(log_ring[log_at_line++ % LOG_LINES], sizeof(log_ring[0]),
		 "%s", line);
}

static void on_dump(void *arg, const char *line)
{
	on_log(arg, RDMAMSG_LOG_DEBUG, line);
}

static void log_print(void)
{
	unsigned int first = log_at_line > LOG_LINES ? log_at_line - LOG_LINES : 0;

	while (first != log_at_line)
		printf("#   %s\n", log_ring[first++ % LOG_LINES]);
	fflush(stdout);
}

static void __attribute__((format(printf, 1, 2))) fail(const char *fmt, ...)
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

static void on_alarm(int sig)
{
	printf("not ok %s: hangs\n", what);
	log_print();
	_exit(1);
}

/* A call said no: it must have said why. */
static int told(int ret)
{
	if (ret < 0) {
		reported++;
		if (!rdmamsg_error()[0])
			fail("%d without a text", ret);
	}
	return ret;
}

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---- callbacks -------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->ep && e->ep != ep)
		fail("%s: a second endpoint", e->name);
	e->ep = ep;
	e->connected = true;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (e->closed)
		fail("%s: a message after on_closed", e->name);
	if (tag < e->next || tag >= ITEMS)
		fail("%s: message %u where %u was next", e->name, tag, e->next);
	else if (memcmp(rdmamsg_msg_data(msg), pattern + tag,
			rdmamsg_msg_len(msg)))
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

	if (tag % 2 && tag < ITEMS && len <= sizeof(incoming[0][0]))
		dst->data = incoming[e - ends][tag];
	return 0;
}

static void on_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct item *item = cookie;

	if (e->closed)
		fail("%s: a completion after on_closed", e->name);
	if (item->state != ACCEPTED)
		fail("%s: item %td completes in state %d", e->name,
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

	/* of an offer whose sender had gone; there may be a second one by now */
	if (oob && e == &ends[SERVER] && ep != e->ep)
		return;
	if (e->closed++)
		fail("%s: closed twice", e->name);
	for (int i = 0; i < ITEMS; i++)
		if (e->items[i].state == ACCEPTED)
			fail("%s: closed, and item %d has not ended", e->name, i);
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

static const struct rdmamsg_handlers handlers = {
	.size = sizeof(handlers),
	.on_connected = on_connected, .on_message = on_message,
	.on_incoming = on_incoming, .on_sent = on_sent,
	.on_writable = on_writable, .on_closed = on_closed,
};

static struct rdmamsg_ep_options ep_options(int who)
{
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options),
		.user = &ends[who], .handlers = &handlers,
		.timeout_ms = 5000, .close_timeout_ms = 2000,
		.dead_after_ms = 4000, .send_queue = 8, .recv_depth = 4,
		.flags = own_cq ? RDMAMSG_EP_OWN_CQ : 0,
		.setup_data = "setup", .setup_data_len = 5,
		.hello_data = "hello", .hello_data_len = 5,
	};
}

static void moved(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg)
{
	struct rdmamsg_ep_options opts = ep_options(SERVER);

	told(rdmamsg_accept(req, &opts, NULL));
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options opts = ep_options(SERVER);

	if (!moving)
		told(rdmamsg_accept(req, &opts, NULL));
	else if (told(rdmamsg_request_move(req, ctxs[OTHER], moved, NULL)))
		told(rdmamsg_reject(req, "no", 2));
}

/* ---- doing ------------------------------------------------------------ */

static void turn(int ms)
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
}

static bool drive(bool (*done)(void), int ms)
{
	uint64_t end = rdmamsg__now_ms() + (uint64_t)ms;

	while (!done()) {
		if (failure[0] || rdmamsg__now_ms() >= end)
			return false;
		turn(20);
	}
	return true;
}

static void open_ctx(int i)
{
	/* a resized queue, and an event at once */
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 1100, .limit = 1000,
	};
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .on_event = on_event,
		.srq = shared ? &srq : NULL,
	};

	if (!ctxs[i] && told(rdmamsg_open(&ctxs[i], &opts)))
		ctxs[i] = NULL;
}

static void close_ctx(int i)
{
	if (i == SERVER)
		listener = NULL;
	rdmamsg_close(ctxs[i]);
	ctxs[i] = NULL;
}

static void open_all(void)
{
	for (int i = 0; i < CTXS; i++)
		open_ctx(i);
}

static void start_listening(void)
{
	struct rdmamsg_ep_options ep = ep_options(SERVER);
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
		.on_request = moving ? on_request : NULL,
	};

	if (listener || !ctxs[SERVER])
		return;
	if (told((oob ? rdmamsg_oob_listen : rdmamsg_listen)
		 (ctxs[SERVER], address, "0", &opts, &listener)))
		listener = NULL;
}

static void start_connecting(void)
{
	struct rdmamsg_ep_options opts = ep_options(CLIENT);
	char port[8];

	if (!ctxs[CLIENT] || !listener)
		return;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	if (told((oob ? rdmamsg_oob_connect : rdmamsg_connect)
		 (ctxs[CLIENT], host ? host : address, port, &opts,
		  &ends[CLIENT].ep)))
		ends[CLIENT].ep = NULL;
}

static bool is_connected(void)
{
	return (ends[CLIENT].connected && ends[SERVER].connected) ||
	       ends[CLIENT].closed || !ends[CLIENT].ep;
}

static bool is_closed(void)
{
	return !ends[CLIENT].ep && !ends[SERVER].ep;
}

static bool no_endpoints(void)
{
	for (int i = 0; i < CTXS; i++)
		if (ctxs[i] && ctxs[i]->ep_count)
			return false;
	return true;
}

static void forget_ends(void)
{
	for (int i = 0; i < 2; i++) {
		const char *name = ends[i].name;

		memset(&ends[i], 0, sizeof(ends[i]));
		ends[i].name = name;
		ends[i].peer = &ends[!i];
	}
}

static void do_connect(void)
{
	start_connecting();
	if (!drive(is_connected, BODY_MS))
		fail("connecting: neither connected nor closed");
}

/* ---- exchange --------------------------------------------------------- */

static const struct kind {
	enum { SEND, SENDV, MSG } how;
	uint32_t len;
} items[ITEMS] = {
	{ SEND, 0 }, { SEND, 32 }, { SEND, 4000 }, { SENDV, 6000 },
	{ SENDV, LARGEST }, { SENDV, 30000 }, { SEND, 40000 }, { MSG, 100 },
	{ MSG, 70000 }, { SEND, 1 }, { SENDV, 50000 }, { SENDV, 50001 },
};

static int send_msg(struct rdmamsg_ep *ep, uint32_t tag, uint32_t len,
		    void *cookie)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(ep, len, &msg);

	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), pattern + tag, len);
	ret = rdmamsg_msg_send(ep, msg, tag, cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

static int send_item(struct end *e, uint32_t tag)
{
	const struct kind *k = &items[tag];
	struct item *item = &e->items[tag];
	struct iovec iov[3] = {
		{ pattern + tag, k->len / 3 },
		{ pattern + tag + k->len / 3, k->len / 3 },
		{ pattern + tag + k->len / 3 * 2, k->len - k->len / 3 * 2 },
	};
	int ret;

	item->state = ACCEPTED;
	switch (k->how) {
	case SEND:
		ret = rdmamsg_send(e->ep, pattern + tag, k->len, tag, item);
		break;
	case SENDV:
		ret = rdmamsg_sendv(e->ep, iov, 3, tag, item);
		break;
	default:
		ret = send_msg(e->ep, tag, k->len, item);
	}
	if (ret)
		item->state = NOT_SENT;
	return ret;
}

static bool writable_or_closed(void)
{
	for (int i = 0; i < 2; i++)
		if (ends[i].writable || ends[i].closed)
			return true;
	return false;
}

static void send_items(struct end *e, uint32_t first, uint32_t last)
{
	for (uint32_t tag = first; tag <= last && e->ep && !failure[0];) {
		int ret;

		e->writable = false;
		ret = send_item(e, tag);
		if (ret != -EAGAIN) {
			if (told(ret))
				e->items[tag].state = REFUSED;
			tag++;
			continue;
		}
		if (!drive(writable_or_closed, BODY_MS))
			fail("%s: item %u: -EAGAIN and no on_writable", e->name,
			     tag);
	}
}

static bool is_exchanged(void)
{
	for (int i = 0; i < 2; i++) {
		for (int t = 0; t < ITEMS; t++) {
			struct item *item = &ends[i].items[t];

			if (item->state == ACCEPTED)
				return false;
			if (item->state == DONE && !item->status &&
			    !item->received && !ends[!i].closed)
				return false;
		}
	}
	return true;
}

static void do_exchange(void)
{
	send_items(&ends[CLIENT], 0, ITEMS - 1);
	send_items(&ends[SERVER], 0, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging: not over");
}

static void do_close(void)
{
	if (!ends[CLIENT].ep)
		return;
	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	rdmamsg_ep_close(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("closing: not over");
}

/* ---- one-sided -------------------------------------------------------- */

static uint8_t far[65536], near[65536];

/* Operation n of them; none is a message that would have to arrive. */
static int rma_item(const struct rdmamsg_key *key, struct rdmamsg_region *region,
		    uint32_t n, struct item *item)
{
	struct rdmamsg_slice small = { pattern, 64, NULL };
	struct rdmamsg_slice copied = { pattern, 4000, NULL };
	struct rdmamsg_slice large = { near, sizeof(near), region };
	struct rdmamsg_ep *ep = ends[CLIENT].ep;
	static uint64_t was;

	item->received = true;
	switch (n) {
	case 0:
		return rdmamsg_write(ep, &small, 1, key, 0, 0, item);
	case 1:
		return rdmamsg_write(ep, &copied, 1, key, 64, 0, item);
	case 2:
		return rdmamsg_write_imm(ep, &large, 1, key, 0, n, 0, item);
	case 3:
		return rdmamsg_read(ep, &large, 1, key, 0, 0, item);
	case 4:
		return rdmamsg_fetch_add(ep, key, 0, 1, &was, 0, item);
	default:
		return rdmamsg_compare_swap(ep, key, 8, 0, 1, &was,
					    RDMAMSG_FENCE, item);
	}
}

static void rma_items(const struct rdmamsg_key *key,
		      struct rdmamsg_region *region)
{
	for (uint32_t n = 0; n < 6 && ends[CLIENT].ep && !failure[0];) {
		struct item *item = &ends[CLIENT].items[n];
		int ret;

		ends[CLIENT].writable = false;
		item->state = ACCEPTED;
		ret = rma_item(key, region, n, item);
		if (ret)
			item->state = REFUSED;
		if (ret == -EAGAIN && drive(writable_or_closed, BODY_MS))
			continue;
		if (ret == -EAGAIN)
			fail("operation %u: -EAGAIN and no on_writable", n);
		told(ret);
		n++;
	}
	if (!drive(is_exchanged, BODY_MS))
		fail("one-sided operations: not over");
}

static void do_rma(void)
{
	struct rdmamsg_region *there = NULL, *here = NULL;
	struct rdmamsg_cache *cache = NULL;
	struct rdmamsg_key key;
	int ret;

	ret = told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
					 RDMAMSG_ACCESS_READ |
					 RDMAMSG_ACCESS_WRITE |
					 RDMAMSG_ACCESS_ATOMIC, &there));
	if (!ret)
		ret = told(rdmamsg_region_export(there, ends[SERVER].ep, &key));
	if (!ret)
		ret = told(rdmamsg_cache_create(ctxs[CLIENT], NULL, &cache));
	if (!ret)
		ret = told(rdmamsg_cache_get(cache, ends[CLIENT].ep, near,
					     sizeof(near),
					     RDMAMSG_ACCESS_LOCAL_WRITE,
					     &here));
	if (!ret)
		rma_items(&key, here);
	if (here)
		(void)rdmamsg_cache_put(cache, here);
	/* unless an endpoint is still on its way out */
	(void)rdmamsg_region_destroy(there);
	(void)rdmamsg_cache_destroy(cache);
}

/* What it says is revoked is. */
static void do_revoke(void)
{
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	long mrs;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_READ, &region)) ||
	    told(rdmamsg_region_export(region, ends[SERVER].ep, &key)))
		return;
	mrs = faulty_alive(FAULTY_MRS);
	if (!told(rdmamsg_region_revoke(region)) &&
	    faulty_alive(FAULTY_MRS) >= mrs)
		fail("a region is revoked, and still registered");
	if (rdmamsg_region_destroy(region))
		fail("a region is not destroyed: %s", rdmamsg_error());
}

/* With operations under way, and regions left to the contexts. */
static void do_rma_abort(void)
{
	struct rdmamsg_region *there = NULL, *here = NULL;
	struct rdmamsg_key key;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_READ |
				       RDMAMSG_ACCESS_WRITE, &there)) ||
	    told(rdmamsg_region_export(there, ends[SERVER].ep, &key)) ||
	    told(rdmamsg_region_create(ctxs[CLIENT], near, sizeof(near),
				       RDMAMSG_ACCESS_LOCAL_WRITE, &here)) ||
	    told(rdmamsg_region_attach(here, ends[CLIENT].ep)))
		return;
	for (uint32_t n = 0; n < 4; n++) {
		struct item *item = &ends[CLIENT].items[n];

		item->state = ACCEPTED;
		if (told(rma_item(&key, here, n, item)))
			item->state = REFUSED;
	}
	if (ends[CLIENT].ep)
		rdmamsg_ep_abort(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("aborting: not over");
	reported++;
}

/* What is accepted before a close arrives, also beyond the credits. */
static void do_close_behind(void)
{
	send_items(&ends[CLIENT], 0, 7);
	send_items(&ends[SERVER], 0, 7);
	do_close();
	for (int i = 0; i < 2; i++)
		for (int t = 0; t < 8 && !reported; t++)
			if (!ends[i].items[t].received)
				fail("%s: a graceful close lost item %d",
				     ends[i].name, t);
}

/* With everything under way. */
static void do_abort(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		if (ends[CLIENT].ep)
			send_item(&ends[CLIENT], i);
		if (ends[SERVER].ep)
			send_item(&ends[SERVER], i);
	}
	if (ends[CLIENT].ep)
		rdmamsg_ep_abort(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("aborting: not over");
	reported++;
}

static void do_teardown(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		send_item(&ends[CLIENT], i);
		send_item(&ends[SERVER], i);
	}
	close_ctx(CLIENT);
	close_ctx(SERVER);
	if (!is_closed())
		fail("rdmamsg_close: an endpoint was not told");
	reported++;
}

/* Memory that comes back from elsewhere makes a sender writable, at once. */
static void do_starve(void)
{
	struct rdmamsg_ep *ep = ends[CLIENT].ep;
	size_t limit = ctxs[CLIENT]->opts.max_registered;
	static struct rdmamsg_msg *msgs[4096];
	int n = 0;

	ctxs[CLIENT]->opts.max_registered = ctxs[CLIENT]->registered;
	while (n < 4096 && !rdmamsg_msg_alloc(ep, 4000, &msgs[n]))
		n++;
	if (rdmamsg_send(ep, pattern, 4000, 0, NULL) != -EAGAIN)
		fail("sent without a buffer");
	drive(writable_or_closed, 50);
	if (ends[CLIENT].writable)
		fail("writable without a buffer");
	rdmamsg_msg_free(msgs[--n]);
	if (!drive(writable_or_closed, 200))
		fail("a buffer has come back, and nobody was told");
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	ctxs[CLIENT]->opts.max_registered = limit;
}

/* A pool of the program's, and messages out of it. */
static void do_pool(void)
{
	const struct rdmamsg_pool_options o = {
		.size = sizeof(o), .max_bytes = 4 << 20,
		.flags = RDMAMSG_POOL_NODE,
	};
	struct rdmamsg_pool *pool = NULL;
	struct rdmamsg_msg *msg;

	if (told(rdmamsg_pool_create(ctxs[CLIENT], &o, &pool)))
		return;
	for (size_t len = 100; len < 1000000; len *= 10) {
		if (told(rdmamsg_pool_alloc(pool, ends[CLIENT].ep, len, &msg)))
			continue;
		memset(rdmamsg_msg_data(msg), 1, len);
		rdmamsg_msg_free(msg);
	}
	if (told(rdmamsg_pool_destroy(pool)))
		fail("a pool that is not in use could not be destroyed");
}

/* A message outlives its endpoint and its device. */
static void do_keep(void)
{
	struct list *n;

	keeping = true;
	send_items(&ends[CLIENT], 4, 4);
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging: not over");
	keeping = false;
	do_close();
	/* as if the device had been unused for long */
	list_for_each(n, &ctxs[SERVER]->devs)
		list_entry(n, struct dev, node)->reap = true;
	ctxs[SERVER]->reap = true;
	rdmamsg__kick(ctxs[SERVER]);
	turn(0);
	if (kept && memcmp(rdmamsg_msg_data(kept), pattern + 4,
			   rdmamsg_msg_len(kept)))
		fail("a kept message is damaged");
	rdmamsg_msg_free(kept);
	kept = NULL;
}

/* The context goes first. */
static void do_keep_longer(void)
{
	keeping = true;
	send_items(&ends[CLIENT], 4, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging: not over");
	keeping = false;
	kept = NULL;
	reported++;
	close_ctx(SERVER);
	close_ctx(CLIENT);
}

/* ---- async events ----------------------------------------------------- */

static void fake(const struct ibv_async_event *ev)
{
	struct rdmamsg_device *d;
	struct list *n;

	for (int i = 0; i < CTXS; i++) {
		if (!ctxs[i])
			continue;
		list_for_each(n, &ctxs[i]->devs) {
			struct dev *dev = list_entry(n, struct dev, node);

			d = dev->device;
			if (!d || d->async_reader != dev)
				continue;
			faulty_async_event(ev);
			rdmamsg__dev_async(dev);
			return;
		}
	}
	/* nobody reads: what could have been told */
	reported++;
}

static void fake_event(enum ibv_event_type type, struct rdmamsg_ep *ep)
{
	struct ibv_async_event ev = { .event_type = type };

	if (ep)
		ev.element.qp = ep->hot.qp;
	else
		ev.element.port_num = 1;
	fake(&ev);
}

/* Of what a program has made there for itself, with a context of its own. */
static void fake_foreign(void)
{
	static struct ibv_srq srq = { .srq_context = &srq };
	static struct ibv_cq cq = { .cq_context = &cq };
	struct ibv_async_event ev = {
		.element.srq = &srq, .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
	};

	fake(&ev);
	ev.event_type = IBV_EVENT_SRQ_ERR;
	fake(&ev);
	ev.element.cq = &cq;
	ev.event_type = IBV_EVENT_CQ_ERR;
	fake(&ev);
}

static bool events_seen(void)
{
	return events >= 2;
}

static bool event_seen(void)
{
	return events >= 1;
}

static void do_async(void)
{
	events = 0;
	fake_foreign();
	fake_event(IBV_EVENT_PORT_ERR, NULL);
	/* without memory for it an event is lost, with an error in the log */
	if (!drive(events_seen, 200))
		reported++;
	if (strstr(ends[CLIENT].why.text, "device reports") ||
	    strstr(ends[SERVER].why.text, "device reports"))
		fail("closed by what does not concern it");
	/* the reader goes, the other one takes over */
	ends[CLIENT].expected_end = true;
	close_ctx(CLIENT);
	events = 0;
	fake_event(IBV_EVENT_PORT_ACTIVE, NULL);
	if (!drive(event_seen, 200))
		reported++;
	if (!drive(is_closed, BODY_MS))
		fail("the peer's context closed, and nothing came of it");
}

static void do_qp_fatal(void)
{
	fake_event(IBV_EVENT_QP_FATAL, ends[SERVER].ep);
	if (!drive(is_closed, 500)) {
		reported++;		/* lost, for want of memory */
		rdmamsg_ep_abort(ends[SERVER].ep);
	}
	if (!drive(is_closed, BODY_MS))
		fail("QP_FATAL, and nothing came of it");
}

static void do_removed(void)
{
	fake_event(IBV_EVENT_DEVICE_FATAL, NULL);
	if (!drive(is_closed, 500)) {
		reported++;
		rdmamsg_ep_abort(ends[SERVER].ep);
	}
	if (!drive(is_closed, BODY_MS))
		fail("DEVICE_FATAL, and nothing came of it");
}

/* The first queue that is polled is the one of the shared receives. */
static void do_srq_cq(void)
{
	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	faulty_arm(FAULTY_poll_cq, 1, false);
	if (!drive(is_closed, BODY_MS))
		fail("the queue of shared receives fails, and nothing comes "
		     "of it");
	(void)faulty_disarm();
}

/* ---- scenarios -------------------------------------------------------- */

static void do_open(void)
{
	open_ctx(CLIENT);
	close_ctx(CLIENT);
}

static void do_listen(void)
{
	start_listening();
	rdmamsg_listener_close(listener);
	listener = NULL;
}

/* A datagram pair of the program's, introduced to each other. */
static void do_qp(void)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .type = IBV_QPT_UD,
		.flags = RDMAMSG_QP_TWO_CQS, .send_ops = IBV_QP_EX_WITH_SEND,
	};
	struct rdmamsg_qp *qp[2] = { NULL, NULL };
	uint8_t record[RDMAMSG_OOB_MAX];

	for (int i = 0; i < 2; i++)
		if (told(rdmamsg_qp_new(ctxs[CLIENT], &o, &qp[i])))
			qp[i] = NULL;
	if (qp[0] && qp[1]) {
		int len = rdmamsg_qp_record(qp[1], record, sizeof(record));

		told(rdmamsg_qp_connect(qp[0], record, (size_t)len));
	}
	/* one that could not be is left to rdmamsg_close() */
	for (int i = 0; i < 2; i++)
		told(rdmamsg_qp_free(qp[i]));
}

static void do_delayed(void)
{
	faulty_delay(300);
	do_exchange();
	faulty_delay(0);
}

enum level { NOTHING, OPEN, LISTENING, CONNECTED };

static const struct scenario {
	const char *name;
	enum level before;
	void (*body)(void);
	bool moving;
	bool oob;
	bool shared;
	bool own_cq;
	const char *host;
	const char *calls;	/* only these fail; the others did elsewhere */
} scenarios[] = {
	{ "open", NOTHING, do_open },
	{ "listen", OPEN, do_listen },
	{ "connect", LISTENING, do_connect },
	{ "name", LISTENING, do_connect, .host = "rxe-host",
	  .calls = " strdup calloc pthread_create getaddrinfo " },
	{ "move", LISTENING, do_connect, .moving = true,
	  .calls = " migrate_id create_event_channel malloc accept reject "
		   "create_qp get_cm_event epoll_ctl " },
	{ "exchange", CONNECTED, do_exchange },
	{ "late", CONNECTED, do_delayed, .calls = "" },
	{ "rma", CONNECTED, do_rma,
	  .calls = " calloc reg_mr dereg_mr mmap post_send wc_send poll_cq " },
	{ "rma-abort", CONNECTED, do_rma_abort,
	  .calls = " post_send dereg_mr destroy_qp " },
	{ "revoke", CONNECTED, do_revoke, .calls = " dereg_mr " },
	{ "starve", CONNECTED, do_starve, .calls = "" },
	{ "pool", CONNECTED, do_pool, .calls = " calloc mmap reg_mr dereg_mr " },
	{ "keep", CONNECTED, do_keep,
	  .calls = " dereg_mr dealloc_pd destroy_cq destroy_comp_channel "
		   "close_device mmap " },
	{ "keep-longer", CONNECTED, do_keep_longer,
	  .calls = " dereg_mr dealloc_pd destroy_cq close_device " },
	{ "close", CONNECTED, do_close },
	{ "close-behind", CONNECTED, do_close_behind },
	{ "abort", CONNECTED, do_abort },
	{ "teardown", CONNECTED, do_teardown },
	{ "async", CONNECTED, do_async },
	{ "qp-fatal", CONNECTED, do_qp_fatal },
	{ "removed", CONNECTED, do_removed },
	{ "qp", OPEN, do_qp },
	{ "srq-open", NOTHING, do_open, .shared = true, .calls = " calloc " },
	{ "srq-connect", LISTENING, do_connect, .shared = true },
	{ "srq-exchange", CONNECTED, do_exchange, .shared = true,
	  .calls = " post_srq_recv modify_srq wc_recv wc_send calloc mmap "
		   "reg_mr get_async_event " },
	{ "srq-keep", CONNECTED, do_keep, .shared = true,
	  .calls = " destroy_srq destroy_cq dereg_mr " },
	{ "srq-own-cq", CONNECTED, do_srq_cq, .shared = true, .own_cq = true,
	  .calls = "" },
	{ "srq-abort", CONNECTED, do_abort, .shared = true },
	{ "srq-teardown", CONNECTED, do_teardown, .shared = true },
	{ "oob-listen", OPEN, do_listen, .oob = true },
	{ "oob", LISTENING, do_connect, .oob = true },
	{ "oob-move", LISTENING, do_connect, .oob = true, .moving = true,
	  .calls = " malloc create_qp modify_qp epoll_ctl send recv " },
	{ "oob-close", CONNECTED, do_close, .oob = true },
	{ "oob-teardown", CONNECTED, do_teardown, .oob = true,
	  .calls = " destroy_qp dereg_mr modify_qp " },
};

static void prepare(const struct scenario *s)
{
	moving = s->moving;
	shared = s->shared;
	own_cq = s->own_cq;
	oob = s->oob;
	host = s->host;
	forget_ends();
	if (s->before >= OPEN)
		open_all();
	if (s->before >= LISTENING)
		start_listening();
	if (s->before >= CONNECTED) {
		do_connect();
		if (!ends[CLIENT].connected || !ends[SERVER].connected)
			fail("no connection to begin with: %s",
			     ends[CLIENT].why.text);
	}
	reported = 0;
}

/* Whether the scenario came to its end as if nothing had happened. */
static bool came_through(const struct scenario *s)
{
	if (s->body == do_connect)
		return ends[CLIENT].connected && ends[SERVER].connected;
	return true;
}

/* The same contexts, without faults. */
static void use_again(void)
{
	for (int i = 0; i < 2; i++)
		if (ends[i].ep)
			rdmamsg_ep_abort(ends[i].ep);
	if (!drive(no_endpoints, BODY_MS)) {
		fail("an endpoint does not end");
		return;
	}
	for (int i = 0; i < 2; i++)
		if (ends[i].connected && ends[i].closed != 1)
			fail("%s: closed %d times", ends[i].name,
			     ends[i].closed);
	forget_ends();
	host = NULL;
	open_all();
	start_listening();
	reported = 0;
	do_connect();
	/* a request left from before may fail meanwhile: only this end counts */
	if (!ends[CLIENT].connected) {
		fail("used again: not connected: %s", ends[CLIENT].closed ?
		     ends[CLIENT].why.text : rdmamsg_error());
		return;
	}
	reported = 0;
	send_items(&ends[CLIENT], 1, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("used again: exchanging is not over");
	do_close();
	if (reported)
		fail("used again: %s", ends[CLIENT].closed ?
		     ends[CLIENT].why.text : rdmamsg_error());
}

static void close_all(void)
{
	for (int i = 0; i < CTXS; i++)
		close_ctx(i);
	forget_ends();
}

static int fds_before;

/* Returns whether the fault was met. */
static bool run(const struct scenario *s, int call, uint32_t nth,
		bool persistent)
{
	bool met;

	failure[0] = 0;
	log_at_line = 0;
	alarm(HANG_S);
	prepare(s);
	faulty_count_start();
	if (call >= 0)
		faulty_arm((enum faulty_call)call, nth, persistent);
	if (!failure[0])
		s->body();
	met = faulty_disarm();
	faulty_delay(0);
	if (!failure[0] && !reported && !came_through(s))
		fail("nothing was reported");
	if (call < 0)
		return false;
	if (!failure[0])
		use_again();
	close_all();
	if (!failure[0] && faulty_leftovers()[0])
		fail("left: %s", faulty_leftovers());
	if (!failure[0] && open_fds() != fds_before)
		fail("left: %d descriptors", open_fds() - fds_before);
	alarm(0);
	return met;
}

/* Polling is endless: the first calls stand for all. */
static uint32_t bound(int call)
{
	switch (call) {
	case FAULTY_poll_cq:
	case FAULTY_get_cq_event:
	case FAULTY_req_notify_cq:
	case FAULTY_get_cm_event:
	case FAULTY_ack_cm_event:
	case FAULTY_wc_send:
	case FAULTY_wc_recv:
		return 4;
	case FAULTY_calloc:
		return 24;
	default:
		return 12;
	}
}

static int run_call(const struct scenario *s, int call, uint32_t count,
		    uint32_t only)
{
	uint32_t last = min(count, bound(call)), runs = 0;
	int bad = 0;

	for (uint32_t nth = 1; nth <= last; nth++) {
		for (int persistent = 0; persistent < 2; persistent++) {
			/* from the third on it rarely tells something new */
			if ((only && nth != only) ||
			    (!only && persistent && nth > 2))
				continue;
			snprintf(what, sizeof(what), "%s/%s/%u%s", s->name,
				 faulty_name((enum faulty_call)call), nth,
				 persistent ? " and on" : "");
			runs++;
			run(s, call, nth, persistent);
			if (!failure[0])
				continue;
			bad++;
			printf("not ok %s: %s\n", what, failure);
			log_print();
			faulty_forget();	/* the next ones start anew */
		}
	}
	if (!bad && runs)
		printf("ok %s/%s, %u runs\n", s->name,
		       faulty_name((enum faulty_call)call), runs);
	fflush(stdout);
	return bad;
}

static bool is_wanted(const struct scenario *s, const char *call,
		      const char *only_call)
{
	char word[64];

	if (only_call)
		return !strcmp(call, only_call);
	snprintf(word, sizeof(word), " %s ", call);
	return !s->calls || strstr(s->calls, word);
}

static int run_scenario(const struct scenario *s, const char *only_call,
			uint32_t only)
{
	uint32_t count[FAULTY_CALLS];
	int bad = 0;

	snprintf(what, sizeof(what), "%s", s->name);
	run(s, -1, 0, false);
	for (int i = 0; i < FAULTY_CALLS; i++)
		count[i] = faulty_count((enum faulty_call)i);
	close_all();
	if (!failure[0] && faulty_leftovers()[0])
		fail("left: %s", faulty_leftovers());
	if (failure[0]) {
		printf("not ok %s, without a fault: %s\n", what, failure);
		log_print();
		return 1;
	}
	printf("ok %s, without a fault\n", s->name);
	for (int i = 0; i < FAULTY_CALLS; i++)
		if (is_wanted(s, faulty_name((enum faulty_call)i), only_call))
			bad += run_call(s, i, count[i], only);
	return bad;
}

static bool have_device(void)
{
	struct ibv_context **list;
	int n = 0;

	list = rdma_get_devices(&n);
	if (list)
		rdma_free_devices(list);
	return n;
}

/* SCENARIO, SCENARIO/CALL, or SCENARIO/CALL/N */
static int run_named(char *name)
{
	size_t n = sizeof(scenarios) / sizeof(scenarios[0]), i;
	char *call = strchr(name, '/'), *nth = NULL;

	if (call) {
		*call++ = 0;
		nth = strchr(call, '/');
	}
	if (nth)
		*nth++ = 0;
	for (i = 0; i < n; i++)
		if (!strcmp(name, scenarios[i].name))
			return run_scenario(&scenarios[i], call,
					    nth ? (uint32_t)atoi(nth) : 0);
	printf("not ok %s: no such scenario\n", name);
	return 1;
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (getenv("RDMAMSG_VM_ADDR"))
		address = getenv("RDMAMSG_VM_ADDR");
	if (!have_device()) {
		fprintf(stderr, "no RDMA device\n");
		return 77;
	}
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
	signal(SIGALRM, on_alarm);
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_DEBUG);
	rdmamsg__verbs = &faulty_verbs;
	/* once: what the libraries below keep for ever */
	run(&scenarios[2], -1, 0, false);
	close_all();
	fds_before = open_fds();
	for (int i = 1; i < argc; i++)
		bad += run_named(argv[i]);
	for (size_t i = 0; argc == 1 &&
	     i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		bad += run_scenario(&scenarios[i], NULL, 0);
	return bad ? 1 : 0;
}
