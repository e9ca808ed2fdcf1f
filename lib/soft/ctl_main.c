/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft-ctl: looks at a running fabric, and breaks it. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "soft_ctl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
"usage: rdmamsg-soft-ctl [-f FABRIC] [-n NODE] COMMAND [ARGUMENT...]\n"
"\n"
"Looks at a running fabric of soft HCAs, and breaks it.\n"
"\n"
"  list                        nodes with device, ports, queue pairs and groups\n"
"  port PORT|all STATE         up, down, armed or blackhole\n"
"  faults [FAULT...]           what becomes of work requests; none given: nothing\n"
"      drop=PERCENT            lost\n"
"      delay=PERCENT:MS        late by MS milliseconds\n"
"      duplicate=PERCENT       twice, where nothing is acknowledged\n"
"      reorder=PERCENT         behind the next, where nothing is acknowledged\n"
"      seed=NUMBER             the same seed: the same requests (0)\n"
"  refuse OBJECT [N]           the Nth creation from now fails (1); 0: none\n"
"      context pd mr mw cq channel qp srq ah xrcd id\n"
"  remove                      the device goes\n"
"  add                         and is there again\n"
"  event NAME [ELEMENT]        raise an async event, such as QP_FATAL, at a queue\n"
"                              pair (its number) or port\n"
"\n"
"  -f, --fabric=NAME           instead of RDMAMSG_SOFT_FABRIC\n"
"  -n, --node=NUMBER           one node instead of all, and those to come\n"
"  -h, --help                  this text\n";

static const char *const ports[] = { "up", "down", "armed", "blackhole" };
static const char *const objects[] = {
	"context", "pd", "mr", "mw", "cq", "channel", "qp", "srq", "ah",
	"xrcd", "id",
};
_Static_assert(sizeof(objects) / sizeof(*objects) == SOFT_OBJECTS, "each");

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

static int bad(const char *what, const char *which)
{
	fprintf(stderr, "rdmamsg-soft-ctl: %s: %s (see --help)\n", which, what);
	return 2;
}

static int find(const char *const *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (table[i] && !strcmp(table[i], name))
			return (int)i;
	return -1;
}
#define FIND(table, name) find(table, sizeof(table) / sizeof(*(table)), name)

static bool number(const char *text, uint32_t most, uint32_t *ret)
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

/* Up to most, in units of which there are `units` to 1; up to the end mark. */
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

static const char *qp_state(uint8_t s)
{
	static const char *const names[] = {
		"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
	};

	return s < sizeof(names) / sizeof(*names) ? names[s] : "?";
}

static const char *qp_type(uint8_t t)
{
	switch (t) {
	case IBV_QPT_RC: return "RC";
	case IBV_QPT_UC: return "UC";
	case IBV_QPT_UD: return "UD";
	case IBV_QPT_XRC_SEND: return "XRC_SEND";
	case IBV_QPT_XRC_RECV: return "XRC_RECV";
	default: return "DRIVER";
	}
}

static const char *migration(uint8_t s)
{
	static const char *const names[] = { "MIGRATED", "REARM", "ARMED" };

	return s < sizeof(names) / sizeof(*names) ? names[s] : "?";
}

static void show_qp(const struct soft_ctl_qp *q)
{
	printf("  qp 0x%x %s %s port %u", q->qpn, qp_type(q->type),
	       qp_state(q->state), q->port);
	if (q->alt_port)
		printf(" alternate %u %s", q->alt_port,
		       migration(q->migration));
	printf(" peer 0x%x%s sends %u recvs %u\n", q->peer,
	       q->wired ? "" : " (nobody)", q->sends, q->recvs);
}

static void show_node(const struct soft_ctl_node *d)
{
	const struct soft_ctl_faults *f = &d->faults;

	printf("node %u pid %d device soft0 guid %016" PRIx64
	       " contexts %u qps %u%s\n", d->node, d->pid, d->guid,
	       d->contexts, d->qps, d->absent ? " removed" : "");
	for (uint32_t i = 0; i < d->ports && i < SOFT_CTL_PORTS; i++)
		printf("  port %u %s\n", i + 1,
		       d->port[i] <= SOFT_PORT_BLACK_HOLE ? ports[d->port[i]] :
		       "?");
	if (f->drop || f->delay || f->duplicate || f->reorder)
		printf("  faults drop=%g delay=%g:%g duplicate=%g reorder=%g "
		       "seed=%u\n",
		       f->drop / 1e4, f->delay / 1e4, f->delay_us / 1e3,
		       f->duplicate / 1e4, f->reorder / 1e4, f->seed);
}

static int show_qps(struct soft_ctl *ctl, uint32_t node)
{
	struct soft_ctl_qp qps[64];
	uint32_t index = 0;
	int n;

	while ((n = soft_ctl_qps(ctl, node, &index, qps, 64)) > 0)
		for (int i = 0; i < n; i++)
			show_qp(&qps[i]);
	return n == -ENOENT ? 0 : n;
}

static int show_groups(struct soft_ctl *ctl, uint32_t node)
{
	struct soft_ctl_group g[128];
	uint32_t before, index = 0;
	char text[INET6_ADDRSTRLEN];
	int n;

	do {
		before = index;
		n = soft_ctl_groups(ctl, node, &index, g, 128);
		for (int i = 0; i < n; i++)
			printf("  group %s members %u\n",
			       inet_ntop(AF_INET6, g[i].mgid, text,
					 sizeof(text)), g[i].members);
	} while (n >= 0 && index != before);
	return n == -ENOENT ? 0 : n < 0 ? n : 0;
}

static int list(struct soft_ctl *ctl, uint32_t only)
{
	uint32_t next = only == SOFT_CTL_ALL ? 0 : only;
	struct soft_ctl_node d;
	int ret;

	for (;;) {
		ret = soft_ctl_next(ctl, &next, &d);
		if (only != SOFT_CTL_ALL && !ret && d.node != only)
			return -ENOENT;
		if (ret == -ETIMEDOUT && only == SOFT_CTL_ALL) {
			printf("node %u does not answer\n", next - 1);
			continue;
		}
		if (ret)
			return ret == -ENOENT && only == SOFT_CTL_ALL ? 0 :
			       ret;
		show_node(&d);
		ret = show_qps(ctl, d.node);
		if (!ret)
			ret = show_groups(ctl, d.node);
		if (ret || only != SOFT_CTL_ALL)
			return ret;
	}
}

static bool parse_fault(const char *text, struct soft_ctl_faults *f)
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
	return IS("seed") && number(value, UINT32_MAX, &f->seed);
#undef IS
}

/* 2: not understood. */
static int run(struct soft_ctl *ctl, uint32_t node, int argc, char **argv)
{
	struct soft_ctl_faults f = { 0 };
	uint32_t n = 0;
	int what;

	if (!strcmp(argv[0], "list") && argc == 1)
		return list(ctl, node);
	if (!strcmp(argv[0], "port") && argc == 3) {
		what = FIND(ports, argv[2]);
		if (strcmp(argv[1], "all") &&
		    (!number(argv[1], SOFT_CTL_PORTS, &n) || !n))
			return bad("no port", argv[1]);
		if (what < 0)
			return bad("no state of a port", argv[2]);
		return soft_ctl_port(ctl, node, (uint8_t)n,
				     (enum soft_port)what);
	}
	if (!strcmp(argv[0], "faults")) {
		for (int i = 1; i < argc; i++)
			if (!parse_fault(argv[i], &f))
				return bad("no fault", argv[i]);
		return soft_ctl_faults(ctl, node, &f);
	}
	if (!strcmp(argv[0], "refuse") && (argc == 2 || argc == 3)) {
		what = FIND(objects, argv[1]);
		n = 1;
		if (what < 0)
			return bad("no object", argv[1]);
		if (argc == 3 && !number(argv[2], UINT32_MAX, &n))
			return bad("no number", argv[2]);
		return soft_ctl_refuse(ctl, node, (enum soft_object)what, n);
	}
	if (!strcmp(argv[0], "remove") && argc == 1)
		return soft_ctl_remove(ctl, node);
	if (!strcmp(argv[0], "add") && argc == 1)
		return soft_ctl_add(ctl, node);
	if (!strcmp(argv[0], "event") && (argc == 2 || argc == 3)) {
		what = FIND(events, argv[1]);
		if (what < 0)
			return bad("no event", argv[1]);
		if (argc == 3 && !number(argv[2], UINT32_MAX, &n))
			return bad("no number", argv[2]);
		return soft_ctl_event(ctl, node, (enum ibv_event_type)what, n);
	}
	return bad("no command, or not its arguments", argv[0]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "fabric", required_argument, NULL, 'f' },
		{ "node", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *fabric = NULL;
	uint32_t node = SOFT_CTL_ALL;
	struct soft_ctl *ctl;
	int c, ret;

	while ((c = getopt_long(argc, argv, "+f:n:h", options, NULL)) != -1) {
		switch (c) {
		case 'f':
			fabric = optarg;
			break;
		case 'n':
			if (!number(optarg, UINT32_MAX - 1, &node))
				return bad("no node", optarg);
			break;
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		default:
			return 2;
		}
	}
	if (optind == argc) {
		fputs(usage_text, stderr);
		return 2;
	}
	ret = soft_ctl_open(fabric, &ctl);
	if (ret == -ENOENT) {
		fprintf(stderr, "rdmamsg-soft-ctl: nobody is on this fabric\n");
		return 1;
	}
	if (!ret) {
		ret = run(ctl, node, argc - optind, argv + optind);
		soft_ctl_close(ctl);
	}
	if (ret < 0)
		fprintf(stderr, "rdmamsg-soft-ctl: %s\n",
			ret == -ENOENT ? "no such node" : strerror(-ret));
	return ret < 0 ? 1 : ret;
}
