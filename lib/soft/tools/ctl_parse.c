/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft-ctl: the command and its arguments. */
#include "soft/tools/ctl_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ctl_ports[4] = { "up", "down", "armed", "blackhole" };

static const char *const objects[] = {
	"context", "pd", "mr", "mw", "cq", "channel", "qp", "srq", "ah",
	"xrcd", "id",
};
_Static_assert(sizeof(objects) / sizeof(*objects) == SOFT_OBJECTS, "each");

static const char *const attrs[] = { "lid", "sm-lid", "pkey", "prefix",
				     "gid-error", "pkey-error" };
_Static_assert(sizeof(attrs) / sizeof(*attrs) == SOFT_ATTRS, "each");

static const char *const events[] = {
	[IBV_EVENT_CQ_ERR] = "CQ_ERR",
	[IBV_EVENT_QP_FATAL] = "QP_FATAL",
	[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
	[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
	[IBV_EVENT_COMM_EST] = "COMM_EST",
	[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
	[IBV_EVENT_PATH_MIG] = "PATH_MIG",
	[IBV_EVENT_PATH_MIG_ERR] = "PATH_MIG_ERR",
	[IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
	[IBV_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
	[IBV_EVENT_PORT_ERR] = "PORT_ERR",
	[IBV_EVENT_LID_CHANGE] = "LID_CHANGE",
	[IBV_EVENT_PKEY_CHANGE] = "PKEY_CHANGE",
	[IBV_EVENT_SM_CHANGE] = "SM_CHANGE",
	[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
	[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
	[IBV_EVENT_CLIENT_REREGISTER] = "CLIENT_REREGISTER",
	[IBV_EVENT_GID_CHANGE] = "GID_CHANGE",
};

static int wrong(const char *which, const char *expected)
{
	fprintf(stderr, "rdmamsg-soft-ctl: '%s': %s; see --help\n", which,
		expected);
	return CTL_WRONG_USAGE;
}

static int find(const char *const *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (table[i] && !strcmp(table[i], name))
			return (int)i;
	return -1;
}
#define FIND(table, name) find(table, sizeof(table) / sizeof(*(table)), name)

bool ctl_number(const char *text, uint32_t most, uint32_t *ret)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || errno || *end || v > most)
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Parses a number <= most that ends with 'mark'. *ret is in 1/units. */
static bool fraction(const char *text, double most, double units, char mark,
		     const char **rest, uint32_t *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0) || v > most || *end != mark)
		return false;
	*ret = (uint32_t)(v * units + 0.5);
	if (rest)
		*rest = end + 1;
	return true;
}

static bool percent(const char *text, char mark, const char **rest,
		    uint32_t *ret)
{
	return fraction(text, 100, 10000, mark, rest, ret);
}

static bool fault(const char *text, struct soft_ctl_faults *f)
{
	const char *value = strchr(text, '='), *ms;
	size_t len = value ? (size_t)(value++ - text) : 0;

#define IS(name) (len == sizeof(name) - 1 && !strncmp(text, name, len))
	if (IS("drop"))
		return percent(value, 0, NULL, &f->drop);
	if (IS("duplicate"))
		return percent(value, 0, NULL, &f->duplicate);
	if (IS("reorder"))
		return percent(value, 0, NULL, &f->reorder);
	if (IS("delay"))
		return percent(value, ':', &ms, &f->delay) &&
		       fraction(ms, 10000, 1000, 0, NULL, &f->delay_us);
	return IS("seed") && ctl_number(value, UINT32_MAX, &f->seed);
#undef IS
}

/* ---- commands --------------------------------------------------------- */

static int parse_port(struct ctl_command *cmd, char **argv)
{
	int state = FIND(ctl_ports, argv[2]);

	if (strcmp(argv[1], "all") &&
	    (!ctl_number(argv[1], SOFT_CTL_PORTS, &cmd->number) ||
	     !cmd->number))
		return wrong(argv[1], "a port is 1 to 8, or all");
	if (state < 0)
		return wrong(argv[2], "a port is up, down, armed or blackhole");
	cmd->state = (enum soft_port)state;
	return 0;
}

static int parse_faults(struct ctl_command *cmd, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!fault(argv[i], &cmd->faults))
			return wrong(argv[i], "unknown fault, or value out of "
				     "range");
	return 0;
}

static int parse_refuse(struct ctl_command *cmd, int argc, char **argv)
{
	int object = FIND(objects, argv[1]);

	cmd->number = 1;
	if (object < 0)
		return wrong(argv[1], "unknown object");
	if (argc == 3 && !ctl_number(argv[2], UINT32_MAX, &cmd->number))
		return wrong(argv[2], "not a number");
	cmd->object = (enum soft_object)object;
	return 0;
}

static int parse_event(struct ctl_command *cmd, int argc, char **argv)
{
	int type = FIND(events, argv[1]);

	if (type < 0)
		return wrong(argv[1], "unknown event");
	if (argc == 3 && !ctl_number(argv[2], UINT32_MAX, &cmd->number))
		return wrong(argv[2], "not the number of a queue pair or "
			     "port");
	cmd->event = (enum ibv_event_type)type;
	return 0;
}

static int parse_set(struct ctl_command *cmd, char **argv)
{
	int attr = FIND(attrs, argv[1]);
	char *end;

	if (attr < 0)
		return wrong(argv[1], "an attribute is lid, sm-lid, pkey, "
			     "prefix, gid-error or pkey-error");
	if (!ctl_number(argv[2], SOFT_CTL_PORTS, &cmd->number) || !cmd->number)
		return wrong(argv[2], "a port is 1 to 8");
	errno = 0;
	cmd->value = strtoull(argv[3], &end, 0);
	if (strcmp(argv[3], "default") &&
	    (*argv[3] < '0' || *argv[3] > '9' || errno || *end || !cmd->value))
		return wrong(argv[3], "a value is a number above 0, or "
			     "default");
	cmd->attr = (enum soft_attr)attr;
	return 0;
}

/* Indexed by cmd->what. */
static const struct {
	const char *name, *arguments;
	int least, most;
} commands[] = {
	[CTL_LIST] = { "list", "nothing", 0, 0 },
	[CTL_RNR] = { "rnr", "nothing", 0, 0 },
	[CTL_PORT] = { "port", "PORT or all, and STATE", 2, 2 },
	[CTL_FAULTS] = { "faults", "FAULT...", 0, 64 },
	[CTL_REFUSE] = { "refuse", "OBJECT and perhaps N", 1, 2 },
	[CTL_REMOVE] = { "remove", "nothing", 0, 0 },
	[CTL_ADD] = { "add", "nothing", 0, 0 },
	[CTL_SET] = { "set", "ATTRIBUTE, PORT and VALUE", 3, 3 },
	[CTL_EVENT] = { "event", "NAME and perhaps ELEMENT", 1, 2 },
};
#define COMMANDS ((int)(sizeof(commands) / sizeof(*commands)))

static int parse_arguments(struct ctl_command *cmd, int argc, char **argv)
{
	switch (cmd->what) {
	case CTL_PORT:
		return parse_port(cmd, argv);
	case CTL_FAULTS:
		return parse_faults(cmd, argc, argv);
	case CTL_REFUSE:
		return parse_refuse(cmd, argc, argv);
	case CTL_SET:
		return parse_set(cmd, argv);
	case CTL_EVENT:
		return parse_event(cmd, argc, argv);
	default:
		return 0;
	}
}

int ctl_parse(struct ctl_command *cmd, int argc, char **argv)
{
	int i = 0;

	memset(cmd, 0, sizeof(*cmd));
	while (i < COMMANDS && strcmp(argv[0], commands[i].name))
		i++;
	if (i == COMMANDS)
		return wrong(argv[0], "unknown command");
	if (argc - 1 < commands[i].least || argc - 1 > commands[i].most) {
		fprintf(stderr, "rdmamsg-soft-ctl: %s takes %s; see --help\n",
			argv[0], commands[i].arguments);
		return CTL_WRONG_USAGE;
	}
	cmd->what = i;
	cmd->word = argv[0];
	return parse_arguments(cmd, argc, argv);
}
