/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: texts of GIDs, names of values and flags, and conversions between
 * codes and numbers.
 */
#include "device/codes.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void assert_error(int ret, int error, const char *text)
{
	assert_int_equal(ret, error);
	assert_non_null(strstr(rdmamsg_error(), text));
}

/* ---- texts of GIDs ----------------------------------------------------- */

static void gid__text_AND_BACK(void **state)
{
	static const struct {
		const char *text;
		uint8_t gid[16];
	} rows[] = {
		{ "fe80::2:c903:0:1", { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2,
					0xc9, 3, 0, 0, 0, 1 } },
		{ "::ffff:192.0.2.7", { [10] = 0xff, 0xff, 192, 0, 2, 7 } },
		{ "::", { 0 } },
	};
	uint8_t gid[16];
	char text[48];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rdmamsg_gid_text(rows[i].gid, text);
		assert_string_equal(text, rows[i].text);
		assert_int_equal(rdmamsg_gid_parse(text, gid), 0);
		assert_memory_equal(gid, rows[i].gid, sizeof(gid));
	}
	/* as in /sys, and an IPv4 address */
	assert_int_equal(rdmamsg_gid_parse("fe80:0000:0000:0000:0002:c903:0000:"
					   "0001", gid), 0);
	assert_memory_equal(gid, rows[0].gid, sizeof(gid));
	assert_int_equal(rdmamsg_gid_parse("192.0.2.7", gid), 0);
	assert_memory_equal(gid, rows[1].gid, sizeof(gid));
}

static void gid__nonsense_EINVAL(void **state)
{
	static const char *const texts[] = {
		"", "fe80", "fe80::1%lo", "192.0.2", "192.0.2.7:1", "::1 ",
		"0002:c903:0000:0001",
	};
	uint8_t gid[16] = { 7 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_error(rdmamsg_gid_parse(texts[i], gid), -EINVAL,
			     "GID");
	assert_error(rdmamsg_gid_parse(NULL, gid), -EINVAL, "NULL");
	assert_int_equal(gid[0], 7);
}

/* ---- names ------------------------------------------------------------- */

static void named(enum rdmamsg_name_kind kind, uint32_t value,
		  const char *name)
{
	if (name)
		assert_string_equal(rdmamsg_name(kind, value), name);
	else
		assert_null(rdmamsg_name(kind, value));
}

/* The codes of PortInfo, each as the specification and rdma-core name it. */
static void names__of_a_link_ARE_THOSE_OF_ITS_CODE(void **state)
{
	static const struct {
		enum rdmamsg_name_kind kind;
		uint32_t code;
		const char *name;
	} rows[] = {
		{ RDMAMSG_NAME_SPEED, 1, "2.5 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 2, "5.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 4, "10.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 8, "10.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 16, "14.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 32, "25.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 64, "50.0 Gb/s" },
		{ RDMAMSG_NAME_SPEED, 128, "100.0 Gb/s" },
		{ RDMAMSG_NAME_WIDTH, 1, "1X" },
		{ RDMAMSG_NAME_WIDTH, 2, "4X" },
		{ RDMAMSG_NAME_WIDTH, 4, "8X" },
		{ RDMAMSG_NAME_WIDTH, 8, "12X" },
		{ RDMAMSG_NAME_WIDTH, 16, "2X" },
		{ RDMAMSG_NAME_PHYS_STATE, 1, "SLEEP" },
		{ RDMAMSG_NAME_PHYS_STATE, 2, "POLLING" },
		{ RDMAMSG_NAME_PHYS_STATE, 3, "DISABLED" },
		{ RDMAMSG_NAME_PHYS_STATE, 4, "PORT_CONFIGURATION_TRAINING" },
		{ RDMAMSG_NAME_PHYS_STATE, 5, "LINK_UP" },
		{ RDMAMSG_NAME_PHYS_STATE, 6, "LINK_ERROR_RECOVERY" },
		{ RDMAMSG_NAME_PHYS_STATE, 7, "PHY_TEST" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		named(rows[i].kind, rows[i].code, rows[i].name);
}

static void names__values_and_flags_HAVE_TEXT(void **state)
{
	named(RDMAMSG_NAME_NODE_TYPE, IBV_NODE_RNIC, "RNIC");
	named(RDMAMSG_NAME_NODE_TYPE, UINT32_MAX, "unknown");
	named(RDMAMSG_NAME_TRANSPORT, IBV_TRANSPORT_IWARP, "iWARP");
	named(RDMAMSG_NAME_ATOMIC_CAP, IBV_ATOMIC_GLOB, "GLOB");
	named(RDMAMSG_NAME_LINK_LAYER, 0, "InfiniBand");
	named(RDMAMSG_NAME_LINK_LAYER, 2, "Ethernet");
	named(RDMAMSG_NAME_PORT_STATE, IBV_PORT_ARMED, "ARMED");
	named(RDMAMSG_NAME_PORT_STATE, 6, "unknown");
	named(RDMAMSG_NAME_PHYS_STATE, 7, "PHY_TEST");
	named(RDMAMSG_NAME_PHYS_STATE, 0, "unknown");
	named(RDMAMSG_NAME_GID_TYPE, 1, "RoCE v1");
	named(RDMAMSG_NAME_QP_TYPE, IBV_QPT_UD, "UD");
	named(RDMAMSG_NAME_QP_TYPE, 5, "unknown");
	named(RDMAMSG_NAME_EVENT, IBV_EVENT_GID_CHANGE, "GID_CHANGE");
	named(RDMAMSG_NAME_EVENT, UINT32_MAX, "DEVICE_REMOVED");
	named(RDMAMSG_NAME_EVENT, 99, "unknown");
	named(RDMAMSG_NAME_WIDTH, 16, "2X");
	named(RDMAMSG_NAME_SPEED, 16, "14.0 Gb/s");
	named(RDMAMSG_NAME_VL, 3, "VL0-3");
	named(RDMAMSG_NAME_VL, 0, "unknown");
	named(RDMAMSG_NAME_DEVICE_CAP, 34, "RAW_SCATTER_FCS");
	named(RDMAMSG_NAME_DEVICE_CAP, 63, NULL);
	named(RDMAMSG_NAME_PORT_CAP, 25, "CLIENT_REG_SUP");
	named(RDMAMSG_NAME_PORT_CAP, 10, "SM_DISABLED");
	named(RDMAMSG_NAME_PORT_CAP, 0, NULL);
	named(RDMAMSG_NAME_PORT_CAP2, 10, "LINK_SPEED_NDR_SUP");
	named(RDMAMSG_NAME_ODP_GENERAL, 1, "ODP_SUPPORT_IMPLICIT");
	named(RDMAMSG_NAME_ODP_CAP, 5, "SUPPORT_SRQ");
	named(RDMAMSG_NAME_ODP_CAP, 6, NULL);
	named(RDMAMSG_NAME_RAW_PACKET_CAP, 3, "DELAY_DROP");
	named(RDMAMSG_NAME_RX_HASH, 31, "INNER");
	named(RDMAMSG_NAME_RX_HASH_FUNCTION, 0, "TOEPLITZ");
	named(RDMAMSG_NAME_RX_HASH_FUNCTION, 1, NULL);
	named(RDMAMSG_NAME_TM_CAP, 0, "RC");
	named(RDMAMSG_NAME_TM_CAP, 1, NULL);
	named(RDMAMSG_NAME_PCI_ATOMIC, 2, "16_BYTE_SIZE_SUP");
	named(RDMAMSG_NAME_PCI_ATOMIC, 3, NULL);
	named(RDMAMSG_NAME_PORT_FLAG, 0, "GRH_REQUIRED");
	named(RDMAMSG_NAME_PORT_FLAG, 1, NULL);
	named((enum rdmamsg_name_kind)0, 0, "unknown");
	named((enum rdmamsg_name_kind)-1, 0, "unknown");
	named(RDMAMSG_NAME_CAP_HOW + 1, 0, "unknown");
}

/* The six bits that the documents of verbs have, and one of the second word. */
static void port__capability_BY_NAME(void **state)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} rows[] = {
		{ "SM", 1 }, { "SM_DISABLED", 10 }, { "SNMP_TUNNEL_SUP", 17 },
		{ "DEVICE_MGMT_SUP", 19 }, { "VENDOR_CLASS_SUP", 20 },
		{ "CLIENT_REG_SUP", 25 },
	};
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		a.cap_flags = 1u << rows[i].bit;
		assert_int_equal(rdmamsg_port_has(&a, rows[i].name), 1);
		a.cap_flags = ~a.cap_flags;
		assert_int_equal(rdmamsg_port_has(&a, rows[i].name), 0);
	}
	a.cap_flags = 0;
	a.cap_flags2 = 1u << 5;
	assert_int_equal(rdmamsg_port_has(&a, "LINK_SPEED_HDR_SUP"), 1);
	assert_error(rdmamsg_port_has(&a, "NOSUCH"), -EINVAL, "NOSUCH");
	assert_int_equal(rdmamsg_port_has(NULL, "SM"), -EINVAL);
	assert_int_equal(rdmamsg_port_has(&a, NULL), -EINVAL);
}

static void conversions__both_ways_AGREE(void **state)
{
	for (uint32_t code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
		const uint32_t bytes = RDMAMSG_MTU_BYTES(code);

		assert_int_equal(bytes, 1u << (code + 7));
		assert_int_equal(RDMAMSG_MTU_CODE(bytes), code);
		assert_int_equal(RDMAMSG_MTU_CODE(bytes - 1), code - 1);
	}
	assert_int_equal(RDMAMSG_MTU_BYTES(0), 0);
	assert_int_equal(RDMAMSG_MTU_BYTES(6), 0);
	assert_int_equal(RDMAMSG_MTU_CODE(UINT32_MAX), IBV_MTU_4096);
	assert_int_equal(rdmamsg__link_mbps(1, 1), 2500);
	assert_int_equal(rdmamsg__link_mbps(8, 256), 2400000);
	assert_int_equal(rdmamsg__link_mbps(2, 3), 0);
	assert_int_equal(rdmamsg__link_mbps(3, 1), 0);
	assert_int_equal(rdmamsg__vl_count(6), 0);
	assert_int_equal(RDMAMSG_TIMEOUT_NS(0), 4096);
	assert_int_equal(RDMAMSG_TIMEOUT_NS(18), 1073741824);
	assert_true(RDMAMSG_TIMEOUT_NS(31) == 4096ull << 31);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gid__text_AND_BACK),
		cmocka_unit_test(gid__nonsense_EINVAL),
		cmocka_unit_test(names__of_a_link_ARE_THOSE_OF_ITS_CODE),
		cmocka_unit_test(names__values_and_flags_HAVE_TEXT),
		cmocka_unit_test(port__capability_BY_NAME),
		cmocka_unit_test(conversions__both_ways_AGREE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
