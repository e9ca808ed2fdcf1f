/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: each enumerator of the library has a name of its own, each flag
 * of a device and a port has the name that verbs.h gives it, and the other
 * values and bits have none; and what each kind of device says about atomic
 * operations becomes their scope.
 */
#include "device/device.h"
#include "device/quirks.h"

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define FLAG(prefix, name)	{ prefix##name, #name }

struct flag {
	uint64_t value;
	const char *name;
};

static const char *name_of(const struct flag *flags, size_t n, uint32_t bit)
{
	for (size_t i = 0; i < n; i++)
		if (flags[i].value == 1ull << bit)
			return flags[i].name;
	return NULL;
}

static void check_names(enum rdmamsg_name_kind kind, const struct flag *flags,
			size_t n)
{
	for (uint32_t bit = 0; bit < 64; bit++) {
		const char *want = name_of(flags, n, bit);
		const char *is = rdmamsg_name(kind, bit);

		if (!want)
			assert_null(is);
		else if (!is || strcmp(is, want))
			fail_msg("bit %u: %s, not %s", bit, is ? is : "none",
				 want);
	}
}

/* Values from first to last have distinct names; their neighbours have none. */
static void check_values(enum rdmamsg_name_kind kind, int first, int last)
{
	for (int n = first; n <= last; n++) {
		const char *name = rdmamsg_name(kind, (uint32_t)n);

		assert_string_not_equal(name, "unknown");
		assert_true(islower(*name));
		for (int m = first; m < n; m++)
			assert_string_not_equal(name, rdmamsg_name(kind,
							(uint32_t)m));
	}
	assert_string_equal(rdmamsg_name(kind, (uint32_t)(first - 1)),
			    "unknown");
	assert_string_equal(rdmamsg_name(kind, (uint32_t)last + 1), "unknown");
	assert_string_equal(rdmamsg_name(kind, 1u << 30), "unknown");
}

static void library__each_enumerator_HAS_ITS_NAME(void **state)
{
	check_values(RDMAMSG_NAME_WHO, RDMAMSG_WHO_NONE, RDMAMSG_WHO_DEVICE);
	check_values(RDMAMSG_NAME_CAUSE, RDMAMSG_CAUSE_NONE,
		     RDMAMSG_CAUSE_CRC);
	check_values(RDMAMSG_NAME_STATE, RDMAMSG_CONNECTING, RDMAMSG_CLOSED);
	check_values(RDMAMSG_NAME_PATH_STATE, RDMAMSG_PATH_NONE,
		     RDMAMSG_PATH_MIGRATED);
	check_values(RDMAMSG_NAME_PATH_CHANGE, RDMAMSG_PATH_CHANGE_ARMED,
		     RDMAMSG_PATH_CHANGE_NOT_MOVED);
	check_values(RDMAMSG_NAME_CAP_HOW, RDMAMSG_CAP_ABSENT,
		     RDMAMSG_CAP_NATIVE);
	assert_string_equal(rdmamsg_name(RDMAMSG_NAME_CAUSE,
					 RDMAMSG_CAUSE_REFUSED), "refused");
	assert_string_equal(rdmamsg_name(RDMAMSG_NAME_WHO, RDMAMSG_WHO_PEER),
			    "peer");
	assert_string_equal(rdmamsg_name(RDMAMSG_NAME_STATE,
					 RDMAMSG_CONNECTED), "connected");
}

static void device__each_flag_HAS_ITS_NAME(void **state)
{
#define D(name)	FLAG(IBV_DEVICE_, name)
	static const struct flag flags[] = {
		D(RESIZE_MAX_WR), D(BAD_PKEY_CNTR), D(BAD_QKEY_CNTR),
		D(RAW_MULTI), D(AUTO_PATH_MIG), D(CHANGE_PHY_PORT),
		D(UD_AV_PORT_ENFORCE), D(CURR_QP_STATE_MOD), D(SHUTDOWN_PORT),
		D(INIT_TYPE), D(PORT_ACTIVE_EVENT), D(SYS_IMAGE_GUID),
		D(RC_RNR_NAK_GEN), D(SRQ_RESIZE), D(N_NOTIFY_CQ),
		D(MEM_WINDOW), D(UD_IP_CSUM), D(XRC), D(MEM_MGT_EXTENSIONS),
		D(MEM_WINDOW_TYPE_2A), D(MEM_WINDOW_TYPE_2B), D(RC_IP_CSUM),
		D(RAW_IP_CSUM), D(MANAGED_FLOW_STEERING), D(RAW_SCATTER_FCS),
		D(PCI_WRITE_END_PADDING),
	};

	check_names(RDMAMSG_NAME_DEVICE_CAP, flags, COUNT(flags));
}

static void port__each_flag_HAS_ITS_NAME(void **state)
{
#define P(name)	FLAG(IBV_PORT_, name)
	static const struct flag flags[] = {
		P(SM), P(NOTICE_SUP), P(TRAP_SUP), P(OPT_IPD_SUP),
		P(AUTO_MIGR_SUP), P(SL_MAP_SUP), P(MKEY_NVRAM), P(PKEY_NVRAM),
		P(LED_INFO_SUP), { 1 << 10, "SM_DISABLED" },
		P(SYS_IMAGE_GUID_SUP), P(PKEY_SW_EXT_PORT_TRAP_SUP),
		P(EXTENDED_SPEEDS_SUP), P(CAP_MASK2_SUP), P(CM_SUP),
		P(SNMP_TUNNEL_SUP), P(REINIT_SUP), P(DEVICE_MGMT_SUP),
		P(VENDOR_CLASS_SUP), P(DR_NOTICE_SUP), P(CAP_MASK_NOTICE_SUP),
		P(BOOT_MGMT_SUP), P(LINK_LATENCY_SUP), P(CLIENT_REG_SUP),
		P(IP_BASED_GIDS),
	}, flags2[] = {
		P(SET_NODE_DESC_SUP), P(INFO_EXT_SUP), P(VIRT_SUP),
		P(SWITCH_PORT_STATE_TABLE_SUP), P(LINK_WIDTH_2X_SUP),
		P(LINK_SPEED_HDR_SUP), { 1 << 10, "LINK_SPEED_NDR_SUP" },
	}, qpf[] = {
		FLAG(IBV_QPF_, GRH_REQUIRED),
	};

	check_names(RDMAMSG_NAME_PORT_CAP, flags, COUNT(flags));
	check_names(RDMAMSG_NAME_PORT_CAP2, flags2, COUNT(flags2));
	check_names(RDMAMSG_NAME_PORT_FLAG, qpf, COUNT(qpf));
}

static void paging__each_flag_HAS_ITS_NAME(void **state)
{
	static const struct flag general[] = {
		{ IBV_ODP_SUPPORT, "ODP_SUPPORT" },
		{ IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT" },
	}, caps[] = {
		FLAG(IBV_ODP_, SUPPORT_SEND), FLAG(IBV_ODP_, SUPPORT_RECV),
		FLAG(IBV_ODP_, SUPPORT_WRITE), FLAG(IBV_ODP_, SUPPORT_READ),
		FLAG(IBV_ODP_, SUPPORT_ATOMIC),
		{ IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ" },
	};

	check_names(RDMAMSG_NAME_ODP_GENERAL, general, COUNT(general));
	check_names(RDMAMSG_NAME_ODP_CAP, caps, COUNT(caps));
}

static void packets__each_flag_HAS_ITS_NAME(void **state)
{
#define R(name)	FLAG(IBV_RAW_PACKET_CAP_, name)
#define H(name)	FLAG(IBV_RX_HASH_, name)
	static const struct flag raw[] = {
		R(CVLAN_STRIPPING), R(SCATTER_FCS), R(IP_CSUM), R(DELAY_DROP),
	}, hash[] = {
		H(SRC_IPV4), H(DST_IPV4), H(SRC_IPV6), H(DST_IPV6),
		H(SRC_PORT_TCP), H(DST_PORT_TCP), H(SRC_PORT_UDP),
		H(DST_PORT_UDP), H(IPSEC_SPI), { 1u << 31, "INNER" },
	}, function[] = {
		FLAG(IBV_RX_HASH_FUNC_, TOEPLITZ),
	};

	check_names(RDMAMSG_NAME_RAW_PACKET_CAP, raw, COUNT(raw));
	check_names(RDMAMSG_NAME_RX_HASH, hash, COUNT(hash));
	check_names(RDMAMSG_NAME_RX_HASH_FUNCTION, function, COUNT(function));
}

static void others__each_flag_HAS_ITS_NAME(void **state)
{
#define C(name)	{ 1ull << RDMAMSG_CALC_##name, #name }
#define A(name)	{ IBV_PCI_ATOMIC_OPERATION_##name, #name }
	static const struct flag tm[] = {
		FLAG(IBV_TM_CAP_, RC),
	}, pci[] = {
		A(4_BYTE_SIZE_SUP), A(8_BYTE_SIZE_SUP), A(16_BYTE_SIZE_SUP),
	}, ops[] = {
		C(ADD), C(AND), C(OR), C(XOR), C(MIN), C(MAX),
	}, types[] = {
		C(INT), C(UINT), C(DOUBLE),
	};

	check_names(RDMAMSG_NAME_TM_CAP, tm, COUNT(tm));
	check_names(RDMAMSG_NAME_CALC_OP, ops, COUNT(ops));
	check_names(RDMAMSG_NAME_CALC_TYPE, types, COUNT(types));
	check_names(RDMAMSG_NAME_PCI_ATOMIC, pci, COUNT(pci));
}

/*
 * The soft HCA's operations are those of the processor, whatever it reports. A
 * card says whether processors see its operations as atomic.
 */
static void atomics__of_each_kind_HAVE_THEIR_SCOPE(void **state)
{
	static const enum rdmamsg_atomic none = RDMAMSG_ATOMIC_NONE,
					 dev = RDMAMSG_ATOMIC_DEVICE,
					 host = RDMAMSG_ATOMIC_HOST;
	const struct {
		enum device_kind kind;
		/* of IBV_ATOMIC_NONE, IBV_ATOMIC_HCA, IBV_ATOMIC_GLOB */
		enum rdmamsg_atomic scope[3];
	} table[] = {
		{ KIND_SOFT_ROCE, { none, dev, host } },
		{ KIND_ROCE, { none, dev, host } },
		{ KIND_IB, { none, dev, host } },
		{ KIND_IWARP, { none, dev, host } },
		{ KIND_SOFT_IWARP, { none, dev, host } },
		{ KIND_SOFT, { host, host, host } },
	};
	static const enum ibv_atomic_cap caps[] = {
		IBV_ATOMIC_NONE, IBV_ATOMIC_HCA, IBV_ATOMIC_GLOB,
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct rdmamsg_device d = { .kind = table[i].kind };

		for (size_t cap = 0; cap < COUNT(caps); cap++) {
			d.attr.atomic_cap = caps[cap];
			assert_int_equal(rdmamsg__atomic_scope(&d),
					 table[i].scope[cap]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(library__each_enumerator_HAS_ITS_NAME),
		cmocka_unit_test(device__each_flag_HAS_ITS_NAME),
		cmocka_unit_test(port__each_flag_HAS_ITS_NAME),
		cmocka_unit_test(paging__each_flag_HAS_ITS_NAME),
		cmocka_unit_test(packets__each_flag_HAS_ITS_NAME),
		cmocka_unit_test(others__each_flag_HAS_ITS_NAME),
		cmocka_unit_test(atomics__of_each_kind_HAVE_THEIR_SCOPE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
