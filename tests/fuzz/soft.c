/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a hostile process sends a soft HCA arbitrary records, counters
 * and messages, which the real dispatch handles. The damage stays within that
 * process's wire. Memory that is not registered for the hostile process does
 * not change, and a connection of this process to itself still works.
 *
 * The input is a list of steps. Each step has a byte with its kind and a byte
 * with its length. All steps run under the device's lock, so the device's
 * thread does not interfere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/masked.h"
#include "base/util.h"
#include "soft/cm/id.h"
#include "soft/control/control.h"
#include "soft/engine/engine.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/names.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/ring.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "../qp_walk.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOSTILE		5	/* its node number */
#define SIZE		(96u << 10)
#define GUARD		4096
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

enum step {
	STEP_RECORD,		/* a record with a valid address */
	STEP_RAW,		/* bytes into the ring */
	STEP_TAIL,		/* the ring's counters */
	STEP_HEAD,
	STEP_MESSAGE,		/* a message with a valid header */
	STEP_RAW_MESSAGE,
	STEP_STRANGER,		/* a message from a peer without a wire */
	STEP_POST,		/* this side posts a request */
	STEP_RECV,
	STEP_PROGRESS,
	STEP_SHOWN,		/* a record with the ranges of its payload */
	STEP_MASKED,		/* a masked atomic with its operand */
	STEPS
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ibv_context *verbs;
static struct soft_dev *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
/* own pair; pair with the hostile node */
static struct ibv_qp *self[2], *qp[2];
static uint8_t *mem;
static struct rdma_event_channel *ch;
static struct rdma_cm_id *listener;
static struct soft_ring ring[2];	/* the hostile node's view */
static int sock;

static void must(int ok)
{
	if (!ok)
		abort();
}

static void walk(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.port_num = 1, .qp_access_flags = ACCESS,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1, .timeout = 8, .retry_cnt = 1,
		.rnr_retry = 1, .max_rd_atomic = 4,
	};

	must(!qp_walk(soft_modify_qp, q, &a, IBV_QPS_RTS));
}

/* Sets REARM, so that the queue pair waits for the other end. */
static void rearm(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {
		.alt_port_num = 2, .path_mig_state = IBV_MIG_REARM,
		.alt_ah_attr = { .port_num = 2, .is_global = 1 },
	};

	must(!soft_modify_qp(q, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 2, 2, 0 },
	};
	struct ibv_qp *q = soft_create_qp(pd, &a);

	must(q != NULL);
	return q;
}

static void setup(void)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(9),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	struct ibv_device **list;
	char name[32];

	(void)snprintf(name, sizeof(name), "fuzz-%d", getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", name, 1);
	list = soft_get_device_list(NULL);
	verbs = soft_open_device(list[0]);
	soft_free_device_list(list);
	must(verbs != NULL);
	dev = soft_dev_of(verbs);
	pd = soft_alloc_pd(verbs);
	cq = soft_create_cq(verbs, 256, NULL, NULL, 0);
	mem = calloc(1, SIZE + 2 * GUARD);
	mr = soft_reg_mr(pd, mem + GUARD, SIZE, ACCESS);
	must(pd && cq && mem && mr);
	self[0] = new_qp();
	self[1] = new_qp();
	walk(self[0], self[1]->qp_num);
	walk(self[1], self[0]->qp_num);
	ch = soft_cma_create_event_channel();
	must(ch && !fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	must(!soft_cma_create_id(ch, &listener, NULL, RDMA_PS_TCP));
	must(!soft_cma_bind_addr(listener, (struct sockaddr *)&a));
	must(!soft_cma_listen(listener, 4));
}

/* ---- the hostile node ------------------------------------------------- */

/* Lets the device handle events of the newest socket. L */
static void react(int ours)
{
	struct list *lists[2] = { &dev->handshakes, &dev->wires };

	for (int i = 0; i < 2; i++) {
		struct list *n, *t;

		list_for_each_safe(n, t, lists[i]) {
			struct soft_wire *w = list_entry(n, struct soft_wire,
							 node);

			if (w->sock.fd < 0)
				continue;
			w->sock.fn(dev, &w->sock, EPOLLIN);
			break;
		}
	}
}

static int call(void)
{
	int fd = soft_name_connect(dev, "node/%u", dev->node);

	must(fd >= 0);
	soft_accept(dev, &dev->listener, EPOLLIN);
	return fd;
}

static void arrive(void)
{
	const struct soft_msg hello = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_HELLO,
		.node = HOSTILE,
	};
	int memory = soft_rings_create(), bell = eventfd(0, EFD_NONBLOCK);

	must(memory >= 0 && bell >= 0 && !soft_rings_map(memory, ring));
	sock = call();
	must(!soft_msg_send(sock, &hello, sizeof(hello),
			    (int[]){ memory, bell }, 2));
	react(sock);
	must(dev->to[HOSTILE] != NULL);
	close(memory);
	close(bell);
}

static void leave(void)
{
	close(sock);
	for (int i = 0; i < 8 && (dev->to[HOSTILE] ||
				  !list_empty(&dev->handshakes)); i++)
		react(-1);
	must(!dev->to[HOSTILE]);
	soft_ring_unmap(&ring[0]);
	soft_ring_unmap(&ring[1]);
}

static void put(const void *head, size_t head_len, const uint8_t *data,
		size_t len, bool commit)
{
	uint8_t *at = ring[0].data + (ring[0].pos & (SOFT_RING_SIZE - 1));

	if (head_len)
		memcpy(at, head, head_len);
	if (len)
		memcpy(at + head_len, data, len);
	if (commit)
		soft_ring_commit(&ring[0], head_len + len);
}

static struct soft_rec addressed(const uint8_t *data, size_t len)
{
	struct soft_rec rec = { 0 };

	memcpy(&rec, data, min(len, sizeof(rec)));
	rec.src = HOSTILE << SOFT_QPN_BITS | 7;
	rec.dst = qp[rec.dst & 1]->qp_num;
	if (rec.rkey & 1)
		rec.rkey = mr->rkey;
	if (!(rec.raddr >> 32))
		rec.raddr += (uintptr_t)mem;
	rec.psn &= 15;
	return rec;
}

static void record(const uint8_t *data, size_t len)
{
	struct soft_rec rec = addressed(data, len);

	/* the payload usually has the length that the record gives */
	if (!(rec.bytes & 1u << 31))
		rec.bytes %= SOFT_SEGMENT + 1;
	put(&rec, sizeof(rec), NULL, 0, false);
	soft_ring_commit(&ring[0], sizeof(rec) +
			 (rec.bytes <= SOFT_SEGMENT ? rec.bytes : 0));
}

/* Sends a masked atomic. Its operand usually has the right length. */
static void mask(const uint8_t *data, size_t len)
{
	struct soft_rec rec = addressed(data, len);
	size_t skip = min(len, sizeof(rec));
	struct masked m = { 0 };

	memcpy(&m, data + skip, min(len - skip, sizeof(m)));
	rec.op = SOFT_MASKED;
	rec.bytes = rec.bytes & 1 ? rec.bytes % (SOFT_SEGMENT + 1) :
		    (uint32_t)sizeof(m);
	put(&rec, sizeof(rec), (const uint8_t *)&m, sizeof(m), false);
	soft_ring_commit(&ring[0], sizeof(rec) + rec.bytes);
}

/* Sends a SOFT_SHOWN record, whose memory is in this process. */
static void show(const uint8_t *data, size_t len)
{
	struct soft_rec rec = addressed(data, len);
	struct soft_shown s = { 0 };
	size_t skip = min(len, sizeof(rec));

	memcpy(&s, data + skip, min(len - skip, sizeof(s)));
	rec.code = SOFT_SHOWN;
	for (uint32_t i = 0; i < SOFT_MAX_SGE; i++) {
		if (!(s.range[i].addr >> 32))
			s.range[i].addr += (uintptr_t)mem;
		s.range[i].len %= 2 * SIZE;
	}
	/* the payload usually has the length that the record gives */
	if (!rec.bytes && s.count <= SOFT_MAX_SGE)
		rec.bytes = (uint32_t)offsetof(struct soft_shown,
					       range[s.count]);
	rec.bytes %= sizeof(s) + 2;
	put(&rec, sizeof(rec), (const uint8_t *)&s, min(rec.bytes, sizeof(s)),
	    false);
	soft_ring_commit(&ring[0], sizeof(rec) + rec.bytes);
}

static void message(int fd, const uint8_t *data, size_t len, bool proper)
{
	_Alignas(16) uint8_t buf[SOFT_MSG_MAX] = { 0 };
	struct soft_msg *m = (struct soft_msg *)buf;

	memcpy(buf, data, min(len, sizeof(buf)));
	if (proper) {
		m->magic = SOFT_MSG_MAGIC;
		m->type = (uint16_t)(SOFT_MSG_LOOKUP +
				     m->type % (SOFT_MSG_DREP -
						SOFT_MSG_LOOKUP + 1));
		m->node = HOSTILE;
		if (m->to & 1)
			m->to = ((struct soft_cm_id *)list_entry(
				dev->cm_ids.next, struct soft_cm_id,
				node))->handle;
		len = sizeof(struct soft_cm_msg);
	}
	/*
	 * these operations exist to break things, so the fuzzer leaves them out
	 */
	if (len >= sizeof(*m) && m->type == SOFT_MSG_CTL &&
	    len >= offsetof(struct soft_ctl_msg, result) &&
	    ((struct soft_ctl_msg *)buf)->op >= SOFT_CTL_PORT)
		return;
	(void)soft_msg_send(fd, buf, min(len, sizeof(buf)), NULL, 0);
}

static void stranger(const uint8_t *data, size_t len)
{
	int fd = call();

	message(fd, data, len, false);
	react(fd);
	close(fd);
	for (int i = 0; i < 4 && !list_empty(&dev->handshakes); i++)
		react(fd);
}

/* ---- this side -------------------------------------------------------- */

static void post_masked(uint8_t what)
{
	const struct masked m = { .size = 4u << (what & 3) };
	struct ibv_sge sge = { (uintptr_t)mem + GUARD, m.size, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };

	soft_unlock(dev);
	(void)soft_post_masked(qp[what >> 7], &wr, &m);
	soft_lock(dev);
}

static void post(uint8_t what)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	enum ibv_wr_opcode op = ops[what % 4];
	struct ibv_sge sge = {
		(uintptr_t)mem + GUARD,
		op == IBV_WR_ATOMIC_CMP_AND_SWP ? 8 : SIZE, mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = op,
	};

	soft_unlock(dev);
	(void)ibv_post_send(qp[what >> 7], &wr, &bad);
	soft_lock(dev);
}

static void post_recv(uint8_t what)
{
	struct ibv_sge sge = {
		(uintptr_t)mem + GUARD, what & 2 ? SIZE : 16, mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	soft_unlock(dev);
	(void)ibv_post_recv(qp[what & 1], &wr, &bad);
	soft_lock(dev);
}

/* A request of this process to itself still completes. */
static void check_innocent(void)
{
	struct ibv_sge sge = { (uintptr_t)mem + GUARD, 64, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)mem + GUARD + 64, mr->rkey },
	};
	struct ibv_wc wc = { 0 };

	must(!ibv_post_send(self[0], &wr, &bad));
	for (int i = 0; i < 100000; i++)
		if (ibv_poll_cq(cq, 1, &wc) == 1 &&
		    wc.qp_num == self[0]->qp_num)
			break;
	must(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	for (int i = 0; i < GUARD; i++)
		must(!mem[i] && !mem[GUARD + SIZE + i]);
}

static void take_events(void)
{
	struct pollfd p = { .fd = verbs->async_fd, .events = POLLIN };
	struct ibv_async_event async;
	struct rdma_cm_event *ev;

	while (!soft_cma_get_cm_event(ch, &ev)) {
		struct rdma_cm_id *id = ev->id;
		bool request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;

		(void)soft_cma_ack_cm_event(ev);
		if (request)
			must(!soft_cma_destroy_id(id));
	}
	while (poll(&p, 1, 0) == 1 && !soft_get_async_event(verbs, &async))
		soft_ack_async_event(&async);
}

static void step(uint8_t what, const uint8_t *data, size_t len)
{
	uint64_t v = 0;

	memcpy(&v, data, min(len, sizeof(v)));
	switch (what % STEPS) {
	case STEP_RECORD:
		record(data, len);
		break;
	case STEP_RAW:
		put(NULL, 0, data, len, true);
		break;
	case STEP_TAIL:
		atomic_store(&ring[0].shm->tail, ring[0].pos + v);
		break;
	case STEP_HEAD:
		atomic_store(&ring[1].shm->head, v);
		break;
	case STEP_MESSAGE:
	case STEP_RAW_MESSAGE:
		message(sock, data, len, what % STEPS == STEP_MESSAGE);
		react(sock);
		break;
	case STEP_STRANGER:
		stranger(data, len);
		break;
	case STEP_POST:
		if (v & 0x40)
			post_masked((uint8_t)v);
		else
			post((uint8_t)v);
		break;
	case STEP_RECV:
		post_recv((uint8_t)v);
		break;
	case STEP_SHOWN:
		show(data, len);
		break;
	case STEP_MASKED:
		mask(data, len);
		break;
	default:
		(void)soft_progress(dev);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!verbs)
		setup();
	for (int i = 0; i < 2; i++) {
		qp[i] = new_qp();
		walk(qp[i], HOSTILE << SOFT_QPN_BITS | 7);
	}
	rearm(qp[1]);
	soft_lock(dev);
	arrive();
	for (int i = 0; size >= 2 && i < 64; i++) {
		size_t len = min((size_t)data[1], size - 2);

		step(data[0], data + 2, len);
		data += 2 + len;
		size -= 2 + len;
	}
	(void)soft_progress(dev);
	leave();
	soft_unlock(dev);
	take_events();
	check_innocent();
	for (int i = 0; i < 2; i++)
		must(!soft_destroy_qp(qp[i]));
	return 0;
}
