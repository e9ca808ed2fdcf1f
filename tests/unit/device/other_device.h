/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that differs from the soft HCA: calls that fail, false attributes,
 * other results of requests, and abilities that the soft HCA lacks.
 */
#ifndef TESTS_UNIT_DEVICE_OTHER_DEVICE_H
#define TESTS_UNIT_DEVICE_OTHER_DEVICE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "device/verbs_api.h"

enum call {
	NONE, ALLOC_PD, CREATE_CQ, REG_MR, CREATE_QP, CREATE_QP_EX,
	MLX5_CREATE_QP, CREATE_MKEY, MODIFY_QP,
	QUERY_QP, CREATE_SRQ, CREATE_AH, ATTACH, DETACH, RESIZE_CQ, ALLOC_MW,
	OPEN_XRCD, POST_SEND, POST_RECV, POLL_CQ, QUERY_DEVICE, QUERY_PORT,
	LOAD_PATH, MIGRATE,
};

/* The tests set these. set_up() resets all. */
extern enum call refused;
extern int refusal;		/* errno of the refused call */
extern int open_error;		/* errno of opening the device, or 0 */
extern struct verbs_api table;
/* Changes to posted requests and to their completions. */
extern enum ibv_wr_opcode from_op, to_op;
extern bool other_imm, other_inline, long_windows;
extern enum ibv_wc_status wc_status;
/* Abilities that the soft HCA lacks. */
extern bool generous;
extern bool ports_down;
extern unsigned int no_caps;
extern bool no_atomics;

extern int registered;		/* regions registered so far */

/* The library sees this device in place of the soft HCA. */
int set_up(void **state);
/* Fails if an object is left. */
int tear_down(void **state);

#endif
