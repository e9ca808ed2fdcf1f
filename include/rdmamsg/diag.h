/* SPDX-License-Identifier: BSD-2-Clause */
/* The log, the dump, statistics as text, names of values, and the version. */
#ifndef RDMAMSG_DIAG_H
#define RDMAMSG_DIAG_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rdmamsg_log_level {
	RDMAMSG_LOG_NONE,
	RDMAMSG_LOG_ERROR,
	RDMAMSG_LOG_WARN,
	RDMAMSG_LOG_INFO,
	RDMAMSG_LOG_DEBUG,
};

/*
 * Called for each line, without newline, in the thread that makes the line.
 * Must not call the library.
 */
typedef void (*rdmamsg_log_fn)(void *arg, enum rdmamsg_log_level level,
			       const char *line);

/*
 * Sets the log function and level of the process. No context may be open. A
 * NULL fn restores the default: stderr, and only if the environment has
 * RDMAMSG_LOG. The library makes no lines above 'level'. A level in
 * RDMAMSG_LOG overrides 'level'.
 */
void rdmamsg_set_log(rdmamsg_log_fn fn, void *arg,
		     enum rdmamsg_log_level level);

/*
 * Describes a context in lines of text: devices and their ports in use, pools,
 * regions, shared receive queues, listeners, endpoints, queue pairs of the
 * program, and groups. Asks the devices for the state of their ports. line()
 * must not call the library. The context's thread.
 */
void rdmamsg_dump(const struct rdmamsg *ctx,
		  void (*line)(void *arg, const char *text), void *arg);

/*
 * Writes the statistics of a context to buf in the text format of Prometheus:
 * the counters of rdmamsg_get_stats(), and those of its devices, buffers,
 * pools, shared receive queues, listeners and groups. Writes at most 'size'
 * bytes, the last of them 0. Returns the length of the whole text like
 * snprintf(): if the length is not below 'size', the text is cut off. buf may
 * be NULL if size is 0.
 */
int rdmamsg_stats_text(const struct rdmamsg *ctx, char *buf, size_t size);

/* The enum or field whose values rdmamsg_name() names. */
enum rdmamsg_name_kind {
	/* enums of this library: "connected" for RDMAMSG_CONNECTED */
	RDMAMSG_NAME_STATE = 1,		/* enum rdmamsg_state */
	RDMAMSG_NAME_WHO,		/* enum rdmamsg_who */
	RDMAMSG_NAME_CAUSE,		/* enum rdmamsg_cause */
	RDMAMSG_NAME_PATH_STATE,	/* enum rdmamsg_path_state */
	RDMAMSG_NAME_PATH_CHANGE,	/* enum rdmamsg_path_change */
	RDMAMSG_NAME_CAP_HOW,		/* enum rdmamsg_cap_how */

	/* values of verbs: "ACTIVE" for IBV_PORT_ACTIVE */
	RDMAMSG_NAME_NODE_TYPE = 32,
	RDMAMSG_NAME_TRANSPORT,
	RDMAMSG_NAME_ATOMIC_CAP,
	RDMAMSG_NAME_LINK_LAYER,
	RDMAMSG_NAME_PORT_STATE,
	RDMAMSG_NAME_PHYS_STATE,
	RDMAMSG_NAME_GID_TYPE,
	RDMAMSG_NAME_QP_TYPE,		/* also the bits of tso_qps etc. */
	RDMAMSG_NAME_EVENT,		/* type of struct rdmamsg_event */
	RDMAMSG_NAME_WIDTH,		/* "4X" */
	RDMAMSG_NAME_SPEED,		/* "25.0 Gb/s", of a lane */
	RDMAMSG_NAME_VL,		/* "VL0-3" */

	/* flags of verbs, by the number of the bit, from 0 */
	RDMAMSG_NAME_DEVICE_CAP = 64,	/* of cap_flags, cap_flags_ex */
	RDMAMSG_NAME_PORT_CAP,		/* of cap_flags of a port */
	RDMAMSG_NAME_PORT_CAP2,		/* of cap_flags2 */
	RDMAMSG_NAME_ODP_GENERAL,	/* of odp_general */
	RDMAMSG_NAME_ODP_CAP,		/* of odp_rc etc. */
	RDMAMSG_NAME_RAW_PACKET_CAP,	/* of raw_packet_caps */
	RDMAMSG_NAME_RX_HASH,		/* of rx_hash_fields */
	RDMAMSG_NAME_RX_HASH_FUNCTION,	/* of rx_hash_functions */
	RDMAMSG_NAME_TM_CAP,		/* of tm_flags */
	RDMAMSG_NAME_PCI_ATOMIC,	/* of pci_swap etc. */
	RDMAMSG_NAME_PORT_FLAG,		/* of flags of a port */

	/* bits of the ability to calculate, "ADD" for RDMAMSG_CALC_ADD */
	RDMAMSG_NAME_CALC_OP = 96,	/* of int_ops etc. */
	RDMAMSG_NAME_CALC_TYPE,		/* of types */
};

/*
 * Returns the name of a value, which is static text: "unknown" for any other
 * value, and NULL for a bit without a name. Any thread.
 */
const char *rdmamsg_name(enum rdmamsg_name_kind kind, uint32_t value);

/*
 * Returns the version of the library at run time, "0.1.0". The version at
 * compile time is in <rdmamsg/version.h>.
 */
const char *rdmamsg_version(void);

#ifdef __cplusplus
}
#endif

#endif
