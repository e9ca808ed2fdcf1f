/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling of the soft HCA: the Toeplitz hash, the fields that it
 * covers, and the rules for queues, tables and queue pairs. The expected hashes
 * are Microsoft's, "Verifying the RSS Hash Calculation".
 */
#include "soft/soft.h"
#include "soft/verbs/wq.h"

#include "../../frame.h"
#include "../own_fabric.h"
#include "device.h"

#define QUEUES	4u

static struct ibv_wq *wqs[QUEUES];
static struct ibv_rwq_ind_table *table;

/* ---- the hash --------------------------------------------------------- */

#define TCP	6
#define UDP	17
#define ESP	50
#define IPV4	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define IPV6	(IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define PORTS_TCP (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)
#define PORTS_UDP (IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)
#define INNER	((uint64_t)IBV_RX_HASH_INNER)

static const struct {
	const char *src, *dst;
	uint16_t sport, dport;
	uint64_t addresses;
	uint32_t plain, with_ports;
} known[] = {
	{ "66.9.149.187", "161.142.100.80", 2794, 1766, IPV4,
	  0x323e8fc2, 0x51ccc178 },
	{ "199.92.111.2", "65.69.140.83", 14230, 4739, IPV4,
	  0xd718262a, 0xc626b0ea },
	{ "24.19.198.95", "12.22.207.184", 12898, 38024, IPV4,
	  0xd2d0a5de, 0x5c2b394a },
	{ "38.27.205.30", "209.142.163.6", 48228, 2217, IPV4,
	  0x82989176, 0xafc7327f },
	{ "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, IPV6,
	  0x2cc18cd5, 0x40207d3d },
};

/* A table of 256 queues of which entry i has the number i. */
static struct soft_wq many[256];
static _Alignas(struct soft_table) uint8_t all[sizeof(struct soft_table) +
					       256 * sizeof(struct soft_wq *)];

/* Returns the lowest 8 bits of the hash. */
static uint32_t choose(uint64_t fields, const uint8_t *frame, uint32_t len)
{
	struct soft_table *t = (struct soft_table *)all;
	struct soft_rss rss = { .table = t, .fields = fields };

	t->mask = 255;
	for (uint32_t i = 0; i < 256; i++) {
		t->wq[i] = &many[i];
		many[i].ibv.wq_num = i;
	}
	memcpy(rss.key, frame_key, sizeof(frame_key));
	return soft_rss_choose(&rss, frame, len)->ibv.wq_num;
}

static uint32_t hash_of(uint64_t fields, const struct frame_of *f)
{
	uint8_t frame[256];

	return choose(fields, frame, frame_write(frame, f));
}

static void hash__known_packets_AS_PUBLISHED(void **state)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct frame_of f = {
			known[i].src, known[i].dst, known[i].sport,
			known[i].dport, .proto = TCP,
		};
		uint64_t a = known[i].addresses;

		assert_int_equal(hash_of(a, &f), known[i].plain & 255);
		assert_int_equal(hash_of(a | PORTS_TCP, &f),
				 known[i].with_ports & 255);
		/* ports of the other protocol do not count */
		assert_int_equal(hash_of(a | PORTS_UDP, &f),
				 known[i].plain & 255);
		f.proto = UDP;
		f.tci = 7;
		assert_int_equal(hash_of(a | PORTS_UDP, &f),
				 known[i].with_ports & 255);
	}
}

static void toeplitz__known_input_ALL_32_BITS(void **state)
{
	const uint8_t input[] = { 66, 9, 149, 187, 161, 142, 100, 80,
				  2794 >> 8, 2794 & 255, 1766 >> 8,
				  1766 & 255 };

	assert_int_equal(soft_toeplitz(frame_key, input, 8), 0x323e8fc2);
	assert_int_equal(soft_toeplitz(frame_key, input, 12), 0x51ccc178);
	assert_int_equal(soft_toeplitz(frame_key, input, 0), 0);
}

/* Each field alone changes the choice, and no other field does. */
static void hash__one_field_ONLY_THAT(void **state)
{
	static const struct frame_of was = {
		"10.1.2.3", "10.4.5.6", 1000, 2000, .proto = UDP,
	};
	static const struct {
		uint64_t field;
		struct frame_of is;
	} cases[] = {
		{ IBV_RX_HASH_SRC_IPV4,
		  { "10.1.2.9", "10.4.5.6", 1000, 2000, .proto = UDP } },
		{ IBV_RX_HASH_DST_IPV4,
		  { "10.1.2.3", "10.4.5.9", 1000, 2000, .proto = UDP } },
		{ IBV_RX_HASH_SRC_PORT_UDP,
		  { "10.1.2.3", "10.4.5.6", 1001, 2000, .proto = UDP } },
		{ IBV_RX_HASH_DST_PORT_UDP,
		  { "10.1.2.3", "10.4.5.6", 1000, 2001, .proto = UDP } },
	};

	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < 4; j++)
			assert_int_equal(hash_of(cases[i].field, &was) ==
					 hash_of(cases[i].field, &cases[j].is),
					 i != j);
}

static void hash__ipsec_SPI(void **state)
{
	struct frame_of f = {
		"10.1.2.3", "10.4.5.6", .proto = ESP, .payload = 64,
	};
	uint8_t frame[256];
	uint32_t len = frame_write(frame, &f);
	uint32_t was = choose(IBV_RX_HASH_IPSEC_SPI, frame, len);

	frame[14 + 20 + 4]++;	/* the sequence number */
	assert_int_equal(choose(IBV_RX_HASH_IPSEC_SPI, frame, len), was);
	frame[14 + 20 + 3]++;
	assert_int_not_equal(choose(IBV_RX_HASH_IPSEC_SPI, frame, len), was);
}

/* A VXLAN tunnel around the first known packet. */
static void hash__inner_OF_THE_TUNNELLED_PACKET(void **state)
{
	const struct frame_of in = {
		known[0].src, known[0].dst, 2794, 1766, .proto = TCP,
	};
	struct frame_of out = {
		"10.1.2.3", "10.4.5.6", 1000, 4789, .proto = UDP,
	};
	uint8_t frame[512], inner[256];
	uint32_t len = frame_write(inner, &in), start;

	out.payload = 8 + len;
	start = frame_write(frame, &out) - out.payload;
	memset(frame + start, 0, 8);
	frame[start] = 8;
	memcpy(frame + start + 8, inner, len);
	len += start + 8;
	assert_int_equal(choose(INNER | IPV4, frame, len),
			 known[0].plain & 255);
	assert_int_equal(choose(INNER | IPV4 | PORTS_TCP, frame, len),
			 known[0].with_ports & 255);
	assert_int_not_equal(choose(IPV4, frame, len), known[0].plain & 255);
	/* no tunnel: nothing to hash */
	assert_int_equal(choose(INNER | IPV4, inner, 54), 0);
}

/* Any prefix of a frame, and any header length in it, is no access beyond. */
static void hash__cut_off_NOTHING_BEYOND_IS_READ(void **state)
{
	struct frame_of f = { "10.1.2.3", "10.4.5.6", 9, 4789, .proto = UDP,
			      .payload = 64 };
	uint8_t frame[256], *exact;
	uint32_t len = frame_write(frame, &f);

	for (uint32_t n = 14; n <= len; n++) {
		for (unsigned int ihl = 0; ihl < 16; ihl++) {
			exact = malloc(n);
			memcpy(exact, frame, n);
			if (n > 14)
				exact[14] = (uint8_t)(0x40 | ihl);
			(void)choose(INNER | IPV4, exact, n);
			(void)choose(IPV4 | PORTS_UDP, exact, n);
			free(exact);
		}
	}
}

static void hash__fragment_WITHOUT_PORTS(void **state)
{
	struct frame_of f = { known[0].src, known[0].dst, 2794, 1766,
			      .proto = UDP };
	uint8_t frame[256];
	uint32_t len = frame_write(frame, &f);

	frame[14 + 6] = 0x20;	/* more fragments */
	assert_int_equal(choose(IPV4 | PORTS_UDP, frame, len),
			 known[0].plain & 255);
}

/* ---- objects ---------------------------------------------------------- */

static struct ibv_wq *new_wq(uint32_t wr)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = wr, .max_sge = 1, .pd = pd,
		.cq = cq,
	};

	return ibv_create_wq(c, &a);
}

static int to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr a = {
		.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state,
	};

	return ibv_modify_wq(wq, &a);
}

static struct ibv_qp *new_qp(struct ibv_rx_hash_conf conf)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .rx_hash_conf = conf,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.rwq_ind_tbl = table,
	};

	return soft_create_qp_ex(c, &a);
}

static struct ibv_rx_hash_conf conf(uint64_t fields)
{
	return (struct ibv_rx_hash_conf) {
		IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(frame_key),
		(uint8_t *)(uintptr_t)frame_key, fields,
	};
}

static int open_table(void **state)
{
	struct ibv_rwq_ind_table_init_attr a = {
		.log_ind_tbl_size = 2, .ind_tbl = wqs,
	};

	if (open_device(state))
		return -1;
	for (uint32_t i = 0; i < QUEUES; i++) {
		wqs[i] = new_wq(64);
		if (!wqs[i] || to(wqs[i], IBV_WQS_RDY))
			return -1;
	}
	table = ibv_create_rwq_ind_table(c, &a);
	return table ? 0 : -1;
}

static int close_table(void **state)
{
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	for (uint32_t i = 0; i < QUEUES; i++)
		assert_int_equal(ibv_destroy_wq(wqs[i]), 0);
	return close_device(state);
}

static void destroy__in_use_EBUSY(void **state)
{
	qp[0] = new_qp(conf(IPV4));
	assert_non_null(qp[0]);
	assert_int_equal(ibv_destroy_wq(wqs[0]), EBUSY);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), EBUSY);
	assert_int_equal(soft_destroy_cq(cq), EBUSY);
	assert_int_equal(soft_dealloc_pd(pd), EBUSY);
	assert_int_equal(soft_destroy_qp(qp[0]), 0);
}

static void expect_refused(struct ibv_rx_hash_conf hash, int error)
{
	errno = 0;
	assert_null(new_qp(hash));
	assert_int_equal(errno, error);
}

/* As mlx5 refuses. */
static void create_qp__bad_hash_REFUSED(void **state)
{
	struct ibv_rx_hash_conf bad = conf(IPV4);

	expect_refused(conf(IPV4 | IPV6), EINVAL);
	expect_refused(conf(IPV4 | PORTS_TCP | PORTS_UDP), EINVAL);
	expect_refused(conf(IPV4 | PORTS_TCP | IBV_RX_HASH_IPSEC_SPI), EINVAL);
	expect_refused(conf(0), EINVAL);
	expect_refused(conf(INNER), EINVAL);
	expect_refused(conf(IPV4 | 1 << 9), EOPNOTSUPP);
	bad.rx_hash_key_len = 39;
	expect_refused(bad, EINVAL);
	bad = conf(IPV4);
	bad.rx_hash_function = 2;
	expect_refused(bad, EOPNOTSUPP);
}

static void create_qp__with_a_send_side_EINVAL(void **state)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd,
		.rx_hash_conf = conf(IPV4), .rwq_ind_tbl = table,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.send_cq = cq,
	};

	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EINVAL);
	a.send_cq = NULL;
	a.qp_type = IBV_QPT_UD;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void modify_qp__of_a_table_EOPNOTSUPP(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_qp *q = new_qp(conf(IPV4));

	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PORT),
			 EOPNOTSUPP);
	assert_int_equal(soft_query_qp(q, &a, IBV_QP_STATE, &init),
			 EOPNOTSUPP);
	assert_int_equal(soft_destroy_qp(q), 0);
}

static void wq__states_AS_THEY_ARE(void **state)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], 64, mr[0]->lkey };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	struct ibv_wq *wq = new_wq(2);
	struct ibv_wc wc;

	assert_int_equal(wq->state, IBV_WQS_RESET);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(to(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(to(wq, IBV_WQS_RDY), 0);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), ENOMEM);
	assert_int_equal(to(wq, IBV_WQS_ERR), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_poll_cq(cq, 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, 5);
		assert_int_equal(wc.qp_num, wq->wq_num);
	}
	assert_int_equal(to(wq, IBV_WQS_RDY), EINVAL);
	assert_int_equal(to(wq, IBV_WQS_RESET), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(soft_poll_cq(cq, 1, &wc), 0);
}

static void create_wq__bad_values_REFUSED(void **state)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd,
		.cq = cq, .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
		.create_flags = IBV_WQ_FLAGS_DELAY_DROP,
	};

	assert_null(ibv_create_wq(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.comp_mask = 0;
	a.max_wr = 0;
	assert_null(ibv_create_wq(c, &a));
	assert_int_equal(errno, EINVAL);
}

/* The device says of itself what its calls do. */
static void query__caps_TRUE(void **state)
{
	struct ibv_device_attr_ex a;
	struct ibv_wq *last[SOFT_MAX_TABLE * 2];
	struct ibv_rwq_ind_table_init_attr t = { .ind_tbl = last };
	struct ibv_rwq_ind_table *big;

	assert_int_equal(soft_query_device_ex(c, NULL, &a, sizeof(a)), 0);
	assert_int_equal(a.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	assert_int_equal(a.rss_caps.rx_hash_function,
			 IBV_RX_HASH_FUNC_TOEPLITZ);
	assert_true(a.max_wq_type_rq >= QUEUES);
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		last[i] = wqs[i % QUEUES];
	while (1u << t.log_ind_tbl_size <
	       a.rss_caps.max_rwq_indirection_table_size)
		t.log_ind_tbl_size++;
	big = ibv_create_rwq_ind_table(c, &t);
	assert_non_null(big);
	assert_int_equal(ibv_destroy_rwq_ind_table(big), 0);
	t.log_ind_tbl_size++;
	assert_null(ibv_create_rwq_ind_table(c, &t));
	for (int i = 0; i < 32; i++) {
		uint64_t field = 1ull << i;
		bool has = a.rss_caps.rx_hash_fields_mask & field;
		struct ibv_qp *q = new_qp(conf(field == INNER ? INNER | IPV4 :
					       field));

		assert_int_equal(!!q, has);
		if (q)
			assert_int_equal(soft_destroy_qp(q), 0);
	}
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, open_table, close_table)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash__known_packets_AS_PUBLISHED),
		cmocka_unit_test(toeplitz__known_input_ALL_32_BITS),
		cmocka_unit_test(hash__one_field_ONLY_THAT),
		cmocka_unit_test(hash__ipsec_SPI),
		cmocka_unit_test(hash__inner_OF_THE_TUNNELLED_PACKET),
		cmocka_unit_test(hash__cut_off_NOTHING_BEYOND_IS_READ),
		cmocka_unit_test(hash__fragment_WITHOUT_PORTS),
		T(destroy__in_use_EBUSY),
		T(create_qp__bad_hash_REFUSED),
		T(create_qp__with_a_send_side_EINVAL),
		T(modify_qp__of_a_table_EOPNOTSUPP),
		T(wq__states_AS_THEY_ARE),
		T(create_wq__bad_values_REFUSED),
		T(query__caps_TRUE),
	};

	join_own_fabric("rss");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
