/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of devices: their kinds, names and addresses. */
#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* With no devices, one library fails and the other returns an empty list. */
static int list_devices(const struct verbs_api *v, struct ibv_device ***ret,
			int *ret_n)
{
	int n = 0, err = rdmamsg__v_get_device_list(v, ret, &n);

	if (err == -EACCES || err == -EPERM || err == -EMFILE ||
	    err == -ENFILE || err == -ENOMEM)
		return rdmamsg__fail_verbs(err, "RDMA devices");
	if (err)
		return rdmamsg__fail(-ENODEV, "no RDMA in this kernel: load "
				     "the driver of the card, or 'modprobe "
				     "rdma_rxe' and 'rdma link add rxe0 type "
				     "rxe netdev NAME'; within this host "
				     "RDMAMSG_DEVICE=soft needs neither");
	if (!n) {
		v->free_device_list(*ret);
		return rdmamsg__fail(-ENODEV, "no RDMA device: give an "
				     "Ethernet card one with 'rdma link add "
				     "rxe0 type rxe netdev NAME'; within this "
				     "host RDMAMSG_DEVICE=soft needs none");
	}
	*ret_n = n;
	return 0;
}

static int open_device(const struct verbs_api *v, struct ibv_device *device,
		       struct ibv_context **ret)
{
	int err = rdmamsg__v_open_device(v, device, ret);

	if (!err)
		return 0;
	if (v == &rdmamsg__verbs_soft)
		return rdmamsg__fail_soft(err);
	return rdmamsg__fail_verbs(rdmamsg__node_error(err, device->dev_name),
				   "opening the RDMA device");
}

int rdmamsg__open_by_name(const struct verbs_api *v, const char *name,
			  struct ibv_context **ret)
{
	struct ibv_device **list;
	int n, err = list_devices(v, &list, &n);
	int i = 0;

	if (err == -ENODEV)
		return rdmamsg__fail(err, "no RDMA device is named %s, there "
				     "is none at all: RDMAMSG_DEVICE=soft "
				     "stays within this host and needs none",
				     name);
	if (err)
		return err;
	while (i < n && strcmp(v->get_device_name(list[i]), name))
		i++;
	if (i == n)
		err = rdmamsg__fail(-ENODEV, "no RDMA device is named %s: "
				    "rdmamsg_devices(3) and 'rdma link' list "
				    "them", name);
	else
		err = open_device(v, list[i], ret);
	v->free_device_list(list);
	return err;
}

static void info_fill(const struct verbs_api *v, struct ibv_context *verbs,
		      struct rdmamsg_device_attr *info)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	if (rdmamsg__v_query_device(v, verbs, &attr))
		return;
	snprintf(info->kind, sizeof(info->kind), "%s",
		 rdmamsg__kind_name(rdmamsg__kind_of(v, verbs, &attr)));
	snprintf(info->firmware, sizeof(info->firmware), "%s", attr.fw_ver);
	info->node_guid = be64toh(attr.node_guid);
	info->ports = attr.phys_port_cnt;
	for (uint8_t p = 1; p <= attr.phys_port_cnt; p++)
		if (!rdmamsg__v_query_port(v, verbs, p, &port))
			info->ports_active += port.state == IBV_PORT_ACTIVE;
	info->max_qp = (uint32_t)attr.max_qp;
	info->max_cq = (uint32_t)attr.max_cq;
	info->max_cqe = (uint32_t)attr.max_cqe;
	info->max_mr = (uint32_t)attr.max_mr;
	info->max_qp_wr = (uint32_t)attr.max_qp_wr;
	info->max_sge = (uint32_t)attr.max_sge;
	info->max_read_responder = (uint32_t)attr.max_qp_rd_atom;
	info->max_read_initiator = (uint32_t)attr.max_qp_init_rd_atom;
	info->max_mr_size = attr.max_mr_size;
}

/* Fills in the devices of one table. Returns their number or -errno. */
static int list_infos(const struct verbs_api *v, void *list, size_t size,
		      int room)
{
	struct ibv_device **devs;
	int n, err = list_devices(v, &devs, &n);

	if (err)
		return err;
	for (int i = 0; i < min(n, room); i++) {
		struct rdmamsg_device_attr info = { .size = sizeof(info) };
		struct ibv_context *verbs;

		snprintf(info.name, sizeof(info.name), "%s",
			 v->get_device_name(devs[i]));
		err = open_device(v, devs[i], &verbs);
		if (err) {
			n = err;
			break;
		}
		info_fill(v, verbs, &info);
		(void)rdmamsg__v_close_device(v, verbs);
		memcpy((char *)list + (size_t)i * size, &info,
		       min(size, sizeof(info)));
	}
	v->free_device_list(devs);
	return n;
}

int rdmamsg_devices(struct rdmamsg_device_attr *list, size_t size, int room)
{
	int n, soft;

	rdmamsg__env_init();
	if (room < 0 || (room && (!list || size < sizeof(size))))
		return rdmamsg__fail(-EINVAL, "rdmamsg_devices: list or size");
	n = rdmamsg__try(list_infos(rdmamsg__verbs, list, size, room));
	if (!rdmamsg__soft_possible() || (n < 0 && n != -ENODEV))
		return rdmamsg__fail_again(n);
	n = max(n, 0);
	room = max(room - n, 0);
	soft = list_infos(&rdmamsg__verbs_soft, room ? (char *)list +
			  (size_t)n * size : NULL, size, room);
	return soft < 0 ? soft : n + soft;
}

int rdmamsg__device_any(const struct verbs_api *v)
{
	struct ibv_device **list;
	int n, err = list_devices(v, &list, &n);

	if (!err)
		v->free_device_list(list);
	return err;
}

/* A RoCE GID is an IP address. IPv4 addresses are mapped into IPv6. */
static bool gid_to_addr(const union ibv_gid *gid, int family,
			struct sockaddr_storage *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	bool v4 = !memcmp(gid->raw, mapped, sizeof(mapped));

	memset(ret, 0, sizeof(*ret));
	if (v4 && family != AF_INET6) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		return true;
	}
	if (v4 || family == AF_INET || !gid->global.interface_id ||
	    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw))
		return false;
	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, gid->raw, 16);
	return true;
}

int rdmamsg__device_carries(const char *name, enum ibv_transport_type transport)
{
	if (transport != IBV_TRANSPORT_IWARP)
		return 0;
	return rdmamsg__fail(-EOPNOTSUPP, "device %s is iWARP: no connection "
			     "over iWARP has been seen to work, so the library "
			     "makes none", name);
}

int rdmamsg__device_check(const struct verbs_api *v, const char *name)
{
	struct ibv_context *verbs;
	int err = rdmamsg__open_by_name(v, name, &verbs);

	if (err)
		return err;
	err = rdmamsg__device_carries(name, verbs->device->transport_type);
	(void)rdmamsg__v_close_device(v, verbs);
	return err;
}

bool rdmamsg__verbs_addr(const struct verbs_api *v, struct ibv_context *verbs,
			 int family, struct sockaddr_storage *ret)
{
	struct ibv_device_attr attr;
	union ibv_gid gid;

	if (rdmamsg__v_query_device(v, verbs, &attr))
		return false;
	for (uint8_t p = 1; p && p <= attr.phys_port_cnt; p++)
		for (int i = 0; i < 32; i++)
			if (!rdmamsg__v_query_gid(v, verbs, p, i, &gid) &&
			    gid_to_addr(&gid, family, ret))
				return true;
	return false;
}

int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret)
{
	struct ibv_context *verbs;
	int err = rdmamsg__open_by_name(v, name, &verbs);

	if (err)
		return err;
	err = rdmamsg__device_carries(name, verbs->device->transport_type);
	if (!err && !rdmamsg__verbs_addr(v, verbs, family, ret))
		err = rdmamsg__fail(-ENODEV, "device %s has no %s address: "
				    "give its network interface one, or name a "
				    "source address", name,
				    family == AF_INET6 ? "IPv6" : "IPv4");
	(void)rdmamsg__v_close_device(v, verbs);
	return err;
}
