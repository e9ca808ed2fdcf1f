/* SPDX-License-Identifier: BSD-2-Clause */
/* The device of this process: its lock and its state. */
#ifndef SOFT_FABRIC_DEV_H
#define SOFT_FABRIC_DEV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/handles.h"
#include "base/list.h"
#include "base/masked.h"
#include "soft/fabric/fault.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/key.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/path.h"
#include "soft/fabric/thread.h"

struct soft_channel;
struct soft_cm_id;
struct soft_fabric;
struct soft_net;
struct soft_qp;
struct soft_srq;
struct soft_wire;

struct soft_dev {
	pthread_mutex_t lock;
	int refs;			/* protected by the registry's lock */
	struct list wires;
	struct soft_wire *to[SOFT_NODES]; /* wire to send on, by node */
	bool bells_due;			/* soft_unlock() has work */
	bool covered;			/* the program polls: no doorbells */
	bool heeds;			/* wants a doorbell for every ACK */
	bool attended;			/* the program waits for dev->near */
	const struct soft_channel *attendant; /* which may, or NULL */
	bool copied;			/* a large record, since it waited */
	uint32_t polls;			/* counts polls of unarmed queues */
	uint32_t polls_seen;		/* of these, by the thread */
	uint32_t idle_polls;		/* those since a queue was armed */
	uint32_t all_polls;		/* counts polls of any queue */
	uint32_t rounds, rounds_seen;	/* of the thread; by soft_stand_in() */

	/* net/ */
	struct soft_net *net;		/* NULL: no packets */
	struct list fars;		/* queue pairs with a far peer */
	bool far;			/* other hosts may be reached */
	bool far_asked;			/* and the program asks for it */
	int far_error;			/* of the socket; 0 or -errno */
	bool all_far;			/* this host as if it were another */
	uint32_t mad_psn;		/* of the next message to one */
	struct soft_packets packets;
	struct list seeks;		/* of cm/seek.c */
	uint32_t seeking;		/* their number */
	struct soft_timer port_free;	/* of cm/port.c */

	/* verbs/ */
	struct list contexts;
	struct soft_keys keys;
	struct list pds, cqs;
	struct list cq_buckets[SOFT_CQ_BUCKETS]; /* the same, by number */
	uint32_t mrs;			/* that exist; windows not counted */
	uint32_t object_last;		/* number of a domain, queue, context */
	struct soft_qp **qps;		/* by index */
	uint32_t qp_hint, qp_count;
	struct handles srqs;		/* struct soft_srq, by number */
	struct list domains;		/* XRC */
	struct list targets;		/* DC, ready to receive */
	uint32_t dc_sessions;		/* number of the last one */
	struct list groups[SOFT_GROUP_BUCKETS];
	bool group_used[SOFT_GROUPS];
	bool join_used[SOFT_GROUPS];
	struct list wqs;		/* struct soft_wq */
	struct list flows;		/* struct soft_flow, sorted */
	bool overrun;			/* a completion queue has overrun */
	struct soft_rnr rnr;		/* sum over all queue pairs */

	/* engine/ */
	struct list pending;		/* queue pairs that have to push */
	bool woken;			/* some of them by a completion */
	struct list lingering;		/* iWARP: linger.h */

	/* cm/ */
	struct list cm_ids, cm_files;
	struct list cm_mcs;		/* joined groups */
	uint32_t cm_mc_last;
	struct handles cm_table;	/* struct soft_cm_id, by handle >> 8 */
	uint16_t cm_port_last;

	/* node */
	uint32_t node;
	uid_t uid;			/* owner of the fabric */
	uint64_t guid;			/* of this node; ports follow */
	uint64_t device_guid;		/* the same in the whole fabric */
	char fabric_name[64];
	struct soft_fabric *fabric;
	int fabric_fd;
	_Atomic uint64_t (*count)[SOFT_COUNTERS]; /* this node's, by port */
	struct soft_faults faults;	/* clamped copy of the fabric's */
	bool faulty;			/* any fault is set */
	bool absent;			/* removed, and not added again yet */
	uint32_t refuse[SOFT_OBJECTS];	/* creations until a refusal; 0: none */
	struct list handshakes;		/* accepted, HELLO not read yet */

	/* thread */
	struct soft_watch listener;
	struct epoll_event event;	/* of the thread */
	int epfd, bell, timerfd;
	int near;			/* doorbell of the program itself */
	int spare;			/* for soft_spare_accept(), or -1 */
	int probe;			/* for soft_touch(), or -1 */
	struct soft_watch bell_watch, timer_watch;
	struct soft_watch **watch;	/* by descriptor */
	int watch_room;
	/* list i: delays of 2^i to 2^(i+1)-1 ns, sorted by 'at' */
	struct list timers[SOFT_TIMER_LISTS];
	uint64_t timer_armed;
	struct soft_timer rest;
	pthread_t thread;
	bool stop;

	/* options */
	int ports;
	uint32_t part;			/* vendor_part_id */
	uint8_t link_layer;
	bool iwarp;			/* else InfiniBand or RoCE */
	uint32_t order;			/* seed of engine/order.h */
	struct soft_gid gids[SOFT_GIDS]; /* RoCE: one table for all ports */
	bool no_vm;
	struct masked_caps masked;
	bool no_layouts;
	bool no_windows;		/* memory windows */
	bool no_resizing;		/* of queues */
	uint32_t patience;		/* ms until a listener must be there */
};

/* The first caller opens the device. The last soft_dev_put() closes it. */
int soft_dev_get(struct soft_dev **ret);
void soft_dev_put(struct soft_dev *dev);
/* Returns true if rdmamsg-soft-ctl(1) has removed the device. */
bool soft_dev_absent(void);
/*
 * Returns 0, or -errno if the device leads to other hosts, and has no socket
 * for that.
 */
int soft_dev_far_error(void);

static inline void soft_lock(struct soft_dev *dev)
{
	(void)pthread_mutex_lock(&dev->lock);
}

/* Rings the doorbells that are due, then unlocks. */
void soft_unlock(struct soft_dev *dev);

#endif
