/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conns measures how fast connections are made, how much memory each one takes,
 * and how many messages make a round trip while 64 are in flight over all of
 * them.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

#define AT_ONCE		32	/* connections being made */
#define FLYING		64	/* messages in flight */
#define MESSAGES	100000u	/* at least one on each connection */
#define WARM		128u	/* messages on each before, to touch memory */
#define STEP_MS		60000	/* longest time without progress */
#define CONNECT_MS	60000

struct conns {
	const struct perf_options *o;
	struct rdmamsg *ctx;
	struct rdmamsg_srq *srq;
	struct conn *all;
	uint32_t n, opened, connected, ready, reported, closed;
	uint32_t size, each, next;	/* each: messages of this round */
	uint64_t sent, answered, total;
	struct perf_memory before, server;
	bool told;		/* about the server's memory */
	bool closing;
	int error;
	uint64_t progress;
};

struct conn {
	struct conns *s;
	struct rdmamsg_ep *ep;
	uint32_t sent, answered;
};

/* ---- memory ----------------------------------------------------------- */

static uint64_t resident_now(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long long pages = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void perf_memory(struct rdmamsg *ctx, const struct rdmamsg_srq *srq,
		 struct perf_memory *m)
{
	struct rdmamsg_srq_stats q = { .size = sizeof(q) };
	struct rdmamsg_stats st = { .size = sizeof(st) };

	memset(m, 0, sizeof(*m));
	m->resident = resident_now();
	if (!rdmamsg_get_stats(ctx, &st))
		m->registered = st.bytes_registered;
	if (srq && !rdmamsg_srq_get_stats(srq, &q))
		m->structs = q.bytes_private;
}

void perf_memory_ep(const struct rdmamsg_ep *ep, struct perf_memory *m)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	if (!ep || rdmamsg_ep_query(ep, &info))
		return;
	m->structs += info.bytes_private;
	m->connections++;
}

static struct perf_memory mine(const struct conns *s)
{
	struct perf_memory m;

	perf_memory(s->ctx, s->srq, &m);
	m.resident -= s->before.resident;
	for (uint32_t i = 0; i < s->n; i++)
		perf_memory_ep(s->all[i].ep, &m);
	return m;
}

/* ---- messages --------------------------------------------------------- */

static void failed(struct conns *s, const char *what)
{
	if (!s->error)
		perf_complain("%s: %s", what, rdmamsg_error());
	s->error = 1;
}

/*
 * Sends on the next connections with room until enough messages are in flight.
 */
static void fly(struct conns *s)
{
	for (uint32_t tries = 0; tries < s->n && s->sent < s->total &&
	     s->sent - s->answered < FLYING; tries++) {
		struct conn *c = &s->all[s->next++ % s->n];
		int ret;

		if (!c->ep || c->sent == s->each)
			continue;
		ret = rdmamsg_send(c->ep, perf_pattern(s->size), s->size,
				   perf_tag_of(c->sent), NULL);
		if (ret == -EAGAIN)
			continue;
		if (ret) {
			failed(s, "sending");
			return;
		}
		c->sent++;
		s->sent++;
		tries = 0;
	}
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct conn *c = rdmamsg_ep_user(ep);
	struct conns *s = c->s;
	uint32_t tag = rdmamsg_msg_tag(msg);

	s->progress++;
	if (tag < PERF_START) {
		if (tag != perf_tag_of(c->answered++) ||
		    rdmamsg_msg_len(msg) != s->size) {
			perf_complain("a message out of place");
			s->error = 1;
		}
		s->answered++;
		fly(s);
	} else if (tag == PERF_READY) {
		s->ready++;
	} else if (tag == PERF_REPORT) {
		s->reported++;
	} else if (tag == PERF_MEMORY &&
		   rdmamsg_msg_len(msg) >= sizeof(s->server)) {
		memcpy(&s->server, rdmamsg_msg_data(msg), sizeof(s->server));
		s->told = true;
	}
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	fly(((struct conn *)rdmamsg_ep_user(ep))->s);
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct conns *s = ((struct conn *)rdmamsg_ep_user(ep))->s;

	if (!s->error && !perf_link_known(ep, s->o))
		s->error = 1;
	s->connected++;
	s->progress++;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct conn *c = rdmamsg_ep_user(ep);
	struct conns *s = c->s;
	char text[PERF_WHY_MAX];

	c->ep = NULL;
	s->closed++;
	s->progress++;
	if (!s->closing && !s->error)
		perf_complain("%s: connection %td ended: %s", s->o->host,
			      c - s->all, perf_why(why, text));
	s->error |= !s->closing || why->error;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_writable = on_writable,
	.on_closed = on_closed,
};

/* ---- steps ------------------------------------------------------------ */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Waits until *count is 'wanted', as long as there is progress. */
static int await(struct conns *s, const uint32_t *count, uint32_t wanted)
{
	uint64_t seen = s->progress;
	double since = now();

	while (*count < wanted && !s->error && !perf_stopped) {
		if (s->o->event)
			(void)rdmamsg_wait(s->ctx, 1000);
		else
			for (int i = 0; i < 1024; i++)
				(void)rdmamsg_fast_poll(s->ctx);
		if (seen != s->progress) {
			seen = s->progress;
			since = now();
		} else if (now() - since > STEP_MS / 1e3) {
			perf_complain("nothing has happened for %d s",
				      STEP_MS / 1000);
			return -1;
		}
	}
	return s->error || perf_stopped ? -1 : 0;
}

static int dial(struct conns *s, const struct perf_hello *hello)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &s->all[s->opened],
		.handlers = &handlers, .hello_data = hello,
		.hello_data_len = sizeof(*hello), .timeout_ms = CONNECT_MS,
		.srq = s->srq, .flags = perf_ep_flags(le32toh(hello->flags)),
	};
	struct conn *c = &s->all[s->opened++];

	c->s = s;
	if (!rdmamsg_connect(s->ctx, s->o->host, s->o->port, &opts, &c->ep))
		return 0;
	failed(s, s->o->host);
	return -1;
}

static int connect_all(struct conns *s)
{
	struct perf_hello hello = {
		htole32(PERF_MAGIC), htole32(PERF_VERSION),
		htole32((s->o->event ? 0 : PERF_POLLS) |
			(s->o->guard ? PERF_GUARD : 0) |
			(s->o->crc ? PERF_CRC : 0)),
		0, htole32(s->n), 0, 0, 0,
	};

	(void)!getrandom(&hello.client, sizeof(hello.client), GRND_NONBLOCK);
	while (s->opened < s->n) {
		if (s->opened - s->connected >= AT_ONCE &&
		    await(s, &s->connected, s->connected + 1))
			return -1;
		if (dial(s, &hello))
			return -1;
	}
	return await(s, &s->connected, s->n);
}

static int say(struct conns *s, struct conn *c, enum perf_tag tag,
	       const void *data, size_t len)
{
	if (!c->ep || !rdmamsg_send(c->ep, data, len, tag, NULL))
		return 0;
	failed(s, "sending");
	return -1;
}

static int start(struct conns *s)
{
	const struct perf_start wire = {
		htole32(PERF_LAT), htole32(s->size), htole32(s->each),
	};

	for (uint32_t i = 0; i < s->n; i++)
		if (say(s, &s->all[i], PERF_START, &wire, sizeof(wire)))
			return -1;
	return await(s, &s->ready, s->n);
}

static int prepare(struct conns *s, uint32_t each)
{
	s->each = each;
	s->total = (uint64_t)each * s->n;
	s->sent = s->answered = 0;
	s->ready = s->reported = 0;
	for (uint32_t i = 0; i < s->n; i++)
		s->all[i].sent = s->all[i].answered = 0;
	return start(s);
}

static int exchange(struct conns *s)
{
	fly(s);
	return await(s, &s->reported, s->n);
}

static int ask(struct conns *s)
{
	uint32_t wanted = s->reported;

	if (say(s, &s->all[0], PERF_MEMORY, NULL, 0))
		return -1;
	while (!s->told && !s->error && !perf_stopped)
		if (await(s, &wanted, wanted) || rdmamsg_wait(s->ctx, 1000) < 0)
			return -1;
	return s->told ? 0 : -1;
}

static void close_all(struct conns *s)
{
	s->closing = true;
	for (uint32_t i = 0; i < s->opened; i++)
		if (s->all[i].ep)
			rdmamsg_ep_close(s->all[i].ep);
	if (!s->error)
		(void)await(s, &s->closed, s->opened);
}

/* ---- results ---------------------------------------------------------- */

static void show_memory(const char *who, const struct perf_memory *m, bool json)
{
	uint64_t n = m->connections ? m->connections : 1;
	unsigned long long registered = m->registered / n;
	unsigned long long structs = m->structs / n, resident = m->resident / n;

	if (json)
		printf(", \"%s_registered\": %llu, \"%s_structs\": %llu, "
		       "\"%s_resident\": %llu", who, registered, who, structs,
		       who, resident);
	else
		printf("%s, bytes for a connection: %llu registered, %llu of "
		       "structs, %llu resident in all\n", who, registered,
		       structs, resident);
}

static void show(const struct conns *s, double setup, double run,
		 const struct perf_memory *client)
{
	const struct perf_memory server = {
		le64toh(s->server.connections), le64toh(s->server.registered),
		le64toh(s->server.structs), le64toh(s->server.resident),
	};
	bool json = s->o->json;

	printf(json ? "{\"test\": \"conns\", \"connections\": %u, "
	       "\"setup_per_s\": %.1f, \"size\": %u, \"count\": %llu, "
	       "\"warmup\": %llu, \"flying\": %d, \"msg_per_s\": %.1f, "
	       "\"srq\": %s" :
	       "%u connections, %.0f made in a second; messages of %u bytes "
	       "there and back: %llu, %llu left out before, %d under way, "
	       "%.0f in a second, %s%s\n",
	       s->n, s->n / setup, s->size, (unsigned long long)s->total,
	       (unsigned long long)WARM * s->n, FLYING, (double)s->total / run,
	       json ? s->srq ? "true" : "false" :
	       s->o->event ? "events" : "polling",
	       s->srq ? ", shared receives" : "");
	show_memory("client", client, json);
	show_memory("server", &server, json);
	if (json)
		printf(", \"mode\": \"%s\"}\n", s->o->event ? "event" : "poll");
}

static int measure(struct conns *s)
{
	double begin = now(), connected, prepared, end;
	struct perf_memory client;

	if (connect_all(s))
		return 1;
	connected = now();
	if (prepare(s, WARM) || exchange(s) ||
	    prepare(s, s->n < MESSAGES ? MESSAGES / s->n : 1))
		return 1;
	prepared = now();
	if (exchange(s))
		return 1;
	end = now();
	client = mine(s);
	if (ask(s))
		return 1;
	show(s, connected - begin, end - prepared, &client);
	return 0;
}

struct rdmamsg_srq *perf_srq(struct rdmamsg *ctx, uint32_t conns)
{
	/* two messages and six control messages for each, and some to share */
	const struct rdmamsg_srq_options opts = {
		.size = sizeof(opts), .depth = 8 * conns + 256, .floor = 2,
	};
	struct rdmamsg_srq *srq;

	if (!rdmamsg_srq_create(ctx, &opts, &srq))
		return srq;
	perf_complain("%s", rdmamsg_error());
	return NULL;
}

int perf_conns(const struct perf_options *o)
{
	struct conns s = { .o = o, .n = o->count ? o->count : 100 };
	int ret = 1;

	s.size = o->size_count ? o->sizes[0] : 64;
	s.all = calloc(s.n, sizeof(*s.all));
	if (!s.all || !perf_pattern(s.size)) {
		perf_complain("no memory for %u connections", s.n);
		free(s.all);
		return 1;
	}
	if (rdmamsg_open(&s.ctx, &perf_context)) {
		perf_complain("%s", rdmamsg_error());
		free(s.all);
		return 1;
	}
	perf_wake_on_signal(s.ctx);
	s.before.resident = resident_now();
	if (!o->srq || (s.srq = perf_srq(s.ctx, s.n))) {
		ret = measure(&s);
		close_all(&s);
	}
	if (perf_stopped)
		perf_complain("interrupted");
	perf_wake_on_signal(NULL);
	s.closing = true;
	rdmamsg_close(s.ctx);
	free(s.all);
	return ret || s.error ? 1 : 0;
}
