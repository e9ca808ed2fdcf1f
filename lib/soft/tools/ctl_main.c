/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft-ctl: shows a running fabric and injects faults. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "soft/tools/ctl_tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage_text[] =
"Usage: rdmamsg-soft-ctl [OPTION...] COMMAND [ARGUMENT...]\n"
"\n"
"Looks at a running fabric of soft HCAs, and breaks it. A program that has a\n"
"soft HCA open is a node of the fabric.\n"
"\n"
"  list                    nodes with device, ports, queue pairs and groups\n"
"  rnr                     sum of the RNR NAKs sent and received\n"
"  port PORT|all STATE     up, down, armed or blackhole\n"
"  faults [FAULT...]       what becomes of work requests; no FAULT: all arrive\n"
"      drop=PERCENT        lost\n"
"      delay=PERCENT:MS    late by MS milliseconds, up to 10000\n"
"      duplicate=PERCENT   twice, where nothing is acknowledged\n"
"      reorder=PERCENT     behind the next, where nothing is acknowledged\n"
"      seed=NUMBER         the same seed: the same requests; default: 0\n"
"  refuse OBJECT [N]       the Nth creation from now fails; default: 1; 0: none\n"
"      context pd mr mw cq channel qp srq ah xrcd id\n"
"  remove                  the device goes\n"
"  add                     the device is there again\n"
"  event NAME [ELEMENT]    raise an async event, such as QP_FATAL, at a queue\n"
"                          pair (its number) or port\n"
"\n"
"  -f, --fabric=NAME       this fabric instead of the one of RDMAMSG_SOFT_FABRIC\n"
"  -n, --node=NUMBER       the node of this number, as 'list' tells it\n"
"  -p, --pid=PID           the node of this process\n"
"  -a, --all               all nodes, and those that join later\n"
"  -h, --help              print this and exit\n"
"  -V, --version           print the version and exit\n"
"\n"
"Without -n, -p and -a, 'list', 'rnr' and what mends ('port ... up', 'faults'\n"
"without FAULT, 'refuse OBJECT 0', 'add') are for all nodes. What breaks is for\n"
"the only node there is, or for the one with that queue pair; else\n"
"rdmamsg-soft-ctl says which programs it would hit, and on a terminal asks.\n"
"Exit status: 0 done, 1 not possible, 2 wrong usage.\n";

static int complain(const char *what, const char *text)
{
	fprintf(stderr, "rdmamsg-soft-ctl: '%s': %s; see --help\n", what, text);
	return CTL_WRONG_USAGE;
}

/* ---- execution -------------------------------------------------------- */

static int run(struct soft_ctl *ctl, uint32_t node,
	       const struct ctl_command *cmd)
{
	switch (cmd->what) {
	case CTL_LIST:
		return ctl_list(ctl, node);
	case CTL_RNR:
		return ctl_rnr(ctl, node);
	case CTL_PORT:
		return soft_ctl_port(ctl, node, (uint8_t)cmd->number,
				     cmd->state);
	case CTL_FAULTS:
		return soft_ctl_faults(ctl, node, &cmd->faults);
	case CTL_REFUSE:
		return soft_ctl_refuse(ctl, node, cmd->object, cmd->number);
	case CTL_REMOVE:
		return soft_ctl_remove(ctl, node);
	case CTL_ADD:
		return soft_ctl_add(ctl, node);
	case CTL_EVENT:
		return soft_ctl_event(ctl, node, cmd->event, cmd->number);
	}
	return -EINVAL;
}

static const char *error_text(const struct ctl_command *cmd, int err)
{
	switch (err) {
	case -ENOENT:
		return "there is no such node: see 'list'";
	case -ETIMEDOUT:
		return "a node does not answer: its process is stopped";
	case -EINVAL:
		return cmd->what == CTL_PORT ? "a node has no such port" :
		       "no node has such a queue pair or port: see 'list', and "
		       "rdmamsg-soft-ctl(1) for what the event needs";
	default:
		return strerror(-err);
	}
}

/* Executes the command. Returns an exit status. */
static int on_fabric(const char *fabric, const struct ctl_command *cmd,
		     const struct ctl_whom *whom)
{
	struct soft_ctl *ctl;
	uint32_t node;
	int ret = soft_ctl_open(fabric, &ctl);

	if (ret == -EINVAL)
		return complain(fabric ? fabric : "RDMAMSG_SOFT_FABRIC",
				"the name of a fabric has 1 to 32 characters "
				"and no slash");
	if (ret) {
		fprintf(stderr, "rdmamsg-soft-ctl: %s\n", ret == -ENOENT ?
			"no program is on this fabric: -f or "
			"RDMAMSG_SOFT_FABRIC chooses another" :
			strerror(-ret));
		return 1;
	}
	ret = ctl_choose(ctl, cmd, whom, &node);
	if (!ret)
		ret = run(ctl, node, cmd);
	soft_ctl_close(ctl);
	if (ret < 0)
		fprintf(stderr, "rdmamsg-soft-ctl: %s: %s\n", cmd->word,
			error_text(cmd, ret));
	return ret < 0 ? 1 : ret;
}

/* ---- options ---------------------------------------------------------- */

/* Returns 0, or an exit status. */
static int option(int c, const char **fabric, struct ctl_whom *whom)
{
	uint32_t pid;

	switch (c) {
	case 'f':
		*fabric = optarg;
		return 0;
	case 'n':
		return ctl_number(optarg, UINT32_MAX - 1, &whom->node) ? 0 :
		       complain(optarg, "not the number of a node: see "
				"'list'");
	case 'p':
		if (!ctl_number(optarg, INT32_MAX, &pid) || !pid)
			return complain(optarg, "not the number of a process");
		whom->pid = (int32_t)pid;
		return 0;
	case 'a':
		whom->all = true;
		return 0;
	default:
		/* getopt_long() has printed the option */
		fputs("rdmamsg-soft-ctl: see --help\n", stderr);
		return CTL_WRONG_USAGE;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "fabric", required_argument, NULL, 'f' },
		{ "node", required_argument, NULL, 'n' },
		{ "pid", required_argument, NULL, 'p' },
		{ "all", no_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct ctl_whom whom = { .node = SOFT_CTL_ALL };
	const char *fabric = NULL;
	struct ctl_command cmd;
	int c, status = 0;

	/* for messages of getopt_long() */
	argv[0] = (char *)"rdmamsg-soft-ctl";
	while (!status && (c = getopt_long(argc, argv, "f:n:p:ahV", options,
					   NULL)) != -1) {
		switch (c) {
		case 'h':
			return fputs(usage_text, stdout) < 0 || fflush(stdout);
		case 'V':
			return printf("rdmamsg-soft-ctl %s\n",
				      PACKAGE_VERSION) < 0 || fflush(stdout);
		default:
			status = option(c, &fabric, &whom);
		}
	}
	if (status)
		return status;
	if ((whom.node != SOFT_CTL_ALL) + !!whom.pid + whom.all > 1) {
		fputs("rdmamsg-soft-ctl: -n, -p and -a exclude each other; "
		      "see --help\n", stderr);
		return CTL_WRONG_USAGE;
	}
	if (optind == argc) {
		fputs("rdmamsg-soft-ctl: COMMAND is missing; see --help\n",
		      stderr);
		return CTL_WRONG_USAGE;
	}
	status = ctl_parse(&cmd, argc - optind, argv + optind);
	return status ? status : on_fabric(fabric, &cmd, &whom);
}
