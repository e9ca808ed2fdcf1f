/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: conform [-d DEVICE] [CASE...]
 *
 * Runs the cases on a device: the soft HCA ("soft"), or the RDMA device of that
 * name. Prints a line for each case: `ok NAME`, `not ok NAME # why` or
 * `skip NAME # why`; a gate that is skipped stands for the rest of its list. A
 * case that fails as written in differences.c counts as a known difference, and
 * one that crashes the kernel of the device is skipped. If a case with an entry
 * in differences.c passes, remove its entry, or say which kernel is the last it
 * is true for. With RDMAMSG_SOFT_NET=all, the queue pairs of a case on the soft
 * HCA reach each other by packets, through the UDP port of RoCE v2, and
 * packet_differences.c has the entries.
 */
#include "config.h"
#include "packets.h"
#include "run.h"

#include <inttypes.h>
#include <stdio.h>

static const struct device_case *const lists[] = {
	apm_cases, attr_cases, busy_cases, calc_cases, cm_cases, cq_cases,
	cross_cases,
#ifdef HAVE_MLX5DV
	dc_cases, dc_error_cases, dc_op_cases, dc_raw_cases, dc_stream_cases,
#endif
	domain_cases, error_cases, iwarp_cases, masked_cases,
#ifdef HAVE_MLX5DV
	masked_raw_cases,
#endif
	mcast_cases, mr_cases, mw_cases, op_cases, order_cases, srq_cases,
	state_cases, ud_cases,
#ifdef HAVE_MLX5DV
	umr_cases, umr_use_cases, umr_atomic_cases,
#endif
};

static void print_failure(const char *name, char *said)
{
	printf("not ok %s # %.*s\n", name, (int)strcspn(said, "\n"), said);
	for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
		printf("# %s\n", line);
}

/* Prints the result. Returns true if it is a failure. */
static bool judge(const char *name, const struct verdict *r)
{
	int first = (int)strcspn(r->said, "\n");

	switch (r->result) {
	case PASSED:
		/* a case may say why it checks nothing */
		printf("ok %s%s%.*s\n", name, first ? " # " : "", first,
		       r->said);
		return false;
	case DIFFERS_AS_WRITTEN:
		printf("ok %s # differs as written: %s; %s\n", name,
		       r->as->does, r->as->why);
		return false;
	case DIFFERENCE_GONE:
		printf("not ok %s # a written difference has gone: %s\n", name,
		       r->as->does);
		return true;
	case LIST_SKIPPED:
		printf("skip %s # %.*s\n", name, first, r->said);
		return false;
	case NOT_RUN:
		printf("skip %s # %s\n", name, r->as->why);
		return false;
	case NOT_ASKED:		/* of rdmamsg-conform */
	case DIFFERS:
		break;
	}
	print_failure(name, r->said);
	return true;
}

static bool is_case(const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct device_case *c = lists[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return true;
	return false;
}

/* Counts the entries of a list whose case does not exist. */
static int strays(const struct difference *d)
{
	int n = 0;

	for (; d->name; d++) {
		if (is_case(d->name))
			continue;
		printf("not ok %s # a difference of no case\n", d->name);
		n++;
	}
	return n;
}

static bool wanted(const char *name, char *const *names)
{
	if (!*names)
		return true;
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* Returns the number of failed cases. Adds those that ran to 'seen'. */
static int run_list(const struct device_case *c, char *const *names, int *seen)
{
	int failed = 0;

	for (; c->name; c++) {
		struct verdict r;

		if (!c->gate && !wanted(c->name, names))
			continue;
		r = run_case(c);
		failed += judge(c->name, &r);
		++*seen;
		if (r.result == LIST_SKIPPED)
			break;
	}
	return failed;
}

/* The environment says it, because the device itself is tested. */
static bool over_packets(void)
{
	const char *net = getenv("RDMAMSG_SOFT_NET");
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	return net && !strcmp(net, "all") &&
	       (!link || !strcmp(link, "ethernet"));
}

/* Fails the case if a message went another way than by a packet. */
static void check_packets(void)
{
	uint64_t records, packets;

	packets_count(ctx, &records, &packets);
	if (records > packets)
		fail(__FILE__, __LINE__, NOT_PACKETS ": %" PRIu64
		     " records, %" PRIu64 " packets", records, packets);
	if (packets)
		printf("%" PRIu64 " packets\n", packets);
}

int main(int argc, char **argv)
{
	int failed = strays(differences) + strays(packet_differences), seen = 0;
	const char *device = "soft";
	bool soft, packets;

	if (argc > 2 && !strcmp(argv[1], "-d")) {
		device = argv[2];
		argv += 2;
	}
	soft = !strcmp(device, "soft");
	packets = soft && over_packets();
	if (!run_on(device, packets ? OVER_PACKETS : device,
		    soft ? &rdmamsg__verbs_soft : &rdmamsg__verbs_system, soft,
		    0)) {
		fputs("conform: which kernel is this?\n", stderr);
		return 2;
	}
	if (packets)
		run_otherwise(packet_differences, check_packets);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		failed += run_list(lists[i], argv + 1, &seen);
	return failed || !seen;
}
