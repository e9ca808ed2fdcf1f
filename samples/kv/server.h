/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of kv-server. All run in the thread of the libuv loop. */
#ifndef KV_SERVER_H
#define KV_SERVER_H

#include <rdmamsg/group.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/uv.h>

#include "log.h"
#include "session.h"
#include "store.h"

struct tcp_client;

struct server {
	uv_loop_t loop;
	uv_signal_t interrupt, terminate;
	uv_timer_t tick;
	struct store *store;
	uint64_t saved[KV_COUNTERS];	/* by_atomics in the log */
	struct log log;
	bool replaying;
	bool stopping;			/* accepts no changes any more */
	bool alone;			/* all clients over rdmamsg have gone */
	int status;			/* of the process */

	/* tcp.c */
	uv_tcp_t tcp;
	struct tcp_client *clients;

	/* rdma.c */
	struct rdmamsg *ctx;
	struct rdmamsg_uv *uv;
	struct rdmamsg_listener *listener;
	struct rdmamsg_region *table, *counters;

	/* publish.c */
	struct rdmamsg_group *group;	/* NULL: changes are not published */
	const char *group_address;
};

/* serve.c: the requests, whichever way they have come */
void serve_open(struct server *s, const char *log);
void serve_item(struct server *s, struct session *from,
		const struct kv_item *item);
/* Puts into the log what clients have added by atomic operations. */
void serve_save(struct server *s);

/* compact.c: before the loop runs, writes a log anew that is mostly history */
void compact(struct server *s);

/* tcp.c */
unsigned int tcp_open(struct server *s, const char *addr, const char *port);
void tcp_close(struct server *s);

/* rdma.c */
unsigned int rdma_open(struct server *s, const char *addr, const char *port);
/* Closes the connections; server_alone() follows. */
void rdma_close(struct server *s);

/* main.c */
void server_alone(struct server *s, unsigned int failed);
/* The next step of the end, when the log is idle. */
void server_stop(struct server *s);

/* publish.c */
void publish_open(struct server *s, const char *group, const char *addr);
void publish_change(struct server *s, const struct kv_item *item, uint64_t seq);
/* Tells followers how many changes there are, lest the last one is lost. */
void publish_sequence(struct server *s);

#endif
