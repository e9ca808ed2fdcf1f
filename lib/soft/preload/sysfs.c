/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of the device below /sys/class/infiniband. Programs read them
 * through libibverbs, or directly as UCX does (path.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "soft/preload/preload.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/gid.h"
#include "soft/soft.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);

static const struct {
	const char *file, *text;
} own[] = {
	{ "board_id", "soft HCA" },
	{ "fw_ver", "1.0" },
	{ "hca_type", "soft" },
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
		    &end) != 3) || path[end] || soft_open(&dev))
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
	if (!strcmp(kind, "ndevs") && if_indextoname(g.ifindex, name))
		return snprintf(buf, size, "%s", name);
	return -1;
}

int preload_sysfs(const char *path, char *buf, size_t size)
{
	static const char root[] = "/sys/class/infiniband/soft0/";

	if (strncmp(path, root, sizeof(root) - 1))
		return PRELOAD_NOT_OURS;
	path += sizeof(root) - 1;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(path, own[i].file))
			return snprintf(buf, size, "%s", own[i].text);
	if (!strcmp(path, "node_type"))
		return snprintf(buf, size, "%s",
				soft_asks_iwarp() ? "4: RNIC" : "1: CA");
	return gid_file(path, buf, size);
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
