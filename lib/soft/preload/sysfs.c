/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs read below /sys/class/infiniband through libibverbs, for a
 * device that the kernel does not know. Other files are read as they are.
 */
#include "../soft.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);

static const struct {
	const char *file, *text;
} own[] = {
	{ "board_id", "soft HCA" },
	{ "fw_ver", "1.0" },
	{ "hca_type", "soft" },
	{ "node_type", "1: CA" },
};

/* NULL: not of our device. */
static const char *find(const char *path)
{
	static const char root[] = "/sys/class/infiniband/soft0/";
	unsigned int port, index;
	int end = 0;

	if (strncmp(path, root, sizeof(root) - 1))
		return NULL;
	path += sizeof(root) - 1;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(path, own[i].file))
			return own[i].text;
	if (sscanf(path, "ports/%u/gid_attrs/types/%u%n", &port, &index,
		   &end) == 2 && !path[end])
		return "RoCE v2";
	return "";
}

/* Its length without the newline, or -1. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size)
{
	const char *text;
	char path[512];
	ssize_t len;
	int fd;

	if (!size ||
	    snprintf(path, sizeof(path), "%s/%s", dir, file) >=
	    (int)sizeof(path))
		return -1;
	text = find(path);
	if (text)
		return *text ? snprintf(buf, size, "%s", text) : -1;
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
