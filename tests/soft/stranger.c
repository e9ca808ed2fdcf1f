/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: stranger FROM TO SECONDS
 *
 * Description: a host that sends the soft HCA at TO packets of every kind, as
 * fast as it can: garbage, packets with a wrong CRC, each opcode for queue pairs
 * that may exist, and each message of a connection manager, requests to connect
 * with ever new numbers among them. FROM is an IPv4 address of this host, as TO
 * is of the other. Prints how many packets it has sent.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "soft/cm/mad.h"
#include "soft/fabric/sockaddr.h"
#include "soft/net/state.h"

#define AT_ONCE	64u
#define LISTENER 7471		/* of rdmamsg-perf */

static struct sockaddr_storage from, to;
static uint8_t from_gid[16], to_gid[16];
static uint16_t port;		/* ours */

static uint32_t random_below(uint32_t n)
{
	static uint64_t z = 1;

	z = z * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((z >> 33) % n);
}

static void fill(void *at, uint32_t len)
{
	uint8_t *byte = at;

	while (len--)
		*byte++ = (uint8_t)random_below(256);
}

/* Adds the CRC. Returns the length with it. */
static uint32_t seal(uint8_t *at, uint32_t len)
{
	const uint32_t crc = net_crc(from_gid, to_gid, 0, at, len, port);

	for (int i = 0; i < 4; i++)
		at[len++] = (uint8_t)(crc >> 8 * i);
	return len;
}

/* Any packet for a queue pair of one of the first processes. */
static uint32_t make_packet(uint8_t *at)
{
	struct packet p = {
		.opcode = (uint8_t)random_below(0x80), .pkey = PACKET_PKEY,
		.ack = true, .psn = random_below(1 << 24),
		.dst = random_below(4) << SOFT_QPN_BITS | random_below(64),
		.addr = random_below(UINT32_MAX), .length = random_below(1 << 20),
		.rkey = random_below(UINT32_MAX),
		.syndrome = (uint8_t)random_below(256),
		.qkey = MAD_QKEY, .src = random_below(1 << 24),
		.bytes = random_below(257) * 4,
	};
	uint32_t len;

	while (!packet_flags(p.opcode))
		p.opcode = (uint8_t)random_below(0x80);
	len = packet_put(&p, at);
	fill(at + len, p.bytes);
	return seal(at, len + p.bytes);
}

static uint32_t make_message(uint8_t *at)
{
	static const uint16_t types[] = {
		SOFT_MSG_REQ, SOFT_MSG_REQ, SOFT_MSG_REP, SOFT_MSG_REJ,
		SOFT_MSG_RTU, SOFT_MSG_DREQ, SOFT_MSG_DREP,
	};
	struct packet p = {
		.opcode = PACKET_UD | PACKET_SEND_ONLY, .pkey = PACKET_PKEY,
		.dst = SOFT_QPN_CM, .src = SOFT_QPN_CM, .qkey = MAD_QKEY,
		.bytes = MAD_LENGTH,
	};
	struct mad mad;
	uint32_t len;

	fill(&mad, sizeof(mad));
	mad.ud = random_below(4) == 0;
	mad.delay = random_below(8) == 0;
	mad.mtu = (uint8_t)(1 + random_below(5));
	mad.m.ps = mad.ud ? RDMA_PS_UDP : RDMA_PS_TCP;
	mad.m.hdr.type = mad.ud ? SOFT_MSG_REQ :
			 types[random_below(sizeof(types) / sizeof(*types))];
	memcpy(&mad.m.src, &from, sizeof(mad.m.src));
	memcpy(&mad.m.dst, &to, sizeof(mad.m.dst));
	((struct sockaddr_in *)&mad.m.dst)->sin_port =
		htons((uint16_t)(LISTENER + random_below(2)));
	mad.m.param.private_data_len = SOFT_PRIVATE_REQ;
	mad.m.param.srq = mad.m.param.flow_control = 0;
	memcpy(mad.from, from_gid, 16);
	memcpy(mad.to, to_gid, 16);
	len = packet_put(&p, at);
	mad_put(&mad, at + len);
	return seal(at, len + MAD_LENGTH);
}

static uint32_t make(uint8_t *at)
{
	uint32_t len = random_below(1400);

	switch (random_below(8)) {
	case 0:
		fill(at, len);
		return len;
	case 1:
		len = make_packet(at);
		at[random_below(len)] ^= 1;
		return len;
	case 2: case 3: case 4:
		return make_message(at);
	default:
		return make_packet(at);
	}
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), find = IP_PMTUDISC_DO;
	const int marked = 3;		/* CE of RFC 3168 */
	socklen_t len = sizeof(from);

	((struct sockaddr_in *)&from)->sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &find, sizeof(find)) ||
	    setsockopt(fd, IPPROTO_IP, IP_TOS, &marked, sizeof(marked)) ||
	    getsockname(fd, (struct sockaddr *)&from, &len))
		err(1, "socket");
	port = ntohs(((struct sockaddr_in *)&from)->sin_port);
	((struct sockaddr_in *)&to)->sin_port = htons(PACKET_PORT);
	return fd;
}

/* Returns the number of packets that went out. */
static uint32_t send_some(int fd)
{
	static uint8_t packets[AT_ONCE][PACKET_MAX];
	struct mmsghdr m[AT_ONCE] = { 0 };
	struct iovec v[AT_ONCE];
	int n;

	for (uint32_t i = 0; i < AT_ONCE; i++) {
		v[i] = (struct iovec){ packets[i], make(packets[i]) };
		m[i].msg_hdr = (struct msghdr){
			.msg_name = &to, .msg_namelen = sizeof(to),
			.msg_iov = &v[i], .msg_iovlen = 1,
		};
	}
	n = sendmmsg(fd, m, AT_ONCE, 0);
	if (n < 0 && errno != ECONNREFUSED && errno != EAGAIN &&
	    errno != ENOBUFS)
		err(1, "sendmmsg");
	return n < 0 ? 0 : (uint32_t)n;
}

int main(int argc, char **argv)
{
	uint64_t sent = 0;
	time_t end;
	int fd;

	if (argc != 4)
		errx(2, "usage: stranger FROM TO SECONDS");
	from.ss_family = to.ss_family = AF_INET;
	if (!inet_pton(AF_INET, argv[1],
		       &((struct sockaddr_in *)&from)->sin_addr) ||
	    !inet_pton(AF_INET, argv[2],
		       &((struct sockaddr_in *)&to)->sin_addr))
		errx(2, "FROM and TO are IPv4 addresses");
	soft_addr_to_gid(&from, from_gid);
	soft_addr_to_gid(&to, to_gid);
	fd = open_socket();
	end = time(NULL) + atoi(argv[3]);
	while (time(NULL) < end)
		sent += send_some(fd);
	printf("%llu packets\n", (unsigned long long)sent);
	return 0;
}
