/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a hostile host sends a soft HCA arbitrary packets and messages
 * of the connection manager. The damage stays within the queue pairs and the
 * connections of that host: memory without remote access does not change and
 * does not leave, each request completes once, and nothing is left behind.
 *
 * The input is a list of steps. Each step has a byte with its kind and a byte
 * with its length. No socket is open: packets arrive as net/recv.c hands them
 * on, and those that the device sends are checked and dropped. The clock stands
 * still between steps, and the device's thread does not run.
 */
#include "packet_cm.h"
#include "packet_near.h"

#define STEPS_MAX	64

enum step {
	STEP_PACKET,		/* struct shot */
	STEP_RAW,		/* bytes that may be a packet */
	STEP_MAD,		/* struct order_mad */
	STEP_REFUSED,		/* nobody receives packets there */
	STEP_POST,		/* this side: struct order */
	STEP_RECV,
	STEP_TIME,
	STEP_PROGRESS,
	STEP_ROOM,		/* the socket is full, or takes packets again */
	STEP_EVENTS,		/* this side takes events of connections */
	STEP_CM,		/* this side connects, disconnects, ... */
	STEP_MODIFY,		/* this side changes a queue pair's state */
	STEP_FAULTS,		/* packets that this side sends are lost */
	STEP_NEAR,		/* another process of this host answers */
	STEPS
};

enum { QP_RC, QP_SRQ, QP_UD, QP_INNOCENT, QPS,
       TO_CM = QPS, TO_GROUP, TO_NODE, TO_ABSENT, TO_NOBODY, TARGETS };

/* A packet. What is 0 stands for what a good packet has. */
struct shot {
	uint8_t opcode, to, from, flags;
	int16_t psn;
	uint16_t bytes;
	uint32_t length, imm;
	uint64_t addr, value, compare;
	uint32_t qkey;
	uint8_t key, syndrome, unused[2];
};
enum { SHOT_SOLICITED = 1, SHOT_ACK = 2, SHOT_FULL = 4, SHOT_OTHER_PSN = 8,
       SHOT_ANY_PSN = 16, SHOT_FORWARDED = 32, SHOT_CUT = 64 };

/* A request of this side. */
struct order {
	uint8_t op, to, flags, key;
	uint32_t length;
	uint64_t addr;
};
enum { ORDER_INLINE = 1, ORDER_FENCE = 2, ORDER_SOLICITED = 4,
       ORDER_PARTS = 8, ORDER_NO_KEY = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_srq *srq;
static struct ibv_qp *qp[QPS];
static uint32_t window_key;		/* of mw, as it was bound last */
static const uint8_t group[16] = { 0xff, 0x0e, [15] = 9 };
static int qps, timers;			/* before the first step */
/* sends and receives, by queue pair */
static uint32_t posted[QPS][2], completed[QPS][2];

static void open_queues(void)
{
	struct ibv_srq_init_attr s = { .attr = { .max_wr = 16, .max_sge = 2 } };
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	memcpy(a.grh.dgid.raw, paths[PEER].to, 16);
	ah = soft_create_ah(pd, &a);
	srq = soft_create_srq(pd, &s);
	mw = soft_alloc_mw(pd, IBV_MW_TYPE_2);
	must(ah && srq && mw);
	window_key = mw->rkey;
	qp[QP_RC] = new_qp(IBV_QPT_RC, NULL);
	qp[QP_SRQ] = new_qp(IBV_QPT_RC, srq);
	qp[QP_UD] = new_qp(IBV_QPT_UD, NULL);
	qp[QP_INNOCENT] = new_qp(IBV_QPT_RC, NULL);
	walk(qp[QP_RC], PEER_QPN, paths[PEER].to, IBV_MTU_256);
	walk(qp[QP_SRQ], PEER_QPN + 1, paths[PEER].to, IBV_MTU_1024);
	walk(qp[QP_UD], 0, NULL, IBV_MTU_4096);
	walk(qp[QP_INNOCENT], PEER_QPN, paths[INNOCENT].to, IBV_MTU_1024);
	must(soft_qp(qp[QP_RC])->far && soft_qp(qp[QP_INNOCENT])->far);
	must(!soft_attach_mcast(qp[QP_UD], (const union ibv_gid *)group, 0));
	memset(posted, 0, sizeof(posted));
	memset(completed, 0, sizeof(completed));
}

/* Requests and receives of a queue complete in order, and once. */
static void take_completions(void)
{
	struct ibv_wc wc;

	while (soft_poll_cq(cq, 1, &wc) == 1) {
		const uint32_t seq = (uint32_t)wc.wr_id & 0xffff;
		const uint32_t queue = (uint32_t)wc.wr_id >> 16 & 1;
		const uint32_t of = (uint32_t)wc.wr_id >> 17;

		must(of < QPS && seq == completed[of][queue]++ &&
		     seq < posted[of][queue]);
	}
}

static uint64_t next_id(uint32_t of, uint32_t queue)
{
	return of << 17 | queue << 16 | posted[of][queue];
}

static uint32_t key_of(uint8_t key)
{
	switch (key % 6) {
	case 0:
		return mr->rkey;
	case 1:
		return window_key;
	case 2:
		return local_mr->rkey;
	case 3:
		return other_mr->rkey;
	case 4:
		return mw->rkey;
	default:
		return mr->rkey ^ 1;
	}
}

static uint64_t address(uint64_t addr)
{
	return addr >> 32 ? addr : addr + (uintptr_t)mem;
}

static void bind_window(struct ibv_send_wr *wr, const struct order *o)
{
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr, .addr = address(o->addr % SIZE), .length = o->length,
		.mw_access_flags = ACCESS & ~IBV_ACCESS_MW_BIND &
				   ~IBV_ACCESS_LOCAL_WRITE,
	};
}

static const enum ibv_wr_opcode ops[] = {
	IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_SEND_WITH_INV, IBV_WR_BIND_MW,
};

static void fill_target(struct ibv_send_wr *wr, const struct order *o)
{
	const bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (wr->opcode == IBV_WR_BIND_MW) {
		bind_window(wr, o);
	} else if (atomic) {
		wr->wr.atomic.remote_addr = o->addr;
		wr->wr.atomic.compare_add = o->length;
		wr->wr.atomic.rkey = o->key;
	} else {
		wr->wr.rdma.remote_addr = o->addr;
		wr->wr.rdma.rkey = o->key;
	}
}

static unsigned int send_flags(uint8_t of)
{
	return (of & ORDER_INLINE ? IBV_SEND_INLINE : 0u) |
	       (of & ORDER_FENCE ? IBV_SEND_FENCE : 0u) |
	       (of & ORDER_SOLICITED ? IBV_SEND_SOLICITED : 0u);
}

static void post(const struct order *o)
{
	const uint32_t of = o->to % QP_INNOCENT;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)mem, o->length % (SIZE + 1),
		  o->flags & ORDER_NO_KEY ? other_mr->lkey : mr->lkey },
		{ (uintptr_t)mem + 64, 16, mr->lkey },
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = next_id(of, 0), .sg_list = sge,
		.num_sge = o->flags & ORDER_PARTS ? 2 : 1,
		.opcode = ops[o->op % (sizeof(ops) / sizeof(*ops))],
		.send_flags = send_flags(o->flags),
	};

	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge[0].length = 8;
	if (of == QP_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = PEER_QPN;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		fill_target(&wr, o);
	}
	if (soft_post_send(qp[of], &wr, &bad))
		return;
	posted[of][0]++;
	if (wr.opcode == IBV_WR_BIND_MW)
		window_key = mw->rkey = wr.bind_mw.rkey;
}

static void post_recv(uint8_t to, uint32_t length)
{
	const uint32_t of = to % QP_INNOCENT;
	struct ibv_sge sge = {
		(uintptr_t)mem, length % (SIZE + 1),
		length >> 15 ? other_mr->lkey : mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = next_id(of, 1), .sg_list = &sge, .num_sge = 1,
	};

	posted[of][1] += of == QP_SRQ ?
			 !soft_post_srq_recv(srq, &wr, &bad) :
			 !soft_post_recv(qp[of], &wr, &bad);
}

static void modify(uint8_t to, uint8_t state)
{
	static const enum ibv_qp_state states[] = {
		IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QPS_RESET,
	};
	const uint32_t of = to % QP_INNOCENT;
	struct ibv_qp_attr a = { .qp_state = states[state % 4] };

	take_completions();
	if (soft_modify_qp(qp[of], &a, IBV_QP_STATE) ||
	    a.qp_state != IBV_QPS_RESET)
		return;
	/* what was outstanding has no completion */
	completed[of][0] = posted[of][0];
	if (of != QP_SRQ)
		completed[of][1] = posted[of][1];
	if (of != QP_UD)
		walk(qp[of], PEER_QPN + of, paths[PEER].to, IBV_MTU_512);
}

/* ---- packets ---------------------------------------------------------- */

static uint32_t number_of(uint8_t to)
{
	switch (to % TARGETS) {
	case TO_CM:
		return SOFT_QPN_CM;
	case TO_GROUP:
		return SOFT_QPN_MCAST;
	case TO_NODE:
		return NEAR << SOFT_QPN_BITS | 3;
	case TO_ABSENT:
		return (NEAR + 1) << SOFT_QPN_BITS | 3;
	case TO_NOBODY:
		return qp[0]->qp_num ^ 1u << (SOFT_QPN_BITS - 1);
	default:
		return qp[to % TARGETS]->qp_num;
	}
}

static uint32_t psn_of(const struct shot *s, bool request)
{
	const struct soft_qp *q = s->to % TARGETS < QPS ?
				  soft_qp(qp[s->to % TARGETS]) : NULL;

	if (!q || s->flags & SHOT_ANY_PSN)
		return (uint32_t)s->psn & SOFT_PSN_MASK;
	if (s->flags & SHOT_OTHER_PSN)
		request = !request;
	return ((request ? q->far && q->far->hears ? q->far->epsn : q->epsn :
		 q->una) + (uint32_t)s->psn) & SOFT_PSN_MASK;
}

static struct soft_path path_of(uint8_t from, uint8_t to)
{
	struct soft_path back = paths[from % PATHS];

	/* the other address is as a group without members here */
	if (to % TARGETS == TO_GROUP && from % PATHS != PEER_TO_OTHER)
		memcpy(back.from, group, 16);
	return back;
}

static void shoot(const uint8_t *data, size_t len)
{
	struct shot s = { 0 };
	struct packet p = { 0 };
	uint8_t at[PACKET_MAX + 8] = { 0 };
	struct soft_path back;
	const struct soft_qp *q;
	uint32_t head;

	memcpy(&s, data, min(len, sizeof(s)));
	data += min(len, sizeof(s));
	len -= min(len, sizeof(s));
	q = s.to % TARGETS < QPS ? soft_qp(qp[s.to % TARGETS]) : NULL;
	p.opcode = s.opcode;
	p.solicited = s.flags & SHOT_SOLICITED;
	p.ack = s.flags & SHOT_ACK;
	p.dst = number_of(s.to);
	p.psn = psn_of(&s, packet_flags(s.opcode) & PACKET_F_REQUEST);
	p.addr = address(s.addr);
	p.rkey = key_of(s.key);
	p.length = s.length;
	p.swap = p.value = s.value;
	p.compare = s.compare;
	p.syndrome = s.syndrome;
	p.imm = s.key >> 4 ? htobe32(key_of(s.key >> 4)) : s.imm;
	p.qkey = s.qkey ^ (s.to % TARGETS == TO_CM ? MAD_QKEY : QKEY);
	p.src = SOFT_QPN_CM;
	p.bytes = s.flags & SHOT_FULL && q && q->far ? q->far->mtu :
		  s.bytes % 4097u;
	head = packet_put(&p, at);
	memcpy(at + head, data, min(len, p.bytes));
	head += p.bytes + p.pad + PACKET_CRC;
	back = path_of(s.from, s.to);
	arrive(&back, at, head - !!(s.flags & SHOT_CUT),
	       s.flags & SHOT_FORWARDED);
}

/* The first byte has the path and how the bytes come. */
static void raw(const uint8_t *data, size_t len)
{
	const uint8_t how = len ? *data : 0;
	const struct soft_path back = path_of(how, how >> 4);
	uint8_t copy[256];

	if (!len)
		return;
	memcpy(copy, data + 1, len - 1);
	if (how & 4) {
		soft_net_forwarded(dev, copy, (uint32_t)len - 1);
		return;
	}
	if (len > 12) {
		const uint32_t to = htobe32(number_of(how >> 4));

		memcpy(copy + 4, &to, 4);
	}
	arrive(&back, copy, len - 1, how & 8);
}

/* ---- steps ------------------------------------------------------------ */

static void pass(uint64_t ns)
{
	now += ns;
	dev->timer_watch.fn(dev, &dev->timer_watch, 0);
}

static void make_room(bool room)
{
	dev->net->blocked = !room;
	if (room)
		soft_fabric_up->net_room(dev);
}

static void set_faults(uint32_t v)
{
	dev->faults.drop = (v & 0xff) * (SOFT_SHARE_ALL / 256);
	dev->faults.duplicate = (v >> 8 & 0xff) * (SOFT_SHARE_ALL / 256);
	dev->faults.delay = (v >> 16 & 0xff) * (SOFT_SHARE_ALL / 256);
	dev->faults.reorder = (v >> 24) * (SOFT_SHARE_ALL / 256);
	dev->faults.delay_us = 100;
	dev->faulty = v != 0;
}

/* Steps of the network run under the device's lock. */
static void net_step(uint8_t what, const uint8_t *data, size_t len, uint32_t v)
{
	soft_lock(dev);
	switch (what) {
	case STEP_PACKET:
		shoot(data, len);
		break;
	case STEP_RAW:
		raw(data, len);
		break;
	case STEP_MAD:
		send_mad(data, len);
		break;
	case STEP_REFUSED:
		soft_fabric_up->net_refused(dev, paths[v % PATHS].to);
		break;
	case STEP_TIME:
		pass(v * 1000ull);
		break;
	case STEP_ROOM:
		make_room(v & 1);
		break;
	case STEP_FAULTS:
		set_faults(v);
		break;
	case STEP_NEAR:
		(void)answer_seek((uint8_t)v, !(v & 8));
		break;
	default:
		(void)progress(dev);
	}
	take_sent(dev);
	take_forwarded();
	soft_unlock(dev);
}

static void step(uint8_t what, const uint8_t *data, size_t len)
{
	struct order o = { 0 };
	uint8_t v[4] = { 0 };

	memcpy(v, data, min(len, sizeof(v)));
	memcpy(&o, data, min(len, sizeof(o)));
	switch (what) {
	case STEP_POST:
		post(&o);
		break;
	case STEP_RECV:
		post_recv(v[0], v[1] | (uint32_t)v[2] << 8);
		break;
	case STEP_EVENTS:
		take_events(v[0]);
		break;
	case STEP_CM:
		command(v[0], v[1]);
		break;
	case STEP_MODIFY:
		modify(v[0], v[1]);
		break;
	default:
		net_step(what, data, len, v[0] | (uint32_t)v[1] << 8 |
			 (uint32_t)v[2] << 16 | (uint32_t)v[3] << 24);
	}
}

/* ---- checks ----------------------------------------------------------- */

static void check_queue(const struct soft_qp *q)
{
	const struct soft_far *far = q->far;

	must(q->reads_out <= 4 && q->rd_tail - q->rd_head <= 4);
	if (!far)
		return;
	must(far->redo_tail - far->redo_head <= SOFT_MAX_RD);
	/* only what was sent is answered */
	must(far->asks ? !soft_far_before(far->end, q->una) :
	     q->una == FIRST_PSN);
}

static void check_bounds(void)
{
	const struct soft_qp *q = soft_qp(qp[QP_INNOCENT]);

	/* the queue pair of another host */
	must(q->state == IBV_QPS_RTS && !q->far->hears && !q->far->asks);
	check_ids();
	must(count(&dev->cm_ids) <= LISTENERS + IDS +
				      LISTENERS * BACKLOG);
	must(dev->seeking <= 64);
	for (int i = 0; i < QP_UD; i++)
		check_queue(soft_qp(qp[i]));
}

/* A request of this process to itself still completes. */
static void check_self(void)
{
	struct ibv_sge sge = { (uintptr_t)mem, 64, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)mem + 64, mr->rkey },
	};
	struct ibv_wc wc = { 0 };

	must(!soft_post_send(self[0], &wr, &bad));
	for (int i = 0; i < 100 && !soft_poll_cq(cq, 1, &wc); i++)
		;
	must(wc.qp_num == self[0]->qp_num && wc.status == IBV_WC_SUCCESS);
}

static void take_async(void)
{
	struct pollfd p = { .fd = verbs->async_fd, .events = POLLIN };
	struct ibv_async_event async;

	while (poll(&p, 1, 0) == 1 && !soft_get_async_event(verbs, &async))
		soft_ack_async_event(&async);
}

/* All that was posted has completed, but receives that nobody has taken. */
static void flush_queues(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (int i = 0; i < QPS; i++)
		if (soft_qp(qp[i])->state != IBV_QPS_RESET)
			must(!soft_modify_qp(qp[i], &a, IBV_QP_STATE));
	take_completions();
	for (int i = 0; i < QPS; i++)
		must(completed[i][0] == posted[i][0] &&
		     (i == QP_SRQ || completed[i][1] == posted[i][1]));
}

static void close_queues(void)
{
	must(!soft_detach_mcast(qp[QP_UD], (const union ibv_gid *)group, 0));
	for (int i = 0; i < QPS; i++)
		must(!soft_destroy_qp(qp[i]));
	must(!soft_destroy_srq(srq) && !soft_dealloc_mw(mw) &&
	     !soft_destroy_ah(ah));
}

static void check_rest(void)
{
	/* packets that are late */
	soft_lock(dev);
	pass(60000000000ull);
	/* requests without a listener are looked at again and again */
	for (uint32_t ms = 0; ms < dev->patience; ms += 10)
		pass(10000000);
	take_sent(dev);
	while (answer_seek(0, false))
		;
	must(count_timers() == timers && (int)dev->qp_count == qps);
	must(list_empty(&dev->fars) && list_empty(&dev->pending));
	must(list_empty(&dev->seeks) && !dev->net->holds);
	must(count(&dev->cm_ids) == LISTENERS && dev->mrs == 3);
	soft_unlock(dev);
	memset(dev->net->absent, 0, sizeof(dev->net->absent));
	dev->net->drawn = 0;
	now = BEGIN;
}

static void finish(void)
{
	int rounds = 0;

	soft_lock(dev);
	set_faults(0);
	make_room(true);
	/* all reads of the peer have 4,000 packets at most */
	while (progress(dev))
		must(++rounds < 64);
	soft_unlock(dev);
	take_events(3);
	for (int i = 0; i < IDS; i++)
		if (ids[i])
			destroy(i);
	flush_queues();
	take_async();
	close_queues();
	check_rest();
	check_self();
	check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!verbs) {
		setup();
		meet_near();
		qps = (int)dev->qp_count;
		timers = count_timers();
	}
	open_queues();
	for (int i = 0; size >= 2 && i < STEPS_MAX; i++) {
		size_t len = min((size_t)data[1], size - 2);

		step(data[0] % STEPS, data + 2, len);
		check_bounds();
		data += 2 + len;
		size -= 2 + len;
	}
	finish();
	return 0;
}
