/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: Ethernet frames through queue pairs of the program. They arrive
 * where a rule of flow steering leads, and receive side scaling spreads them
 * over four receive queues by their hash. A device without raw packets says so.
 */
#include "common.h"
#include "../frame.h"
#include "../verbs_of.h"

#include <rdmamsg/device.h>
#include <rdmamsg/verbs.h>

#define QUEUES	4u
#define DEPTH	16u
#define ROOM	256u
#define UDP	17

static struct rdmamsg *ctx;
static struct rdmamsg_qp *sender, *receiver;
static uint8_t frame[ROOM], memory[QUEUES * DEPTH * ROOM];
static struct ibv_mr *mr[2];

static const struct rdmamsg_rss spread = {
	.size = sizeof(spread), .queues = QUEUES, .key = frame_key,
	.key_len = sizeof(frame_key), .function = IBV_RX_HASH_FUNC_TOEPLITZ,
	.fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
		  IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
};

static struct rdmamsg_qp_options options(const struct rdmamsg_rss *rss)
{
	return (struct rdmamsg_qp_options) {
		.size = sizeof(struct rdmamsg_qp_options),
		.device = test_device(), .type = IBV_QPT_RAW_PACKET,
		.max_recv = DEPTH, .max_send = DEPTH, .rss = rss,
	};
}

/* Returns true if the device has raw packets. If not, its attributes say so. */
static bool has_raw(void)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct rdmamsg_qp_options o = options(NULL);
	int ret = rdmamsg_qp_create(ctx, &o, &sender);

	if (!ret)
		return true;
	assert_error(ret, ret == -EPERM ? -EPERM : -EOPNOTSUPP,
		     "queue pair");
	assert_int_equal(rdmamsg_device_query(test_device(), &a), 0);
	assert_false(a.rss_qps & 1u << IBV_QPT_RAW_PACKET);
	o.rss = &spread;
	assert_error(rdmamsg_qp_create(ctx, &o, &receiver), -EOPNOTSUPP,
		     "rss_caps");
	return false;
}

/* Returns false if the device has no raw packets, and leaves nothing open. */
static bool open_all(const struct rdmamsg_rss *rss)
{
	struct rdmamsg_qp_options o = options(rss);

	ctx = test_open(NULL);
	if (!has_raw()) {
		test_close(ctx);
		return false;
	}
	if (rdmamsg_qp_create(ctx, &o, &receiver))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	assert_int_equal(rdmamsg_qp_register(sender, frame, sizeof(frame), 0,
					     &mr[0]), 0);
	assert_int_equal(rdmamsg_qp_register(receiver, memory, sizeof(memory),
					     IBV_ACCESS_LOCAL_WRITE, &mr[1]),
			 0);
	return true;
}

static void close_all(void)
{
	assert_int_equal(rdmamsg_qp_deregister(sender, mr[0]), 0);
	assert_int_equal(rdmamsg_qp_deregister(receiver, mr[1]), 0);
	test_close(ctx);
}

static struct ibv_flow *steer(void)
{
	struct frame_rule rule = frame_rule(frame_dst);
	struct ibv_flow *flow = ibv_create_flow(verbs_of(receiver).qp,
						&rule.attr);

	if (!flow)
		fail_msg("ibv_create_flow: %s", strerror(errno));
	return flow;
}

static uint8_t *place(uint64_t id)
{
	return memory + id * ROOM;
}

static struct ibv_wc next_wc(struct ibv_cq *cq)
{
	uint64_t end = now_ms() + WAIT_MS;
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		if (now_ms() > end)
			fail_msg("waited in vain for a completion");
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

/* Sends a packet from this port, and returns the length of its frame. */
static uint32_t send_from(uint16_t port)
{
	const struct frame_of f = {
		"10.1.2.3", "10.4.5.6", port, 2000, .proto = UDP,
		.payload = port % 100u,
	};
	struct ibv_sge sge = {
		(uintptr_t)frame, frame_write(frame, &f), mr[0]->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	assert_int_equal(ibv_post_send(verbs_of(sender).qp, &wr, &bad), 0);
	(void)next_wc(verbs_of(sender).send_cq);
	return sge.length;
}

static void frame__where_a_rule_leads_ARRIVES(void **state)
{
	struct ibv_flow *flow;
	struct ibv_recv_wr *bad;

	if (!open_all(NULL))
		return;
	flow = steer();
	for (uint16_t i = 0; i < DEPTH; i++) {
		struct ibv_sge sge = {
			(uintptr_t)place(i), ROOM, mr[1]->lkey,
		};
		struct ibv_recv_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
		};
		struct ibv_wc wc;
		uint32_t len;

		assert_int_equal(ibv_post_recv(verbs_of(receiver).qp, &wr,
					       &bad), 0);
		len = send_from(1000 + i);
		wc = next_wc(verbs_of(receiver).recv_cq);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.byte_len, len);
		assert_memory_equal(place(i), frame, len);
	}
	assert_error(rdmamsg_qp_destroy(receiver), -EBUSY, "flow steering");
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_all();
}

/* ---- what the create flags ask for ------------------------------------ */

/* Replaces the receiver by one with these flags, if there is one. */
static void receive_with(uint32_t flags)
{
	struct rdmamsg_qp_options o = options(NULL);

	assert_int_equal(rdmamsg_qp_destroy(receiver), 0);
	o.create_flags = flags;
	if (rdmamsg_qp_create(ctx, &o, &receiver))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
}

static void post_receive(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)place(id), ROOM, mr[1]->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(verbs_of(receiver).qp, &wr, &bad),
			 0);
}

static struct ibv_wc arrived(uint64_t id)
{
	struct ibv_wc wc = next_wc(verbs_of(receiver).recv_cq);

	assert_int_equal(wc.wr_id, id);
	return wc;
}

static void scatter_fcs__asked_for_4_BYTES_MORE(void **state)
{
	struct ibv_flow *flow;
	uint32_t len;

	if (!open_all(NULL))
		return;
	receive_with(IBV_QP_CREATE_SCATTER_FCS);
	flow = steer();
	post_receive(1);
	len = send_from(1000);
	assert_int_equal(arrived(1).byte_len, len + 4);
	assert_memory_equal(place(1), frame, len);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_all();
}

static void cvlan_stripping__asked_for_NO_TAG(void **state)
{
	const struct frame_of f = {
		"10.1.2.3", "10.4.5.6", 1, 2, .proto = UDP, .tci = 5,
		.payload = 30,
	};
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
	};
	struct ibv_flow *flow;

	if (!open_all(NULL))
		return;
	receive_with(IBV_QP_CREATE_CVLAN_STRIPPING);
	flow = steer();
	post_receive(1);
	sge = (struct ibv_sge){
		(uintptr_t)frame, frame_write(frame, &f), mr[0]->lkey,
	};
	assert_int_equal(ibv_post_send(verbs_of(sender).qp, &wr, &bad), 0);
	assert_int_equal(arrived(1).byte_len, sge.length - 4);
	assert_memory_equal(place(1), frame, 12);
	assert_memory_equal(place(1) + 12, frame + 16, sge.length - 16);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_all();
}

static void tso__of_one_request_THREE_SEGMENTS(void **state)
{
	const struct frame_of f = {
		"10.1.2.3", "10.4.5.6", 1000, 2000, .proto = 6,
	};
	struct rdmamsg_qp_options o = options(NULL);
	struct ibv_qp_ex *ex;
	struct ibv_flow *flow;
	uint8_t header[128];
	uint32_t size;

	if (!open_all(NULL))
		return;
	assert_int_equal(rdmamsg_qp_destroy(sender), 0);
	o.max_tso_header = sizeof(header);
	o.send_ops = IBV_QP_EX_WITH_TSO;
	if (rdmamsg_qp_create(ctx, &o, &sender))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	flow = steer();
	for (uint64_t i = 0; i < 3; i++)
		post_receive(i);
	size = frame_write(header, &f);
	for (uint32_t i = 0; i < 250; i++)
		frame[i] = (uint8_t)(i * 3);
	ex = verbs_of(sender).qp_ex;
	assert_non_null(ex);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
	ibv_wr_send_tso(ex, header, (uint16_t)size, 100);
	ibv_wr_set_sge(ex, mr[0]->lkey, (uintptr_t)frame, 250);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next_wc(verbs_of(sender).send_cq).opcode,
			 IBV_WC_TSO);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t len = i < 2 ? 100 : 50;

		assert_int_equal(arrived(i).byte_len, size + len);
		assert_memory_equal(place(i) + size, frame + 100 * i, len);
	}
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_all();
}

/* ---- receive side scaling --------------------------------------------- */

static void post_all(void)
{
	for (uint32_t q = 0; q < QUEUES; q++) {
		struct ibv_wq *wq = wq_of(receiver, q);

		for (uint32_t i = 0; i < DEPTH; i++) {
			uint64_t id = q * DEPTH + i;
			struct ibv_sge sge = {
				(uintptr_t)place(id), ROOM, mr[1]->lkey,
			};
			struct ibv_recv_wr wr = {
				.wr_id = id, .sg_list = &sge, .num_sge = 1,
			}, *bad;

			assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
		}
	}
}

/*
 * The queues for ports 1 to 16 by Python, from the definition of the hash:
 * Microsoft, "RSS Hashing Types".
 */
static const uint8_t queue_of_port[] = {
	3, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1, 0, 1, 0, 1, 3,
};

static void packets__spread_by_hash_EACH_IN_ITS_QUEUE(void **state)
{
	struct ibv_flow *flow;
	uint32_t taken[QUEUES] = { 0 };

	if (!open_all(&spread))
		return;
	assert_null(wq_of(receiver, QUEUES));
	assert_null(wq_of(sender, 0));
	post_all();
	flow = steer();
	for (uint16_t port = 1; port <= sizeof(queue_of_port); port++) {
		uint32_t q = queue_of_port[port - 1], len = send_from(port);
		struct ibv_wc wc = next_wc(verbs_of(receiver).recv_cq);

		assert_int_equal(wc.wr_id, q * DEPTH + taken[q]++);
		assert_int_equal(wc.byte_len, len);
		assert_memory_equal(place(wc.wr_id), frame, len);
	}
	for (uint32_t q = 0; q < QUEUES; q++)
		assert_true(taken[q]);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_all();
}

/* The device's reason for what mlx5 devices refuse, too. */
static void rss__fields_of_both_kinds_DEVICE_REFUSES(void **state)
{
	struct rdmamsg_rss bad = spread;
	struct rdmamsg_qp_options o = options(&bad);
	struct rdmamsg_qp *q;

	if (!open_all(NULL))
		return;
	bad.fields |= IBV_RX_HASH_SRC_IPV6;
	assert_error(rdmamsg_qp_create(ctx, &o, &q), -EINVAL, "queue pair");
	bad = spread;
	bad.fields |= IBV_RX_HASH_DST_PORT_TCP;
	assert_error(rdmamsg_qp_create(ctx, &o, &q), -EINVAL, "queue pair");
	bad = spread;
	bad.key_len--;
	assert_error(rdmamsg_qp_create(ctx, &o, &q), -EINVAL, "queue pair");
	bad = spread;
	bad.queues = 1u << 20;
	assert_error(rdmamsg_qp_create(ctx, &o, &q), -EINVAL, "queues");
	close_all();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(frame__where_a_rule_leads_ARRIVES),
		TEST(scatter_fcs__asked_for_4_BYTES_MORE),
		TEST(cvlan_stripping__asked_for_NO_TAG),
		TEST(tso__of_one_request_THREE_SEGMENTS),
		TEST(packets__spread_by_hash_EACH_IN_ITS_QUEUE),
		TEST(rss__fields_of_both_kinds_DEVICE_REFUSES),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
