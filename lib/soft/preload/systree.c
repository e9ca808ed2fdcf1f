/* SPDX-License-Identifier: BSD-2-Clause */
/* Directories and file types of the device below /sys/class/infiniband. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "soft/fabric/dev.h"
#include "soft/fabric/gid.h"
#include "soft/preload/preload.h"

static const char *const device_files[] = {
	"board_id", "fw_ver", "hca_type", "hw_rev", "node_desc", "node_guid",
	"node_type", "sys_image_guid", NULL,
};
static const char *const port_files[] = {
	"cap_mask", "lid", "lid_mask_count", "link_layer", "phys_state",
	"rate", "sm_lid", "sm_sl", "state", NULL,
};
static const char *const place_files[] = {
	"local_cpulist", "numa_node", NULL,
};
static const char *const place_dirs[] = { "net", NULL };
static const char *const device_dirs[] = { "device", "ports", NULL };
static const char *const port_dirs[] = {
	"counters", "gid_attrs", "gids", "hw_counters", "pkeys", NULL,
};
static const char *const gid_dirs[] = { "ndevs", "types", NULL };
static const char *const class_dirs[] = { "soft0", NULL };
static const char *const none[] = { NULL };

/*
 * A directory has named files, named directories, and either numbered entries
 * or network devices.
 */
struct directory {
	const char *const *files, *const *dirs;
	unsigned int first, count;	/* numbers */
	int type;			/* of what is numbered */
	bool nets;
};

/*
 * Ports and GIDs follow from the environment, so that nothing joins a fabric to
 * list a directory.
 */
static unsigned int ports(void)
{
	struct soft_dev options = { .refs = 0 };

	return soft_addr_options(&options) ? 0 : (unsigned int)options.ports;
}

static unsigned int gids(void)
{
	struct soft_dev options = { .refs = 0 };

	return soft_addr_options(&options) ? 0 :
	       (unsigned int)soft_gids(&options);
}

/* Finds the directory. 'path' follows the name of the port. */
static bool port_directory(const char *path, struct directory *d)
{
	if (!*path) {
		d->files = port_files;
		d->dirs = port_dirs;
	} else if (!strcmp(path, "/counters")) {
		d->files = preload_counters;
	} else if (!strcmp(path, "/hw_counters")) {
		d->files = preload_hw_counters;
	} else if (!strcmp(path, "/gid_attrs")) {
		d->dirs = gid_dirs;
	} else if (!strcmp(path, "/pkeys")) {
		d->count = soft_asks_iwarp() ? 0 : 1;
	} else if (!strcmp(path, "/gids") ||
		   !strcmp(path, "/gid_attrs/types") ||
		   !strcmp(path, "/gid_attrs/ndevs")) {
		d->count = gids();
	} else {
		return false;
	}
	return true;
}

static bool find(const char *path, struct directory *d)
{
	unsigned int port;
	int end = 0;

	*d = (struct directory){ none, none, 0, 0, S_IFREG, false };
	if (!*path) {
		d->dirs = class_dirs;
		return true;
	}
	path += strlen("/soft0");
	if (!*path) {
		d->files = device_files;
		d->dirs = device_dirs;
	} else if (!strcmp(path, "/device")) {
		d->files = place_files;
		d->dirs = place_dirs;
	} else if (!strcmp(path, "/device/net")) {
		d->nets = true;
		d->type = S_IFDIR;
	} else if (!strcmp(path, "/ports")) {
		d->first = 1;
		d->count = ports();
		d->type = S_IFDIR;
	} else {
		return sscanf(path, "/ports/%u%n", &port, &end) == 1 && port &&
		       port <= ports() && port_directory(path + end, d);
	}
	return true;
}

/* Returns true if the directory lists a file of that name. */
static bool lists(const struct directory *d, const char *name)
{
	unsigned int number;
	int end = 0;

	for (const char *const *file = d->files; *file; file++)
		if (!strcmp(*file, name))
			return true;
	return sscanf(name, "%u%n", &number, &end) == 1 && !name[end] &&
	       number - d->first < d->count;
}

int preload_sysfs_type(const char *path)
{
	char tidied[PRELOAD_PATH];
	const char *rest = preload_sysfs_name(path, tidied);
	struct directory d;
	char *name;

	if (!rest)
		return PRELOAD_NOT_OURS;
	if (find(rest, &d))
		return S_IFDIR;
	name = strrchr(tidied, '/');
	*name++ = 0;
	return find(rest, &d) && lists(&d, name) ? S_IFREG : -1;
}

int preload_sysfs_entry(const char *path, unsigned int i, char name[64])
{
	char tidied[PRELOAD_PATH], net[IF_NAMESIZE];
	const char *rest = preload_sysfs_name(path, tidied);
	struct directory d;

	if (!rest || !find(rest, &d))
		return 0;
	for (; *d.files; d.files++)
		if (!i--)
			return snprintf(name, 64, "%s", *d.files), S_IFREG;
	for (; *d.dirs; d.dirs++)
		if (!i--)
			return snprintf(name, 64, "%s", *d.dirs), S_IFDIR;
	if (d.nets && preload_net_name(i, net))
		return snprintf(name, 64, "%s", net), d.type;
	if (i >= d.count)
		return 0;
	snprintf(name, 64, "%u", d.first + i);
	return d.type;
}
