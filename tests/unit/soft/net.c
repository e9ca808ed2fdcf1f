/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the soft HCA, without a network: CRC, headers, MADs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "soft/cm/mad.h"
#include "soft/net/crc.h"
#include "soft/net/packet.h"
#include "soft/net/state.h"

#define BYTES	6000

static uint8_t bytes[BYTES];

static uint32_t random_below(uint32_t n)
{
	static uint64_t z = 1;

	z = z * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((z >> 33) % n);
}

static int fill(void **state)
{
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)random_below(256);
	return 0;
}

/* ---- CRC -------------------------------------------------------------- */

static void crc__check_value_IS_ETHERNETS(void **state)
{
	uint8_t ones[8];

	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(~soft_crc(UINT32_MAX, "123456789", 9), 0xcbf43926);
	assert_int_equal(soft_crc(UINT32_MAX, ones, 8), SOFT_CRC_SEED);
}

static void crc__any_length_and_place_AS_BY_TABLE(void **state)
{
	for (uint32_t i = 0; i < 5000; i++) {
		const uint32_t at = random_below(64);
		const uint32_t len = random_below(5000);
		const uint32_t reg = random_below(UINT32_MAX);

		assert_int_equal(soft_crc(reg, bytes + at, len),
				 soft_crc_table(reg, bytes + at, len));
	}
}

static void crc__two_unknown_bytes_EXPLAINED_AND_NO_OTHERS(void **state)
{
	for (int i = 0; i < 2000; i++) {
		const uint32_t len = 20 + random_below(4100);
		uint8_t p[BYTES];
		uint32_t without, with;

		memcpy(p, bytes, sizeof(p));
		p[4] = p[5] = 0;
		without = soft_crc(SOFT_CRC_SEED, p, len + 6);
		p[4] = (uint8_t)random_below(256);
		p[5] = (uint8_t)random_below(256);
		with = soft_crc(SOFT_CRC_SEED, p, len + 6);
		assert_true(soft_crc_explains(without ^ with, len));
		p[6 + random_below(len)] ^= (uint8_t)(1 << random_below(8));
		with = soft_crc(SOFT_CRC_SEED, p, len + 6);
		assert_false(soft_crc_explains(without ^ with, len));
	}
}

/*
 * A message of the connection manager and an acknowledgement, as Soft-RoCE of
 * Linux 6.1 takes and sends them: from 10.7.0.2 to 10.7.0.1 with identification
 * 0, and back with 0x5ba0 from port 49186.
 */
static const uint8_t rtu_head[] = {
	0x64, 0x00, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 1, 0, 0,
	0, 0, 0, 1, 1, 7, 2, 3, 0, 0, 0, 0, 0x88, 0xb9, 0x4e, 0xf2,
	0xdd, 0xb8, 0x4f, 0xd1, 0, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
	0xdf, 0xf7, 0x40, 0x6f,
};
static const uint8_t rtu_crc[] = { 0xfa, 0xde, 0xc3, 0xeb };
static const uint8_t ack[] = {
	0x11, 0, 0xff, 0xff, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0,
	0x2b, 0x76, 0x6c, 0x9b,
};
static const uint8_t here[16] = { [10] = 0xff, 0xff, 10, 7, 0, 2 };
static const uint8_t there[16] = { [10] = 0xff, 0xff, 10, 7, 0, 1 };

static void crc__packets_of_the_kernel_MATCH(void **state)
{
	uint8_t rtu[280 - 4] = { 0 }, sum[4], wrong[sizeof(ack)];
	uint32_t crc;

	memcpy(rtu, rtu_head, sizeof(rtu_head));
	crc = net_crc(here, there, 0, rtu, sizeof(rtu), PACKET_PORT);
	for (int i = 0; i < 4; i++)
		sum[i] = (uint8_t)(crc >> 8 * i);
	assert_memory_equal(sum, rtu_crc, 4);
	/* nobody tells the identification */
	assert_true(net_crc_ok(there, here, 49186, ack, sizeof(ack)));
	assert_false(net_crc_ok(there, here, 49187, ack, sizeof(ack)));
	for (size_t i = 0; i < sizeof(ack); i++) {
		if (i == 4)
			continue;	/* routers may change it */
		memcpy(wrong, ack, sizeof(ack));
		wrong[i] ^= 1;
		assert_false(net_crc_ok(there, here, 49186, wrong,
					sizeof(wrong)));
	}
}

/* ---- headers ---------------------------------------------------------- */

static void packet__each_opcode_COMES_BACK(void **state)
{
	for (uint32_t op = 0; op < 256; op++) {
		const unsigned int flags = packet_flags((uint8_t)op);
		struct packet p = {
			.opcode = (uint8_t)op, .solicited = op & 1,
			.ack = op & 2, .dst = 0xabcdef, .psn = 0x123456,
			.addr = 0x1122334455667788, .rkey = 0x99aabbcc,
			.length = 77, .swap = 5, .compare = 6,
			.syndrome = 0x1f, .msn = 0x654321, .value = 7,
			.imm = 8, .qkey = 9, .src = 10,
			.bytes = flags & PACKET_F_DATA ? 13 : 0,
		}, q;
		uint8_t at[PACKET_MAX] = { 0 };
		uint32_t len;

		if (!flags)
			continue;
		len = packet_put(&p, at);
		assert_true(len <= PACKET_HEAD);
		assert_true(packet_get(&q, at, len + p.bytes + p.pad +
				       PACKET_CRC));
		assert_int_equal(q.opcode, op);
		assert_int_equal(q.flags, flags);
		assert_int_equal(q.solicited, p.solicited);
		assert_int_equal(q.ack, p.ack);
		assert_int_equal(q.dst, p.dst);
		assert_int_equal(q.psn, p.psn);
		assert_int_equal(q.bytes, p.bytes);
		assert_ptr_equal(q.payload, at + len);
		if (flags & (PACKET_F_RETH | PACKET_F_ATOMIC)) {
			assert_int_equal(q.addr, p.addr);
			assert_int_equal(q.rkey, p.rkey);
		}
		if (flags & PACKET_F_RETH)
			assert_int_equal(q.length, p.length);
		if (flags & PACKET_F_ATOMIC) {
			assert_int_equal(q.swap, p.swap);
			assert_int_equal(q.compare, p.compare);
		}
		if (flags & PACKET_F_AETH) {
			assert_int_equal(q.syndrome, p.syndrome);
			assert_int_equal(q.msn, p.msn);
		}
		if (flags & PACKET_F_ATOMIC_ACK)
			assert_int_equal(q.value, p.value);
		if (flags & PACKET_F_IMM)
			assert_int_equal(q.imm, p.imm);
		if (flags & PACKET_F_DETH) {
			assert_int_equal(q.qkey, p.qkey);
			assert_int_equal(q.src, p.src);
		}
	}
}

/* A congestion notification: BECN is set, and 16 bytes are reserved. */
static void packet__congestion_notification_AS_CARDS_SEND_IT(void **state)
{
	static const uint8_t want[28] = {
		0x81, 0x00, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56,
	};
	struct packet p = { .opcode = PACKET_CNP, .dst = 0x123456 };
	uint8_t at[PACKET_MAX];

	memset(at, 0xa5, sizeof(at));
	assert_int_equal(packet_put(&p, at), sizeof(want));
	assert_memory_equal(at, want, sizeof(want));
}

static void packet__cut_off_REFUSED(void **state)
{
	struct packet p = { .opcode = PACKET_CAS }, q;
	uint8_t at[PACKET_MAX] = { 0 };
	const uint32_t len = packet_put(&p, at) + PACKET_CRC;

	for (uint32_t n = 0; n < len; n++)
		assert_false(packet_get(&q, at, n));
	assert_true(packet_get(&q, at, len));
	/* a request that has no payload */
	assert_false(packet_get(&q, at, len + 1));
	at[2] = 0x12;				/* of another partition */
	assert_false(packet_get(&q, at, len));
}

static void packet__longer_than_any_REFUSED(void **state)
{
	struct packet p = { .opcode = PACKET_SEND_MIDDLE, .bytes = 4096 }, q;
	uint8_t at[PACKET_MAX + 8] = { 0 };
	const uint32_t len = packet_put(&p, at) + PACKET_CRC;

	assert_true(packet_get(&q, at, len + 4096));
	assert_false(packet_get(&q, at, len + 4097));
	assert_false(packet_get(&q, at, PACKET_MAX + 1));
}

/* ---- messages of the connection manager --------------------------------- */

static void request_of(struct mad *mad, bool v6)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&mad->m.src;

	memset(mad, 0, sizeof(*mad));
	mad->m.hdr.type = SOFT_MSG_REQ;
	mad->m.hdr.from = 0x12345678;
	mad->m.ps = RDMA_PS_TCP;
	mad->m.psn = 0xabcdef;
	mad->mtu = IBV_MTU_1024;
	mad->tid = 0x1122334455667788;
	mad->m.src.sin6_family = mad->m.dst.sin6_family =
		v6 ? AF_INET6 : AF_INET;
	mad->m.src.sin6_port = htons(1234);
	mad->m.dst.sin6_port = htons(7471);
	if (v6) {
		mad->m.src.sin6_addr.s6_addr[0] = 0xfd;
		mad->m.dst.sin6_addr.s6_addr[15] = 1;
	} else {
		in->sin_addr.s_addr = htonl(0x0a070002);
		((struct sockaddr_in *)&mad->m.dst)->sin_addr.s_addr =
			htonl(0x0a070001);
	}
	mad->m.param = (struct rdma_ucm_conn_param){
		.qp_num = 0x112233, .private_data_len = SOFT_PRIVATE_REQ,
		.responder_resources = 4, .initiator_depth = 5,
		.flow_control = 1, .retry_count = 6, .rnr_retry_count = 7,
		.srq = 1,
	};
	memcpy(mad->m.param.private_data, bytes, SOFT_PRIVATE_REQ);
}

static void check_request(bool v6, bool ud)
{
	uint8_t at[MAD_LENGTH];
	struct mad mad, got;

	request_of(&mad, v6);
	mad.ud = ud;
	if (ud) {
		mad.m.ps = RDMA_PS_UDP;
		mad.m.param.private_data_len = SOFT_PRIVATE_SIDR_REQ;
		memcpy(mad.m.param.private_data, bytes, SOFT_PRIVATE_SIDR_REQ);
	}
	mad_put(&mad, at);
	assert_true(mad_get(&got, at));
	assert_int_equal(got.ud, ud);
	assert_int_equal(got.m.hdr.type, SOFT_MSG_REQ);
	assert_int_equal(got.m.hdr.from, mad.m.hdr.from);
	assert_int_equal(got.m.ps, mad.m.ps);
	assert_true(got.tid == mad.tid);
	assert_memory_equal(&got.m.src, &mad.m.src, sizeof(mad.m.src));
	assert_memory_equal(&got.m.dst, &mad.m.dst, sizeof(mad.m.dst));
	assert_memory_equal(got.m.param.private_data,
			    mad.m.param.private_data,
			    mad.m.param.private_data_len);
	if (ud)
		return;
	assert_int_equal(got.m.psn, mad.m.psn);
	assert_int_equal(got.mtu, mad.mtu);
	assert_int_equal(got.m.param.qp_num, 0x112233);
	assert_int_equal(got.m.param.responder_resources, 4);
	assert_int_equal(got.m.param.initiator_depth, 5);
	assert_int_equal(got.m.param.flow_control, 1);
	assert_int_equal(got.m.param.retry_count, 6);
	assert_int_equal(got.m.param.rnr_retry_count, 7);
	assert_int_equal(got.m.param.srq, 1);
}

static void mad__request_of_each_kind_COMES_BACK(void **state)
{
	for (int i = 0; i < 4; i++)
		check_request(i & 1, i & 2);
}

static void mad__request_of_another_transport_REFUSED(void **state)
{
	uint8_t at[MAD_LENGTH];
	struct mad mad;

	request_of(&mad, false);
	mad_put(&mad, at);
	at[24 + 43] |= 1 << 1;			/* UC */
	assert_false(mad_get(&mad, at));
	request_of(&mad, false);
	mad_put(&mad, at);
	at[24 + 51] |= 1;			/* XRC */
	assert_false(mad_get(&mad, at));
}

static void mad__each_answer_COMES_BACK(void **state)
{
	static const uint16_t types[] = {
		SOFT_MSG_REP, SOFT_MSG_REJ, SOFT_MSG_RTU, SOFT_MSG_DREQ,
		SOFT_MSG_DREP,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		uint8_t at[MAD_LENGTH];
		struct mad mad, got;

		request_of(&mad, false);
		mad.m.hdr.type = types[i];
		mad.m.hdr.to = 0x87654321;
		mad.m.reason = SOFT_REJ_CONSUMER;
		mad_put(&mad, at);
		assert_true(mad_get(&got, at));
		assert_int_equal(got.m.hdr.type, types[i]);
		assert_int_equal(got.m.hdr.to, mad.m.hdr.to);
		assert_int_equal(got.m.hdr.from, mad.m.hdr.from);
		if (types[i] == SOFT_MSG_REP) {
			assert_int_equal(got.m.psn, mad.m.psn);
			assert_int_equal(got.m.param.qp_num, 0x112233);
			assert_int_equal(got.m.param.rnr_retry_count, 7);
		}
		if (types[i] == SOFT_MSG_REJ)
			assert_int_equal(got.m.reason, SOFT_REJ_CONSUMER);
	}
}

static void mad__any_bytes_NO_HARM(void **state)
{
	uint8_t at[MAD_LENGTH];
	struct mad mad;

	for (int i = 0; i < 20000; i++) {
		for (uint32_t n = 0; n < MAD_LENGTH; n++)
			at[n] = (uint8_t)random_below(256);
		at[0] = 1;
		at[1] = 7;
		at[2] = 2;
		at[3] = 3;
		at[16] = 0;
		at[17] = (uint8_t)(MAD_REQ + random_below(10));
		if (mad_get(&mad, at))
			assert_int_equal(mad.m.hdr.magic, SOFT_MSG_MAGIC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc__check_value_IS_ETHERNETS),
		cmocka_unit_test(crc__any_length_and_place_AS_BY_TABLE),
		cmocka_unit_test(crc__two_unknown_bytes_EXPLAINED_AND_NO_OTHERS),
		cmocka_unit_test(crc__packets_of_the_kernel_MATCH),
		cmocka_unit_test(packet__each_opcode_COMES_BACK),
		cmocka_unit_test(
			packet__congestion_notification_AS_CARDS_SEND_IT),
		cmocka_unit_test(packet__cut_off_REFUSED),
		cmocka_unit_test(packet__longer_than_any_REFUSED),
		cmocka_unit_test(mad__request_of_each_kind_COMES_BACK),
		cmocka_unit_test(mad__request_of_another_transport_REFUSED),
		cmocka_unit_test(mad__each_answer_COMES_BACK),
		cmocka_unit_test(mad__any_bytes_NO_HARM),
	};

	return cmocka_run_group_tests(tests, fill, NULL);
}
