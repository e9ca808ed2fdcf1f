/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: ten senders and one receiver over a shared link whose queue
 * holds 64 packets. They write, or the receiver reads. The seed decides rate,
 * delay, and whether the queue marks packets. What is lost, the use of the link
 * and the shares have bounds, from the time on when the senders have found
 * their shares. Until then, bursts may lose more.
 *
 *	incast [--schedules=N] [--from=SEED] [--jobs=N] [--keep-going]
 *	incast --seed=SEED
 */
#include "incast.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/transport/far.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/qp.h"

#define START_NS	1000000000ull
#define STAGGER_NS	2000000u	/* between the first and last sender */
#define PACKETS		80000u		/* that the link could send */
#define FIRST		16000u		/* of these, until all have shares */
#define LENGTH		65536u
#define DEPTH		4u
#define CQ_ROOM		64
#define TIMEOUT		14u		/* 67 ms */
#define READS		16u
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)
/* Schedules of make check, which take seconds. */
#ifdef __SANITIZE_ADDRESS__
#define SCHEDULES	8
#else
#define SCHEDULES	40
#endif
/* per mille */
#define LOST_MOST	20u
#define LOST_MARKED	3u		/* if the queue marks packets */
#define LOST_FIRST	150u
#define USED_LEAST	500u
#define FAIR_LEAST	750u	/* one seed of 1,000 is below 800 */
#define SHARE_LEAST	200u		/* of an even share: nobody starves */

static struct totals_incast {
	uint64_t packets, lost, marked, retransmits;
} sums;

static struct sender {
	struct ibv_qp *qp, *peer;
	uint64_t begins;
	uint32_t una;			/* where it was last seen */
	uint64_t done;			/* PSNs that are answered */
} senders[SENDERS];

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static uint8_t memory[2 * LENGTH];
static bool reads;

static void open_device(void)
{
	verbs = world_open();
	pd = soft_alloc_pd(verbs);
	cq = soft_create_cq(verbs, (int)(SENDERS * CQ_ROOM), NULL, NULL, 0);
	mr = soft_reg_mr(pd, memory, sizeof(memory), ACCESS);
	if (!pd || !cq || !mr || soft_query_gid(verbs, 1, 0, &gid))
		sim_fail("no objects");
}

/* ---- queue pairs -------------------------------------------------------- */

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	const int err = soft_modify_qp(qp, a, mask | IBV_QP_STATE);

	if (err)
		sim_fail("state %d: %s", a->qp_state, strerror(err));
}

static struct ibv_qp *create(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = ACCESS,
	};
	struct ibv_qp *qp = soft_create_qp(pd, &init);

	if (!qp)
		sim_fail("no queue pair");
	modify(qp, &a, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num, .max_dest_rd_atomic = READS,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = READS,
	};

	modify(qp, &rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER);
	modify(qp, &rts, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- requests ----------------------------------------------------------- */

static void post(struct sender *s)
{
	struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uint64_t)(s - senders), .sg_list = &sge, .num_sge = 1,
		.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)memory + LENGTH, mr->rkey },
	};
	const int err = soft_post_send(s->qp, &wr, &bad);

	if (err)
		sim_fail("request: %s", strerror(err));
}

bool incast_receives(uint32_t qpn)
{
	for (uint32_t i = 0; i < SENDERS; i++)
		if (qpn == (reads ? senders[i].qp : senders[i].peer)->qp_num)
			return true;
	return false;
}

/* A request follows each that has completed. */
static void poll_all(void)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = soft_poll_cq(cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				sim_fail("status %d", wc[i].status);
			post(&senders[wc[i].wr_id]);
		}
}

static uint64_t begin_some(void)
{
	uint64_t next = SIM_NEVER;

	for (uint32_t i = 0; i < SENDERS; i++) {
		struct sender *s = &senders[i];

		for (uint32_t n = 0; s->begins <= sim_now && n < DEPTH; n++)
			post(s);
		if (s->begins <= sim_now)
			s->begins = SIM_NEVER;
		next = min(next, s->begins);
	}
	return next;
}

static void count_answered(void)
{
	for (uint32_t i = 0; i < SENDERS; i++) {
		struct sender *s = &senders[i];
		const uint32_t una = soft_qp(s->qp)->una;

		s->done += (una - s->una) & SOFT_PSN_MASK;
		s->una = una;
	}
}

/* ---- what is expected ---------------------------------------------------- */

static void check_shares(void)
{
	double sum = 0, squares = 0, least = 1e18;

	for (uint32_t i = 0; i < SENDERS; i++) {
		const double done = (double)senders[i].done;

		sum += done;
		squares += done * done;
		least = min(least, done);
	}
	sim_trace("fairness %.3f, least share %.3f\n",
		  sum * sum / (SENDERS * squares), least * SENDERS / sum);
	if (sum * sum * 1000 < FAIR_LEAST * SENDERS * squares ||
	    least * SENDERS * 1000 < SHARE_LEAST * sum)
		sim_fail("fairness %.3f, least share %.3f",
			 sum * sum / (SENDERS * squares),
			 least * SENDERS / sum);
}

/* The senders have found their shares, which are counted from now on. */
static void check_first(void)
{
	const struct shared_counts *c = &shared_counts;

	sim_trace("at first: %llu sent, %llu lost\n",
		  (unsigned long long)c->sent, (unsigned long long)c->lost);
	if (c->lost * 1000 > c->sent * LOST_FIRST)
		sim_fail("%llu of %llu packets lost at first",
			 (unsigned long long)c->lost,
			 (unsigned long long)c->sent);
	memset(&shared_counts, 0, sizeof(shared_counts));
	for (uint32_t i = 0; i < SENDERS; i++)
		senders[i].done = 0;
}

static void check(void)
{
	const struct shared_counts *c = &shared_counts;
	uint64_t done = 0;

	for (uint32_t i = 0; i < SENDERS; i++)
		done += senders[i].done;
	sim_trace("%s, %u ns a packet, %u ns away, jitter %u, marks %u: "
		  "%llu sent, %llu lost, %llu marked, %llu answered, "
		  "%llu again, %llu duplicates\n",
		  reads ? "reads" : "writes", shared_link.each,
		  shared_link.base, shared_link.jitter, shared_link.marks,
		  (unsigned long long)c->sent, (unsigned long long)c->lost,
		  (unsigned long long)c->marked, (unsigned long long)done,
		  (unsigned long long)sim_dev->packets.retransmits,
		  (unsigned long long)sim_dev->packets.duplicates);
	if (c->lost * 1000 > c->sent * (shared_link.marks ? LOST_MARKED :
							    LOST_MOST))
		sim_fail("%llu of %llu packets lost",
			 (unsigned long long)c->lost,
			 (unsigned long long)c->sent);
	if (done * 1000 < (uint64_t)PACKETS * USED_LEAST)
		sim_fail("%llu of %u packets answered",
			 (unsigned long long)done, PACKETS);
	check_shares();
	sums.packets += c->sent;
	sums.lost += c->lost;
	sums.marked += c->marked;
}

/* ---- a schedule ---------------------------------------------------------- */

static void make_plan(void)
{
	static const uint32_t each[] = { 8400, 840 };
	static const uint32_t base[] = { 5000, 20000, 100000 };

	shared_link = (struct shared_link){
		.each = each[sim_below(2)], .base = base[sim_below(3)],
		.jitter = sim_below(2) ? 20000 : 2000,
		.marks = sim_below(2) ? QUEUE / 2 : 0,
	};
	reads = sim_below(2);
	sim_now = START_NS;
	for (uint32_t i = 0; i < SENDERS; i++)
		senders[i] = (struct sender){
			.begins = START_NS + sim_below(STAGGER_NS),
			.qp = create(), .peer = create(),
		};
	for (uint32_t i = 0; i < SENDERS; i++) {
		connect_to(senders[i].qp, senders[i].peer);
		connect_to(senders[i].peer, senders[i].qp);
	}
}

/* Returns when the link could have sent so many packets. */
static uint64_t time_of(uint32_t packets)
{
	return START_NS + STAGGER_NS + (uint64_t)packets * shared_link.each;
}

static void run_until(uint64_t end)
{
	while (sim_now < end) {
		uint64_t next = begin_some();

		next = min(next, min(bottleneck_next(), world_timer()));
		sim_now = max(sim_now, next);
		if (bottleneck_next() <= sim_now)
			world_progress();
		if (world_timer() <= sim_now)
			world_timers();
		poll_all();
		count_answered();
	}
}

static void run(uint64_t seed)
{

	sim_seed(seed);
	bottleneck_begin();
	memset(&sim_dev->packets, 0, sizeof(sim_dev->packets));
	make_plan();
	run_until(time_of(FIRST));
	check_first();
	run_until(time_of(FIRST + PACKETS));
	check();
	sums.retransmits += sim_dev->packets.retransmits;
	for (uint32_t i = 0; i < SENDERS; i++)
		if (soft_destroy_qp(senders[i].qp) ||
		    soft_destroy_qp(senders[i].peer))
			sim_fail("a queue pair stays");
	while (soft_poll_cq(cq, 1, &(struct ibv_wc){ 0 }) > 0)
		;
}

int main(int argc, char **argv)
{
	static const struct runner incast = {
		.name = "incast", .schedules = SCHEDULES,
		.begin = open_device, .run = run,
		.totals = (const uint64_t *)&sums,
		.words = { "packets", "lost", "marked", "retransmits" },
	};

	return runner_main(&incast, argc, argv);
}
