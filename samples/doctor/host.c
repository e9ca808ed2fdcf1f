/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of the kernel and of the container. */
#include "doctor.h"
#include "parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capability.h>

#define DOCKER	"docker run --device=/dev/infiniband --cap-add=IPC_LOCK " \
		"--ulimit memlock=-1 ..."

bool host_has_cap(int cap)
{
	char text[8192];
	uint64_t caps;

	return root_read(text, sizeof(text), "/proc/self/status") > 0 &&
	       parse_value(text, "CapEff", 16, &caps) && caps >> cap & 1;
}

/* ---- modules ---------------------------------------------------------- */

/* Each is loaded if it is in /sys/module, or in use if it is built in. */
static const struct {
	const char *name, *use, *purpose;
} modules[] = {
	{ "ib_uverbs", "/sys/class/infiniband_verbs", "verbs of programs" },
	{ "rdma_ucm", "/sys/class/misc/rdma_cm", "connections of programs" },
};

static void mend_module(struct finding *f, const char *name)
{
	char release[128], path[256];
	size_t len;
	char *text;

	root_line(release, sizeof(release), "/proc/sys/kernel/osrelease");
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", release);
	text = root_slurp(path, &len);
	if (host_in_container())
		mend(f, "on the host: modprobe %s", name);
	else if (text && parse_has_module(text, name))
		mend(f, "modprobe %s", name);
	else
		mend(f, "%s/lib/modules has no %s for kernel %s: install and "
		     "boot a kernel with all modules, on Debian: apt-get "
		     "install linux-image-amd64", options.root, name, release);
	free(text);
}

static void check_module(const char *name, const char *use,
			 const char *purpose, bool needed, bool soft)
{
	struct finding *f;

	if (root_has("/sys/module/%s", name) || root_has("%s", use)) {
		found(name, OK, "loaded: %s", purpose);
		return;
	}
	if (soft && !needed) {
		found(name, OK, "not loaded, and the soft HCA needs none");
		return;
	}
	f = found(name, needed ? WRONG : WARNING, "not loaded: %s fail",
		  purpose);
	mend_module(f, name);
}

void check_modules(const struct facts *f)
{
	bool needed = facts_kernel_device(f) || facts_kernel_lists_any(f);

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		check_module(modules[i].name, modules[i].use,
			     modules[i].purpose, needed,
			     facts_soft_suffices(f));
}

/* ---- nodes ------------------------------------------------------------ */

/* number: the file of /sys that has the number of the node */
static void missing_node(const char *path, const char *number, int error)
{
	unsigned int major, minor;
	struct finding *f;
	char text[64];

	f = found(path, WRONG, error == -ENOENT ? "there is no such node" :
		  "the node does not belong to the driver: %s",
		  strerror(-error));
	root_line(text, sizeof(text), "%s", number);
	if (host_in_container())
		mend(f, "%s", DOCKER);
	else if (parse_node(text, &major, &minor))
		mend(f, "mkdir -p %s/dev/infiniband && rm -f %s%s && "
		     "mknod -m 666 %s%s c %u %u", options.root, options.root,
		     path, options.root, path, major, minor);
	else
		mend(f, "udevadm trigger");
}

static void check_node(const char *path, const char *number)
{
	int ret = root_open(path);
	struct finding *f;

	switch (ret) {
	case 0:
		found(path, OK, "can be opened");
		return;
	case -EACCES:
		f = found(path, WRONG, "no permission to read and write");
		mend(f, "chmod a+rw %s%s", options.root, path);
		return;
	case -EPERM:
		f = found(path, WRONG, "the container's device rules forbid "
			  "it");
		mend(f, "%s", DOCKER);
		return;
	case -EMFILE:
	case -ENFILE:
		found(path, WRONG, "%s: see 'files'", strerror(-ret));
		return;
	default:
		missing_node(path, number, ret);
	}
}

static void check_uverbs(void *arg, const char *name)
{
	char path[128], number[128];

	/* the directory has a file "abi_version" as well */
	if (strncmp(name, "uverbs", 6))
		return;
	snprintf(path, sizeof(path), "/dev/infiniband/%.32s", name);
	snprintf(number, sizeof(number),
		 "/sys/class/infiniband_verbs/%.32s/dev", name);
	check_node(path, number);
	*(bool *)arg = true;
}

void check_nodes(const struct facts *f)
{
	bool any = false;

	(void)f;
	root_each("/sys/class/infiniband_verbs", check_uverbs, &any);
	if (any)
		check_node("/dev/infiniband/rdma_cm",
			   "/sys/class/misc/rdma_cm/dev");
	else
		found("", OK, "no device of the kernel needs one");
}

/* ---- containers and namespaces ---------------------------------------- */

/* A manager sets "container" in the first process, Kubernetes in each. */
static bool environment_has(const char *path, const char *wanted)
{
	char name[64], value[8];
	size_t len, at = 0;
	char *text = root_slurp(path, &len);
	bool has = false;

	while (text && !has && parse_variable(text, len, &at, name,
					      sizeof(name), value,
					      sizeof(value)))
		has = !strcmp(name, wanted);
	free(text);
	return has;
}

bool host_in_container(void)
{
	static const char *const managers[] = {
		"docker", "kubepods", "containerd", "libpod", "lxc",
	};
	char text[4096], path[1024];

	if (root_has("/.dockerenv") || root_has("/run/.containerenv") ||
	    environment_has("/proc/1/environ", "container") ||
	    environment_has("/proc/self/environ", "KUBERNETES_SERVICE_HOST"))
		return true;
	if (root_read(text, sizeof(text), "/proc/1/cgroup") <= 0 ||
	    (!parse_cgroup(text, NULL, path, sizeof(path)) &&
	     !parse_cgroup(text, "devices", path, sizeof(path))))
		return false;
	for (size_t i = 0; i < sizeof(managers) / sizeof(managers[0]); i++)
		if (strstr(path, managers[i]))
			return true;
	return false;
}

void check_container(const struct facts *f)
{
	struct finding *one;

	if (!host_in_container()) {
		found("", OK, "this is not a container");
		return;
	}
	if (!facts_kernel_lists_any(f)) {
		found("", OK, "a container on a host without RDMA devices");
		return;
	}
	if (root_each("/dev/infiniband", NULL, NULL) <= 0) {
		one = found("", WRONG, "the container has no /dev/infiniband");
		mend(one, "%s", DOCKER);
	} else if (!host_has_cap(CAP_IPC_LOCK)) {
		one = found("", WARNING, "the container may not lock memory "
			    "beyond its limit, see 'memlock'");
		mend(one, "%s", DOCKER);
	} else {
		found("", OK, "the container has nodes and CAP_IPC_LOCK");
	}
}

/* Not the namespace of the first process, as far as can be seen. */
static bool in_other_netns(void)
{
	char own[64], first[64];

	root_link(own, sizeof(own), "/proc/self/ns/net");
	root_link(first, sizeof(first), "/proc/1/ns/net");
	return own[0] && first[0] && strcmp(own, first);
}

void check_netns(const struct facts *f)
{
	const struct device *d = facts_kernel_device(f);
	bool other = in_other_netns();
	struct finding *one;
	char mode[16];

	root_line(mode, sizeof(mode), "%s", NETNS_MODE);
	if (!mode[0])
		found("", OK, "no RDMA in this kernel");
	else if (mode[0] == 'N' && other && !d) {
		one = found("", WRONG, "mode exclusive, and no device is in "
			    "this network namespace");
		mend(one, "in the namespace of the device: rdma dev set "
		     "DEVICE netns NAME");
	} else if (mode[0] == 'Y' && other && d) {
		one = found("", WARNING, "mode shared: devices are in all "
			    "network namespaces, addresses only in their own");
		mend(one, "in the first namespace: rdma system set netns "
		     "exclusive && rdma dev set %s netns NAME", d->name);
	} else {
		found("", OK, "mode %s", mode[0] == 'N' ? "exclusive" :
		      "shared");
	}
}

/* ---- cgroup ----------------------------------------------------------- */

/* Returns true if the limit of the group leaves nothing, or little. */
static bool check_object(const char *dir, const char *device,
			 const char *object)
{
	char max[4096], current[4096];
	uint64_t limit, used = 0;
	struct finding *f;

	if (root_read(max, sizeof(max), "%s/rdma.max", dir) <= 0 ||
	    !parse_rdma_cgroup(max, device, object, &limit) ||
	    limit == UNLIMITED)
		return false;
	if (root_read(current, sizeof(current), "%s/rdma.current", dir) > 0)
		(void)parse_rdma_cgroup(current, device, object, &used);
	f = found(device, used >= limit ? WRONG : WARNING,
		  "%s: limit of %llu, in use %llu, in %s", object,
		  (unsigned long long)limit, (unsigned long long)used, dir);
	mend(f, "echo '%s %s=max' >%s%s/rdma.max", device, object,
	     options.root, dir);
	return true;
}

/* Returns true if there is a limit in the directory or above it. */
static bool check_group(char *dir, size_t top, const char *device)
{
	bool limited = false;

	for (;;) {
		char *slash = strrchr(dir, '/');

		limited |= check_object(dir, device, "hca_handle");
		limited |= check_object(dir, device, "hca_object");
		if (!slash || (size_t)(slash - dir) < top)
			return limited;
		*slash = 0;
	}
}

/* The directory of this process, in the hierarchy of either version. */
static bool group_dir(char *dir, size_t size, size_t *top)
{
	char text[4096], path[1024];
	const char *mount = "/sys/fs/cgroup/rdma";

	if (root_read(text, sizeof(text), "/proc/self/cgroup") <= 0)
		return false;
	if (!parse_cgroup(text, "rdma", path, sizeof(path))) {
		mount = "/sys/fs/cgroup";
		if (!parse_cgroup(text, NULL, path, sizeof(path)))
			return false;
	}
	*top = strlen(mount);
	return snprintf(dir, size, "%s%s", mount,
			strcmp(path, "/") ? path : "") < (int)size;
}

void check_cgroup(const struct facts *f)
{
	char dir[1200];
	bool limited = false;
	size_t top;

	for_each_device(d, f)
		if (!d->soft && group_dir(dir, sizeof(dir), &top))
			limited |= check_group(dir, top, d->name);
	if (!limited)
		found("", OK, "no limit");
}

/* ---- memory and buses ------------------------------------------------- */

void check_hugepages(const struct facts *f)
{
	uint64_t total = 0, unused = 0, kb = 0;
	struct finding *one;
	char text[8192];

	(void)f;
	if (root_read(text, sizeof(text), "/proc/meminfo") > 0) {
		(void)parse_value(text, "HugePages_Total", 10, &total);
		(void)parse_value(text, "HugePages_Free", 10, &unused);
		(void)parse_value(text, "Hugepagesize", 10, &kb);
	}
	if (!total) {
		found("", OK, "none reserved: pools with RDMAMSG_POOL_HUGE use "
		      "other pages; sysctl vm.nr_hugepages=N reserves some");
	} else if (unused) {
		found("", OK, "%llu of %llu free, %llu kB each",
		      (unsigned long long)unused, (unsigned long long)total,
		      (unsigned long long)kb);
	} else {
		one = found("", WARNING, "all %llu are in use: pools with "
			    "RDMAMSG_POOL_HUGE get other pages",
			    (unsigned long long)total);
		mend(one, "sysctl vm.nr_hugepages=%llu",
		     (unsigned long long)total * 2);
	}
}

void check_iommu(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f) {
		struct finding *one;
		char type[32];

		root_line(type, sizeof(type),
			  "/sys/class/infiniband/%s/device/iommu_group/type",
			  d->name);
		if (strncmp(type, "DMA", 3))
			continue;
		any = true;
		one = found(d->name, WARNING, "the IOMMU translates every "
			    "access of the device (%s), which costs rate",
			    type);
		mend(one, "add iommu=pt to GRUB_CMDLINE_LINUX in "
		     "/etc/default/grub, then update-grub and reboot");
	}
	if (!any)
		found("", OK, "no device's memory access is translated");
}

/* Scope 1 and 2 do not bind a process with the capability. */
void check_yama(const struct facts *f)
{
	uint64_t scope = 0;
	struct finding *one;
	char text[32];

	(void)f;
	root_line(text, sizeof(text), "/proc/sys/kernel/yama/ptrace_scope");
	(void)parse_number(text, &scope);
	if (!scope || (scope < 3 && host_has_cap(CAP_SYS_PTRACE))) {
		found("", OK, "allowed: the soft HCA copies large messages "
		      "once");
		return;
	}
	one = found("", WARNING, "ptrace_scope is %llu: the soft HCA copies "
		    "large messages twice", (unsigned long long)scope);
	if (scope < 3)
		mend(one, "echo 0 >%s/proc/sys/kernel/yama/ptrace_scope",
		     options.root);
	else
		mend(one, "remove kernel.yama.ptrace_scope=3 from "
		     "/etc/sysctl.d and reboot");
}
