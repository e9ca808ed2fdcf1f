/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of checks of this host. */
#include "doctor.h"

#include <string.h>

static const struct {
	const char *name, *what;
	check_fn *run;
} checks[] = {
	{ "modules", "kernel modules", check_modules },
	{ "devices", "RDMA devices", check_devices },
	{ "links", "RDMA link of each network device", check_links },
	{ "provider", "user-space drivers", check_provider },
	{ "nodes", "device nodes and permissions", check_nodes },
	{ "container", "container", check_container },
	{ "netns", "network namespace", check_netns },
	{ "ports", "states of ports", check_ports },
	{ "counters", "error counters of ports", check_counters },
	{ "gids", "addresses of RoCE ports", check_gids },
	{ "roce", "RoCE versions", check_roce },
	{ "mtu", "MTU of ports", check_mtu },
	{ "pkeys", "P_Keys of InfiniBand ports", check_pkeys },
	{ "firmware", "firmware", check_firmware },
	{ "odp", "on-demand paging", check_odp },
	{ "iommu", "address translation of the host", check_iommu },
	{ "memlock", "limit of locked memory", check_memlock },
	{ "cgroup", "limits of the rdma controller", check_cgroup },
	{ "hugepages", "huge pages", check_hugepages },
	{ "files", "limit of open files", check_files },
	{ "processes", "limit of threads", check_processes },
	{ "space", "limit of the address space", check_space },
	{ "yama", "reading memory of other processes", check_yama },
	{ "libraries", "libraries and versions", check_libraries },
	{ "environment", "variables of rdmamsg-env(7)", check_environment },
	/* the steps of peer.c */
	{ "resolve", "address of the host", NULL },
	{ "route", "way to the host, and its RDMA device", NULL },
	{ "connect", "connection to rdmamsg-doctor --serve", NULL },
	{ "report", "report of the peer", NULL },
	{ "peer", "findings of the peer", NULL },
	{ "latency", "messages there and back", NULL },
	{ "bandwidth", "large messages to the peer", NULL },
	{ "compare", "both sides compared", NULL },
};

#define CHECKS	(sizeof(checks) / sizeof(checks[0]))

void run_checks(struct facts *f)
{
	report_clear();
	facts_read(f);
	for (size_t i = 0; i < CHECKS; i++) {
		report_check(checks[i].name);
		if (checks[i].run)
			checks[i].run(f);
	}
}

const char *check_what(const char *name)
{
	for (size_t i = 0; i < CHECKS; i++)
		if (!strcmp(checks[i].name, name))
			return checks[i].what;
	return "";
}

/* A finding of the peer is not a step. */
bool check_is_step(const char *name)
{
	for (size_t i = 0; i < CHECKS; i++)
		if (!strcmp(checks[i].name, name))
			return !checks[i].run && strcmp(name, "peer");
	return false;
}
