/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes that each transition of a queue pair requires and permits, by
 * type: qp_state_table and ib_modify_qp_is_ok() of Linux,
 * drivers/infiniband/core/verbs.c.
 */
#include "soft/verbs/qp.h"

#include <stdbool.h>
#include <stdint.h>

/* INI, TGT: the two ends of XRC; RAW: Ethernet frames */
enum { RC, UC, UD, INI, TGT, RAW, TYPES };

#define PKEY	IBV_QP_PKEY_INDEX
#define PORT	IBV_QP_PORT
#define ACCESS	IBV_QP_ACCESS_FLAGS
#define QKEY	IBV_QP_QKEY
#define AV	IBV_QP_AV
#define MTU	IBV_QP_PATH_MTU
#define DEST	IBV_QP_DEST_QPN
#define RQ_PSN	IBV_QP_RQ_PSN
#define SQ_PSN	IBV_QP_SQ_PSN
#define DEST_RD	IBV_QP_MAX_DEST_RD_ATOMIC
#define RD	IBV_QP_MAX_QP_RD_ATOMIC
#define RNR_T	IBV_QP_MIN_RNR_TIMER
#define TIMEOUT	IBV_QP_TIMEOUT
#define RETRY	IBV_QP_RETRY_CNT
#define RNR	IBV_QP_RNR_RETRY
#define CUR	IBV_QP_CUR_STATE
#define ALT	IBV_QP_ALT_PATH
#define MIG	IBV_QP_PATH_MIG_STATE
#define NOTIFY	IBV_QP_EN_SQD_ASYNC_NOTIFY

struct step {
	bool valid;
	int required[TYPES], optional[TYPES];
};

#define PLAIN	{ .valid = true }
/* one mask for every connected type */
#define CONNECTED(mask) [RC] = (mask), [UC] = (mask), [INI] = (mask), \
			[TGT] = (mask)
/* the same from every state */
#define TO_RTS	[RC] = CUR | ALT | ACCESS | RNR_T | MIG, \
		[UC] = CUR | ALT | ACCESS | MIG, \
		[UD] = CUR | QKEY, \
		[INI] = CUR | ALT | ACCESS | MIG, \
		[TGT] = CUR | ALT | ACCESS | RNR_T | MIG

static const struct step steps[IBV_QPS_ERR + 1][IBV_QPS_ERR + 1] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_INIT] = {
			.valid = true,
			.required = {
				CONNECTED(PKEY | PORT | ACCESS),
				[UD] = PKEY | PORT | QKEY,
				[RAW] = PORT,
			},
		},
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_INIT] = {
			.valid = true,
			.optional = {
				CONNECTED(PKEY | PORT | ACCESS),
				[UD] = PKEY | PORT | QKEY,
			},
		},
		[IBV_QPS_RTR] = {
			.valid = true,
			.required = {
				[RC] = AV | MTU | DEST | RQ_PSN | DEST_RD |
				       RNR_T,
				[UC] = AV | MTU | DEST | RQ_PSN,
				[INI] = AV | MTU | DEST | RQ_PSN,
				[TGT] = AV | MTU | DEST | RQ_PSN | DEST_RD |
					RNR_T,
			},
			.optional = {
				CONNECTED(ALT | ACCESS | PKEY),
				[UD] = PKEY | QKEY,
			},
		},
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			.valid = true,
			.required = {
				[RC] = TIMEOUT | RETRY | RNR | SQ_PSN | RD,
				[UC] = SQ_PSN,
				[UD] = SQ_PSN,
				[INI] = TIMEOUT | RETRY | RNR | SQ_PSN | RD,
				[TGT] = TIMEOUT | SQ_PSN,
			},
			.optional = { TO_RTS },
		},
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			.valid = true,
			.optional = { TO_RTS },
		},
		[IBV_QPS_SQD] = {
			.valid = true,
			.optional = { CONNECTED(NOTIFY), [UD] = NOTIFY },
		},
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			.valid = true,
			.optional = { TO_RTS },
		},
		[IBV_QPS_SQD] = {
			.valid = true,
			.optional = {
				[RC] = PORT | AV | TIMEOUT | RETRY | RNR | RD |
				       DEST_RD | ALT | ACCESS | PKEY | RNR_T |
				       MIG,
				[UC] = AV | ALT | ACCESS | PKEY | MIG,
				[UD] = PKEY | QKEY,
				[INI] = PORT | AV | TIMEOUT | RETRY | RNR | RD |
					ALT | ACCESS | PKEY | MIG,
				[TGT] = PORT | AV | TIMEOUT | DEST_RD | ALT |
					ACCESS | PKEY | RNR_T | MIG,
			},
		},
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			.valid = true,
			.optional = { [UC] = CUR | ACCESS, [UD] = CUR | QKEY },
		},
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
	},
};

bool soft_step_ok(enum ibv_qp_type type, enum ibv_qp_state from,
		  enum ibv_qp_state to, int mask)
{
	static const uint8_t row[] = {
		[IBV_QPT_RC] = RC, [IBV_QPT_UC] = UC, [IBV_QPT_UD] = UD,
		[IBV_QPT_XRC_SEND] = INI, [IBV_QPT_XRC_RECV] = TGT,
		[IBV_QPT_RAW_PACKET] = RAW,
	};
	/* programs set the attributes of both ends (modify_qp_mask()) */
	static const int ignored[TYPES] = {
		[INI] = DEST_RD | RNR_T, [TGT] = RD | RETRY | RNR,
	};
	const struct step *s = &steps[from][to];
	uint8_t r = type < sizeof(row) ? row[type] : RC;

	if (mask & CUR && from != IBV_QPS_RTR && from != IBV_QPS_RTS &&
	    from != IBV_QPS_SQD && from != IBV_QPS_SQE)
		return false;
	mask &= ~(IBV_QP_STATE | ignored[r]);
	return s->valid && (mask & s->required[r]) == s->required[r] &&
	       !(mask & ~(s->required[r] | s->optional[r]));
}
