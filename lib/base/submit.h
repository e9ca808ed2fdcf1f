/* SPDX-License-Identifier: BSD-2-Clause */
/* Work from other threads. */
#ifndef RDMAMSG_LIB_SUBMIT_H
#define RDMAMSG_LIB_SUBMIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct loop;
struct rdmamsg;

struct submit_cell {
	_Atomic uint32_t turn;
	void (*fn)(struct rdmamsg *ctx, void *arg);
	void *arg;
};

struct submit {
	struct submit_cell *cells;
	uint32_t mask;
	_Atomic uint32_t tail;
	uint32_t head;
	_Atomic bool kicked;
	_Atomic pthread_t reader;	/* the last one, at first the opener */
	int own_ms;			/* how long it may wait for another */
	pthread_mutex_t lock;		/* for writers that wait */
	pthread_cond_t room;
	_Atomic uint32_t waiting;
};

/* A message from another part of the library. The sender allocates it. */
struct mail {
	struct list node;
	void (*fn)(struct rdmamsg *ctx, struct mail *mail);
};

int rdmamsg__submit_init(struct submit *s, uint32_t depth);
void rdmamsg__submit_fini(struct submit *s);
/* Runs mail, then submissions. Returns the number of events. */
int rdmamsg__submit_run(struct loop *loop);
/*
 * A submission has two steps: reserve a cell, -EAGAIN if none is free, and fill
 * the cell. Later submissions wait until the cell is filled.
 */
int rdmamsg__submit_reserve(struct loop *loop, uint32_t *ret_ticket);
/*
 * Waits until a cell is free: for timeout_ms, or without a limit if it is below
 * 0. -ETIMEDOUT. -EDEADLK: the caller is in a callback of the context, or it is
 * the reader, and no other thread has become the reader for own_ms.
 */
int rdmamsg__submit_wait(struct loop *loop, int timeout_ms,
			 uint32_t *ret_ticket);
void rdmamsg__submit_fill(struct loop *loop, uint32_t ticket,
			  void (*fn)(struct rdmamsg *ctx, void *arg),
			  void *arg);
void rdmamsg__mail_post(struct loop *loop, struct mail *mail);

#endif
