/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration. All L. */
#ifndef SOFT_ENGINE_APM_H
#define SOFT_ENGINE_APM_H

#include <stdbool.h>

#include <infiniband/verbs.h>

struct soft_dev;
struct soft_faults;
struct soft_qp;
struct soft_rec;

/* ibv_modify_qp() sets the migration state. */
void soft_apm_set(struct soft_dev *dev, struct soft_qp *qp,
		  enum ibv_mig_state state);
/* Called when the retries are used up. Returns true after migrating. */
bool soft_apm_retry(struct soft_dev *dev, struct soft_qp *qp);
/*
 * Returns true if the port that the record was sent to is up. Follows a peer
 * that has migrated.
 */
bool soft_apm_arrives(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec);
/* The state of ports has changed from *were. */
void soft_apm_ports(struct soft_dev *dev, const struct soft_faults *were);

#endif
