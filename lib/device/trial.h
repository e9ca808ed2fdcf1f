/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trying the abilities of a device. Each ability has a function that tries it
 * and destroys what it has created. Such a function returns 0 and fills in the
 * answer, or returns -errno after rdmamsg__fail(). The error makes the ability
 * absent, and its text is the reason.
 */
#ifndef RDMAMSG_LIB_TRIAL_H
#define RDMAMSG_LIB_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#include "base/masked.h"
#include "device/device.h"
#include "device/masked.h"

#define TRIAL_MEM	8192	/* bytes, registered for all uses */
#define TRIAL_RECV	4096	/* offset of received messages */

/* Two queue pairs of type RC, connected to each other. */
struct trial_pair {
	struct ibv_qp *qp[2];		/* both NULL, or both connected */
	bool raw;			/* the first takes raw requests */
	uint32_t max_inline;		/* of the first */
	uint32_t round;			/* in wr_id: which pair it was */
	bool broken;			/* a request has failed */
	/* why there is no pair: -errno and text */
	int error;
	char text[200];
	/* the error tells nothing about the device's abilities */
	bool no_path;
};

struct trial {
	struct rdmamsg_device d;	/* open, of nobody else */
	struct ibv_device_attr_ex ex;	/* 0 if the device does not tell */
	struct ibv_cq *cq;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct trial_pair pair;
	uint64_t until;			/* ms: of all requests; 0: no limit */
};

typedef int trial_fn(struct trial *t, struct rdmamsg_device_cap_attr *ret);

/* caps.c */
/* Takes a device that is open, and closes it if an error occurs. */
int rdmamsg__trial_open(const struct verbs_api *v, struct ibv_context *verbs,
			struct trial *ret);
void rdmamsg__trial_close(struct trial *t);

/* caps.c: fill in an answer. All return 0. */
int rdmamsg__cap_say(struct rdmamsg_device_cap_attr *ret,
		     enum rdmamsg_cap_how how, uint64_t value, const char *fmt,
		     ...) __attribute__((format(printf, 4, 5)));
/* The device reports the ability, but it could not be tried. */
int rdmamsg__cap_untried(struct rdmamsg_device_cap_attr *ret,
			 enum rdmamsg_cap_how how, uint64_t value,
			 const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Sets the text "what: error". Returns err. */
int rdmamsg__refused(int err, const char *what);

/* trial_pair.c */
/*
 * Posts one request on a queue pair, and waits for its completion. Unless 'to'
 * is NULL, first posts a receive there, and waits for that completion, too.
 * *ret_wc is the receive's completion, else the request's. -EREMOTEIO: a
 * request failed; -EHOSTUNREACH, -ETIMEDOUT: the device does not deliver.
 */
int rdmamsg__trial_send(struct trial *t, struct ibv_qp *from, struct ibv_qp *to,
			struct ibv_send_wr *wr, struct ibv_wc *ret_wc);
/*
 * Returns 0 if the pair is connected. A pair that failed is made anew. An error
 * that is not the fault of one request stays.
 */
int rdmamsg__pair_get(struct trial *t);
void rdmamsg__pair_drop(struct trial *t);
/*
 * The same from queue pair 'side' of the pair, to the other if 'receives'.
 * After a failure the pair is broken.
 */
int rdmamsg__pair_do(struct trial *t, int side, struct ibv_send_wr *wr,
		     bool receives, struct ibv_wc *ret_wc);
/* The same for a masked atomic of queue pair 0. */
int rdmamsg__pair_masked(struct trial *t, struct ibv_send_wr *wr,
			 const struct masked *m);

/* trial_wire.c: over the pair */
/* Returns 0 if atomics of 8 bytes work. */
int rdmamsg__trial_atomics(struct trial *t);
trial_fn rdmamsg__try_inline, rdmamsg__try_immediate, rdmamsg__try_write,
	 rdmamsg__try_read, rdmamsg__try_layout, rdmamsg__try_atomics;
/* trial_masked.c: over the pair */
trial_fn rdmamsg__try_masked;
/* trial_dc.c */
trial_fn rdmamsg__try_dc;
/* trial_chains.c */
trial_fn rdmamsg__try_chains;
/* trial_window.c: over the pair */
trial_fn rdmamsg__try_windows, rdmamsg__try_invalidate;
/* trial_apm.c: over the pair */
trial_fn rdmamsg__try_apm;
/* trial_datagram.c */
trial_fn rdmamsg__try_ud, rdmamsg__try_multicast, rdmamsg__try_block_loopback;
/* trial_objects.c */
trial_fn rdmamsg__try_srq, rdmamsg__try_uc, rdmamsg__try_raw_packet,
	 rdmamsg__try_xrc, rdmamsg__try_send_ops, rdmamsg__try_cq_resize,
	 rdmamsg__try_rss, rdmamsg__try_tso;
/* trial_memory.c */
trial_fn rdmamsg__try_odp, rdmamsg__try_dmabuf, rdmamsg__try_huge_pages,
	 rdmamsg__try_fork;

#endif
