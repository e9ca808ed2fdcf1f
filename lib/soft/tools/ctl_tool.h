/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft-ctl: commands, and the nodes that they are for. */
#ifndef SOFT_TOOLS_CTL_TOOL_H
#define SOFT_TOOLS_CTL_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/control/soft_ctl.h"

#define CTL_WRONG_USAGE	2	/* exit status: nothing was done */

struct ctl_command {
	enum { CTL_LIST, CTL_RNR, CTL_PORT, CTL_FAULTS, CTL_REFUSE, CTL_REMOVE,
	       CTL_ADD, CTL_EVENT, CTL_SET } what;
	const char *word;		/* as typed */
	uint32_t number;		/* port, Nth or element; 0: all */
	enum soft_port state;
	enum soft_object object;
	enum ibv_event_type event;
	enum soft_attr attr;
	uint64_t value;			/* of the attribute */
	struct soft_ctl_faults faults;
};

/* Selects nodes, by the first member that is given. */
struct ctl_whom {
	uint32_t node;			/* SOFT_CTL_ALL: not selected */
	int32_t pid;			/* 0: not selected */
	bool all;
};

extern const char *const ctl_ports[4];	/* by enum soft_port */

/* ctl_parse.c. Returns 0, or CTL_WRONG_USAGE after a message. */
int ctl_parse(struct ctl_command *cmd, int argc, char **argv);
/* Returns true if text is a number <= most, in any base of C. */
bool ctl_number(const char *text, uint32_t most, uint32_t *ret);

/* ctl_list.c. Both return 0 or -errno. */
int ctl_list(struct soft_ctl *ctl, uint32_t only);
int ctl_rnr(struct soft_ctl *ctl, uint32_t only);
/* Returns the name of the program that a process runs, or "?". */
const char *ctl_program(int32_t pid, char buf[32]);

/*
 * ctl_whom.c. Sets *ret to a node or SOFT_CTL_ALL. Returns 0, -errno, or an
 * exit status after a message.
 */
int ctl_choose(struct soft_ctl *ctl, const struct ctl_command *cmd,
	       const struct ctl_whom *whom, uint32_t *ret);

#endif
