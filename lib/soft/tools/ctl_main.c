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
"Shows a running fabric of soft HCAs and injects faults. A process that has a\n"
"soft HCA open is a node of the fabric.\n"
"\n"
"  list                    nodes with device, ports, queue pairs and groups\n"
"  rnr                     sum of the RNR NAKs sent and received\n"
"  port PORT|all STATE     up, down, armed or blackhole\n"
"  faults [FAULT...]       faults of work requests; no FAULT: none\n"
"      drop=PERCENT        lose this share\n"
"      delay=PERCENT:MS    delay this share by MS milliseconds, up to 10000\n"
"      duplicate=PERCENT   duplicate this share (UC, UD, multicast)\n"
"      reorder=PERCENT     swap this share with the next (UC, UD, multicast)\n"
"      seed=NUMBER         the same seed selects the same requests; default: 0\n"
"  refuse OBJECT [N]       fail the Nth creation from now; default: 1; 0: none\n"
"      context pd mr mw cq channel qp srq ah xrcd id\n"
"  remove                  remove the device\n"
"  add                     add the device again\n"
"  set ATTRIBUTE PORT VALUE\n"
"                          set lid, sm-lid, pkey or prefix of a port, as a subnet\n"
"                          manager does; default: what it was at first\n"
"                          gid-error, pkey-error: the errno of reading the table\n"
"  event NAME [ELEMENT]    raise an async event, such as QP_FATAL, at a queue\n"
"                          pair (its number) or port\n"
"\n"
"  -f, --fabric=NAME       this fabric instead of the one of RDMAMSG_SOFT_FABRIC\n"
"  -n, --node=NUMBER       the node of this number in the output of 'list'\n"
"  -p, --pid=PID           the node of this process\n"
"  -a, --all               all nodes, and those that join later\n"
"  -h, --help              print this and exit\n"
"  -V, --version           print the version and exit\n"
"\n"
"Without -n, -p and -a, commands that show or repair act on all nodes: list, rnr,\n"
"port ... up, faults without FAULT, refuse OBJECT 0, add. Commands that break act\n"
"on the only node, or on the node with that queue pair. If neither applies,\n"
"rdmamsg-soft-ctl lists the programs that would be hit. On a terminal it asks.\n"
"Exit status: 0 done, 1 failed, 2 wrong usage.\n";

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
	case CTL_SET:
		return soft_ctl_set(ctl, node, cmd->attr, (uint8_t)cmd->number,
				    cmd->value);
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
		       cmd->what == CTL_SET ? "a node has no such port, or "
		       "the value is out of range" :
		       "no node has such a queue pair or port: see 'list', and "
		       "rdmamsg-soft-ctl(1) for what the event needs";
	case -EOPNOTSUPP:
		return "the link layer has no such attribute: see "
		       "RDMAMSG_SOFT_LINK";
	case -EADDRINUSE:
		return "another port has this LID";
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

/* Returns the status, or 1 if standard output could not be written. */
static int written(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	perror("rdmamsg-soft-ctl: standard output");
	return 1;
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
			(void)fputs(usage_text, stdout);
			return written(0);
		case 'V':
			(void)printf("rdmamsg-soft-ctl %s\n", PACKAGE_VERSION);
			return written(0);
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
	return status ? status : written(on_fabric(fabric, &cmd, &whom));
}
