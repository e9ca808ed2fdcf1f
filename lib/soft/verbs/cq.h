/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and channels. */
#ifndef SOFT_VERBS_CQ_H
#define SOFT_VERBS_CQ_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"

struct soft_dev;

struct soft_channel {
	struct ibv_comp_channel ibv;
	struct list ready;		/* queues with an unread event */
	bool quiet;			/* the program polls: no events */
	bool missed;			/* one was due meanwhile */
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;	/* extended polling */
	};
	struct list node;		/* dev->cqs */
	struct list bucket_node;	/* dev->cq_buckets */
	uint32_t num;
	struct ibv_wc *ring;
	uint64_t *times;		/* soft_now() of each entry, or NULL */
	uint32_t mask, room, head, tail;
	uint32_t solicited;		/* index behind the last such entry */
	enum soft_arm armed;
	bool told;			/* an event covers all entries */
	bool overrun, ignore_overrun;
	bool single;			/* extended: one thread polls */
	pthread_mutex_t poll_lock;	/* if not: held while polling */
	struct ibv_wc cur;		/* extended: the current entry */
	uint64_t cur_time;
	uint32_t produced;		/* entries since its creation */
	struct list waiters;		/* queue pairs: cross.h */
	int users;			/* queue pairs */
	struct list ready_node;
	uint32_t events;		/* raised and not yet read */
	uint32_t fetched;		/* read; each needs an ack */
	uint32_t async_fetched;
};

static inline struct soft_cq *soft_cq(struct ibv_cq *cq)
{
	return (struct soft_cq *)cq;
}

void soft_cq_add(struct soft_dev *dev, struct soft_cq *cq,
		 const struct ibv_wc *wc, bool solicited);	/* L */
/* Raises an event that the channel has missed, if it is still due. L */
void soft_cq_catch_up(struct soft_cq *cq, const struct soft_channel *ch);
/* attend.c: the channel is being destroyed. L */
void soft_attend_forget(struct soft_dev *dev, const struct soft_channel *ch);
/* Fails the queue pairs of overrun completion queues. L */
void soft_cq_overruns(struct soft_dev *dev);
/* Removes the completions of a queue pair. L */
void soft_cq_clean(struct soft_cq *cq, uint32_t qpn);

#endif
