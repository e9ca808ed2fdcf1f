/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. A packet is written into the buffer, where packets of one size to
 * one address form a run: one message with UDP_SEGMENT, which the kernel cuts
 * again. All runs go with one system call. If the socket takes no more, the
 * rest stays in the buffer.
 */
#include "soft/net/state.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/util.h"
#include "soft/fabric/bytes.h"
#include "soft/fabric/count.h"
#include "soft/fabric/upward.h"

#define TRIES	8	/* of a run, after errors of earlier ones */

/* Control data of a message: our address, and the size of its segments. */
struct control {
	_Alignas(struct cmsghdr)
	uint8_t at[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
		   CMSG_SPACE(sizeof(uint16_t))];
};

static void put_control(struct msghdr *m, struct control *c,
			const struct net_run *run)
{
	struct in6_pktinfo info = { .ipi6_ifindex = run->path.scope };
	const uint16_t each = (uint16_t)run->each;
	struct cmsghdr *h;

	memset(c, 0, sizeof(*c));
	memcpy(&info.ipi6_addr, run->path.from, 16);
	m->msg_control = c->at;
	m->msg_controllen = sizeof(c->at);
	h = CMSG_FIRSTHDR(m);
	h->cmsg_level = IPPROTO_IPV6;
	h->cmsg_type = IPV6_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(h), &info, sizeof(info));
	if (run->count == 1) {
		m->msg_controllen = CMSG_SPACE(sizeof(info));
		return;
	}
	h = CMSG_NXTHDR(m, h);
	h->cmsg_level = SOL_UDP;
	h->cmsg_type = UDP_SEGMENT;
	h->cmsg_len = CMSG_LEN(sizeof(each));
	memcpy(CMSG_DATA(h), &each, sizeof(each));
}

static void put_message(struct mmsghdr *m, struct iovec *v,
			struct sockaddr_in6 *to, struct control *c,
			struct soft_net *net, const struct net_run *run)
{
	*to = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_port = htons(PACKET_PORT),
		.sin6_scope_id = run->path.scope,
	};
	memcpy(&to->sin6_addr, run->path.to, 16);
	v->iov_base = net->buffer + run->begin;
	v->iov_len = run->bytes;
	memset(m, 0, sizeof(*m));
	m->msg_hdr.msg_name = to;
	m->msg_hdr.msg_namelen = sizeof(*to);
	m->msg_hdr.msg_iov = v;
	m->msg_hdr.msg_iovlen = 1;
	put_control(&m->msg_hdr, c, run);
}

/* Sends runs from net->sent on. Returns how many, or -errno. */
static int send_runs(struct soft_net *net)
{
	struct mmsghdr m[NET_RUNS];
	struct sockaddr_in6 to[NET_RUNS];
	struct control c[NET_RUNS];
	struct iovec v[NET_RUNS];
	unsigned int n = net->runs - net->sent;
	int got;

	for (unsigned int i = 0; i < n; i++)
		put_message(&m[i], &v[i], &to[i], &c[i], net,
			    &net->run[net->sent + i]);
	got = sendmmsg(net->watch.fd, m, n, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}

/*
 * A run has failed. What the kernel refuses is lost, as a network loses it, and
 * whoever sent it sends it again. An error of an earlier packet is told here as
 * well (IP_RECVERR), and then the run is tried again. One that is too long for
 * the way tells its own error again each time.
 */
static void on_refusal(struct soft_dev *dev, int err, int *tries)
{
	struct soft_net *net = dev->net;
	const struct net_run *run = &net->run[net->sent];

	if (soft_net_errors(dev) && err != -EMSGSIZE && (*tries)++ < TRIES)
		return;
	/* what was told may have sent something, and everything with it */
	if (net->sent >= net->runs)
		return;
	/* the interface cannot cut it: Linux, udp_send_skb() */
	if (err == -EIO && run->count > 1)
		net->whole = true;
	soft_count(dev, 1, SOFT_XMIT_DISCARDS, run->count);
	net->sent++;
}

void soft_net_flush(struct soft_dev *dev)
{
	struct soft_net *net = dev->net;
	int tries = 0;

	while (net->sent < net->runs && net->watch.fd >= 0) {
		const int got = send_runs(net);

		if (got == -EAGAIN || got == -ENOBUFS) {
			net->blocked = true;
			net_wait(dev);
			return;
		}
		if (got < 0)
			on_refusal(dev, got, &tries);
		else
			net->sent += (uint32_t)got;
	}
	net->runs = net->sent = net->used = 0;
}

uint8_t *soft_net_room(struct soft_dev *dev)
{
	struct soft_net *net = dev->net;

	if (unlikely(!net || net->blocked))
		return NULL;
	if (net->used + PACKET_MAX > NET_BUFFER || net->runs == NET_RUNS)
		soft_net_flush(dev);
	return net->blocked ? NULL : net->buffer + net->used;
}

/* Returns the run that the packet in the room belongs to, which may be new. */
static struct net_run *run_for(struct soft_net *net,
			       const struct soft_path *path, uint32_t len)
{
	const uint32_t qpn = soft_get24(net->buffer + net->used + 5);
	const uint32_t process = qpn >> SOFT_QPN_BITS;
	struct net_run *run = net->runs ? &net->run[net->runs - 1] : NULL;

	if (run && !run->closed && len <= run->each &&
	    run->bytes + len <= NET_RUN && run->process == process &&
	    soft_path_same(&run->path, path))
		return run;
	/* soft_net_room() has left one */
	run = &net->run[net->runs++];
	*run = (struct net_run){
		.path = *path, .process = process, .begin = net->used,
		.each = len,
		.closed = net->whole,
	};
	return run;
}

void net_put(struct soft_dev *dev, const struct soft_path *path, uint32_t len)
{
	struct soft_net *net = dev->net;
	uint8_t *at = net->buffer + net->used, *end = at + len;
	struct net_run *run = run_for(net, path, len + PACKET_CRC);
	uint32_t crc;

	/* the kernel numbers the packets of a run: Linux, inet_gso_segment() */
	crc = net_crc(path->from, path->to, run->count, at, len, PACKET_PORT);
	for (int i = 0; i < 4; i++)
		end[i] = (uint8_t)(crc >> 8 * i);
	len += PACKET_CRC;
	dev->packets.sent++;
	run->bytes += len;
	net->used += len;
	if (++run->count == NET_SEGMENTS || len < run->each)
		run->closed = true;
	dev->bells_due = true;		/* soft_unlock() flushes */
}

static __attribute__((noinline)) void
put_faulty(struct soft_dev *dev, const struct soft_path *path, uint32_t len)
{
	const uint8_t *at = dev->net->buffer + dev->net->used;
	uint8_t copy[PACKET_MAX], *again;

	switch (net_fate(dev, path, at, len)) {
	case NET_LOST:
		soft_count(dev, 1, SOFT_XMIT_DISCARDS, 1);
		return;
	case NET_TWICE:
		memcpy(copy, at, len);
		net_put(dev, path, len);
		again = soft_net_room(dev);
		if (!again)
			return;
		memcpy(again, copy, len);
		break;
	default:
		break;
	}
	net_put(dev, path, len);
}

void soft_net_put(struct soft_dev *dev, const struct soft_path *path,
		  uint32_t len)
{
	if (unlikely(dev->faulty))
		put_faulty(dev, path, len);
	else
		net_put(dev, path, len);
}
