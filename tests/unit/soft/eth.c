/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet frames of the soft HCA: a raw queue pair sends them, and flows steer
 * them to another.
 */
#include "soft/engine/eth.h"
#include "soft/fabric/frame_sum.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/wq.h"

#include "eth.h"

static void send__to_the_address_of_a_rule_ARRIVES(void **state)
{
	struct ibv_flow *flow = rule_to(qp[1], frame_dst);
	static const uint32_t payloads[] = { 0, 1, 64, 1000, 4096 - 28 };
	struct ibv_wc wc;

	for (uint64_t i = 0; i < 5; i++) {
		uint32_t len = udp(payloads[i]);

		receive(qp[1], i, ROOM);
		assert_int_equal(post(len, len <= 128 ? IBV_SEND_INLINE : 0),
				 0);
		assert_int_equal(expect(99).opcode, IBV_WC_SEND);
		wc = expect(i);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, len);
		assert_int_equal(wc.qp_num, qp[1]->qp_num);
		assert_memory_equal(mem[1] + i * ROOM, mem[0], len);
	}
	assert_int_equal(soft_destroy_qp(qp[1]), EBUSY);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	receive(qp[1], 9, ROOM);
	sends(udp(8));
	quiet();
}

/* Lost without a word, and the next one arrives. */
static void send__nobody_takes_it_LOST(void **state)
{
	struct ibv_flow *flow;
	uint32_t len = udp(8);

	receive(qp[1], 1, len);
	sends(len);		/* no rule */
	quiet();
	flow = rule_to(qp[1], frame_dst);
	mem[0][5] ^= 0x40;	/* another address */
	sends(len);
	quiet();
	len = udp(9);		/* longer than the receive */
	sends(len);
	quiet();
	len = udp(4096);	/* longer than the MTU */
	sends(len);
	quiet();
	len = udp(8);
	sends(len);
	assert_int_equal(expect(1).byte_len, len);
	sends(len);		/* no receive */
	quiet();
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

static void send__no_whole_header_EINVAL(void **state)
{
	assert_int_equal(post(13, 0), EINVAL);
	assert_int_equal(post(14, 0), 0);
	(void)expect(99);
}

/* A peer that writes such a record loses its wire. */
static void record__bad_length_BREAKS_THE_WIRE(void **state)
{
	static const uint32_t lengths[][2] = {
		{ 13, 13 }, { 0, 0 }, { FRAME_MAX + 1, FRAME_MAX + 1 },
		{ 60, 61 }, { 61, 60 }, { UINT32_MAX, UINT32_MAX },
	};
	struct ibv_flow *flow = rule_to(qp[1], frame_dst);
	struct soft_dev *dev = soft_dev_of(c);
	struct soft_wire w;
	uint8_t frame[FRAME_MAX] = { 0 };

	memcpy(frame, frame_dst, sizeof(frame_dst));
	receive(qp[1], 1, ROOM);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct soft_rec rec = {
			.op = SOFT_FRAME, .bytes = lengths[i][0],
			.total = lengths[i][1],
		};

		memset(&w, 0, sizeof(w));
		soft_lock(dev);
		soft_eth_arrives(dev, &w, &rec, frame);
		soft_unlock(dev);
		assert_true(w.rx.broken);
		quiet();
	}
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

/* ---- rules ------------------------------------------------------------ */

static const struct frame_of to_match = {
	"10.1.2.3", "10.4.5.6", 1000, 2000, .proto = UDP, .tci = 0x2007,
	.payload = 20,
};

static struct {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4 ip;
	struct ibv_flow_spec_tcp_udp l4;
} rule;

/* The rule for all that to_match has. */
static void fill_rule(void)
{
	const struct frame_rule r = frame_rule(frame_dst);

	memset(&rule, 0, sizeof(rule));
	rule.attr = r.attr;
	rule.attr.num_of_specs = 3;
	rule.attr.size = sizeof(rule);
	rule.eth = r.eth;
	memcpy(rule.eth.val.src_mac, frame_src, 6);
	memset(rule.eth.mask.src_mac, 255, 6);
	rule.eth.val.ether_type = htons(0x0800);
	rule.eth.mask.ether_type = 0xffff;
	rule.eth.val.vlan_tag = htons(7);
	rule.eth.mask.vlan_tag = htons(0xfff);
	rule.ip.type = IBV_FLOW_SPEC_IPV4;
	rule.ip.size = sizeof(rule.ip);
	rule.ip.val.src_ip = inet_addr("10.1.2.3");
	rule.ip.val.dst_ip = inet_addr("10.4.5.6");
	rule.ip.mask.src_ip = rule.ip.mask.dst_ip = UINT32_MAX;
	rule.l4.type = IBV_FLOW_SPEC_UDP;
	rule.l4.size = sizeof(rule.l4);
	rule.l4.val.src_port = htons(1000);
	rule.l4.val.dst_port = htons(2000);
	rule.l4.mask.src_port = rule.l4.mask.dst_port = 0xffff;
}

/* Returns true if a frame reaches the rule, which exists for that long. */
static bool reaches(uint32_t len)
{
	struct ibv_flow *flow = ibv_create_flow(qp[1], &rule.attr);
	struct ibv_wc wc;
	int got;

	assert_non_null(flow);
	assert_int_equal(post(len, 0), 0);
	(void)expect(99);
	got = soft_poll_cq(cq, 1, &wc);
	if (got)
		receive(qp[1], 3, ROOM);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	return got;
}

static void rule__each_field_HAS_TO_MATCH(void **state)
{
	uint8_t *const fields[] = {
		&rule.eth.val.dst_mac[5], &rule.eth.val.src_mac[0],
		(uint8_t *)&rule.eth.val.ether_type,
		(uint8_t *)&rule.eth.val.vlan_tag + 1,
		(uint8_t *)&rule.ip.val.src_ip, (uint8_t *)&rule.ip.val.dst_ip,
		(uint8_t *)&rule.l4.val.src_port,
		(uint8_t *)&rule.l4.val.dst_port,
	};
	uint32_t len = frame_write(mem[0], &to_match);

	receive(qp[1], 3, ROOM);
	fill_rule();
	assert_true(reaches(len));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		*fields[i] ^= 1;
		assert_false(reaches(len));
		*fields[i] ^= 1;
	}
	rule.l4.type = IBV_FLOW_SPEC_TCP;
	assert_false(reaches(len));
	rule.l4.type = IBV_FLOW_SPEC_UDP;
	/* bits outside the mask do not count */
	rule.eth.val.vlan_tag = htons(0x1007);
	memset(&rule.eth.mask.dst_mac, 0, 6);
	rule.eth.val.dst_mac[5] ^= 1;
	assert_true(reaches(len));
	/* a tag is asked for */
	len = udp(20);
	assert_false(reaches(len));
	rule.eth.mask.vlan_tag = 0;
	assert_true(reaches(len));
}

/* The first of the matching rules, by priority, takes the frame. */
static void rule__of_two_THE_FIRST(void **state)
{
	struct ibv_flow *late, *early, *any, *sniffer;
	uint32_t len = udp(8);

	fill_rule();
	rule.attr.num_of_specs = 0;
	rule.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	any = ibv_create_flow(qp[0], &rule.attr);
	rule.attr.type = IBV_FLOW_ATTR_SNIFFER;
	sniffer = ibv_create_flow(qp[0], &rule.attr);
	assert_true(any && sniffer);
	fill_rule();
	rule.attr.num_of_specs = 1;
	rule.eth.mask.vlan_tag = 0;
	rule.attr.priority = 5;
	late = ibv_create_flow(qp[0], &rule.attr);
	rule.attr.priority = 4;
	early = ibv_create_flow(qp[1], &rule.attr);
	assert_true(late && early);
	for (uint64_t i = 0; i < 4; i++) {
		receive(qp[0], 10 + i, ROOM);
		receive(qp[1], 20 + i, ROOM);
	}
	sends(len);
	(void)expect(20);	/* early */
	(void)expect(10);	/* the sniffer */
	quiet();
	assert_int_equal(ibv_destroy_flow(sniffer), 0);
	mem[0][0] ^= 0x80;
	sends(len);
	(void)expect(11);	/* any */
	quiet();
	assert_int_equal(ibv_destroy_flow(early), 0);
	mem[0][0] ^= 0x80;
	sends(len);
	(void)expect(12);	/* late */
	quiet();
	assert_int_equal(ibv_destroy_flow(late), 0);
	assert_int_equal(ibv_destroy_flow(any), 0);
}

static void rule__for_multicast_ONLY_THAT(void **state)
{
	struct ibv_flow *flow;
	uint32_t len = udp(8);

	fill_rule();
	rule.attr.num_of_specs = 0;
	rule.attr.type = IBV_FLOW_ATTR_MC_DEFAULT;
	flow = ibv_create_flow(qp[1], &rule.attr);
	assert_non_null(flow);
	receive(qp[1], 1, ROOM);
	sends(len);
	quiet();
	mem[0][0] |= 1;
	sends(len);
	(void)expect(1);
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

static void refused(struct ibv_qp *q, int error)
{
	errno = 0;
	assert_null(ibv_create_flow(q, &rule.attr));
	assert_int_equal(errno, error);
	fill_rule();
}

static void rule__bad_values_REFUSED(void **state)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp *rc = soft_create_qp(pd, &a);

	fill_rule();
	refused(rc, EINVAL);
	rule.attr.port = 0;
	refused(qp[1], EINVAL);
	rule.attr.port = 9;
	refused(qp[1], EINVAL);
	rule.attr.type = 4;
	refused(qp[1], EINVAL);
	rule.attr.type = IBV_FLOW_ATTR_SNIFFER;
	refused(qp[1], EINVAL);
	rule.eth.size--;
	refused(qp[1], EINVAL);
	rule.eth.type = IBV_FLOW_SPEC_VXLAN_TUNNEL;
	refused(qp[1], EOPNOTSUPP);
	rule.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	refused(qp[1], EOPNOTSUPP);
	assert_int_equal(soft_destroy_qp(rc), 0);
}

/* ---- what a queue gets ------------------------------------------------ */

static uint16_t got_tci;

/* The only completion of a queue that has VLAN tags, and its tag. */
static uint32_t next_ex(struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr a = { .comp_mask = 0 };
	uint32_t len;

	assert_int_equal(ibv_start_poll(ex, &a), 0);
	assert_int_equal(ex->status, IBV_WC_SUCCESS);
	len = ibv_wc_read_byte_len(ex);
	got_tci = ibv_wc_read_cvlan(ex);
	ibv_end_poll(ex);
	return len;
}

static void receive__vlan_STRIPPED_AND_TOLD(void **state)
{
	struct ibv_cq_init_attr_ex e = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN |
				       IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(c, &e);
	struct ibv_cq *was = cq;
	struct ibv_flow *flow;
	struct ibv_qp *q;
	struct frame_of f = to_match;
	uint8_t plain[ROOM];
	uint32_t len, tagged;

	assert_non_null(ex);
	cq = ibv_cq_ex_to_cq(ex);
	q = new_raw(IBV_QP_CREATE_CVLAN_STRIPPING);
	assert_non_null(q);
	flow = rule_to(q, frame_dst);
	f.tci = 0;
	len = frame_write(plain, &f);
	tagged = frame_write(mem[0], &to_match);
	assert_int_equal(tagged, len + 4);
	receive(q, 1, len);
	receive(q, 2, len);
	cq = was;
	sends(tagged);
	assert_int_equal(next_ex(ex), len);
	assert_int_equal(got_tci, 0x2007);
	assert_memory_equal(mem[1] + ROOM, plain, len);
	memcpy(mem[0], plain, len);
	sends(len);
	assert_int_equal(next_ex(ex), len);
	assert_int_equal(got_tci, 0);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
	assert_int_equal(soft_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

static void receive__fcs_BEHIND_THE_FRAME(void **state)
{
	struct ibv_qp *q = new_raw(IBV_QP_CREATE_SCATTER_FCS);
	struct ibv_flow *flow = rule_to(q, frame_dst);
	uint32_t len = udp(50);
	uint8_t fcs[4], check[4];

	soft_frame_fcs((const uint8_t *)"123456789", 9, check);
	assert_memory_equal(check, "\x26\x39\xf4\xcb", 4);
	soft_frame_fcs(mem[0], len, fcs);
	receive(q, 1, len + 4);
	sends(len);
	assert_int_equal(expect(1).byte_len, len + 4);
	assert_memory_equal(mem[1] + ROOM, mem[0], len);
	assert_memory_equal(mem[1] + ROOM + len, fcs, 4);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
}

static void checksums__asked_for_RIGHT(void **state)
{
	struct ibv_flow *flow = rule_to(qp[1], frame_dst);
	const uint8_t *in = mem[1] + ROOM;
	uint32_t len = udp(51);

	for (uint64_t i = 1; i < 4; i++)
		receive(qp[1], i, ROOM);
	sends(len);
	assert_int_equal(expect(1).wc_flags, 0);
	assert_int_equal(post(len, IBV_SEND_IP_CSUM), 0);
	(void)expect(99);
	assert_int_equal(expect(2).wc_flags, IBV_WC_IP_CSUM_OK);
	in += ROOM;
	/* by Python, from RFC 791 and RFC 768 */
	assert_int_equal(in[24] << 8 | in[25], 0x5f91);
	assert_int_equal(in[40] << 8 | in[41], 0x4c3f);
	memcpy(mem[0], in, len);
	mem[0][60] ^= 1;
	sends(len);
	assert_int_equal(expect(3).wc_flags, 0);
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

/* ---- TSO -------------------------------------------------------------- */

static struct ibv_qp *new_tso(void)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .send_cq = cq,
		.recv_cq = cq, .cap = { 8, 8, 2, 2, 128 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.max_tso_header = 74, .send_ops_flags = IBV_QP_EX_WITH_TSO,
	};
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *q = soft_create_qp_ex(c, &a);

	assert_non_null(q);
	assert_int_equal(soft_modify_qp(q, &m, IBV_QP_STATE | IBV_QP_PORT), 0);
	m.qp_state = IBV_QPS_RTR;
	assert_int_equal(soft_modify_qp(q, &m, IBV_QP_STATE), 0);
	m.qp_state = IBV_QPS_RTS;
	assert_int_equal(soft_modify_qp(q, &m, IBV_QP_STATE), 0);
	return q;
}

/* FIN, PSH, ACK and CWR */
#define FLAGS	0x99

static uint32_t tcp_header(uint8_t *header, const char *src, const char *dst)
{
	const struct frame_of f = { src, dst, 1000, 2000, .proto = 6 };
	uint32_t len = frame_write(header, &f);

	(void)frame_put(header + len - 16, 0xfffffff0, 4);
	header[len - 7] = FLAGS;
	return len;
}

static int post_tso(struct ibv_qp *q, uint8_t *header, uint32_t size,
		    uint32_t len, uint16_t mss)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 99, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_TSO,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM,
		.tso = { header, (uint16_t)size, mss },
	}, *bad;

	return soft_post_send(q, &wr, &bad);
}

/* Checks the segments of 2500 bytes at 1000 bytes each, in receives 1 to 3. */
static void check_segments(uint32_t header, bool v4)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t len = i < 2 ? 1000 : 500;
		const uint8_t *in = mem[1] + (i + 1) * ROOM, *tcp;
		struct ibv_wc wc = expect(i + 1);

		assert_int_equal(wc.byte_len, header + len);
		assert_memory_equal(in + header, mem[0] + i * 1000, len);
		tcp = in + header - 20;
		assert_int_equal(tcp[4] << 8 | tcp[5], i ? 0 : 0xffff);
		assert_int_equal(tcp[6] << 8 | tcp[7],
				 (0xfff0 + 1000 * i) & 0xffff);
		assert_int_equal(tcp[13], !i ? FLAGS & ~9 : i < 2 ? 0x10 :
				 FLAGS & ~0x80);
		if (v4) {
			assert_int_equal(in[16] << 8 | in[17],
					 header - 14 + len);
			assert_int_equal(in[18] << 8 | in[19], i);
			assert_int_equal(wc.wc_flags, IBV_WC_IP_CSUM_OK);
		} else {
			assert_int_equal(in[18] << 8 | in[19], 20 + len);
		}
	}
}

static void tso__large_payload_SEGMENTS(void **state)
{
	struct ibv_flow *flow = rule_to(qp[1], frame_dst);
	struct ibv_qp *q = new_tso();
	struct ibv_qp_ex *ex = soft_qp_to_qp_ex(q);
	uint8_t header[128];
	uint32_t len;

	for (uint32_t i = 0; i < 4096; i++)
		mem[0][i] = (uint8_t)(i * 7);
	for (int way = 0; way < 3; way++) {
		bool v4 = way != 1;

		len = v4 ? tcp_header(header, "10.1.2.3", "10.4.5.6") :
			   tcp_header(header, "fd00::1", "fd00::2");
		for (uint64_t i = 1; i < 4; i++)
			receive(qp[1], i, ROOM);
		if (way < 2) {
			assert_int_equal(post_tso(q, header, len, 2500, 1000),
					 0);
		} else {
			ibv_wr_start(ex);
			ex->wr_id = 99;
			ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
			ibv_wr_send_tso(ex, header, (uint16_t)len, 1000);
			ibv_wr_set_sge(ex, mr[0]->lkey, (uintptr_t)mem[0],
				       2500);
			assert_int_equal(ibv_wr_complete(ex), 0);
		}
		assert_int_equal(expect(99).opcode, IBV_WC_TSO);
		check_segments(len, v4);
	}
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
}

static void tso__bad_request_EINVAL(void **state)
{
	struct ibv_qp *q = new_tso();
	uint8_t header[128];
	uint32_t len = tcp_header(header, "10.1.2.3", "10.4.5.6");

	assert_int_equal(post_tso(qp[0], header, len, 2500, 1000), EINVAL);
	assert_int_equal(post_tso(q, header, len, 2500, 0), EINVAL);
	assert_int_equal(post_tso(q, header, len, 0, 1000), EINVAL);
	assert_int_equal(post_tso(q, header, len, 65537, 1000), EINVAL);
	assert_int_equal(post_tso(q, header, len, 2500, 4114 - 53), EINVAL);
	assert_int_equal(post_tso(q, header, len - 1, 2500, 1000), EINVAL);
	header[23] = UDP;
	assert_int_equal(post_tso(q, header, len, 2500, 1000), EINVAL);
	quiet();
	assert_int_equal(soft_destroy_qp(q), 0);
}

/* The device says of itself what its calls do. */
/* no packet pacing */
static void modify__rate_EOPNOTSUPP(void **state)
{
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_RTS, .rate_limit = 5000 };

	assert_int_equal(soft_modify_qp(qp[0], &m, IBV_QP_STATE |
					IBV_QP_RATE_LIMIT), EOPNOTSUPP);
	(void)state;
}

static void query__caps_of_packets_TRUE(void **state)
{
	struct ibv_device_attr_ex a;

	assert_int_equal(soft_query_device_ex(c, NULL, &a, sizeof(a)), 0);
	assert_int_equal(a.raw_packet_caps,
			 IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
			 IBV_RAW_PACKET_CAP_SCATTER_FCS |
			 IBV_RAW_PACKET_CAP_IP_CSUM);
	assert_true(a.device_cap_flags_ex & IBV_DEVICE_RAW_SCATTER_FCS);
	assert_true(a.device_cap_flags_ex & IBV_DEVICE_RAW_IP_CSUM);
	assert_int_equal(a.tso_caps.max_tso, 65536);
	assert_int_equal(a.tso_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(send__to_the_address_of_a_rule_ARRIVES),
		T(send__nobody_takes_it_LOST),
		T(send__no_whole_header_EINVAL),
		T(record__bad_length_BREAKS_THE_WIRE),
		T(rule__each_field_HAS_TO_MATCH),
		T(rule__of_two_THE_FIRST),
		T(rule__for_multicast_ONLY_THAT),
		T(rule__bad_values_REFUSED),
		T(receive__vlan_STRIPPED_AND_TOLD),
		T(receive__fcs_BEHIND_THE_FRAME),
		T(checksums__asked_for_RIGHT),
		T(tso__large_payload_SEGMENTS),
		T(tso__bad_request_EINVAL),
		T(modify__rate_EOPNOTSUPP),
		T(query__caps_of_packets_TRUE),
	};

	join_own_fabric("eth");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
