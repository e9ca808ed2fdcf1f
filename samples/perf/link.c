/* SPDX-License-Identifier: BSD-2-Clause */
/* A client's connection and a run of messages over it. */
#include "perf.h"
#include "../output.h"

#include <stdio.h>
#include <string.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

#define CONNECT_MS	15000
#define CLOSE_MS	10000
#define SILENT_MS	60000 /* a server that is silent for so long is dead */

void perf_link_fail(struct perf_link *l, int error)
{
	/* on_closed of an ending connection gives the reason */
	if (error == -ESHUTDOWN)
		return;
	if (!l->error)
		perf_complain("sending: %s", rdmamsg_error());
	l->error = error;
}

static void on_ready(struct perf_link *l, const struct rdmamsg_msg *msg)
{
	const struct perf_ready *ready = rdmamsg_msg_data(msg);

	if (rdmamsg_msg_len(msg) < sizeof(*ready))
		return;
	if (ready->error) {
		l->error = -(int)le32toh(ready->error);
		perf_complain("the server cannot do that: %s",
			      strerror(-l->error));
		return;
	}
	l->ready = true;
	l->server_event = le32toh(ready->flags) & PERF_SLEEPS;
	l->mem.peer = ready->key;
	l->begin = perf_ticks();
	if (l->test == PERF_RATE || l->test == PERF_BW)
		perf_stream(l);
}

static void on_report(struct perf_link *l, const struct rdmamsg_msg *msg)
{
	const struct perf_count *count = rdmamsg_msg_data(msg);

	if (rdmamsg_msg_len(msg) < sizeof(*count))
		return;
	if (l->test != PERF_LAT)
		l->end = perf_ticks();
	l->errors += le64toh(count->errors);
	l->copied += le64toh(count->copied);
	l->reported = true;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct perf_link *l = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	perf_gap_mark(&l->gap);
	if (tag < PERF_START) {
		if (l->check && !perf_matches(msg, l->answered, l->size))
			l->errors++;
		l->answered++;
	} else if (tag == PERF_READY) {
		on_ready(l, msg);
	} else if (tag == PERF_REPORT) {
		on_report(l, msg);
	}
	rdmamsg_msg_free(msg);
}

/* Sends from callbacks, so that messages of one batch share a doorbell. */
static void more(struct perf_link *l)
{
	/* the loops of ping-pongs send by themselves */
	if (!l->ready || l->test == PERF_LAT || l->test == PERF_WRITE_LAT)
		return;
	if (perf_one_sided(l->test))
		perf_onesided_more(l);
	else
		perf_stream(l);
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct perf_link *l = rdmamsg_ep_user(ep);
	uint64_t *sample = cookie;

	*sample = perf_ticks() - *sample;
	perf_gap_mark(&l->gap);
	l->flying--;
	if (!status) {
		more(l);
	} else if (!l->error && rdmamsg_ep_state(ep) == RDMAMSG_CONNECTED) {
		/* on_closed has a better reason than -ECANCELED */
		l->error = status;
		perf_complain("a message of %u bytes was not taken: %s",
			      l->size, strerror(-status));
	}
}

static void on_writable(struct rdmamsg_ep *ep)
{
	more(rdmamsg_ep_user(ep));
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct perf_link *l = rdmamsg_ep_user(ep);

	/* outside of a run, the caller prints the reason */
	if (!l->running)
		(void)perf_why(why, l->why);
	else if (!l->error)
		perf_complain("connection ended: %s", why->text);
	l->error = why->error ? why->error : -ESHUTDOWN;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	struct perf_link *l = rdmamsg_ep_user(ep);

	perf_gap_path(&l->gap, ev);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_message = on_message, .on_complete = on_complete,
	.on_writable = on_writable, .on_closed = on_closed, .on_path = on_path,
};

bool perf_link_known(const struct rdmamsg_ep *ep, const struct perf_options *o)
{
	static const char name[] = PERF_NAME;
	size_t len;
	const void *data = rdmamsg_ep_peer_data(ep, &len);

	if (len == sizeof(name) - 1 && !memcmp(data, name, len))
		return true;
	perf_complain("%s: no server of " PERF_NAME " listens on port %s: "
		      "start 'rdmamsg-perf server' there, or name its port "
		      "with -p", o->host, o->port);
	return false;
}

int perf_link_open(struct perf_link *l, const struct perf_options *o,
		   const struct perf_hello *hello)
{
	struct perf_hello wire = {
		htole32(PERF_MAGIC), htole32(PERF_VERSION),
		htole32(hello->flags), htole32(hello->client),
		htole32(hello->connections), htole32(hello->inline_max),
		htole32(hello->eager_max), htole32(hello->recv_depth),
	};
	const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .host = o->other,
	};
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .inline_max = hello->inline_max,
		.eager_max = hello->eager_max, .recv_depth = hello->recv_depth,
		.pieces_max = hello->flags & PERF_PIECES ? PERF_PIECES_MAX : 0,
		.peer_timeout_ms = SILENT_MS,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = l, .handlers = &handlers,
		.failover = o->failover ? &failover : NULL,
		.hello_data = &wire, .hello_data_len = sizeof(wire),
		.max_msg_size = RDMAMSG_MSG_MAX, .tuning = &tuning,
		.flags = perf_ep_flags(hello->flags),
	};
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	l->event = o->event;
	l->check = o->check;
	l->gap.on = o->failover;
	l->every = 1;
	if (rdmamsg_connect_wait(l->ctx, o->host, o->port, &opts, CONNECT_MS,
				 &l->ep)) {
		perf_complain("%s: %s", shown_name(o->host), l->why[0] ? l->why :
			      rdmamsg_error());
		return -1;
	}
	if (!perf_link_known(l->ep, o))
		return -1;
	(void)rdmamsg_ep_query(l->ep, &info);
	l->inline_max = info.inline_max;
	snprintf(l->device, sizeof(l->device), "%s%s", info.device,
		 info.way == RDMAMSG_WAY_UDP ? " over UDP" : "");
	return 0;
}

int perf_link_close(struct perf_link *l)
{
	bool broken = l->error;
	int ret = 0;

	if (!l->ep)
		return 0;
	if (rdmamsg_ep_close_wait(l->ep, CLOSE_MS) && !broken) {
		perf_complain("closing: %s", rdmamsg_error());
		ret = -1;
	}
	l->ep = NULL;
	perf_region_close(&l->mem);
	return ret;
}

/* ---- a run ------------------------------------------------------------ */

static uint64_t copied(const struct perf_link *l)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	return rdmamsg_ep_get_stats(l->ep, &st) ? 0 : st.bytes_copied;
}

/* Registers memory if the test needs it, and sends START. */
static int ask(struct perf_link *l)
{
	struct perf_start wire = {
		htole32(l->test), htole32(l->size), htole32(l->count),
		htole32(l->room), { { 0 } },
	};
	int ret = 0;

	if (perf_one_sided(l->test)) {
		ret = perf_region_open(&l->mem, l->ep, l->room);
		wire.key = l->mem.own;
	}
	return ret ? ret : rdmamsg_send(l->ep, &wire, sizeof(wire), PERF_START,
					NULL);
}

static int start(struct perf_link *l)
{
	int ret;

	l->sent = l->answered = l->flying = 0;
	l->ready = l->reported = false;
	l->errors = 0;
	l->copied = 0;
	/* with --failover, there may be no connection just now */
	while ((ret = ask(l)) == -EAGAIN)
		if (!perf_link_turn(l))
			return -1;
	if (ret)
		perf_link_fail(l, ret);
	while (!l->ready)
		if (!perf_link_turn(l))
			return -1;
	return 0;
}

static int run(struct perf_link *l)
{
	if (start(l))
		return -1;
	if (l->test == PERF_LAT)
		perf_lat(l);
	else if (perf_one_sided(l->test))
		perf_onesided(l);
	while (!l->reported || l->flying) {
		if (!perf_link_turn(l))
			return -1;
		if (l->test != PERF_LAT)
			perf_link_progress(l);
	}
	return 0;
}

int perf_link_run(struct perf_link *l)
{
	uint64_t before = copied(l);
	int ret;

	l->running = true;
	perf_gap_begin(&l->gap);
	ret = run(l);
	l->running = false;
	if (!ret)
		l->copied += copied(l) - before;
	return ret;
}
