/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket: options, ways to other hosts, and who looks at it. */
#include "soft/net/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/fd.h"
#include "base/netif.h"
#include "soft/fabric/denied.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/upward.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#define ECT_0		2
#define SOCKET_BUFFER	(4 << 20)	/* the kernel may permit less */

static void on_socket(struct soft_dev *dev, struct soft_watch *w,
		      uint32_t events)
{
	struct soft_net *net = dev->net;

	if (events & EPOLLOUT && net->blocked) {
		net->blocked = false;
		net_wait(dev);
		soft_net_flush(dev);
		if (!net->blocked)
			soft_fabric_up->net_room(dev);
	}
	if (events & EPOLLERR)
		(void)soft_net_errors(dev);
	(void)soft_fabric_up->progress(dev);
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/*
 * No packet is fragmented, so its identification is 0 as long as the socket is
 * not connected: Linux, ip_select_ident_segs(). IPv6 has packets without a
 * checksum, because rxe sends such.
 */
static int set_options(int fd)
{
	int ret = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);

	if (!ret)
		ret = set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	if (!ret)
		ret = set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			  IPV6_PMTUDISC_DO);
	if (!ret)
		ret = set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	/* other processes of this user have the port as well */
	if (!ret)
		ret = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (ret)
		return ret;
	(void)set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	/* routers mark packets in place of dropping them: RFC 3168 */
	(void)set(fd, IPPROTO_IP, IP_TOS, ECT_0);
	(void)set(fd, IPPROTO_IPV6, IPV6_TCLASS, ECT_0);
	(void)set(fd, IPPROTO_IP, IP_RECVTOS, 1);
	(void)set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	/* only members get the packets of a group */
	(void)set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	(void)set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	(void)set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	(void)set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	(void)set(fd, SOL_UDP, UDP_GRO, 1);
	(void)set(fd, IPPROTO_IP, IP_RECVERR, 1);
	(void)set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BUFFER))
		(void)set(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER);
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BUFFER))
		(void)set(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER);
	return 0;
}

static int make_socket(void)
{
	const struct sockaddr_in6 at = {
		.sin6_family = AF_INET6, .sin6_port = htons(PACKET_PORT),
	};
	int fd = fd_high(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC |
				SOCK_NONBLOCK, 0));
	int ret;

	if (fd < 0)
		return soft_denied(-errno);
	ret = set_options(fd);
	if (!ret && bind(fd, (const struct sockaddr *)&at, sizeof(at)))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return soft_denied(ret);
}

static struct soft_net *net_new(void)
{
	struct soft_net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	net->watch.fd = -1;
	net->watch.fn = on_socket;
	list_init(&net->held);
	net->buffer = malloc(NET_BUFFER + PACKET_MAX);
	net->arrivals = malloc((size_t)NET_ARRIVALS * NET_DATAGRAM);
	if (net->buffer && net->arrivals)
		return net;
	free(net->buffer);
	free(net->arrivals);
	free(net);
	return NULL;
}

int soft_net_open(struct soft_dev *dev)
{
	struct soft_net *net;
	int fd, ret;

	if (dev->net)
		return 0;
	net = net_new();
	if (!net)
		return -ENOMEM;
	fd = make_socket();
	ret = fd < 0 ? fd : soft_watch_add(dev, &net->watch, fd);
	net->watched = true;
	dev->net = net;
	dev->far_error = ret;
	if (!ret) {
		net_steer(dev);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	soft_net_close(dev);
	return ret;
}

void soft_net_close(struct soft_dev *dev)
{
	struct soft_net *net = dev->net;

	if (!net)
		return;
	if (net->watch.fd >= 0) {
		soft_net_flush(dev);
		net_unsteer(dev);
		soft_watch_del(dev, &net->watch);
		close(net->watch.fd);
	}
	net_drop_held(net);
	free(net->buffer);
	free(net->arrivals);
	free(net);
	dev->net = NULL;
}

void net_wait(struct soft_dev *dev)
{
	const struct soft_net *net = dev->net;

	soft_watch_mod(dev, &dev->net->watch, (net->watched ? EPOLLIN : 0u) |
		       (net->blocked ? EPOLLOUT : 0u));
}

void soft_net_watch(struct soft_dev *dev, bool by_thread)
{
	struct soft_net *net = dev->net;

	if (net->watched == by_thread || net->watch.fd < 0)
		return;
	net->watched = by_thread;
	net_wait(dev);
}

/* ---- ways ------------------------------------------------------------- */

static int mtu_of(int fd, const uint8_t to[16], uint32_t *ret)
{
	const bool v4 = soft_gid_v4(to);
	socklen_t len = sizeof(int);
	int mtu;

	if (getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
		       v4 ? IP_MTU : IPV6_MTU, &mtu, &len))
		return -errno;
	*ret = (uint32_t)mtu;
	return 0;
}

/* A socket that is connected, and sends nothing, knows the kernel's choice. */
static int ask_kernel(int fd, struct soft_path *ret)
{
	static const uint8_t none[16];
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(a);

	memcpy(&a.sin6_addr, ret->from, 16);
	a.sin6_scope_id = ret->scope;
	if (memcmp(ret->from, none, 16) &&
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)))
		return -errno;
	memcpy(&a.sin6_addr, ret->to, 16);
	a.sin6_port = htons(PACKET_PORT);
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		return -errno;
	memcpy(ret->from, &a.sin6_addr, 16);
	return mtu_of(fd, ret->to, &ret->mtu);
}

int soft_net_route(struct soft_path *ret)
{
	int fd = fd_high(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)), err;

	if (fd < 0)
		return soft_denied(-errno);
	err = ask_kernel(fd, ret);
	close(fd);
	return err;
}

/* ---- groups ----------------------------------------------------------- */

static void join_at(int fd, const uint8_t mgid[16], uint32_t ifindex, bool join)
{
	struct ipv6_mreq six = { .ipv6mr_interface = ifindex };
	struct ip_mreqn four = { .imr_ifindex = (int)ifindex };

	if (soft_gid_v4(mgid)) {
		memcpy(&four.imr_multiaddr, mgid + 12, 4);
		(void)setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP :
				 IP_DROP_MEMBERSHIP, &four, sizeof(four));
		return;
	}
	memcpy(&six.ipv6mr_multiaddr, mgid, 16);
	(void)setsockopt(fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP :
			 IPV6_LEAVE_GROUP, &six, sizeof(six));
}

void soft_net_group(struct soft_dev *dev, const uint8_t mgid[16], bool join)
{
	const uint32_t loopback = dev->gids[0].ifindex;

	if (join)
		soft_gids_read(dev);
	/* an interface with several addresses is asked more than once */
	for (int i = 0; i < SOFT_GIDS; i++)
		if (dev->gids[i].ifindex && dev->gids[i].ifindex != loopback)
			join_at(dev->net->watch.fd, mgid,
				dev->gids[i].ifindex, join);
}

int soft_net_interface(struct soft_path *ret)
{
	char name[IF_NAMESIZE];

	if (!netif_name(ret->scope, name))
		return -ENODEV;
	ret->mtu = netif_mtu(name);
	return ret->mtu ? 0 : -ENODEV;
}
