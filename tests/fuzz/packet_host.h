/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host of the fuzz target packet: a soft HCA with a network, but without a
 * socket, a running clock or a running thread.
 */
#ifndef TESTS_FUZZ_PACKET_HOST_H
#define TESTS_FUZZ_PACKET_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/util.h"
#include "soft/cm/far.h"
#include "soft/cm/id.h"
#include "soft/cm/mad.h"
#include "soft/engine/engine.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/upward.h"
#include "soft/net/state.h"
#include "soft/soft.h"
#include "soft/transport/far.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/upward.h"
#include "../qp_walk.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BEGIN		1000000000000000000ull	/* ns, later than any uptime */
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
			 IBV_ACCESS_MW_BIND)
#define PAGE		4096u
#define SIZE		0x8000u		/* of the memory that is registered */
#define APART		2048u		/* before and behind it */
#define MEMORY		(SIZE + 2 * APART + 2 * PAGE)
#define SECRET		0x9d3c51f7ab2e8641ull
#define QKEY		0x1234567u	/* of the datagrams of both ends */
#define PEER_QPN	0x54321u
#define FIRST_PSN	0xfffffdu	/* soon followed by 0 */
#define PORT		4242
#define BACKLOG		3
#define LISTENERS	3
#define IDS		8

/* The ways of packets: their sender, and the queue pair they are for. */
enum { PEER, STRANGER, PEER_TO_OTHER, LINK_LOCAL, PATHS, INNOCENT = PATHS };

static uint64_t now = BEGIN;
static struct ibv_context *verbs;
static struct soft_dev *dev;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *local_mr, *other_mr;
static uint8_t *mem;			/* what is registered for peers */
static struct ibv_qp *self[2];
static struct rdma_event_channel *ch;
static struct soft_path paths[PATHS + 1];

static void failed(const char *file, int line)
{
	fprintf(stderr, "%s:%d: this must not happen\n", file, line);
	abort();
}
#define must(ok) ((ok) ? (void)0 : failed(__FILE__, __LINE__))

/* Replaces that of libc, so that timers end when a step says so. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	ts->tv_sec = (time_t)(now / 1000000000u);
	ts->tv_nsec = (long)(now % 1000000000u);
	return 0;
}

/*
 * Likewise: the kernel is asked for the way to hosts of which it may know
 * none, and whose ways are as wide as to this one.
 */
int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_in6 a;

	memcpy(&a, addr, min(len, sizeof(a)));
	if (a.sin6_family == AF_INET6 && len == sizeof(a) &&
	    !memcmp(&a.sin6_addr, paths[PEER].to, 15))
		memcpy(&a.sin6_addr, paths[PEER].from, 16);
	else
		return (int)syscall(SYS_connect, fd, addr, len);
	return (int)syscall(SYS_connect, fd, &a, len);
}

/* ---- what the device sends --------------------------------------------- */

/* Products: the fuzzer sees what is compared, and must not learn the secret. */
static void check_secret(const uint8_t *at, uint32_t len)
{
	const uint64_t odd = 0x9e3779b97f4a7c15ull;

	for (uint32_t i = 0; i + 8 <= len; i++) {
		uint64_t word;

		memcpy(&word, at + i, 8);
		must(word * odd != SECRET * odd);
	}
}

static void check_run(struct soft_net *net, const struct net_run *run)
{
	const uint8_t *at = net->buffer + run->begin;
	struct packet p;

	for (uint32_t i = 0; i < run->bytes; i += run->each) {
		const uint32_t len = min(run->each, run->bytes - i);

		must(packet_get(&p, at + i, len));
		must(p.dst == SOFT_QPN_CM ||
		     memcmp(run->path.to, paths[INNOCENT].to, 16));
		must(net_crc_ok(run->path.from, run->path.to, PACKET_PORT,
				at + i, len));
		check_secret(at + i, len);
	}
}

static void take_sent(struct soft_dev *d)
{
	struct soft_net *net = d->net;

	for (uint32_t i = 0; i < net->runs; i++)
		check_run(net, &net->run[i]);
	net->runs = net->sent = net->used = 0;
}

static bool progress(struct soft_dev *d)
{
	const bool any = soft_progress(d);

	take_sent(d);
	return any;
}

/* The device has its network without a socket. */
static void open_net(void)
{
	static struct soft_fabric_upward fabric_up;
	static struct soft_verbs_upward verbs_up;
	struct soft_net *net = calloc(1, sizeof(*net));

	must(net != NULL);
	net->watch.fd = -1;
	list_init(&net->held);
	net->buffer = malloc(NET_BUFFER + PACKET_MAX);
	must(net->buffer != NULL);
	dev->net = net;
	fabric_up = *soft_fabric_up;
	fabric_up.progress = progress;
	fabric_up.net_flush = take_sent;
	soft_fabric_up = &fabric_up;
	verbs_up = *soft_verbs_up;
	verbs_up.progress = progress;
	soft_verbs_up = &verbs_up;
}

/* ---- the thread ------------------------------------------------------- */

static sem_t parked;

static void park(struct soft_dev *d, struct soft_watch *w, uint32_t events)
{
	soft_watch_del(d, w);
	(void)pthread_mutex_unlock(&d->lock);
	(void)sem_post(&parked);
	for (;;)
		(void)pause();
}

/* Steps do the work of the thread from now on. */
static void park_thread(void)
{
	static struct soft_watch w = { .fn = park };

	must(!sem_init(&parked, 0, 0));
	soft_lock(dev);
	must(!soft_watch_add(dev, &w, eventfd(1, EFD_CLOEXEC)));
	soft_unlock(dev);
	while (sem_wait(&parked))
		;
}

/* ---- this side -------------------------------------------------------- */

static void set_path(struct soft_path *p, uint8_t to, uint8_t from)
{
	memset(p, 0, sizeof(*p));
	p->to[10] = p->to[11] = p->from[10] = p->from[11] = 0xff;
	/* TEST-NET-2 of RFC 5737 */
	p->to[12] = 198;
	p->to[13] = 51;
	p->to[14] = 100;
	p->to[15] = to;
	p->from[12] = 127;
	p->from[15] = from;
}

static void set_paths(void)
{
	set_path(&paths[PEER], 2, 1);
	set_path(&paths[STRANGER], 3, 1);
	set_path(&paths[PEER_TO_OTHER], 2, 9);
	set_path(&paths[INNOCENT], 4, 1);
	memset(&paths[LINK_LOCAL], 0, sizeof(paths[LINK_LOCAL]));
	paths[LINK_LOCAL].to[0] = paths[LINK_LOCAL].from[0] = 0xfe;
	paths[LINK_LOCAL].to[1] = paths[LINK_LOCAL].from[1] = 0x80;
	paths[LINK_LOCAL].to[15] = 2;
	paths[LINK_LOCAL].from[15] = 1;
	paths[LINK_LOCAL].scope = 1;
}

static void walk(struct ibv_qp *q, uint32_t peer, const uint8_t *to,
		 enum ibv_mtu mtu)
{
	struct ibv_qp_attr a = {
		.port_num = 1, .qp_access_flags = ACCESS & ~IBV_ACCESS_MW_BIND,
		.path_mtu = mtu, .dest_qp_num = peer, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1, .timeout = 8, .retry_cnt = 2,
		.rnr_retry = 2, .max_rd_atomic = 4, .qkey = QKEY,
		.rq_psn = 0xfffffe, .sq_psn = FIRST_PSN,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	if (to)
		memcpy(a.ah_attr.grh.dgid.raw, to, 16);
	must(!qp_walk(soft_modify_qp, q, &a, IBV_QPS_RTS));
}

static struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_srq *of)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .srq = of, .qp_type = type,
		.sq_sig_all = 1, .cap = { 16, 16, 2, 2, 64 },
	};
	struct ibv_qp *q = soft_create_qp(pd, &a);

	must(q != NULL);
	return q;
}

static void listen_at(enum rdma_port_space ps, struct sockaddr *addr)
{
	struct rdma_cm_id *id;

	must(!soft_cma_create_id(ch, &id, NULL, ps));
	must(!soft_cma_bind_addr(id, addr));
	must(!soft_cma_listen(id, BACKLOG));
}

static void listen_at_all(void)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(PORT),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	struct sockaddr_in6 any = {
		.sin6_family = AF_INET6, .sin6_port = htons(PORT + 1),
	};

	ch = soft_cma_create_event_channel();
	must(ch && !fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	listen_at(RDMA_PS_TCP, (struct sockaddr *)&in);
	listen_at(RDMA_PS_UDP, (struct sockaddr *)&in);
	listen_at(RDMA_PS_TCP, (struct sockaddr *)&any);
}

/* Guard pages, and secrets on both sides of each region. */
static void map_memory(void)
{
	uint64_t secret = SECRET;
	uint8_t *at = mmap(NULL, MEMORY + 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED && !mprotect(at, PAGE, PROT_NONE) &&
	     !mprotect(at + PAGE + MEMORY, PAGE, PROT_NONE));
	for (uint32_t i = 0; i < MEMORY; i += 8)
		memcpy(at + PAGE + i, &secret, 8);
	mem = at + PAGE + APART;
	memset(mem, 0, SIZE);
	mr = soft_reg_mr(pd, mem, SIZE, ACCESS);
	local_mr = soft_reg_mr(pd, mem + SIZE + APART, PAGE,
			       IBV_ACCESS_LOCAL_WRITE);
	other_mr = soft_reg_mr(other_pd, mem + SIZE + APART + PAGE, PAGE,
			       ACCESS);
	must(mr && local_mr && other_mr);
}

static void setup(void)
{
	struct ibv_device **list;
	char name[32];

	(void)snprintf(name, sizeof(name), "fuzz-packet-%d", getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", name, 1);
	(void)setenv("RDMAMSG_SOFT_NET", "1", 1);
	list = soft_get_device_list(NULL);
	verbs = soft_open_device(list[0]);
	soft_free_device_list(list);
	must(verbs != NULL);
	dev = soft_dev_of(verbs);
	park_thread();
	open_net();
	set_paths();
	pd = soft_alloc_pd(verbs);
	other_pd = soft_alloc_pd(verbs);
	cq = soft_create_cq(verbs, 1024, NULL, NULL, 0);
	must(pd && other_pd && cq);
	map_memory();
	self[0] = new_qp(IBV_QPT_RC, NULL);
	self[1] = new_qp(IBV_QPT_RC, NULL);
	walk(self[0], self[1]->qp_num, paths[PEER].from, IBV_MTU_4096);
	walk(self[1], self[0]->qp_num, paths[PEER].from, IBV_MTU_4096);
	listen_at_all();
}

/* ---- packets ---------------------------------------------------------- */

/* A packet whose CRC is right. It may have come through shared memory. */
static void arrive(const struct soft_path *back, const uint8_t *at, size_t len,
		   bool forwarded)
{
	uint8_t record[sizeof(*back) + PACKET_MAX + 8];
	/* of exactly this size: the sanitizer sees a read past it */
	uint8_t *copy = malloc(max(len, 1u));
	struct packet p;

	must(copy != NULL && len <= PACKET_MAX + 8);
	memcpy(copy, at, len);
	if (forwarded) {
		memcpy(record, back, sizeof(*back));
		memcpy(record + sizeof(*back), at, len);
		soft_net_forwarded(dev, record,
				   (uint32_t)(sizeof(*back) + len));
	} else if (packet_get(&p, copy, (uint32_t)len)) {
		p.marked = p.psn & 1;
		soft_fabric_up->net_packet(dev, back, &p);
	}
	free(copy);
}

/* ---- checks ----------------------------------------------------------- */

static int count(const struct list *l)
{
	const struct list *n;
	int found = 0;

	list_for_each(n, l)
		found++;
	return found;
}

static int count_timers(void)
{
	int found = 0;

	for (int i = 0; i < SOFT_TIMER_LISTS; i++)
		found += count(&dev->timers[i]);
	return found;
}

static void check_memory(void)
{
	const uint8_t *at = mem - APART;

	for (uint32_t i = 0; i < MEMORY; i += 8) {
		uint64_t word;

		memcpy(&word, at + i, 8);
		must((i >= APART && i < APART + SIZE) || word == SECRET);
	}
}

#endif
