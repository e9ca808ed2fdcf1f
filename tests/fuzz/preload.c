/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the library that rdmamsg-soft preloads takes any path below
 * /sys, any request of RDMA netlink and any management datagram. What it lists
 * it finds, and each answer is whole.
 */
#include "soft/preload/mad.h"
#include "soft/preload/nldev.h"
#include "soft/preload/preload.h"
#include "soft/fabric/dev.h"
#include "soft/soft.h"

#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* A fabric of its own, with a device that stays. */
static struct soft_dev *device(void)
{
	static struct soft_dev *dev;
	char name[32];

	if (dev)
		return dev;
	(void)snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", name, 1);
	(void)setenv("RDMAMSG_SOFT_LINK", "ib", 1);
	must(!preload_open_kept(&dev));
	return dev;
}

/* ---- paths ------------------------------------------------------------ */

static void check_directory(const char *path)
{
	char name[64], below[PRELOAD_PATH + 64];

	for (unsigned int i = 0; preload_sysfs_entry(path, i, name); i++) {
		must(i < 100 && *name && strlen(name) < sizeof(name));
		(void)snprintf(below, sizeof(below), "%s/%s", path, name);
		must(strlen(below) >= PRELOAD_PATH ||
		     preload_sysfs_type(below) > 0);
	}
}

static void check_path(const char *path)
{
	char buf[PRELOAD_PATH], text[64];
	const char *name = preload_sysfs_name(path, buf);
	int type = preload_sysfs_type(path), n;

	must(!name == (type == PRELOAD_NOT_OURS));
	must(preload_path(path, buf) != NULL);
	n = preload_sysfs(path, text, sizeof(text));
	must(n == PRELOAD_NOT_OURS || name);
	/* what can be read is a file; an empty entry has no type */
	must(n < 0 || (type == S_IFREG && n < (int)sizeof(text)));
	if (type == S_IFDIR)
		check_directory(path);
}

/* ---- requests --------------------------------------------------------- */

static void check_request(const uint8_t *data, size_t size)
{
	union {
		struct nlmsghdr hdr;
		uint8_t bytes[1024];
	} request = { .bytes = { 0 } };
	struct nl_answer a = { .at = NULL };
	size_t at = 0;

	if (size > sizeof(request) - NLMSG_HDRLEN)
		size = sizeof(request) - NLMSG_HDRLEN;
	memcpy(request.bytes, data, size);
	request.hdr.nlmsg_len = (uint32_t)(size < NLMSG_HDRLEN ? NLMSG_HDRLEN :
					   size);
	nldev_answer(&request.hdr, &a);
	must(!a.failed);
	while (at < a.len) {
		struct nlmsghdr hdr;

		must(a.len - at >= sizeof(hdr));
		memcpy(&hdr, a.at + at, sizeof(hdr));
		must(hdr.nlmsg_len >= NLMSG_HDRLEN &&
		     hdr.nlmsg_len <= NL_MESSAGE_MAX &&
		     NLMSG_ALIGN(hdr.nlmsg_len) <= a.len - at);
		at += NLMSG_ALIGN(hdr.nlmsg_len);
	}
	free(a.at);
}

static void check_mad(const uint8_t *data, size_t size)
{
	uint8_t mad[MAD_SIZE] = { 0 };
	uint16_t lid = 1;

	if (size > 2 + sizeof(mad))
		size = 2 + sizeof(mad);
	if (size > 2) {
		memcpy(&lid, data, 2);
		memcpy(mad, data + 2, size - 2);
	}
	/* an answer has the bit of a response */
	must(!preload_mad(device(), lid, mad) || mad[3] & 0x80);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	(void)device();
	if (!size)
		return 0;
	switch (*data) {
	case 'N':
		check_request(data + 1, size - 1);
		return 0;
	case 'M':
		check_mad(data + 1, size - 1);
		return 0;
	default:
		text = malloc(size + 1);
		must(text != NULL);
		memcpy(text, data, size);
		text[size] = 0;
		check_path(text);
		free(text);
		return 0;
	}
}
