/* SPDX-License-Identifier: BSD-2-Clause */
/* Types of queue pairs, and the create flags of each. */
#ifndef RDMAMSG_LIB_CREATE_FLAGS_H
#define RDMAMSG_LIB_CREATE_FLAGS_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* The bit of a type in a set of types. */
#define QP_TYPE(type)	(1u << (type))
#define QP_CONNECTED	(QP_TYPE(IBV_QPT_RC) | QP_TYPE(IBV_QPT_UC) | \
			 QP_TYPE(IBV_QPT_XRC_SEND) | QP_TYPE(IBV_QPT_XRC_RECV))
#define QP_RECEIVES	(QP_TYPE(IBV_QPT_RC) | QP_TYPE(IBV_QPT_UC) | \
			 QP_TYPE(IBV_QPT_UD) | QP_TYPE(IBV_QPT_RAW_PACKET))
#define QP_TYPES	(QP_CONNECTED | QP_TYPE(IBV_QPT_UD) | \
			 QP_TYPE(IBV_QPT_RAW_PACKET))
#define QP_RELIABLE	(QP_TYPE(IBV_QPT_RC) | QP_TYPE(IBV_QPT_XRC_SEND))

const char *rdmamsg__qp_type_name(unsigned int type);
/* If a is NULL, the device is not known yet. -EINVAL, -EOPNOTSUPP */
int rdmamsg__create_flags_check(uint32_t flags, unsigned int type,
				const struct ibv_device_attr_ex *a,
				const char *device);

#endif
