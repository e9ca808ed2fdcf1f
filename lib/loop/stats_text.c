/* SPDX-License-Identifier: BSD-2-Clause */
/* The statistics of a context as text for Prometheus. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "dc/dc.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/retries.h"
#include "group/group.h"
#include "lane/lanes.h"
#include "lane/srq.h"
#include "loop/prometheus.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "cm/connect.h"
#include "session/sessions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* Rows beyond these limits are added to the last row, which is named "other". */
#define DEVICES		32
#define SIZES		128	/* of buffers, by device and direction */

struct device_row {
	const char *name, *kind;
	uint64_t one;
	uint64_t removed;
	uint64_t endpoints;
	uint64_t messages_lent;
	uint64_t cq_entries;
	uint64_t cq_promised;
	uint64_t retries;
	bool counts_retries;
};

struct size_row {
	const char *device, *direction;
	uint64_t size;			/* 0: other */
	uint64_t buffers;
	uint64_t used;
};

struct tables {
	const struct rdmamsg *ctx;
	struct prometheus out;
	struct rdmamsg_stats counters;
	struct device_row devices[DEVICES];
	uint32_t device_count;
	struct size_row sizes[SIZES];
	uint32_t size_count;
};

/* A kind of objects, and their metrics. */
struct kind {
	const char *prefix;
	const struct metric *metrics;
	size_t count;
	/* Writes a sample of the current metric for each object. */
	void (*samples)(struct tables *t);
};

static const char *const directions[] = {
	[DIR_IN] = "receive", [DIR_OUT] = "send",
};

/* ---- the context ------------------------------------------------------ */

/* Values are of type uint64_t. Another size divides by 0, an error here. */
#define AT(type, field) \
	(offsetof(type, field) / \
	 (sizeof(((type *)NULL)->field) == sizeof(uint64_t)))
#define M(type, name, field, help)	{ name, help, AT(type, field) }
#define C(name, field, help)	M(struct rdmamsg_stats, name, field, help)

static const struct metric context_metrics[] = {
	C("messages_sent_total", msgs_sent, "Messages accepted and sent."),
	C("messages_received_total", msgs_received,
	  "Messages given to the program."),
	C("sent_bytes_total", bytes_sent, "Payload of the messages sent."),
	C("received_bytes_total", bytes_received,
	  "Payload of the messages received."),
	C("copied_bytes_total", bytes_copied,
	  "Payload that the library copied."),
	C("messages_sent_inline_total", sent_inline,
	  "Messages sent inline in the request."),
	C("messages_sent_eager_total", sent_eager,
	  "Messages sent by a copy in registered memory."),
	C("messages_sent_rendezvous_total", sent_rendezvous,
	  "Messages that the peer read."),
	C("messages_received_rendezvous_total", received_rendezvous,
	  "Messages that the library read from the peer."),
	C("messages_sent_pieces_total", sent_pieces,
	  "Messages sent as a run of pieces."),
	C("messages_received_pieces_total", received_pieces,
	  "Messages that the library assembled from pieces."),
	C("sends_refused_total", sends_refused,
	  "Sends and one-sided operations that returned -EAGAIN."),
	C("credit_stalls_total", credit_stalls,
	  "Refused sends without a credit of the peer."),
	C("credit_messages_total", credit_msgs,
	  "Messages sent only to return credits."),
	C("keepalives_total", keepalives, "Empty writes that tested a "
	  "connection."),
	C("pings_total", pings, "PING messages sent to the peer's program."),
	C("rnr_errors_total", rnr_errors,
	  "Connections that ended because the peer had no receive posted."),
	C("stalls_total", stalls, "Calls of on_stalled."),
	C("completions_total", completions, "Completions handled."),
	C("wakeups_total", wakeups, "Wake-ups that found something to do."),
	C("endpoints", endpoints, "Endpoints that are not closed."),
	C("messages_lent", msgs_lent, "Messages that the program has."),
	C("registered_bytes", bytes_registered, "Registered pool memory."),
	C("rma_writes_total", rma_writes, "Writes accepted."),
	C("rma_reads_total", rma_reads, "Reads accepted."),
	C("rma_atomics_total", rma_atomics, "Atomics accepted."),
	C("rma_bytes_total", rma_bytes,
	  "Bytes of one-sided operations accepted."),
	C("lanes_lost_total", lanes_lost,
	  "Connections of sessions lost or left."),
	C("lanes_resumed_total", lanes_resumed,
	  "Other connections that took over a session."),
	C("messages_repeated_total", msgs_repeated,
	  "Messages sent again over another connection."),
	C("connects_failed_total", connects_failed,
	  "Ends of connecting endpoints that were never connected."),
	C("accepts_failed_total", accepts_failed,
	  "Ends of accepted endpoints that were never connected."),
	C("connects_repeated_total", connects_repeated,
	  "Tries of connecting after the first one."),
	C("requests_rejected_total", requests_rejected,
	  "Requests that the program rejected."),
	C("requests_limited_total", requests_limited,
	  "Requests rejected by a limit of a listener."),
	C("requests_unusable_total", requests_unusable,
	  "Requests that the library rejected for another cause."),
};

static void context_samples(struct tables *t)
{
	rdmamsg__prometheus_sample(&t->out);
	rdmamsg__prometheus_value(&t->out, &t->counters);
}

/* An element of an array of counters. The metric has the offset of the first. */
static void element(struct tables *t, const char *label, const char *name,
		    uint32_t i)
{
	rdmamsg__prometheus_sample(&t->out);
	rdmamsg__prometheus_label(&t->out, label, name);
	rdmamsg__prometheus_value(&t->out, (const char *)&t->counters +
				  i * sizeof(uint64_t));
}

static const struct metric cause_metrics[] = {
	C("ends_total", ended[0], "Endpoints that have ended, by cause."),
};

/* Each cause has a sample from the beginning, so that a rate shows the first. */
static void cause_samples(struct tables *t)
{
	for (uint32_t i = RDMAMSG_CAUSE_CLOSED; i <= RDMAMSG_CAUSE_CRC; i++)
		element(t, "cause", rdmamsg_name(RDMAMSG_NAME_CAUSE, (enum rdmamsg_cause)i),
			i);
}

static const struct metric who_metrics[] = {
	C("ends_by_total", ended_by[0], "Endpoints that have ended, by who "
	  "ended them."),
};

static void who_samples(struct tables *t)
{
	for (uint32_t i = RDMAMSG_WHO_LOCAL; i <= RDMAMSG_WHO_DEVICE; i++)
		element(t, "who", rdmamsg_name(RDMAMSG_NAME_WHO, (enum rdmamsg_who)i), i);
}

struct build {
	uint64_t one;
};

static const struct metric build_metrics[] = {
	M(struct build, "info", one, "The version of the library."),
};

static void build_samples(struct tables *t)
{
	const struct build one = { 1 };

	rdmamsg__prometheus_sample(&t->out);
	rdmamsg__prometheus_label(&t->out, "version", rdmamsg_version());
	rdmamsg__prometheus_value(&t->out, &one);
}

struct memory_row {
	uint64_t used, limit, spare;
};

static const struct metric memory_metrics[] = {
	M(struct memory_row, "used_bytes", used,
	  "Registered memory of a direction."),
	M(struct memory_row, "limit_bytes", limit,
	  "The most registered memory of a direction."),
	M(struct memory_row, "spare_bytes", spare,
	  "Registered memory that nothing uses."),
};

/* Returns true if the limit is beyond all addresses of a process. */
static bool is_no_limit(uint64_t bytes)
{
	return bytes >> 60;
}

static void memory_samples(struct tables *t)
{
	const bool is_limit = t->out.metric->offset ==
			      offsetof(struct memory_row, limit);

	for (int i = 0; i < DIRECTIONS; i++) {
		const struct budget *b = &t->ctx->memory->budget[i];
		const struct memory_row row = { b->used, b->cap, b->spare };

		if (is_limit && is_no_limit(row.limit))
			continue;
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_label(&t->out, "direction", directions[i]);
		rdmamsg__prometheus_value(&t->out, &row);
	}
}

/* ---- devices ---------------------------------------------------------- */

#define D(name, field, help)	M(struct device_row, name, field, help)

static const struct metric device_metrics[] = {
	D("info", one, "A device that the context uses."),
	D("removed", removed, "Whether the device was removed: 1 or 0."),
	D("endpoints", endpoints,
	  "Endpoints, queue pairs and groups on the device."),
	D("messages_lent", messages_lent,
	  "Messages of the device that the program has."),
	D("completion_queue_entries", cq_entries,
	  "Entries of the completion queues."),
	D("completion_queue_entries_promised", cq_promised,
	  "Entries that requests may use."),
	D("retries_total", retries, "Requests of all programs that the device "
	  "sent again after an ack timeout."),
};

static struct device_row *device_row(struct tables *t, const struct dev *dev)
{
	struct device_row *r = t->devices;

	while (r < t->devices + t->device_count &&
	       strcmp(r->name, dev->device->name))
		r++;
	if (r == t->devices + DEVICES) {
		r[-1].name = r[-1].kind = "other";
		return r - 1;
	}
	if (r < t->devices + t->device_count)
		return r;
	t->device_count++;
	*r = (struct device_row){
		.name = dev->device->name, .one = 1, .removed = 1,
		.kind = rdmamsg__kind_name(dev->device->kind),
	};
	if (!dev->device->gone)
		r->counts_retries = rdmamsg__device_retries(dev->device,
							    &r->retries);
	return r;
}

static void add_device(struct tables *t, const struct dev *dev)
{
	struct device_row *r = device_row(t, dev);
	struct list *n;

	r->removed &= dev->device->gone;
	r->endpoints += dev->eps;
	r->messages_lent += dev->msgs_out;
	list_for_each(n, &dev->cqs) {
		const struct cq *cq = list_entry(n, struct cq, node);

		r->cq_entries += cq->room;
		r->cq_promised += cq->used;
	}
}

static void device_samples(struct tables *t)
{
	const bool is_retries = t->out.metric->offset ==
				offsetof(struct device_row, retries);

	for (uint32_t i = 0; i < t->device_count; i++) {
		const struct device_row *r = &t->devices[i];

		if (is_retries && !r->counts_retries)
			continue;
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_label(&t->out, "device", r->name);
		if (t->out.metric == device_metrics)
			rdmamsg__prometheus_label(&t->out, "kind", r->kind);
		rdmamsg__prometheus_value(&t->out, r);
	}
}

/* ---- buffers of the library ------------------------------------------- */

static const struct metric size_metrics[] = {
	M(struct size_row, "buffers", buffers,
	  "Buffers of the library by their size in bytes."),
	M(struct size_row, "buffers_used", used, "Buffers in use."),
};

static struct size_row *size_row(struct tables *t, const struct pool *p)
{
	const struct size_row key = {
		.device = p->dev->device->name,
		.direction = directions[p->dir], .size = p->buf_size,
	};
	struct size_row *r = t->sizes;

	while (r < t->sizes + t->size_count &&
	       (r->size != key.size || r->direction != key.direction ||
		strcmp(r->device, key.device)))
		r++;
	if (r == t->sizes + SIZES) {
		r[-1].device = r[-1].direction = "other";
		r[-1].size = 0;
		return r - 1;
	}
	if (r == t->sizes + t->size_count) {
		t->size_count++;
		*r = key;
	}
	return r;
}

static void add_sizes(struct tables *t, const struct list *pools)
{
	struct list *n;

	list_for_each(n, pools) {
		const struct pool *p = list_entry(n, struct pool, node);
		struct size_row *r;

		if (p->owner)
			continue;
		r = size_row(t, p);
		r->buffers += p->total;
		r->used += p->used;
	}
}

static void size_samples(struct tables *t)
{
	for (uint32_t i = 0; i < t->size_count; i++) {
		const struct size_row *r = &t->sizes[i];

		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_label(&t->out, "device", r->device);
		rdmamsg__prometheus_label(&t->out, "direction", r->direction);
		rdmamsg__prometheus_number(&t->out, "size", r->size);
		rdmamsg__prometheus_value(&t->out, r);
	}
}

/* ---- pools of the program --------------------------------------------- */

#define P(name, field, help) \
	M(struct rdmamsg_pool_stats, name, field, help)

static const struct metric pool_metrics[] = {
	P("registered_bytes", bytes, "Registered memory of a pool."),
	P("huge_bytes", bytes_huge, "Part of it on reserved huge pages."),
	P("advised_bytes", bytes_advised, "Part of it with MADV_HUGEPAGE."),
	P("node_bytes", bytes_node, "Part of it on the NUMA node asked for."),
	P("buffers", buffers, "Buffers of all sizes."),
	P("buffers_used", used, "Buffers in use."),
	P("refused_total", refused, "Requests that max_bytes refused."),
	P("messages_received_rendezvous_total", received_rendezvous,
	  "Large messages read into the pool."),
};

static void pool_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->memory->pool_list) {
		const struct rdmamsg_pool *pool =
			list_entry(n, struct rdmamsg_pool, node);
		struct rdmamsg_pool_stats s = { .size = sizeof(s) };

		(void)rdmamsg_pool_get_stats(pool, &s);
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "pool", pool->object);
		rdmamsg__prometheus_value(&t->out, &s);
	}
}

/* ---- shared receive queues -------------------------------------------- */

#define S(name, field, help) \
	M(struct rdmamsg_srq_stats, name, field, help)

static const struct metric srq_metrics[] = {
	S("endpoints", endpoints, "Endpoints that share the queue."),
	S("posted", posted, "Receives at the device."),
	S("promised", promised, "Credits granted and not yet used."),
	S("spare", spare, "Credits that can still be granted."),
	S("pinned_bytes", bytes_pinned, "Buffers of the queue."),
	S("private_bytes", bytes_private, "Structs of the queue."),
	S("ran_empty_total", ran_empty, "Times without a posted receive."),
	S("limit_events_total", limit_events, "Limit events of the device."),
	S("strays_total", strays, "Messages of ended connections."),
	S("refused_total", refused, "Endpoints that had no room."),
	S("comp_vector", comp_vector, "Vector of the completion queues."),
	S("cq_entries", cq_entries, "Entries of the completion queues."),
};

static void srq_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->lanes->srq_list) {
		const struct rdmamsg_srq *srq =
			list_entry(n, struct rdmamsg_srq, node);
		struct rdmamsg_srq_stats s = { .size = sizeof(s) };

		(void)rdmamsg_srq_get_stats(srq, &s);
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "srq", srq->object);
		rdmamsg__prometheus_value(&t->out, &s);
	}
}

/* ---- listeners -------------------------------------------------------- */

#define L(name, field, help) \
	M(struct rdmamsg_listener_stats, name, field, help)

static const struct metric listener_metrics[] = {
	L("requests", requests, "Requests that the program has not answered."),
	L("half_open", half_open, "Accepted peers that have not sent SETUP."),
	L("endpoints", endpoints, "Peers that have sent SETUP."),
	L("accepted_total", accepted, "Requests accepted."),
	L("rejected_requests_total", rejected_requests,
	  "Requests rejected by max_requests."),
	L("rejected_half_open_total", rejected_half_open,
	  "Requests rejected by max_half_open."),
	L("rejected_endpoints_total", rejected_endpoints,
	  "Requests rejected by max_endpoints."),
	L("rejected_source_total", rejected_source,
	  "Requests rejected by max_per_source."),
	L("rejected_memory_total", rejected_memory,
	  "Requests rejected for lack of memory."),
	L("rejected_draining_total", rejected_draining,
	  "Requests rejected while draining."),
	L("slowed_total", slowed, "Requests rejected by slow_ms."),
	L("offences_total", offences, "Wrong keys and protocol errors."),
	L("setup_timeouts_total", setup_timeouts,
	  "Peers that setup_timeout_ms ended."),
	L("listening", listening,
	  "Whether it listens: 1, or 0 while its device is removed."),
	L("removed_total", removed, "Removals of the device."),
	L("members", members, "Listeners that share the port, this one "
	  "included; 0: it is alone."),
	L("unproven_total", unproven,
	  "Peers without the pre-shared key, or with another one."),
};

static void listener_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->sessions->listeners) {
		const struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);
		struct rdmamsg_listener_stats s = { .size = sizeof(s) };

		(void)rdmamsg_listener_get_stats(l, &s);
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "listener", l->object);
		rdmamsg__prometheus_number(&t->out, "port",
					   rdmamsg_listener_port(l));
		rdmamsg__prometheus_value(&t->out, &s);
	}
}

/* ---- groups ----------------------------------------------------------- */

#define G(name, field, help) \
	M(struct rdmamsg_group_stats, name, field, help)

static const struct metric group_metrics[] = {
	G("joins_total", joins, "Joins; more than one after on_lost."),
	G("messages_sent_total", sent_messages, "Messages published."),
	G("sent_bytes_total", sent_bytes, "Payload published."),
	G("datagrams_sent_total", sent_datagrams, "Datagrams sent."),
	G("datagrams_repeated_total", sent_repeated,
	  "Datagrams sent as repairs."),
	G("datagrams_failed_total", sent_failed,
	  "Datagrams that the device refused."),
	G("refused_total", refused, "Calls that returned -EAGAIN."),
	G("requests_total", requests, "NACKs of subscribers."),
	G("requests_dropped_total", requests_dropped,
	  "Requested ranges dropped for lack of room."),
	G("messages_received_total", received_messages, "Messages received."),
	G("received_bytes_total", received_bytes, "Payload received."),
	G("datagrams_received_total", received_datagrams,
	  "Datagrams received."),
	G("datagrams_received_repeated_total", received_repeated,
	  "Datagrams received as repairs."),
	G("gaps_total", gaps, "Calls of on_gap."),
	G("messages_lost_total", lost_messages, "Messages in gaps."),
	G("asked_total", asked, "NACKs sent."),
	G("dropped_own_total", dropped_own, "Own datagrams dropped."),
	G("dropped_double_total", dropped_double,
	  "Datagrams received twice, and dropped."),
	G("dropped_late_total", dropped_late,
	  "Datagrams of a past message, and dropped."),
	G("dropped_malformed_total", dropped_malformed,
	  "Datagrams without a correct frame, and dropped."),
	G("dropped_forged_total", dropped_forged,
	  "Datagrams with the sender of another place, and dropped."),
	G("dropped_large_total", dropped_large,
	  "Datagrams of a message above max_message, and dropped."),
	G("dropped_memory_total", dropped_memory,
	  "Datagrams dropped for lack of memory."),
	G("dropped_senders_total", dropped_senders,
	  "Datagrams dropped by max_senders."),
	G("dropped_key_total", dropped_key,
	  "Datagrams made with no key, or another one, and dropped."),
	G("dropped_unproven_total", dropped_unproven,
	  "Datagrams of senders that may be replays, and dropped."),
	G("datagrams_sent_parity_total", sent_parity,
	  "Datagrams sent to make others from."),
	G("datagrams_recovered_total", recovered,
	  "Datagrams that were lost, and made from others."),
	G("senders", senders, "Senders that are followed."),
};

static void group_list(struct tables *t, const struct list *groups)
{
	struct list *n;

	list_for_each(n, groups) {
		const struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);
		struct rdmamsg_group_stats s = { .size = sizeof(s) };
		char address[INET6_ADDRSTRLEN];

		(void)rdmamsg_group_get_stats(g, &s);
		rdmamsg__group_text(g, address);
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "group", g->object);
		rdmamsg__prometheus_label(&t->out, "address", address);
		rdmamsg__prometheus_value(&t->out, &s);
	}
}

static void group_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->groups->carriers)
		group_list(t, &list_entry(n, struct carrier, node)->groups);
	group_list(t, &t->ctx->groups->homeless);
}

/* ---- targets and senders ---------------------------------------------- */

struct target_row {
	uint64_t connections, sessions, messages, key_violations, armed;
};

#define T(name, field, help) \
	M(struct target_row, name, field, help)

static const struct metric target_metrics[] = {
	T("connections", connections, "Connections and sessions of senders."),
	T("sessions", sessions, "Sessions, which have no connection."),
	T("messages_received_total", messages, "Messages received."),
	T("key_violations_total", key_violations, "Uses of another access key."),
	T("armed", armed, "Set if the next violation is told."),
};

static void target_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->dcs->targets) {
		const struct rdmamsg_dc_target *target =
			list_entry(n, struct rdmamsg_dc_target, node);
		struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };
		struct target_row row;

		(void)rdmamsg_dc_target_query(target, &a);
		row = (struct target_row){
			a.connections, a.sessions, a.messages,
			a.key_violations, a.armed,
		};
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "target", target->object);
		rdmamsg__prometheus_number(&t->out, "port",
					   rdmamsg_dc_target_port(target));
		rdmamsg__prometheus_value(&t->out, &row);
	}
}

struct sender_row {
	uint64_t addresses, connections, sessions, queued, queued_bytes;
	uint64_t connects, evictions;
};

#define A(name, field, help) \
	M(struct sender_row, name, field, help)

static const struct metric sender_metrics[] = {
	A("addresses", addresses, "Addresses of targets."),
	A("connections", connections, "Connections, and initiators in use."),
	A("sessions", sessions, "Sessions, which have no connection."),
	A("queued", queued, "Messages that wait."),
	A("queued_bytes", queued_bytes, "Copies of messages that wait."),
	A("connects_total", connects, "Connections begun."),
	A("evictions_total", evictions,
	  "Connections closed, and initiators taken, for another address."),
};

static void sender_samples(struct tables *t)
{
	struct list *n;

	list_for_each(n, &t->ctx->dcs->senders) {
		const struct rdmamsg_dc_sender *sender =
			list_entry(n, struct rdmamsg_dc_sender, node);
		struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };
		struct sender_row row;

		(void)rdmamsg_dc_sender_query(sender, &a);
		row = (struct sender_row){
			a.addresses, a.connections, a.sessions, a.queued,
			a.queued_bytes, a.connects, a.evictions,
		};
		rdmamsg__prometheus_sample(&t->out);
		rdmamsg__prometheus_number(&t->out, "sender", sender->object);
		rdmamsg__prometheus_value(&t->out, &row);
	}
}

/* ---- all of it -------------------------------------------------------- */

#define KIND(prefix, name) \
	{ prefix, name##_metrics, \
	  sizeof(name##_metrics) / sizeof(name##_metrics[0]), name##_samples }

static const struct kind kinds[] = {
	KIND("rdmamsg_build_", build),
	KIND("rdmamsg_", context),
	KIND("rdmamsg_", cause),
	KIND("rdmamsg_", who),
	KIND("rdmamsg_memory_", memory),
	KIND("rdmamsg_device_", device),
	KIND("rdmamsg_", size),
	KIND("rdmamsg_pool_", pool),
	KIND("rdmamsg_srq_", srq),
	KIND("rdmamsg_listener_", listener),
	KIND("rdmamsg_group_", group),
	KIND("rdmamsg_dc_target_", target),
	KIND("rdmamsg_dc_sender_", sender),
};

static void fill(struct tables *t)
{
	struct list *n;

	(void)rdmamsg_get_stats(t->ctx, &t->counters);
	list_for_each(n, &t->ctx->devices->devs) {
		const struct dev *dev = list_entry(n, struct dev, node);

		if (!dev->device)
			continue;
		add_device(t, dev);
		add_sizes(t, &dev->recv_pools);
		add_sizes(t, &dev->send_pools);
	}
}

int rdmamsg_stats_text(const struct rdmamsg *ctx, char *buf, size_t size)
{
	struct tables t = {
		.ctx = ctx, .counters = { .size = sizeof(t.counters) },
		.out = { .buf = size ? buf : NULL, .size = size },
	};
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (size && !buf)
		return rdmamsg__fail(-EINVAL, "rdmamsg_stats_text: buf is NULL");
	t.out.context = ctx->number;
	fill(&t);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < kinds[k].count; i++) {
			rdmamsg__prometheus_metric(&t.out, kinds[k].prefix,
						   &kinds[k].metrics[i]);
			kinds[k].samples(&t);
		}
	if (t.out.len > INT_MAX)
		return rdmamsg__fail(-EOVERFLOW, "rdmamsg_stats_text: the text "
				     "is longer than 2 GB");
	return (int)t.out.len;
}
