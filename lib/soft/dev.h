/* SPDX-License-Identifier: BSD-2-Clause */
/* The device: its state in this process, its node, its thread. */
#ifndef SOFT_DEV_H
#define SOFT_DEV_H

struct soft_dev;
struct soft_qp;

struct soft_timer {
	struct list node;		/* dev->timers, by time */
	uint64_t at;			/* ns, CLOCK_MONOTONIC */
	void (*fn)(struct soft_dev *dev, struct soft_timer *t);	/* L */
};

/* A descriptor in the thread's epoll set. */
struct soft_watch {
	int fd;
	bool rests;			/* soft_watch_rest() */
	void (*fn)(struct soft_dev *dev, struct soft_watch *w, uint32_t events);
};

struct soft_gid {
	union ibv_gid gid;		/* 0: the place is empty */
	uint32_t ifindex;
};

struct soft_dev {
	pthread_mutex_t lock;
	int refs;			/* under the registry's lock */
	struct list wires;
	struct soft_wire *to[SOFT_NODES]; /* for sending, by node */
	struct soft_qp **qps;		/* by index */
	uint32_t qp_hint, qp_count;
	struct soft_key *keys;
	uint32_t key_room, key_hint;
	struct soft_srq **srqs;		/* by number */
	uint32_t srq_room, srq_hint;
	struct list domains;		/* XRC */
	struct list pending;		/* qps with something to push */
	struct list contexts;
	bool bells_due;			/* a wire is dirty, or */
	bool overrun;			/* a CQ is, and its queue pairs work */
	bool covered;			/* the program polls */
	bool heeds;			/* every acknowledgement: soft_heed() */
	uint32_t polls;			/* counted to know that */
	uint32_t idle_polls;		/* since a queue was last armed */
	struct list cm_ids, cm_files;
	struct list cm_mcs;		/* joined groups */
	uint32_t cm_mc_last;
	struct list groups[SOFT_GROUP_BUCKETS];
	bool group_used[SOFT_GROUPS];
	struct soft_cm_id **cm_table;
	uint32_t cm_room, cm_hint;

	/* node and thread */
	uint32_t node;
	uid_t uid;			/* whose the fabric is */
	uint64_t guid;			/* its ports count from it */
	uint64_t device_guid;		/* the same in all of its fabric */
	char fabric_name[64];
	struct soft_fabric *fabric;
	int fabric_fd;
	struct soft_faults faults;	/* our copy, checked */
	bool faulty;			/* any of them acts */
	bool absent;			/* removed, not yet added again */
	uint32_t refuse[SOFT_OBJECTS];	/* the how many-th from now; 0: none */
	struct soft_watch listener;
	struct list handshakes;		/* accepted, not yet a wire */
	int epfd, bell, timerfd;
	struct soft_watch bell_watch, timer_watch;
	struct soft_watch **watch;	/* by descriptor */
	int watch_room;
	struct list timers;
	uint64_t timer_armed;
	struct soft_timer rest;
	pthread_t thread;
	bool stop;

	/* what a user can choose */
	int ports;
	uint8_t link_layer;
	uint16_t cm_port_last;
	struct soft_gid gids[SOFT_GIDS]; /* Ethernet: of all ports */
	bool no_vm;
};

extern const char soft_device_name[];	/* "soft0" */

/* The process's device, opened by its first user, closed by its last. */
int soft_dev_get(struct soft_dev **ret);
void soft_dev_put(struct soft_dev *dev);
bool soft_dev_absent(void);		/* removed by a fault, soft_ctl.h */

static inline void soft_lock(struct soft_dev *dev)
{
	(void)pthread_mutex_lock(&dev->lock);
}

/* Ends a section: rings the doorbells that are due. */
void soft_unlock(struct soft_dev *dev);

int soft_node_open(struct soft_dev *dev);
/* NULL: what the environment says. */
int soft_fabric_name(struct soft_dev *dev, const char *name);
void soft_node_close(struct soft_dev *dev);
enum soft_port soft_port_state(const struct soft_dev *dev, int port);

/*
 * A listening or connected socket under the abstract name fmt of this user and
 * fabric, or -errno. Without a backlog it has the name and does not listen yet.
 */
int soft_name_listen(const struct soft_dev *dev, int backlog, const char *fmt,
		     ...) __attribute__((format(printf, 3, 4)));
int soft_name_connect(const struct soft_dev *dev, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Whether another user listens there. */
bool soft_name_foreign(const struct soft_dev *dev, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool soft_same_user(int fd);

/* addr.c. RDMAMSG_SOFT_PORTS and _LINK, or -EINVAL. */
int soft_addr_options(struct soft_dev *dev);
bool soft_is_ib(const struct soft_dev *dev);
uint16_t soft_lid(uint32_t node, int port);
bool soft_lid_port(uint16_t lid, uint32_t *node, uint8_t *port);
void soft_ib_gid(const struct soft_dev *dev, uint32_t node, int port,
		 uint8_t gid[16]);
bool soft_ib_gid_port(const struct soft_dev *dev, const uint8_t gid[16],
		      uint32_t *node, uint8_t *port);
bool soft_gid_v4(const uint8_t gid[16]);	/* an IPv4 address, mapped */
bool soft_gid_mcast(const uint8_t gid[16]);
/* cm_addr.c: whether the address that it is, is one of this host. */
bool soft_gid_local(const uint8_t gid[16]);

/* gid.c */
int soft_gids(const struct soft_dev *dev);	/* places in a port's table */
void soft_gids_read(struct soft_dev *dev);	/* the host's, anew. L */
/* 0, EINVAL without such a place, ENODATA when it is empty. L */
int soft_port_gid(const struct soft_dev *dev, uint32_t port, uint32_t index,
		  struct soft_gid *ret);
int soft_gid_index(const struct soft_dev *dev, uint32_t port,
		   const uint8_t gid[16]);	/* or -1. L */

/* ---- thread.c --------------------------------------------------------- */

int soft_thread_start(struct soft_dev *dev);
void soft_thread_stop(struct soft_dev *dev);
int soft_watch_add(struct soft_dev *dev, struct soft_watch *w, int fd);	/* L */
void soft_watch_mod(struct soft_dev *dev, struct soft_watch *w,
		    uint32_t events);
void soft_watch_del(struct soft_dev *dev, struct soft_watch *w);	/* L */
/*
 * accept() has failed: what calls waits there until there are descriptors, and
 * is not looked at all the time. L
 */
void soft_watch_rest(struct soft_dev *dev, struct soft_watch *w);
uint64_t soft_now(void);		/* ns */
void soft_timer_set(struct soft_dev *dev, struct soft_timer *t, uint64_t ns);
void soft_timer_stop(struct soft_timer *t);
/* The program polls: it does the thread's work from here on. L */
void soft_cover(struct soft_dev *dev);
/* It is about to sleep: doorbells again. L */
void soft_uncover(struct soft_dev *dev);
/*
 * Something waits for an acknowledgement that was not asked for with the
 * request. It is rare, and true for this device from here on. L
 */
void soft_heed(struct soft_dev *dev);
/* What a wire's reader asks for when it sleeps; see struct soft_ring_shm. */
uint32_t soft_sleeps(const struct soft_dev *dev);

#endif
