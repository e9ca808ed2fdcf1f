/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving. One system call brings several datagrams, and a datagram may be
 * several packets of one sender that the kernel has put together (UDP_GRO).
 */
#include "soft/net/state.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include "base/util.h"
#include "soft/fabric/upward.h"

#define ROUNDS		8	/* of a call, so that others get the lock */
#define ERRORS		16	/* told by one call */
#define ECN		3u	/* bits of the traffic class */
#define CE		3u	/* of these: RFC 3168 */

struct control {
	_Alignas(struct cmsghdr)
	uint8_t at[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
		   2 * CMSG_SPACE(sizeof(int)) + 64];
};

/* The kernel tells the type of service as one byte, and the class as an int. */
static bool is_class(const struct cmsghdr *h)
{
	return (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_TOS) ||
	       (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_TCLASS);
}

static bool has_mark(const struct cmsghdr *h)
{
	int class;

	if (h->cmsg_level == IPPROTO_IP)
		return (*CMSG_DATA(h) & ECN) == CE;
	memcpy(&class, CMSG_DATA(h), sizeof(class));
	return ((unsigned int)class & ECN) == CE;
}

/*
 * Reads our address, the size of the packets in the datagram, and whether a
 * router has marked them.
 */
static bool read_control(struct msghdr *m, struct soft_path *from,
			 uint32_t *each, bool *marked)
{
	bool found = false;
	struct cmsghdr *h;

	for (h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level == IPPROTO_IPV6 &&
		    h->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(h), sizeof(info));
			memcpy(from->from, &info.ipi6_addr, 16);
			if (soft_path_local(from->from))
				from->scope = info.ipi6_ifindex;
			found = true;
		} else if (h->cmsg_level == SOL_UDP &&
			   h->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(h), sizeof(size));
			if (size > 0)
				*each = (uint32_t)size;
		} else if (is_class(h)) {
			*marked = has_mark(h);
		}
	}
	return found;
}

/* Returns false for a packet that is none of ours. */
static bool take_packet(struct soft_dev *dev, const struct soft_path *back,
			uint16_t port, bool marked, const uint8_t *at,
			uint32_t len)
{
	struct packet p;

	if (!packet_get(&p, at, len) ||
	    !net_crc_ok(back->to, back->from, port, at, len)) {
		dev->packets.bad++;
		return false;
	}
	dev->packets.received++;
	dev->packets.marked += marked;
	p.marked = marked;
	soft_fabric_up->net_packet(dev, back, &p);
	return true;
}

static bool take_datagram(struct soft_dev *dev, struct msghdr *m,
			  const uint8_t *at, uint32_t len)
{
	const struct sockaddr_in6 *from = m->msg_name;
	struct soft_path back = { .scope = 0 };
	uint32_t each = len;
	bool any = false, marked = false;

	/* an answer goes the way back */
	if (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    m->msg_namelen != sizeof(*from) ||
	    !read_control(m, &back, &each, &marked))
		return false;
	memcpy(back.to, &from->sin6_addr, 16);
	if (unlikely(net_probed(dev, back.to, at, len)))
		return false;
	for (uint32_t i = 0; i < len; i += each)
		any |= take_packet(dev, &back, ntohs(from->sin6_port), marked,
				   at + i, min(each, len - i));
	return any;
}

bool soft_net_receive(struct soft_dev *dev)
{
	struct soft_net *net = dev->net;
	struct mmsghdr m[NET_ARRIVALS];
	struct sockaddr_in6 from[NET_ARRIVALS];
	struct control c[NET_ARRIVALS];
	struct iovec v[NET_ARRIVALS];
	int got = NET_ARRIVALS;
	bool any = false;

	for (int round = 0; round < ROUNDS && got == NET_ARRIVALS; round++) {
		memset(m, 0, sizeof(m));
		for (uint32_t i = 0; i < NET_ARRIVALS; i++) {
			v[i].iov_base = net->arrivals + i * NET_DATAGRAM;
			v[i].iov_len = NET_DATAGRAM;
			m[i].msg_hdr.msg_iov = &v[i];
			m[i].msg_hdr.msg_iovlen = 1;
			m[i].msg_hdr.msg_name = &from[i];
			m[i].msg_hdr.msg_namelen = sizeof(from[i]);
			m[i].msg_hdr.msg_control = c[i].at;
			m[i].msg_hdr.msg_controllen = sizeof(c[i].at);
		}
		got = recvmmsg(net->watch.fd, m, NET_ARRIVALS, MSG_DONTWAIT,
			       NULL);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			(void)soft_net_errors(dev);
		for (int i = 0; i < got; i++)
			any |= take_datagram(dev, &m[i].msg_hdr,
					     v[i].iov_base, m[i].msg_len);
	}
	if (unlikely(net->told)) {
		net->told = false;
		(void)soft_net_errors(dev);
	}
	return any;
}

/* ---- what routers and hosts say of our packets ------------------------- */

static bool is_refusal(const struct sock_extended_err *e)
{
	return (e->ee_origin == SO_EE_ORIGIN_ICMP &&
		e->ee_type == ICMP_DEST_UNREACH &&
		e->ee_code == ICMP_PORT_UNREACH) ||
	       (e->ee_origin == SO_EE_ORIGIN_ICMP6 &&
		e->ee_type == ICMP6_DST_UNREACH &&
		e->ee_code == ICMP6_DST_UNREACH_NOPORT);
}

static void take_error(struct soft_dev *dev, struct msghdr *m)
{
	const struct sockaddr_in6 *to = m->msg_name;
	struct sock_extended_err e;
	struct cmsghdr *h;

	for (h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (!(h->cmsg_level == IPPROTO_IP &&
		      h->cmsg_type == IP_RECVERR) &&
		    !(h->cmsg_level == IPPROTO_IPV6 &&
		      h->cmsg_type == IPV6_RECVERR))
			continue;
		memcpy(&e, CMSG_DATA(h), sizeof(e));
		if (is_refusal(&e))
			soft_fabric_up->net_refused(
				dev, (const uint8_t *)&to->sin6_addr);
	}
}

bool soft_net_errors(struct soft_dev *dev)
{
	bool any = false;

	for (int i = 0; i < ERRORS; i++) {
		struct sockaddr_in6 to;
		uint8_t data[64];
		struct iovec v = { data, sizeof(data) };
		_Alignas(struct cmsghdr) uint8_t control[512];
		struct msghdr m = {
			.msg_name = &to, .msg_namelen = sizeof(to),
			.msg_iov = &v, .msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		if (recvmsg(dev->net->watch.fd, &m,
			    MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		any = true;
		if (m.msg_namelen == sizeof(to))
			take_error(dev, &m);
	}
	return any;
}
