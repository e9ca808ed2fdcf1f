/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * <rdma/rdma_cma.h> and <rdma/rdma_user_cm.h> define some of the same names
 * with the same values. This header includes both, and renames the names of the
 * second.
 */
#ifndef SOFT_CM_UCM_ABI_H
#define SOFT_CM_UCM_ABI_H

#include <stdint.h>

#include <rdma/rdma_cma.h>

#define RDMA_PS_IPOIB				SOFT_UCM_PS_IPOIB
#define RDMA_PS_IB				SOFT_UCM_PS_IB
#define RDMA_PS_TCP				SOFT_UCM_PS_TCP
#define RDMA_PS_UDP				SOFT_UCM_PS_UDP
#define RDMA_MC_JOIN_FLAG_FULLMEMBER		SOFT_UCM_JOIN_FULL
#define RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER	SOFT_UCM_JOIN_SENDONLY
#define RDMA_MC_JOIN_FLAG_RESERVED		SOFT_UCM_JOIN_RESERVED
#define RDMA_OPTION_ID				SOFT_UCM_OPTION_ID
#define RDMA_OPTION_IB				SOFT_UCM_OPTION_IB
#define RDMA_OPTION_ID_TOS			SOFT_UCM_OPTION_ID_TOS
#define RDMA_OPTION_ID_REUSEADDR		SOFT_UCM_OPTION_ID_REUSEADDR
#define RDMA_OPTION_ID_AFONLY			SOFT_UCM_OPTION_ID_AFONLY
#define RDMA_OPTION_ID_ACK_TIMEOUT		SOFT_UCM_OPTION_ID_ACK_TIMEOUT
#define RDMA_OPTION_IB_PATH			SOFT_UCM_OPTION_IB_PATH
#include <rdma/rdma_user_cm.h>
#undef RDMA_PS_IPOIB
#undef RDMA_PS_IB
#undef RDMA_PS_TCP
#undef RDMA_PS_UDP
#undef RDMA_MC_JOIN_FLAG_FULLMEMBER
#undef RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
#undef RDMA_MC_JOIN_FLAG_RESERVED
#undef RDMA_OPTION_ID
#undef RDMA_OPTION_IB
#undef RDMA_OPTION_ID_TOS
#undef RDMA_OPTION_ID_REUSEADDR
#undef RDMA_OPTION_ID_AFONLY
#undef RDMA_OPTION_ID_ACK_TIMEOUT
#undef RDMA_OPTION_IB_PATH

/* ---- since Linux 6.16, so that the header may lack it -------------------- */

#define SOFT_UCM_CMD_WRITE_CM_EVENT	24
#define SOFT_CM_EVENT_USER		18
#define SOFT_CM_EVENT_INTERNAL		19

struct soft_ucm_write_cm_event {
	uint32_t id, reserved;
	uint32_t event, status;
	uint64_t arg;			/* of a union with rdma_ucm_conn_param */
};

#endif
