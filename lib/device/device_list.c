/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of devices: opening one of it, and its addresses. */
#include "base/base.h"
#include "base/netif.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

/* With no devices, one library fails and the other returns an empty list. */
int rdmamsg__list_devices(const struct verbs_api *v, struct ibv_device ***ret,
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
				     "rxe netdev NAME'; "
				     "RDMAMSG_DEVICE=soft needs neither");
	if (!n) {
		v->free_device_list(*ret);
		return rdmamsg__fail(-ENODEV, "no RDMA device: give an "
				     "Ethernet card one with 'rdma link add "
				     "rxe0 type rxe netdev NAME'; "
				     "RDMAMSG_DEVICE=soft needs none");
	}
	*ret_n = n;
	return 0;
}

int rdmamsg__node_error(int err, const char *node)
{
	char path[96];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", node);
	if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) &&
	    errno == EACCES)
		return -EACCES;
	return err;
}

int rdmamsg__open_listed(const struct verbs_api *v, struct ibv_device *device,
			 struct ibv_context **ret)
{
	int err = rdmamsg__v_open_device(v, device, ret);

	if (!err)
		return 0;
	if (rdmamsg__is_soft(v))
		return rdmamsg__fail_soft(err);
	return rdmamsg__fail_verbs(rdmamsg__node_error(err, device->dev_name),
				   "opening the RDMA device");
}

int rdmamsg__open_by_name(const struct verbs_api *v, const char *name,
			  struct ibv_context **ret)
{
	struct ibv_device **list;
	int n, err = rdmamsg__list_devices(v, &list, &n);
	int i = 0;

	if (err == -ENODEV)
		return rdmamsg__fail(err, "no RDMA device is named %s, there "
				     "is none at all: RDMAMSG_DEVICE=soft "
				     "needs none",
				     name[0] ? name : "''");
	if (err)
		return err;
	while (i < n && strcmp(v->get_device_name(list[i]), name))
		i++;
	if (i == n)
		err = rdmamsg__fail(-ENXIO, "no RDMA device is named %s: "
				    "rdmamsg_devices(3) and 'rdma link' list "
				    "them", name[0] ? name : "''");
	else
		err = rdmamsg__open_listed(v, list[i], ret);
	v->free_device_list(list);
	return err;
}

int rdmamsg__device_any(const struct verbs_api *v)
{
	struct ibv_device **list;
	int n, err = rdmamsg__list_devices(v, &list, &n);

	if (!err)
		v->free_device_list(list);
	return err;
}

bool rdmamsg__device_any_iwarp(const struct verbs_api *v)
{
	struct ibv_device **list;
	bool ret = false;
	int n = 0;

	if (rdmamsg__v_get_device_list(v, &list, &n))
		return false;
	for (int i = 0; i < n && !ret; i++)
		ret = list[i]->transport_type == IBV_TRANSPORT_IWARP;
	v->free_device_list(list);
	return ret;
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

int rdmamsg__device_walks(const char *name, enum ibv_transport_type transport)
{
	if (transport != IBV_TRANSPORT_IWARP)
		return 0;
	return rdmamsg__fail(-EOPNOTSUPP, "device %s is iWARP, which connects "
			     "through the connection manager only: "
			     "rdmamsg_connect(3)", name);
}

int rdmamsg__device_check(const struct verbs_api *v, const char *name,
			  bool by_cm)
{
	struct ibv_context *verbs;
	int err = rdmamsg__open_by_name(v, name, &verbs);

	if (err)
		return err;
	if (!by_cm)
		err = rdmamsg__device_walks(name,
					    verbs->device->transport_type);
	(void)rdmamsg__v_close_device(v, verbs);
	return err;
}

static bool is_roce(const struct verbs_api *v, struct ibv_context *verbs,
		    uint8_t port)
{
	struct ibv_port_attr attr;

	return verbs->device->transport_type != IBV_TRANSPORT_IWARP &&
	       !rdmamsg__v_query_port(v, verbs, port, &attr) &&
	       attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

bool rdmamsg__verbs_addr(const struct verbs_api *v, struct ibv_context *verbs,
			 int family, struct sockaddr_storage *ret)
{
	struct ibv_device_attr attr;
	union ibv_gid gid;

	if (rdmamsg__v_query_device(v, verbs, &attr))
		return false;
	for (uint8_t p = 1; p && p <= attr.phys_port_cnt; p++)
		for (int i = 0; i < 32 && is_roce(v, verbs, p); i++)
			if (!rdmamsg__v_query_gid(v, verbs, p, i, &gid) &&
			    gid_to_addr(&gid, family, ret))
				return true;
	return false;
}

/* ---- addresses of other devices ---------------------------------------- */

/*
 * Returns true if the connection manager gives the address this device. NULL:
 * any device.
 */
static bool leads_to(const struct verbs_api *v, struct rdma_event_channel *ch,
		     const struct sockaddr *addr, const char *name)
{
	struct rdma_cm_id *id;
	struct id_device on;
	bool ret;

	if (rdmamsg__v_create_id(v, ch, NULL, RDMA_PS_TCP, &id))
		return false;
	ret = !rdmamsg__v_bind_addr(v, id, (struct sockaddr *)(uintptr_t)addr)
	      && v->id_device(id, &on) && (!name || !strcmp(on.name, name));
	(void)rdmamsg__v_destroy_id(v, id);
	return ret;
}

/* Returns true if another host, or this one if 'loopback', can use it. */
static bool is_usable(const struct ifaddrs *a, bool loopback)
{
	const struct sockaddr *s = a->ifa_addr;

	if (!s || !(a->ifa_flags & IFF_UP) ||
	    !(a->ifa_flags & IFF_LOOPBACK) == loopback)
		return false;
	return s->sa_family == AF_INET || (s->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(
		&((const struct sockaddr_in6 *)s)->sin6_addr));
}

static void copy_addr(struct sockaddr_storage *dst, const struct sockaddr *src)
{
	memset(dst, 0, sizeof(*dst));
	memcpy(dst, src, src->sa_family == AF_INET6 ?
	       sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

static bool try_addrs(const struct verbs_api *v, struct rdma_event_channel *ch,
		      const struct ifaddrs *all, bool loopback,
		      const char *name, int family,
		      struct sockaddr_storage *ret)
{
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		const struct sockaddr *s = a->ifa_addr;

		if (!is_usable(a, loopback) || s->sa_family != family ||
		    !leads_to(v, ch, s, name))
			continue;
		copy_addr(ret, s);
		return true;
	}
	return false;
}

/*
 * Finds an address of a device whose GIDs are no addresses: InfiniBand, iWARP.
 * Any device may get the loopback address, so that comes last.
 */
static bool bound_addr(const struct verbs_api *v, const char *name, int family,
		       struct sockaddr_storage *ret)
{
	struct rdma_event_channel *ch;
	struct ifaddrs *all;
	bool found;

	if (rdmamsg__v_create_event_channel(v, &ch))
		return false;
	if (netif_addrs(&all)) {
		v->destroy_event_channel(ch);
		return false;
	}
	found = try_addrs(v, ch, all, false, name, family, ret) ||
		try_addrs(v, ch, all, true, name, family, ret);
	freeifaddrs(all);
	v->destroy_event_channel(ch);
	return found;
}

int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret)
{
	struct ibv_context *verbs;
	int err = rdmamsg__open_by_name(v, name, &verbs);

	if (err)
		return err;
	if (!rdmamsg__verbs_addr(v, verbs, family, ret) &&
	    !bound_addr(v, name, family, ret))
		err = rdmamsg__fail(-ENODEV, "device %s has no %s address: "
				    "give its network interface one, or name a "
				    "source address", name,
				    family == AF_INET6 ? "IPv6" : "IPv4");
	(void)rdmamsg__v_close_device(v, verbs);
	return err;
}

unsigned int rdmamsg__device_addrs(const struct verbs_api *v, const char *name,
				   bool loopback, struct sockaddr_storage *ret,
				   unsigned int room)
{
	struct rdma_event_channel *ch;
	struct ifaddrs *all;
	unsigned int n = 0;

	if (rdmamsg__v_create_event_channel(v, &ch))
		return 0;
	if (netif_addrs(&all)) {
		v->destroy_event_channel(ch);
		return 0;
	}
	for (const struct ifaddrs *a = all; a && n < room; a = a->ifa_next)
		if (is_usable(a, loopback) &&
		    leads_to(v, ch, a->ifa_addr, name))
			copy_addr(&ret[n++], a->ifa_addr);
	freeifaddrs(all);
	v->destroy_event_channel(ch);
	return n;
}
