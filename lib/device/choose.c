/* SPDX-License-Identifier: BSD-2-Clause */
/* The choice of a device. */
#include "base/base.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#define SOFT_NAME	"soft0"

const char *rdmamsg__asked(const char *option)
{
	return option ? option : rdmamsg__env_device();
}

bool rdmamsg__asked_by_name(const char *asked)
{
	return asked && strcmp(asked, "hw") && strcmp(asked, "soft");
}

bool rdmamsg__is_soft(const struct verbs_api *v)
{
	return v == &rdmamsg__verbs_soft;
}

const struct verbs_api *rdmamsg__choose_table(const char *asked)
{
	if (!rdmamsg__soft_possible() || (asked && !strcmp(asked, "hw")))
		return rdmamsg__verbs;
	if (!asked)
		return NULL;
	return !strcmp(asked, "soft") || !strcmp(asked, SOFT_NAME) ?
	       &rdmamsg__verbs_soft : rdmamsg__verbs;
}

static bool no_device(void)
{
	return rdmamsg__try(rdmamsg__device_any(rdmamsg__verbs)) == -ENODEV;
}

const struct verbs_api *rdmamsg__choose_dial(const char *asked,
					     const struct sockaddr *to,
					     bool *or_soft)
{
	const struct verbs_api *v = rdmamsg__choose_table(asked);
	bool soft = *or_soft;

	*or_soft = false;
	if (v)
		return v;
	if (soft || no_device())
		return &rdmamsg__verbs_soft;
	*or_soft = rdmamsg__addr_is_loopback(to);
	return rdmamsg__verbs;
}

const struct verbs_api *rdmamsg__choose_group(const char *asked)
{
	const struct verbs_api *v = rdmamsg__choose_table(asked);

	if (v)
		return v;
	return no_device() ? &rdmamsg__verbs_soft : rdmamsg__verbs;
}

/*
 * Returns true if the soft HCA listens: at a wildcard address beside the other
 * devices, at a loopback address if they fail to listen, and at another one if
 * there are none. If there are, its listener might be out of reach of the hosts
 * that are meant, because Soft-RoCE has the port.
 */
bool rdmamsg__choose_soft_listens(const struct sockaddr *at, int ret)
{
	if (rdmamsg__addr_is_any(at))
		return !ret || ret == -ENODEV;
	if (!ret || ret == -EADDRINUSE)
		return false;
	return rdmamsg__addr_is_loopback(at) || no_device();
}

/*
 * Finds the name of the device with the address, else of a device with an
 * active port.
 */
static int find_device(const struct verbs_api *v, const struct sockaddr *local,
		       char name[static 64])
{
	struct ibv_device **list;
	int n = 0, unable = 0, unread = 0, ret = rdmamsg__device_any(v);
	bool has = false;
	uint8_t port;

	if (ret)
		return ret;
	ret = rdmamsg__v_get_device_list(v, &list, &n);
	if (ret)
		return rdmamsg__fail_verbs(ret, "RDMA devices");
	name[0] = 0;
	for (int i = 0; i < n && !has; i++) {
		struct ibv_context *verbs;

		ret = rdmamsg__try(rdmamsg__device_walks(
				v->get_device_name(list[i]),
				list[i]->transport_type));
		unable = ret ? ret : unable;
		if (ret || rdmamsg__v_open_device(v, list[i], &verbs))
			continue;
		ret = rdmamsg__try(rdmamsg__find_port(v, verbs, local, &port,
						      &has));
		unread = ret ? ret : unread;
		if (port && (has || !name[0]))
			snprintf(name, 64, "%s", v->get_device_name(list[i]));
		(void)rdmamsg__v_close_device(v, verbs);
	}
	v->free_device_list(list);
	/* the device that has the address may be the one not read */
	if (!has && unread)
		return rdmamsg__fail_again(unread);
	if (!name[0] && unable)
		return rdmamsg__fail_again(unable);
	if (!name[0])
		return rdmamsg__fail(-ENODEV, "no RDMA device has an active "
				     "port: see 'rdma link'; "
				     "RDMAMSG_DEVICE=soft needs none");
	return 0;
}

/*
 * Returns true if the soft HCA may be used, because no option names a device:
 * at a loopback address, or if this host has no RDMA device at all.
 */
static bool soft_stands_in(const struct sockaddr *local)
{
	return (local && rdmamsg__addr_is_loopback(local)) || no_device();
}

const char *rdmamsg__soft_alone(const struct verbs_api *v)
{
	const int err = v->far_error ? v->far_error() : 0;

	return !err ? NULL : err != -EADDRINUSE ? strerror(-err) :
	       "UDP port 4791 of RoCE v2 is taken in this network namespace, "
	       "by Soft-RoCE or by another user";
}

int rdmamsg__choose_device(const char *asked, const struct sockaddr *local,
			 const struct verbs_api **ret_v, char **ret_name)
{
	const struct verbs_api *v;
	char name[64];
	int ret;

	asked = rdmamsg__asked(asked);
	v = rdmamsg__choose_table(asked);
	if (rdmamsg__asked_by_name(asked)) {
		snprintf(name, sizeof(name), "%s", asked);
	} else {
		bool either = !v;

		if (either)
			v = rdmamsg__verbs;
		ret = rdmamsg__try(find_device(v, local, name));
		if (ret == -ENODEV && either && soft_stands_in(local)) {
			log_info("no RDMA device: the soft HCA");
			v = &rdmamsg__verbs_soft;
			ret = find_device(v, local, name);
		}
		if (ret)
			return rdmamsg__fail_again(ret);
	}
	free(*ret_name);
	*ret_v = v;
	*ret_name = strdup(name);
	return *ret_name ? 0 : rdmamsg__fail(-ENOMEM, "no memory for the name "
					     "of a device");
}
