/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of the fabric that breaks every rule: what it can do by sockets and
 * by the memory that it shares. It is a part of this one, and has of the device
 * no more than names, messages and rings.
 */
#include "soft/cm/id.h"
#include "soft/cma/calls.h"
#include "soft/cma/cma.h"
#include "soft/control/control.h"
#include "soft/control/soft_ctl.h"
#include "soft/engine/engine.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/names.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/ring.h"
#include "soft/fabric/thread.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "pair.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../own_fabric.h"

#define PEER	7u			/* node of the hostile peer */
#define PORT	7777
#define NOBODY	0xffffff00u		/* handle of no id */
#define WAIT_MS	60000

static struct soft_dev *dev;
static struct {
	int fd, bell;			/* bell: doorbell of this device */
	int own_bell;
	struct soft_ring tx, rx;
} peer;

/* ---- messages of the peer --------------------------------------------- */

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

static int receive(int fd, void *buf, size_t size, int fds[1])
{
	int got;

	do {
		wait_for(fd, POLLIN);
		got = soft_msg_recv(fd, buf, size, fds, 1);
	} while (got == -EAGAIN);
	return got;
}

static void tell(struct soft_cm_msg m, enum soft_msg_type type)
{
	int ret;

	m.hdr.magic = SOFT_MSG_MAGIC;
	m.hdr.type = (uint16_t)type;
	m.hdr.node = PEER;
	while ((ret = soft_msg_send(peer.fd, &m, sizeof(m), NULL, 0)) ==
	       -EAGAIN)
		wait_for(peer.fd, POLLOUT);
	assert_int_equal(ret, 0);
}

static struct soft_cm_msg hear(void)
{
	struct soft_cm_msg m;
	int fds[1];

	assert_int_equal(receive(peer.fd, &m, sizeof(m), fds), sizeof(m));
	return m;
}

static struct soft_cm_msg request(uint32_t to, uint32_t from)
{
	struct soft_cm_msg m = {
		.hdr = { .to = to, .from = from }, .ps = RDMA_PS_TCP,
		.src.sin6_family = AF_INET, .dst.sin6_family = AF_INET,
	};

	return m;
}

/*
 * Sends one more request and waits for its answer. The device answers in order,
 * so it has handled all earlier messages by then.
 */
static void until_answered(uint32_t from)
{
	tell(request(NOBODY, from), SOFT_MSG_REQ);
	while (hear().hdr.to != from)
		;
}

/* ---- the peer --------------------------------------------------------- */

/* Connects as the peer, with new rings and doorbells. -1: no second one. */
static int say_hello(int own_bell, int second)
{
	const struct soft_msg msg = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_HELLO, .node = PEER,
	};
	struct soft_ring rings[2];
	int memory = soft_rings_create();

	peer.fd = soft_name_connect(dev, "node/%u", dev->node);
	if (memory < 0 || peer.fd < 0 || soft_rings_map(memory, rings) ||
	    soft_msg_send(peer.fd, &msg, sizeof(msg),
			  (int[]){ memory, own_bell, second },
			  second < 0 ? 2 : 3))
		return -1;
	close(memory);
	peer.tx = rings[0];
	peer.rx = rings[1];
	return 0;
}

static int setup(void **state)
{
	struct soft_msg msg;

	if (open_device(state))
		return -1;
	dev = soft_dev_of(c);
	peer.own_bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (peer.own_bell < 0 || say_hello(peer.own_bell, -1))
		return -1;
	assert_int_equal(receive(peer.fd, &msg, sizeof(msg), &peer.bell),
			 sizeof(msg));
	assert_int_equal(msg.type, SOFT_MSG_WELCOME);
	return peer.bell >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
	if (peer.fd >= 0)
		close(peer.fd);
	close(peer.bell);
	close(peer.own_bell);
	soft_ring_unmap(&peer.tx);
	soft_ring_unmap(&peer.rx);
	return close_device(state);
}

/* ---- a peer without a doorbell ---------------------------------------- */

/*
 * The device refuses fd as a doorbell, the first or the second, and closes the
 * connection. A write to such a descriptor could block, or have an effect
 * elsewhere.
 */
static void is_cut_off(int fd)
{
	int good = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	assert_true(fd >= 0 && good >= 0);
	for (int second = 0; second < 2; second++) {
		struct soft_msg msg;
		int fds[1];

		assert_int_equal(say_hello(second ? good : fd,
					   second ? fd : -1), 0);
		assert_int_equal(receive(peer.fd, &msg, sizeof(msg), fds), 0);
		close(peer.fd);
		soft_ring_unmap(&peer.tx);
		soft_ring_unmap(&peer.rx);
	}
	close(good);
	close(fd);
}

static void hello__something_else_for_a_doorbell_CUT(void **state)
{
	sigset_t none;
	int ends[2];

	(void)sigemptyset(&none);
	dev = soft_dev_of(c);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(ends), 0);
		is_cut_off(ends[i]);
		close(ends[!i]);
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	is_cut_off(ends[0]);
	close(ends[1]);
	is_cut_off(open("/dev/null", O_RDWR));
	is_cut_off(memfd_create("none", 0));
	is_cut_off(epoll_create1(0));
	is_cut_off(timerfd_create(CLOCK_MONOTONIC, 0));
	is_cut_off(signalfd(-1, &none, 0));
	is_cut_off(inotify_init1(0));
}

/* ---- a peer that sends and does not read ------------------------------ */

static uint32_t length(const struct list *l)
{
	const struct list *n;
	uint32_t count = 0;

	list_for_each(n, l)
		count++;
	return count;
}

static void request__answers_never_read_BOUNDED(void **state)
{
	uint32_t letters;

	for (uint32_t i = 0; i < SOFT_QPS + 4000; i++)
		tell(request(NOBODY, 1), SOFT_MSG_REQ);
	soft_lock(dev);
	letters = length(&dev->to[PEER]->outbox);
	soft_unlock(dev);
	assert_in_range(letters, 1, SOFT_QPS);
	/* a peer that reads again gets answers again */
	for (int i = 0; i < 4000; i++)
		assert_int_equal(hear().hdr.type, SOFT_MSG_REJ);
	until_answered(2);
}

/* The handle names a listener for connections. */
static void request__of_another_port_space_REJECTED(void **state)
{
	struct rdma_event_channel *ch = soft_cma_create_event_channel();
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_cm_id *id;
	struct soft_cm_msg m;

	assert_non_null(ch);
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_bind_addr(id, (struct sockaddr *)&at), 0);
	assert_int_equal(soft_cma_listen(id, 1), 0);
	m = request(cma_id(id)->handle, 1);
	m.ps = RDMA_PS_UDP;
	tell(m, SOFT_MSG_REQ);
	tell(request(NOBODY, 2), SOFT_MSG_REQ);
	m = hear();
	assert_int_equal(m.hdr.to, 1);
	assert_int_equal(m.hdr.type, SOFT_MSG_REJ);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
}

/* Pushes a send of the peer's queue pair src to queue pair dst. */
static void push_send(uint32_t dst, uint32_t src)
{
	struct soft_rec *rec;

	for (int i = 0; i < WAIT_MS; i++) {
		rec = soft_ring_reserve(&peer.tx, sizeof(*rec));
		if (rec)
			break;
		soft_ring_bell(peer.bell);
		(void)poll(NULL, 0, 1);
	}
	assert_non_null(rec);
	memset(rec, 0, sizeof(*rec));
	rec->op = SOFT_SEND;
	rec->flags = SOFT_F_LAST;
	rec->dst = dev->node << SOFT_QPN_BITS | dst;
	rec->src = PEER << SOFT_QPN_BITS | src;
	soft_ring_commit(&peer.tx, sizeof(*rec));
}

static uint32_t lost(void)
{
	uint32_t n;

	/* consume all that the peer has pushed */
	soft_lock(dev);
	while (soft_progress(dev))
		;
	n = dev->to[PEER]->lost_count;
	soft_unlock(dev);
	return n;
}

/* Each queue pair of the peer sends to three that do not exist. */
static void request__lost_ones_never_read_BOUNDED(void **state)
{
	const struct soft_rec *rec;

	for (uint32_t dst = 100; dst < 103; dst++)
		for (uint32_t src = 0; src < SOFT_QPS; src++)
			push_send(dst, src);
	assert_in_range(lost(), 1, SOFT_QPS);
	/* a peer that reads gets a NAK for each */
	while (lost() || soft_ring_avail(&peer.rx)) {
		while (soft_ring_avail(&peer.rx)) {
			rec = soft_ring_read(&peer.rx);
			assert_int_equal(rec->op, SOFT_NAK);
			assert_int_equal(rec->code, SOFT_NAK_LOST);
			soft_ring_consume(&peer.rx, sizeof(*rec));
		}
	}
}

/* ---- a peer that ends ------------------------------------------------- */

#define WRITES	1000u

/* Writes one byte to each address of mem[0], without ringing the doorbell. */
static void push_writes(uint32_t dst)
{
	for (uint32_t i = 0; i < WRITES; i++) {
		struct soft_rec *rec = soft_ring_reserve(&peer.tx,
							 sizeof(*rec) + 1);

		assert_non_null(rec);
		*rec = (struct soft_rec){
			.bytes = 1, .op = SOFT_WRITE, .dst = dst,
			.flags = SOFT_F_LAST | SOFT_F_UNRELIABLE,
			.src = PEER << SOFT_QPN_BITS | 5, .psn = i,
			.raddr = (uintptr_t)mem[0] + i, .rkey = mr[0]->rkey,
			.total = 1,
		};
		*(uint8_t *)(rec + 1) = 1;
		soft_ring_commit(&peer.tx, sizeof(*rec) + 1);
	}
}

/* The device executes all writes that a peer pushed before it ended. */
static void peer__ends_after_many_writes_ALL_ARE_THERE(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	bool there = true;
	uint32_t n = 0;

	qp[0] = soft_create_qp(pd, &init);
	assert_non_null(qp[0]);
	walk(qp[0], PEER << SOFT_QPN_BITS | 5);
	/* the lock keeps the device from looking before the peer has ended */
	soft_lock(dev);
	push_writes(qp[0]->qp_num);
	close(peer.fd);
	soft_unlock(dev);
	for (int i = 0; i < WAIT_MS && there; i++) {
		(void)poll(NULL, 0, 1);
		soft_lock(dev);
		there = dev->to[PEER];
		soft_unlock(dev);
	}
	assert_false(there);
	for (uint32_t i = 0; i < WRITES; i++)
		n += mem[0][i];
	assert_int_equal(n, WRITES);
	assert_int_equal(soft_destroy_qp(qp[0]), 0);
	peer.fd = -1;
}

/* ---- dynamically connected transport ----------------------------------- */

#define KEY	0x1234u

static struct ibv_qp *new_target(struct ibv_srq *srq)
{
	const uint64_t key = KEY;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq,
		.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_4096,
		.min_rnr_timer = 1, .ah_attr.port_num = 1,
		.ah_attr.is_global = 1,
	};
	struct ibv_qp *target = soft_create_dc(c, &init, &key);

	assert_non_null(target);
	assert_int_equal(soft_modify_qp(target, &a, IBV_QP_STATE |
					IBV_QP_ACCESS_FLAGS |
					IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(soft_modify_qp(target, &a, IBV_QP_STATE |
					IBV_QP_MIN_RNR_TIMER | IBV_QP_AV |
					IBV_QP_PATH_MTU), 0);
	return target;
}

static void push_connect(uint32_t target, uint32_t session)
{
	struct soft_rec *rec = soft_ring_reserve(&peer.tx, sizeof(*rec));

	assert_non_null(rec);
	*rec = (struct soft_rec){
		.op = SOFT_DC_CONNECT, .dst = target,
		.src = PEER << SOFT_QPN_BITS | 5, .raddr = KEY,
		.srqn = session,
	};
	soft_ring_commit(&peer.tx, sizeof(*rec));
}

/* Pushes the first byte of a message. */
static void push_byte(uint32_t target, uint32_t total)
{
	struct soft_rec *rec = soft_ring_reserve(&peer.tx, sizeof(*rec) + 1);

	assert_non_null(rec);
	*rec = (struct soft_rec){
		.bytes = 1, .op = SOFT_SEND, .dst = target,
		.flags = total == 1 ? SOFT_F_LAST : 0,
		.src = PEER << SOFT_QPN_BITS | 5, .total = total,
	};
	*(uint8_t *)(rec + 1) = 1;
	soft_ring_commit(&peer.tx, sizeof(*rec) + 1);
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;
	int got = 0;

	for (int i = 0; i < WAIT_MS && !got; i++) {
		got = soft_poll_cq(cq, 1, &wc);
		if (!got)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(got, 1);
	return wc;
}

/* The receive of the message that was broken off comes back. */
static void connect__amid_a_message_BEGINS_ANEW(void **state)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = soft_create_srq(pd, &init);
	struct ibv_qp *target;
	const uint64_t one = 1;

	assert_non_null(srq);
	target = new_target(srq);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)mem[0], .length = 8,
			.lkey = mr[0]->lkey,
		};
		struct ibv_recv_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
		}, *bad;

		assert_int_equal(soft_post_srq_recv(srq, &wr, &bad), 0);
	}
	push_connect(target->qp_num, 1);
	push_byte(target->qp_num, 2);
	push_connect(target->qp_num, 2);
	push_byte(target->qp_num, 1);
	assert_int_equal(write(peer.bell, &one, sizeof(one)), sizeof(one));
	assert_int_equal(completion().status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(completion().status, IBV_WC_SUCCESS);
	assert_int_equal(soft_destroy_qp(target), 0);
	assert_int_equal(soft_destroy_srq(srq), 0);
}

/* ---- connection management -------------------------------------------- */

static struct rdma_event_channel *ch;
static struct rdma_cm_id *cm_id;
static struct sockaddr_in address = { .sin_family = AF_INET };

static int setup_cm(void **state)
{
	if (setup(state))
		return -1;
	ch = soft_cma_create_event_channel();
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(PORT);
	return ch ? soft_cma_create_id(ch, &cm_id, NULL, RDMA_PS_TCP) : -1;
}

static int teardown_cm(void **state)
{
	assert_int_equal(soft_cma_destroy_id(cm_id), 0);
	soft_cma_destroy_event_channel(ch);
	return teardown(state);
}

/* Waits for an event of this type and status. Returns its id. */
static struct rdma_cm_id *event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	wait_for(ch->fd, POLLIN);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	assert_int_equal(ev->status, status);
	id = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return id;
}

static void no_event(void)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 0), 0);
}

static int name_of_port(void)
{
	int fd = soft_name_listen(dev, 8, "cm/%x/%u/%s", RDMA_PS_TCP, PORT,
				  "127.0.0.1");

	assert_true(fd >= 0);
	return fd;
}

/* Returns the handle of the listening id, as a lookup of its port gives it. */
static uint32_t look_up(void)
{
	int fds[1], fd = soft_name_connect(dev, "cm/%x/%u/%s", RDMA_PS_TCP,
					   PORT, "127.0.0.1");
	struct soft_msg m;

	assert_true(fd >= 0);
	assert_int_equal(receive(fd, &m, sizeof(m), fds), sizeof(m));
	assert_int_equal(m.type, SOFT_MSG_LOOKUP);
	close(fd);
	return m.from;
}

/* A request that the peer withdraws still counts against the backlog. */
static void request__taken_back_COUNTS(void **state)
{
	struct sockaddr *sa = (struct sockaddr *)&address;
	uint32_t handle, ids;

	assert_int_equal(soft_cma_bind_addr(cm_id, sa), 0);
	assert_int_equal(soft_cma_listen(cm_id, 4), 0);
	handle = look_up();
	for (uint32_t i = 1; i <= 100; i++) {
		tell(request(handle, i), SOFT_MSG_REQ);
		tell(request(0, i), SOFT_MSG_REJ);
	}
	until_answered(1000);
	soft_lock(dev);
	ids = length(&dev->cm_ids);
	soft_unlock(dev);
	assert_int_equal(ids, 1 + 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(soft_cma_destroy_id(event(
				 RDMA_CM_EVENT_CONNECT_REQUEST, 0)), 0);
	no_event();
	/* there is room again */
	tell(request(handle, 2000), SOFT_MSG_REQ);
	assert_int_equal(soft_cma_destroy_id(event(
			 RDMA_CM_EVENT_CONNECT_REQUEST, 0)), 0);
	assert_int_equal(hear().hdr.type, SOFT_MSG_REJ);
}

static void connect_to_port(void)
{
	struct rdma_conn_param p = { .qp_num = 1 };

	assert_int_equal(soft_cma_resolve_addr(cm_id, NULL,
			 (struct sockaddr *)&address, WAIT_MS), 0);
	event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(soft_cma_resolve_route(cm_id, WAIT_MS), 0);
	event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(soft_cma_connect(cm_id, &p), 0);
}

/* Tells of the only id whether it looks up a port, and whether a timer runs. */
static void look_at_id(bool *looks, bool *bound)
{
	const struct soft_cm_id *id;

	soft_lock(dev);
	id = list_first(&dev->cm_ids, struct soft_cm_id, node);
	*looks = id->lookup.fd >= 0;
	*bound = !list_empty(&id->timer.node);
	soft_unlock(dev);
}

/* Calls the timer function of the id, as if the timer had expired. */
static void time_is_up(void)
{
	struct soft_cm_id *id;

	soft_lock(dev);
	id = list_first(&dev->cm_ids, struct soft_cm_id, node);
	soft_timer_stop(&id->timer);
	id->timer.fn(dev, &id->timer);
	soft_unlock(dev);
}

/* The listening process does not answer, for instance because it is stopped. */
static void connect__nobody_tells_who_listens_UNREACHABLE(void **state)
{
	int name = name_of_port();
	bool looks, bound;

	connect_to_port();
	look_at_id(&looks, &bound);
	assert_true(looks);
	assert_true(bound);
	time_is_up();
	event(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	look_at_id(&looks, &bound);
	assert_false(looks);
	assert_false(bound);
	close(name);
}

static int accept_from(int name)
{
	int fd;

	wait_for(name, POLLIN);
	fd = accept(name, NULL, NULL);
	assert_true(fd >= 0);
	return fd;
}

/*
 * The peer answers BUSY, so the id looks up the port again. The peer rejects
 * meanwhile.
 */
static void connect__rejected_while_looking_ENDS_ONCE(void **state)
{
	const struct soft_msg here = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_LOOKUP, .node = PEER,
		.from = 5,
	};
	int name = name_of_port(), fd;
	bool looks, bound;
	uint32_t handle;

	connect_to_port();
	fd = accept_from(name);
	assert_int_equal(soft_msg_send(fd, &here, sizeof(here), NULL, 0), 0);
	close(fd);
	handle = hear().hdr.from;
	tell(request(handle, 0), SOFT_MSG_BUSY);
	fd = accept_from(name);
	tell(request(handle, 0), SOFT_MSG_REJ);
	event(RDMA_CM_EVENT_REJECTED, 0);
	/* the lookup has ended */
	look_at_id(&looks, &bound);
	assert_false(looks);
	close(fd);
	close(name);
	until_answered(1);
	no_event();
}

/* ---- progress without end --------------------------------------------- */

static uint32_t endless;		/* calls that report progress */

bool __real_soft_progress(struct soft_dev *d);
bool __wrap_soft_progress(struct soft_dev *d);

bool __wrap_soft_progress(struct soft_dev *d)
{
	if (endless)
		return --endless;
	return __real_soft_progress(d);
}

/* The program needs the lock too, so soft_uncover() must stop. */
static void uncover__always_more_LETS_GO(void **state)
{
	uint32_t left;

	soft_lock(dev);
	endless = 100000;
	soft_uncover(dev);
	left = endless;
	endless = 0;
	soft_unlock(dev);
	assert_in_range(left, 90000, 100000);
}

/* ---- a node that answers rdmamsg-soft-ctl(1) wrongly ------------------ */

/* Answers with one object, and tells of more, whatever the order asks for. */
static void *tell_of_three(void *arg)
{
	int name = *(int *)arg, fds[1];

	for (int i = 0; i < 3; i++) {
		int fd = accept_from(name);
		struct soft_ctl_msg m;

		(void)receive(fd, &m, sizeof(m), fds);
		m.hdr.type = SOFT_MSG_CTL_DONE;
		m.result = 0;
		m.arg[0]++;
		m.arg[1] = 1;
		m.qps[0].qpn = 3;
		(void)soft_msg_send(fd, &m, sizeof(m), NULL, 0);
		close(fd);
	}
	return NULL;
}

static void list__the_same_again_EPROTO(void **state)
{
	int name = soft_name_listen(dev, 8, "node/%u", PEER);
	struct soft_ctl_object objects[SOFT_CTL_OBJECT_PAGE];
	struct soft_ctl_qp qps[1];
	struct soft_ctl *ctl;
	uint32_t index = 0, next = 1;
	pthread_t thread;

	assert_true(name >= 0);
	assert_int_equal(pthread_create(&thread, NULL, tell_of_three, &name),
			 0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_qps(ctl, PEER, &index, qps, 1), 1);
	assert_int_equal(index, 4);
	assert_int_equal(soft_ctl_qps(ctl, PEER, &index, qps, 1), -EPROTO);
	/* pages that are never full would not end */
	assert_int_equal(soft_ctl_objects(ctl, PEER, SOFT_CTL_MR, &next,
					  objects, SOFT_CTL_OBJECT_PAGE),
			 -EPROTO);
	soft_ctl_close(ctl);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(name);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define TEST_CM(fn) cmocka_unit_test_setup_teardown(fn, setup_cm, teardown_cm)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(hello__something_else_for_a_doorbell_CUT),
		TEST(request__answers_never_read_BOUNDED),
		TEST(request__of_another_port_space_REJECTED),
		TEST(request__lost_ones_never_read_BOUNDED),
		TEST(connect__amid_a_message_BEGINS_ANEW),
		TEST(peer__ends_after_many_writes_ALL_ARE_THERE),
		TEST_CM(request__taken_back_COUNTS),
		TEST_CM(connect__nobody_tells_who_listens_UNREACHABLE),
		TEST_CM(connect__rejected_while_looking_ENDS_ONCE),
		TEST(uncover__always_more_LETS_GO),
		TEST(list__the_same_again_EPROTO),
	};

	join_own_fabric("hostile");
	return cmocka_run_group_tests_name("soft_hostile", tests, NULL, NULL);
}
