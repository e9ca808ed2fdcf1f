/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: each attribute that verbs report of a device and of a port is in
 * the field that the manual says. A simulated device reports another number in
 * each field.
 */
#include "device/verbs_api.h"

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

#include "../own_fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define soft	rdmamsg__verbs_soft
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* A field of verbs, and the field of the library that has its value. */
struct pair {
	const char *name;
	size_t from, from_size, to, to_size;
};

#define SIZE(type, field)	sizeof(((type *)0)->field)
#define PAIR(theirs, field, ours, to) \
	{ #to, offsetof(theirs, field), SIZE(theirs, field), \
	  offsetof(ours, to), SIZE(ours, to) }
#define D(field, to)	PAIR(struct ibv_device_attr, field, \
			     struct rdmamsg_device_attr, to)
#define X(field, to)	PAIR(struct ibv_device_attr_ex, field, \
			     struct rdmamsg_device_attr, to)
#define P(field, to)	PAIR(struct ibv_port_attr, field, \
			     struct rdmamsg_port_attr, to)

static const struct pair device_pairs[] = {
	D(max_mr_size, max_mr_size), D(page_size_cap, page_sizes),
	D(vendor_id, vendor_id), D(vendor_part_id, vendor_part_id),
	D(hw_ver, hw_version), D(max_qp, max_qp), D(max_qp_wr, max_qp_wr),
	D(device_cap_flags, cap_flags), D(max_sge, max_sge),
	D(max_sge_rd, max_sge_rd), D(max_cq, max_cq), D(max_cqe, max_cqe),
	D(max_mr, max_mr), D(max_pd, max_pd),
	D(max_qp_rd_atom, max_read_responder),
	D(max_ee_rd_atom, max_ee_rd_atom), D(max_res_rd_atom, max_read_total),
	D(max_qp_init_rd_atom, max_read_initiator),
	D(max_ee_init_rd_atom, max_ee_init_rd_atom),
	D(atomic_cap, atomic_cap), D(max_ee, max_ee), D(max_rdd, max_rdd),
	D(max_mw, max_mw), D(max_raw_ipv6_qp, max_raw_ipv6_qp),
	D(max_raw_ethy_qp, max_raw_ethy_qp), D(max_mcast_grp, max_mcast_groups),
	D(max_mcast_qp_attach, max_mcast_attach),
	D(max_total_mcast_qp_attach, max_mcast_attach_total),
	D(max_ah, max_ah), D(max_fmr, max_fmr),
	D(max_map_per_fmr, max_map_per_fmr), D(max_srq, max_srq),
	D(max_srq_wr, max_srq_wr), D(max_srq_sge, max_srq_sge),
	D(max_pkeys, max_pkeys), D(local_ca_ack_delay, ack_delay),
	D(phys_port_cnt, ports),
};

static const struct pair extended_pairs[] = {
	X(odp_caps.general_caps, odp_general),
	X(odp_caps.per_transport_caps.rc_odp_caps, odp_rc),
	X(odp_caps.per_transport_caps.uc_odp_caps, odp_uc),
	X(odp_caps.per_transport_caps.ud_odp_caps, odp_ud),
	X(xrc_odp_caps, odp_xrc),
	X(completion_timestamp_mask, timestamp_mask),
	X(hca_core_clock, core_clock_khz), X(max_dm_size, max_dm_size),
	X(tso_caps.max_tso, max_tso), X(tso_caps.supported_qpts, tso_qps),
	X(rss_caps.supported_qpts, rss_qps),
	X(rss_caps.max_rwq_indirection_tables, max_rwq_tables),
	X(rss_caps.max_rwq_indirection_table_size, max_rwq_table_size),
	X(rss_caps.rx_hash_function, rx_hash_functions),
	X(rss_caps.rx_hash_fields_mask, rx_hash_fields),
	X(max_wq_type_rq, max_wq), X(raw_packet_caps, raw_packet_caps),
	X(packet_pacing_caps.qp_rate_limit_min, rate_min_kbps),
	X(packet_pacing_caps.qp_rate_limit_max, rate_max_kbps),
	X(packet_pacing_caps.supported_qpts, rate_qps),
	X(tm_caps.max_rndv_hdr_size, tm_max_header),
	X(tm_caps.max_num_tags, tm_max_tags), X(tm_caps.max_ops, tm_max_ops),
	X(tm_caps.max_sge, tm_max_sge), X(tm_caps.flags, tm_flags),
	X(cq_mod_caps.max_cq_count, cq_moderation_count),
	X(cq_mod_caps.max_cq_period, cq_moderation_usec),
	X(pci_atomic_caps.fetch_add, pci_fetch_add),
	X(pci_atomic_caps.swap, pci_swap),
	X(pci_atomic_caps.compare_swap, pci_compare_swap),
};

static const struct pair port_pairs[] = {
	P(gid_tbl_len, gid_count), P(port_cap_flags, cap_flags),
	P(max_msg_sz, max_msg_size), P(bad_pkey_cntr, bad_pkeys),
	P(qkey_viol_cntr, bad_qkeys), P(pkey_tbl_len, pkey_count),
	P(lid, lid), P(sm_lid, sm_lid), P(lmc, lmc),
	P(max_vl_num, max_vl_num), P(sm_sl, sm_sl),
	P(subnet_timeout, subnet_timeout), P(init_type_reply, init_type_reply),
	P(active_width, active_width), P(active_speed, active_speed),
	P(phys_state, phys_state), P(flags, flags),
	P(port_cap_flags2, cap_flags2), P(state, state),
};

/* ---- a device with another number in each field ------------------------ */

/* Fits in one byte. */
static uint64_t number(const struct pair *pairs, size_t i)
{
	return pairs == extended_pairs ? 101 + i : 11 + i;
}

static void put(void *at, size_t size, uint64_t value)
{
	const uint32_t u32 = (uint32_t)value;
	const uint16_t u16 = (uint16_t)value;
	const uint8_t u8 = (uint8_t)value;

	memcpy(at, size == 8 ? (const void *)&value : size == 4 ? &u32 :
	       size == 2 ? (const void *)&u16 : &u8, size);
}

static uint64_t get(const void *at, size_t size)
{
	uint64_t u64;
	uint32_t u32;

	memcpy(size == 8 ? (void *)&u64 : &u32, at, size);
	return size == 8 ? u64 : u32;
}

static void number_all(void *attr, const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put((char *)attr + pairs[i].from, pairs[i].from_size,
		    number(pairs, i));
}

static void check_all(const void *attr, const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t value = get((const char *)attr + pairs[i].to,
					   pairs[i].to_size);

		if (value != number(pairs, i))
			fail_msg("%s is %llu, not %llu", pairs[i].name,
				 (unsigned long long)value,
				 (unsigned long long)number(pairs, i));
	}
}

static int query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.2.3");
	attr->node_guid = htobe64(0x0002c90300000001);
	attr->sys_image_guid = htobe64(0x0002c90300000002);
	number_all(attr, device_pairs, COUNT(device_pairs));
	return 0;
}

static int query_device_ex(struct ibv_context *c,
			   struct ibv_device_attr_ex *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->device_cap_flags_ex = 1ull << 36;
	number_all(attr, extended_pairs, COUNT(extended_pairs));
	return 0;
}

static int query_port(struct ibv_context *c, uint8_t port,
		      struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	number_all(attr, port_pairs, COUNT(port_pairs));
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_2048;
	return 0;
}

/* ---- tests ------------------------------------------------------------- */

static void device__each_attribute_IS_IN_ITS_FIELD(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	check_all(&a, device_pairs, COUNT(device_pairs));
	check_all(&a, extended_pairs, COUNT(extended_pairs));
	assert_string_equal(a.firmware, "1.2.3");
	assert_string_equal(a.node_guid_text, "0002:c903:0000:0001");
	assert_string_equal(a.image_guid_text, "0002:c903:0000:0002");
	assert_true(a.node_guid == 0x0002c90300000001);
	assert_true(a.image_guid == 0x0002c90300000002);
	assert_int_equal(a.image_guid_wire[7], 2);
	assert_true(a.cap_flags_ex == (1ull << 36 | a.cap_flags));
	assert_int_equal(rdmamsg_device_has(&a, "PCI_WRITE_END_PADDING"), 1);
}

static void port__each_attribute_IS_IN_ITS_FIELD(void **state)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_port_query("soft0", 3, &a), 0);
	check_all(&a, port_pairs, COUNT(port_pairs));
	assert_int_equal(a.port, 3);
	assert_int_equal(a.max_mtu, 4096);
	assert_int_equal(a.active_mtu, 2048);
	assert_int_equal(a.link_layer, IBV_LINK_LAYER_UNSPECIFIED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device__each_attribute_IS_IN_ITS_FIELD),
		cmocka_unit_test(port__each_attribute_IS_IN_ITS_FIELD),
	};
	static struct verbs_api table;

	join_own_fabric("attributes");
	(void)unsetenv("RDMAMSG_DEVICE");
	table = soft;
	table.query_device = query_device;
	table.query_device_ex = query_device_ex;
	table.query_port = query_port;
	rdmamsg__verbs = &table;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
