/* SPDX-License-Identifier: BSD-2-Clause */
/* Names below /sys/class/infiniband: which are the device's. */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/netif.h"
#include "soft/fabric/dev.h"
#include "soft/preload/preload.h"

#define CLASS	"/sys/class/infiniband"
#define NET	"/soft0/device/net/"

/* Removes the last name of a path, if there is one. */
static size_t up(const char *path, size_t len)
{
	while (len && path[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

/*
 * Copies an absolute path without empty names, "." and "..". The class has no
 * symbolic links, so the names alone decide. Returns false if it is too long.
 */
static bool tidy(const char *path, char out[PRELOAD_PATH])
{
	size_t len = 0, n;

	while (*path) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 2 && !strncmp(path, "..", 2)) {
			len = up(out, len);
		} else if (n && !(n == 1 && *path == '.')) {
			if (len + 1 + n >= PRELOAD_PATH)
				return false;
			out[len++] = '/';
			memcpy(out + len, path, n);
			len += n;
		}
		path += n;
	}
	out[len] = 0;
	return true;
}

const char *preload_sysfs_name(const char *path, char buf[PRELOAD_PATH])
{
	const size_t len = sizeof(CLASS) - 1;
	const char *rest;

	/* all other paths of the program pass here */
	if (!path || strncmp(path, "/sys/", 5) || !tidy(path, buf) ||
	    strncmp(buf, CLASS, len))
		return NULL;
	rest = buf + len;
	return !*rest || !strcmp(rest, "/soft0") ||
	       !strncmp(rest, "/soft0/", 7) ? rest : NULL;
}

/* FNV-1a of the path, because programs detect loops by the number. */
unsigned long preload_inode(const char *dir, const char *name)
{
	char path[2 * PRELOAD_PATH], tidied[PRELOAD_PATH];
	unsigned long h = 14695981039346656037u;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!tidy(path, tidied))
		return 1;
	for (const char *c = tidied; *c; c++)
		h = (h ^ (unsigned char)*c) * 1099511628211u;
	return h | 1;
}

bool preload_net_name(unsigned int i, char name[IF_NAMESIZE])
{
	struct soft_dev options = { .refs = 0 };
	struct ifaddrs *all, *a, *b;
	bool found = false;

	if (soft_addr_options(&options) || netif_addrs(&all))
		return false;
	for (a = all; a && !found; a = a->ifa_next) {
		if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
		    (a->ifa_addr->sa_family != AF_INET &&
		     a->ifa_addr->sa_family != AF_INET6))
			continue;
		/* an interface has many addresses; name it at the first one */
		for (b = all; b != a; b = b->ifa_next)
			if (b->ifa_addr && !strcmp(b->ifa_name, a->ifa_name) &&
			    (b->ifa_addr->sa_family == AF_INET ||
			     b->ifa_addr->sa_family == AF_INET6))
				break;
		if (b != a || i--)
			continue;
		snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

static bool is_net(const char *name, size_t len)
{
	char known[IF_NAMESIZE];

	for (unsigned int i = 0; preload_net_name(i, known); i++)
		if (strlen(known) == len && !strncmp(known, name, len))
			return true;
	return false;
}

const char *preload_path(const char *path, char buf[PRELOAD_PATH])
{
	char tidied[PRELOAD_PATH];
	const char *rest;

	if (path && !strcmp(path, "/dev/infiniband/uverbs-soft0"))
		return "/dev/null";
	rest = preload_sysfs_name(path, tidied);
	if (!rest || strncmp(rest, NET, sizeof(NET) - 1))
		return path;
	rest += sizeof(NET) - 1;
	if (!is_net(rest, strcspn(rest, "/")))
		return path;
	snprintf(buf, PRELOAD_PATH, "/sys/class/net/%s", rest);
	return buf;
}
