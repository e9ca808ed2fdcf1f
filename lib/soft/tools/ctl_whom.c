/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-soft-ctl: the nodes that a command is for. A harmful command is for
 * one node, unless the user selects all nodes.
 */
#include "soft/tools/ctl_tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns true if the command is harmful. */
static bool breaks(const struct ctl_command *cmd)
{
	const struct soft_ctl_faults *f = &cmd->faults;

	switch (cmd->what) {
	case CTL_PORT:
		return cmd->state != SOFT_PORT_UP;
	case CTL_FAULTS:
		return f->drop || f->delay || f->duplicate || f->reorder;
	case CTL_REFUSE:
		return cmd->number;
	case CTL_SET:
		return cmd->value;
	case CTL_REMOVE:
	case CTL_EVENT:
		return true;
	default:
		return false;
	}
}

/* If all nodes are selected, these commands apply to later nodes, too. */
static const char *later(const struct ctl_command *cmd)
{
	return cmd->what == CTL_PORT || cmd->what == CTL_FAULTS ||
	       (cmd->what == CTL_SET && cmd->attr != SOFT_ATTR_LID) ||
	       cmd->what == CTL_REMOVE || cmd->what == CTL_ADD ?
	       ", and all that join later" : "";
}

/* ---- one node --------------------------------------------------------- */

static int of_process(struct soft_ctl *ctl, int32_t pid, uint32_t *ret)
{
	struct soft_ctl_node d;
	uint32_t next = 0;
	int err;

	do {
		err = soft_ctl_next(ctl, &next, &d);
	} while (err == -ETIMEDOUT || (!err && d.pid != pid));
	if (err == -ENOENT) {
		fprintf(stderr, "rdmamsg-soft-ctl: process %d is not on this "
			"fabric, or does not answer: see 'list'\n", pid);
		return 1;
	}
	if (!err)
		*ret = d.node;
	return err;
}

/* Returns true if the node has a queue pair of this number. */
static bool has_qp(struct soft_ctl *ctl, uint32_t node, uint32_t qpn)
{
	struct soft_ctl_qp qps[64];
	uint32_t index = 0;
	int n;

	while ((n = soft_ctl_qps(ctl, node, &index, qps, 64)) > 0)
		for (int i = 0; i < n; i++)
			if (qps[i].qpn == qpn)
				return true;
	return false;
}

static bool about_port(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return true;
	default:
		return false;
	}
}

/* Finds the node that has a queue pair. Returns -EINVAL if none has it. */
static int of_qp(struct soft_ctl *ctl, uint32_t qpn, uint32_t *ret)
{
	struct soft_ctl_node d;
	uint32_t next = 0;
	int err;

	while (!(err = soft_ctl_next(ctl, &next, &d)) || err == -ETIMEDOUT)
		if (!err && has_qp(ctl, d.node, qpn)) {
			*ret = d.node;
			return 0;
		}
	return -EINVAL;
}

/* ---- many ------------------------------------------------------------- */

/* Returns the number of nodes. *only becomes the last node. */
static uint32_t count(struct soft_ctl *ctl, uint32_t *only)
{
	struct soft_ctl_node d;
	uint32_t n = 0, next = 0;
	int err;

	while (!(err = soft_ctl_next(ctl, &next, &d)) || err == -ETIMEDOUT) {
		*only = next - 1;
		n++;
	}
	return n;
}

static void show(struct soft_ctl *ctl)
{
	struct soft_ctl_node d;
	char program[32];
	uint32_t next = 0;
	int err;

	while (!(err = soft_ctl_next(ctl, &next, &d)) || err == -ETIMEDOUT)
		if (err)
			fprintf(stderr, "  node %u, which does not answer\n",
				next - 1);
		else
			fprintf(stderr, "  node %u, process %d (%s)\n", d.node,
				d.pid, ctl_program(d.pid, program));
}

static bool agreed(void)
{
	char line[16];

	fputs("Go on? [y/N] ", stderr);
	return fgets(line, sizeof(line), stdin) &&
	       (!strcmp(line, "y\n") || !strcmp(line, "yes\n"));
}

static int ask(struct soft_ctl *ctl, const struct ctl_command *cmd, uint32_t n)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);

	if (terminal)
		fprintf(stderr, "'%s' hits these %u programs%s:\n", cmd->word,
			n, later(cmd));
	else
		fprintf(stderr, "rdmamsg-soft-ctl: '%s' would hit %u programs: "
			"choose one with -n or -p, or all with --all; see "
			"--help\n", cmd->word, n);
	show(ctl);
	if (terminal && agreed())
		return 0;
	if (terminal)
		fputs("rdmamsg-soft-ctl: nothing was done\n", stderr);
	return CTL_WRONG_USAGE;
}

int ctl_choose(struct soft_ctl *ctl, const struct ctl_command *cmd,
	       const struct ctl_whom *whom, uint32_t *ret)
{
	uint32_t n;

	*ret = whom->node;
	if (whom->node != SOFT_CTL_ALL || whom->all)
		return 0;
	if (whom->pid)
		return of_process(ctl, whom->pid, ret);
	if (!breaks(cmd))
		return 0;
	if (cmd->what == CTL_EVENT && !about_port(cmd->event))
		return of_qp(ctl, cmd->number, ret);
	n = count(ctl, ret);
	if (n == 1)
		return 0;
	*ret = SOFT_CTL_ALL;
	return n ? ask(ctl, cmd, n) : -ENOENT;
}
