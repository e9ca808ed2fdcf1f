/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dynamically connected transport (DC), with the rules of mlx5 devices. An
 * initiator (DCI) is a queue pair that only sends, each request to the target
 * that its address names. A target (DCT) only receives, from any number of
 * initiators. It keeps a responder (DCR) for each of them. A responder is the
 * receiving half of a queue pair, and has the number of its target.
 */
#ifndef SOFT_VERBS_DC_H
#define SOFT_VERBS_DC_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/verbs/qp.h"

struct soft_av;
struct soft_streams;

/* The initiator's part of a queue pair. */
struct soft_dci {
	struct soft_streams *streams;	/* NULL: an error ends the queue pair */
	uint64_t *keys;			/* of the requests in the queue */
	struct soft_av *avs;		/* of raw requests: raw_dc.c */
	/* the target in use is attr.dest_qp_num, with this key */
	bool aimed;			/* there is one */
	bool connected;			/* it has been told so */
	uint64_t key;
	uint32_t session;		/* no two sessions are equal */
	uint32_t first;			/* PSN that begins the session */
};

#define SOFT_DCRS	64		/* buckets */

/* The target's part of a queue pair. */
struct soft_dct {
	struct list node;		/* dev->targets */
	uint64_t key;
	uint32_t violations;		/* wrong keys */
	bool armed;			/* tell the next violation */
	struct list dcrs[SOFT_DCRS];	/* by initiator */
};

struct soft_dcr {
	struct soft_qp qp;
	struct list node;		/* in dcrs[] */
	uint32_t session;		/* of the initiator */
};

/* Either creates an initiator or, with a key, a target. */
struct ibv_qp *soft_create_dc(struct ibv_context *verbs,
			      struct ibv_qp_init_attr_ex *attr,
			      const uint64_t *target_key);
/* raw_dc.c. Frees the addresses of raw requests. */
void soft_avs_free(struct soft_qp *qp);
/* For qp.c. Frees the parts of DC. */
void soft_dc_free(struct soft_qp *qp);
/* Returns true if the transition exists and the mask is right. */
bool soft_dc_step_ok(const struct soft_qp *qp, enum ibv_qp_state to, int mask);
/* Returns true if ibv_query_qp() may read these attributes. */
bool soft_dc_query_ok(const struct soft_qp *qp, int mask);
/* A target becomes ready to receive. Returns 0 or an errno. L */
int soft_dct_ready(struct soft_dev *dev, struct soft_qp *qp);

/* Returns a new responder in the list of its target, or NULL. L */
struct soft_dcr *soft_dcr_new(const struct soft_qp *target, uint32_t dci);
struct soft_dcr *soft_dcr_find(const struct soft_dct *dct, uint32_t dci);
void soft_dcr_free(struct soft_dev *dev, struct soft_dcr *r);

#endif
