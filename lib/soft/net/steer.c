/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering. The processes of a user share the port, and a classic BPF program
 * gives each packet to the process whose number is in its queue pair: to a
 * place in the kernel's list of the sockets. Places change when a process ends,
 * and nothing tells them, so that they are asked for: a probe is a datagram
 * over the loopback interface that names a place. The program gives it to the
 * socket there, whose process writes the place into the memory of the fabric
 * and makes the program anew. A packet in the wrong process is the reason to
 * ask again. It goes on through forward.c, so that nothing but time depends on
 * what is here.
 *
 * Linux: __reuseport_detach_sock() moves the last socket to the place of one
 * that ends, and reuseport_select_sock() chooses by a hash of the addresses if
 * there is no such place.
 */
#include "soft/net/state.h"

#include <linux/filter.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/bytes.h"
#include "soft/fabric/shared.h"

#define PROBE		0xffu		/* no opcode */
#define PROBE_LEN	16u		/* opcode, node, place, round */
#define PLACES		256u		/* of 4,096 instructions, two each */
#define MORE		8u		/* processes that may have begun */
#define NOWHERE		UINT32_MAX
/* between two rounds of probes; twice as long each time, if all is as it was */
#define PAUSE_NS	50000000ull
#define PAUSE_MOST_NS	3200000000ull
#define TRIES		4

static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

/* A page that is only read would still need memory: count.c. */
static uint32_t place_of(const struct soft_fabric *f, uint32_t node)
{
	return f->guid[node] ? f->counts[node].place : 0;
}

static uint32_t places(const struct soft_fabric *f)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SOFT_NODES; i++)
		n += place_of(f, i) != 0;
	return n;
}

/* Returns the number of instructions. */
static uint16_t make_program(const struct soft_fabric *f,
			     struct sock_filter *code)
{
	const struct sock_filter begin[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROBE, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_RET | BPF_A, 0),
		/* the queue pair; a message to QP 1 is for any of them */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SOFT_QPN_CM, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, NOWHERE),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SOFT_QPN_BITS),
	};
	uint16_t n = sizeof(begin) / sizeof(*begin), most = n + 2 * PLACES;

	memcpy(code, begin, sizeof(begin));
	for (uint32_t i = 0; i < SOFT_NODES && n < most; i++) {
		const uint32_t place = place_of(f, i);

		if (!place)
			continue;
		code[n++] = (struct sock_filter)
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
		code[n++] = (struct sock_filter)
			BPF_STMT(BPF_RET | BPF_K, place - 1);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, NOWHERE);
	return n;
}

/*
 * Another process may write its place meanwhile, and have made its program
 * already: the last one to do so must know all places.
 */
static void attach(struct soft_dev *dev)
{
	struct sock_filter code[2][2 * PLACES + 16];
	struct sock_fprog program = { 0 };
	int now = 0;

	program.len = make_program(dev->fabric, code[now]);
	for (int i = 0; i < TRIES; i++) {
		const uint16_t len = program.len;

		program.filter = code[now];
		/* without it the kernel chooses by a hash */
		(void)setsockopt(dev->net->watch.fd, SOL_SOCKET,
				 SO_ATTACH_REUSEPORT_CBPF, &program,
				 sizeof(program));
		now = !now;
		program.len = make_program(dev->fabric, code[now]);
		if (program.len == len &&
		    !memcmp(code[0], code[1], len * sizeof(**code)))
			return;
	}
}

void net_steer(struct soft_dev *dev)
{
	struct soft_net *net = dev->net;
	const uint64_t now = soft_now();
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_port = htons(PACKET_PORT),
	};
	uint8_t probe[PROBE_LEN] = { PROBE };
	uint32_t n;

	if (net->watch.fd < 0 || now - net->steered < net->pause)
		return;
	net->steered = now;
	net->pause = net->pause ? min(2 * net->pause, PAUSE_MOST_NS) : PAUSE_NS;
	attach(dev);
	memcpy(&to.sin6_addr, loopback, 16);
	soft_put16(probe + 2, (uint16_t)dev->node);
	soft_put64(probe + 8, now);
	dev->fabric->counts[dev->node].round = now;
	n = min(places(dev->fabric) + MORE, PLACES);
	for (uint32_t i = 0; i < n; i++) {
		soft_put32(probe + 4, i);
		/* an error may be one of an earlier packet, which this ends */
		if (sendto(net->watch.fd, probe, sizeof(probe), 0,
			   (const struct sockaddr *)&to, sizeof(to)) < 0)
			net->told = true;
	}
}

bool net_probed(struct soft_dev *dev, const uint8_t from[16],
		const uint8_t *at, uint32_t len)
{
	struct soft_fabric *f = dev->fabric;
	uint32_t node, place;
	uint64_t round;

	if (len != PROBE_LEN || at[0] != PROBE || memcmp(from, loopback, 16))
		return false;
	node = soft_get16(at + 2);
	place = soft_get32(at + 4) + 1;
	round = soft_get64(at + 8);
	/*
	 * Only a process of this fabric knows the round. The first probe of a
	 * round is right: one for a place that there is not comes by the hash,
	 * after all others.
	 */
	if (node >= SOFT_NODES || f->counts[node].round != round ||
	    round <= dev->net->round || place > PLACES)
		return true;
	dev->net->round = round;
	if (f->counts[dev->node].place == place)
		return true;
	f->counts[dev->node].place = place;
	dev->net->pause = PAUSE_NS;
	attach(dev);
	return true;
}

void net_unsteer(struct soft_dev *dev)
{
	dev->fabric->counts[dev->node].place = 0;
}
