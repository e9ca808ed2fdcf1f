/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft-ctl: the commands list and rnr. */
#include "soft/tools/ctl_tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The pid is wrong for a process of another PID namespace. */
const char *ctl_program(int32_t pid, char buf[32])
{
	char path[32];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "r");
	if (!f || !fgets(buf, 32, f))
		strcpy(buf, "?");
	if (f)
		(void)fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	for (char *c = buf; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return buf;
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
	case IBV_QPT_RAW_PACKET: return "RAW_PACKET";
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
	printf(" peer 0x%x%s sends %u recvs %u rnr sent %u received %u",
	       q->peer, q->wired ? "" : " (nobody)", q->sends, q->recvs,
	       q->rnr_sent, q->rnr_received);
	if (q->window)
		printf(" rtt %u us window %u", q->rtt, q->window);
	printf("\n");
}

static void show_node(const struct soft_ctl_node *d)
{
	const struct soft_ctl_faults *f = &d->faults;
	const struct soft_packets *p = &d->packets;
	char program[32];

	printf("node %u pid %d device soft0 guid %016" PRIx64
	       " contexts %u qps %u%s program %s\n", d->node, d->pid, d->guid,
	       d->contexts, d->qps, d->absent ? " removed" : "",
	       ctl_program(d->pid, program));
	for (uint32_t i = 0; i < d->ports && i < SOFT_CTL_PORTS; i++)
		printf("  port %u %s\n", i + 1,
		       d->port[i] <= SOFT_PORT_BLACK_HOLE ?
		       ctl_ports[d->port[i]] : "?");
	if (f->drop || f->delay || f->duplicate || f->reorder)
		printf("  faults drop=%g delay=%g:%g duplicate=%g reorder=%g "
		       "seed=%u\n",
		       f->drop / 1e4, f->delay / 1e4, f->delay_us / 1e3,
		       f->duplicate / 1e4, f->reorder / 1e4, f->seed);
	printf("  rnr sent %" PRIu64 " received %" PRIu64 "\n", d->rnr.sent,
	       d->rnr.received);
	if (!d->on_network)
		return;
	printf("  packets sent %" PRIu64 " retransmits %" PRIu64
	       " received %" PRIu64 " bad %" PRIu64 " passed on %" PRIu64 "\n",
	       p->sent, p->retransmits, p->received, p->bad, p->passed_on);
	printf("  duplicates %" PRIu64 " naks sent %" PRIu64 " received %"
	       PRIu64 " ecn marks %" PRIu64 " cnps sent %" PRIu64
	       " received %" PRIu64 "\n", p->duplicates, p->naks_sent,
	       p->naks_received, p->marked, p->cnps_sent, p->cnps_received);
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

/* visit() calls this for each node, with its argument. Returns 0 or -errno. */
typedef int (*visit_fn)(struct soft_ctl *ctl, const struct soft_ctl_node *d,
			void *arg);

static int visit(struct soft_ctl *ctl, uint32_t only, visit_fn fn, void *arg)
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
		ret = fn(ctl, &d, arg);
		if (ret || only != SOFT_CTL_ALL)
			return ret;
	}
}

static int list_node(struct soft_ctl *ctl, const struct soft_ctl_node *d,
		     void *arg)
{
	int ret;

	show_node(d);
	ret = show_qps(ctl, d->node);
	return ret ? ret : show_groups(ctl, d->node);
}

int ctl_list(struct soft_ctl *ctl, uint32_t only)
{
	return visit(ctl, only, list_node, NULL);
}

static int add_rnr(struct soft_ctl *ctl, const struct soft_ctl_node *d,
		   void *arg)
{
	struct soft_rnr *sum = arg;

	sum->sent += d->rnr.sent;
	sum->received += d->rnr.received;
	return 0;
}

int ctl_rnr(struct soft_ctl *ctl, uint32_t only)
{
	struct soft_rnr sum = { 0 };
	int ret = visit(ctl, only, add_rnr, &sum);

	if (!ret)
		printf("rnr sent %" PRIu64 " received %" PRIu64 "\n",
		       sum.sent, sum.received);
	return ret;
}
