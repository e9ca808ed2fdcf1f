/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of tests: a worker runs a context, and sends back what it gets. */
#ifndef RDMAMSG_TESTS_INTEGRATION_THREAD_H
#define RDMAMSG_TESTS_INTEGRATION_THREAD_H

#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

void start_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg);

struct worker {
	pthread_t thread;
	struct rdmamsg *ctx;
	struct rdmamsg_listener *listener;
	char port[8];
	struct rdmamsg_ep_handlers on;
	struct rdmamsg_ep_options opts;
	atomic_uint closed;
	unsigned int connected, echoed;	/* valid after worker_end() */
};

void worker_open(struct worker *w, const struct rdmamsg_options *opts);
void worker_listen(struct worker *w);
void worker_start(struct worker *w);
/*
 * Waits until so many endpoints of the worker have closed: on iWARP, the last
 * word of a client that has closed may be on its way.
 */
void worker_wait_closed(struct worker *w, unsigned int count);
void worker_end(struct worker *w);
/* Records a failure if the caller is not the worker's thread. For callbacks. */
void worker_check(const struct worker *w);

/* The client of a pair whose peer is a worker. */
void client_connect(struct end *c, const char *port);
void client_echo(struct end *c, enum how how, size_t len, uint32_t tag);
void client_close(struct end *c);

#endif
