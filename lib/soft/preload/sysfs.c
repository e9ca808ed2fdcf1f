/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of the device below /sys/class/infiniband. Programs read them
 * through libibverbs, or directly as UCX does (path.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/netif.h"
#include "soft/preload/preload.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/gid.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);

static const struct {
	const char *file, *text;
} own[] = {
	{ "board_id", "soft HCA" },
	{ "fw_ver", "1.0" },
	{ "hca_type", "soft" },
	{ "hw_rev", "0" },
	{ "node_desc", "soft HCA" },
};

static int gid_text(const struct soft_gid *g, char *buf, size_t size)
{
	const uint8_t *b = g->gid.raw;
	int n = 0;

	for (int i = 0; i < 16 && n < (int)size; i += 2)
		n += snprintf(buf + n, size - (size_t)n, "%s%02x%02x",
			      i ? ":" : "", b[i], b[i + 1]);
	return n;
}

/* Each opening joins the fabric. */
int preload_open_kept(struct soft_dev **ret)
{
	static atomic_bool kept;
	struct soft_dev *unused;
	int err = soft_open(ret);

	if (!err && !atomic_exchange(&kept, true))
		(void)soft_open(&unused);
	return err;
}

/* Reads a GID's file below ports/PORT/. Returns the length, or -1. */
static int gid_file(const char *path, char *buf, size_t size)
{
	unsigned int port, index;
	char kind[16], name[IF_NAMESIZE];
	struct soft_dev *dev;
	struct soft_gid g;
	int end = 0, err;
	bool roce;

	if ((sscanf(path, "ports/%u/gid_attrs/%15[a-z]/%u%n", &port, kind,
		    &index, &end) != 3 &&
	     sscanf(path, "ports/%u/%15[a-z]/%u%n", &port, kind, &index,
		    &end) != 3) || path[end] || preload_open_kept(&dev))
		return -1;
	soft_lock(dev);
	err = soft_port_gid(dev, port, index, &g);
	roce = soft_is_roce(dev);
	soft_unlock(dev);
	soft_dev_put(dev);
	if (!strcmp(kind, "gids") && err != EINVAL)
		return gid_text(&g, buf, size);
	if (err)
		return -1;
	if (!strcmp(kind, "types"))
		return snprintf(buf, size, "%s", roce ? "RoCE v2" :
				"IB/RoCE v1");
	if (!strcmp(kind, "ndevs") && netif_name(g.ifindex, name))
		return snprintf(buf, size, "%s", name);
	return -1;
}

/* ---- ports ------------------------------------------------------------ */

static const char *state_text(const struct ibv_port_attr *a)
{
	return a->state == IBV_PORT_ACTIVE ? "4: ACTIVE" :
	       a->state == IBV_PORT_ARMED ? "3: ARMED" : "1: DOWN";
}

static int port_text(const struct ibv_port_attr *a, const char *file, char *buf,
		     size_t size)
{
	if (!strcmp(file, "state"))
		return snprintf(buf, size, "%s", state_text(a));
	if (!strcmp(file, "phys_state"))
		return snprintf(buf, size, "%s", a->phys_state == 5 ?
				"5: LinkUp" : "3: Disabled");
	if (!strcmp(file, "rate"))
		return snprintf(buf, size, "100 Gb/sec (4X EDR)");
	if (!strcmp(file, "lid"))
		return snprintf(buf, size, "0x%x", a->lid);
	if (!strcmp(file, "sm_lid"))
		return snprintf(buf, size, "0x%x", a->sm_lid);
	if (!strcmp(file, "sm_sl") || !strcmp(file, "lid_mask_count"))
		return snprintf(buf, size, "0");
	if (!strcmp(file, "cap_mask"))
		return snprintf(buf, size, "0x%08x", a->port_cap_flags);
	if (!strcmp(file, "link_layer"))
		return snprintf(buf, size, "%s", a->link_layer ==
				IBV_LINK_LAYER_ETHERNET ? "Ethernet" :
				"InfiniBand");
	return -1;
}

/* Reads a port's own file or its P_Key. Returns the length, or -1. */
static int port_file(const char *path, char *buf, size_t size)
{
	struct ibv_port_attr attr;
	struct soft_dev *dev;
	unsigned int port;
	char file[32];
	int n = -1, end = 0;

	if (sscanf(path, "ports/%u/%31[a-z_/0]%n", &port, file, &end) != 2 ||
	    path[end] || port > UINT8_MAX || preload_open_kept(&dev))
		return -1;
	if (soft_port_attr(dev, (uint8_t)port, &attr))
		n = -1;
	else if (!strcmp(file, "pkeys/0") && dev->iwarp)
		n = -1;
	else if (!strcmp(file, "pkeys/0"))
		n = snprintf(buf, size, "0x%04x", soft_pkey(dev, (int)port));
	else
		n = port_text(&attr, file, buf, size);
	soft_dev_put(dev);
	return n;
}

/* ---- counters, the place on the host, the device --------------------- */

/* Reads a file of counters/ or hw_counters/. Returns the length, or -1. */
static int counter_file(const char *path, char *buf, size_t size)
{
	char dir[16], name[64];
	unsigned long long n;
	struct soft_dev *dev;
	unsigned int port;
	int end = 0;
	bool ok;

	if (sscanf(path, "ports/%u/%15[a-z_]/%63[a-zA-Z0-9_]%n", &port, dir,
		   name, &end) != 3 || path[end] ||
	    (strcmp(dir, "counters") && strcmp(dir, "hw_counters")) ||
	    preload_open_kept(&dev))
		return -1;
	ok = preload_counter(dev, port, dir, name, &n);
	soft_dev_put(dev);
	return ok ? snprintf(buf, size, "%llu", n) : -1;
}

/* The device is near all processors alike. */
static int place_file(const char *path, char *buf, size_t size)
{
	FILE *f;
	bool ok;

	if (!strcmp(path, "device/numa_node"))
		return snprintf(buf, size, "-1");
	if (strcmp(path, "device/local_cpulist"))
		return -1;
	f = fopen("/sys/devices/system/cpu/online", "re");
	if (!f)
		return snprintf(buf, size, "0");
	ok = fgets(buf, (int)size, f);
	(void)fclose(f);
	if (!ok)
		return snprintf(buf, size, "0");
	buf[strcspn(buf, "\n")] = 0;
	return (int)strlen(buf);
}

static int guid_file(char *buf, size_t size)
{
	struct soft_dev *dev;
	uint64_t guid;

	if (preload_open_kept(&dev))
		return -1;
	guid = dev->device_guid;
	soft_dev_put(dev);
	return snprintf(buf, size, "%04x:%04x:%04x:%04x",
			(unsigned int)(guid >> 48 & 0xffff),
			(unsigned int)(guid >> 32 & 0xffff),
			(unsigned int)(guid >> 16 & 0xffff),
			(unsigned int)(guid & 0xffff));
}

int preload_sysfs(const char *path, char *buf, size_t size)
{
	int (*const kinds[])(const char *, char *, size_t) = {
		port_file, counter_file, gid_file, place_file,
	};
	char tidied[PRELOAD_PATH];
	const char *name = preload_sysfs_name(path, tidied);
	int n = -1;

	if (!name)
		return PRELOAD_NOT_OURS;
	if (strncmp(name, "/soft0/", 7))
		return -1;
	name += 7;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(name, own[i].file))
			return snprintf(buf, size, "%s", own[i].text);
	if (!strcmp(name, "node_type"))
		return snprintf(buf, size, "%s",
				soft_asks_iwarp() ? "4: RNIC" : "1: CA");
	if (!strcmp(name, "node_guid") || !strcmp(name, "sys_image_guid"))
		return guid_file(buf, size);
	for (size_t i = 0; n < 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		n = kinds[i](name, buf, size);
	return n;
}

/* Returns the length without the newline, or -1. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size)
{
	char path[512];
	ssize_t len;
	int fd, n;

	if (!size ||
	    snprintf(path, sizeof(path), "%s/%s", dir, file) >=
	    (int)sizeof(path))
		return -1;
	n = preload_sysfs(path, buf, size);
	if (n != PRELOAD_NOT_OURS)
		return n;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0) {
		if (buf[len - 1] == '\n')
			buf[--len] = 0;
		else if ((size_t)len < size)
			buf[len] = 0;
		else
			return -1;
	}
	return (int)len;
}
