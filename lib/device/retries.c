/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retries of the transport. A lost packet costs an ack timeout, and no
 * completion tells of it: only the counters of the device do.
 */
#include "base/base.h"
#include "base/fd.h"
#include "device/device.h"
#include "device/retries.h"
#include "device/verbs_api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Files of hw_counters that count retries, of which a device has at most one:
 * mlx5's expired ack timers, and Soft-RoCE's retries (Linux, rxe_comp.c,
 * RXE_CNT_COMP_RETRY).
 */
static const char *const names[] = {
	"local_ack_timeout_err", "completer_retry_err",
};

static bool read_number(const char *path, uint64_t *ret)
{
	char text[32];
	ssize_t len;
	int fd = fd_high(open(path, O_RDONLY | O_CLOEXEC));

	if (fd < 0)
		return false;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = 0;
	*ret = strtoull(text, NULL, 10);
	return true;
}

static bool from_sysfs(const struct rdmamsg_device *d, uint32_t port,
		       uint64_t *ret)
{
	char path[192];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/"
			       "ports/%u/hw_counters/%s", d->name, port,
			       names[i]);
		if (read_number(path, ret))
			return true;
	}
	return false;
}

bool rdmamsg__device_retries(const struct rdmamsg_device *d, uint64_t *ret)
{
	const int saved = errno;
	uint64_t sum = 0, n;
	bool counts = false;

	for (uint32_t port = 1; port <= d->attr.phys_port_cnt; port++) {
		if (d->v->port_retries)
			n = d->v->port_retries(d->verbs, port);
		else if (!from_sysfs(d, port, &n))
			continue;
		counts = true;
		sum += n;
	}
	errno = saved;
	if (counts)
		*ret = sum;
	return counts;
}
