/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: rdmamsg_device_caps() on the soft HCA in both link modes. Each
 * answer is compared with an attempt. Further cases have failing calls, false
 * attributes, and a device with more abilities.
 */
#include "config.h"
#include "device/verbs_api.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include "../own_fabric.h"
#include "../raw_calls.h"
#include "../soft/pair.h"
#include "other_device.h"

#define soft	rdmamsg__verbs_soft

static struct rdmamsg_device_cap_attr ask(enum rdmamsg_cap_id id)
{
	struct rdmamsg_device_cap_attr cap = { .size = sizeof(cap) };

	assert_int_equal(rdmamsg_device_cap_query("soft0", id, &cap), 0);
	assert_int_equal(cap.id, id);
	assert_true(cap.reason[0]);
	return cap;
}

static void assert_cap(enum rdmamsg_cap_id id, enum rdmamsg_cap_how how,
		       const char *text)
{
	struct rdmamsg_device_cap_attr cap = ask(id);

	if (cap.how != how || !strstr(cap.reason, text))
		print_message("%s: %s, %s\n", cap.name,
			      rdmamsg_name(RDMAMSG_NAME_CAP_HOW, cap.how),
			      cap.reason);
	assert_int_equal(cap.how, how);
	assert_non_null(strstr(cap.reason, text));
	assert_int_equal(cap.tried, 1);
}

/* ---- what the soft HCA does -------------------------------------------- */

static bool is_native(enum rdmamsg_cap_id id)
{
	struct rdmamsg_device_cap_attr cap = ask(id);

	assert_int_equal(cap.tried, 1);
	return cap.how == RDMAMSG_CAP_NATIVE;
}

/* Returns true if the device creates such a queue pair. */
static bool makes(enum ibv_qp_type type, uint32_t max_inline, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { 1, 1, 1, 1, max_inline }, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = flags,
	};
	struct ibv_qp *q = soft_create_qp_ex(c, &a);

	if (q)
		assert_int_equal(soft_destroy_qp(q), 0);
	return q;
}

static void caps__inline_IS_WHAT_A_QUEUE_PAIR_GETS(void **state)
{
	const uint32_t most = (uint32_t)ask(RDMAMSG_CAP_INLINE).value;

	assert_true(is_native(RDMAMSG_CAP_INLINE));
	assert_true(makes(IBV_QPT_RC, most, 0));
	assert_false(makes(IBV_QPT_RC, most + 1, 0));
}

static void caps__types_ARE_THOSE_THAT_CAN_BE_MADE(void **state)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *x = ibv_open_xrcd(c, &a);

	assert_int_equal(is_native(RDMAMSG_CAP_UC), makes(IBV_QPT_UC, 0, 0));
	assert_int_equal(is_native(RDMAMSG_CAP_UD), makes(IBV_QPT_UD, 0, 0));
	assert_int_equal(is_native(RDMAMSG_CAP_RAW_PACKET),
			 makes(IBV_QPT_RAW_PACKET, 0, 0));
	assert_int_equal(is_native(RDMAMSG_CAP_BLOCK_LOOPBACK),
			 makes(IBV_QPT_UD, 0,
			       IBV_QP_CREATE_BLOCK_SELF_MCAST_LB));
	assert_int_equal(is_native(RDMAMSG_CAP_XRC), x != NULL);
	if (x)
		assert_int_equal(ibv_close_xrcd(x), 0);
}

static void caps__srq_HAS_SO_MANY_RECEIVES(void **state)
{
	struct ibv_srq_init_attr a = { .attr.max_sge = 1 };
	struct ibv_srq *s;

	assert_true(is_native(RDMAMSG_CAP_SRQ));
	a.attr.max_wr = (uint32_t)ask(RDMAMSG_CAP_SRQ).value;
	s = soft_create_srq(pd, &a);
	assert_non_null(s);
	assert_int_equal(soft_destroy_srq(s), 0);
	a.attr.max_wr = (uint32_t)ask(RDMAMSG_CAP_SRQ).value + 1;
	assert_null(soft_create_srq(pd, &a));
}

static void caps__requests_DO_WHAT_IS_SAID(void **state)
{
	uint64_t *target = (uint64_t *)(void *)mem[1];
	struct ibv_sge sge = { (uintptr_t)mem[0], 8, mr[0]->lkey };
	struct ibv_send_wr *bad, add = {
		.sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {
			.remote_addr = (uintptr_t)mem[1], .compare_add = 3,
			.rkey = mr[1]->rkey,
		},
	};

	assert_true(is_native(RDMAMSG_CAP_WRITE));
	mem[0][0] = 9;
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][0], 9);
	assert_true(is_native(RDMAMSG_CAP_READ));
	mem[1][0] = 11;
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 2, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(mem[0][0], 11);
	assert_true(is_native(RDMAMSG_CAP_ATOMICS));
	assert_int_equal(ask(RDMAMSG_CAP_ATOMICS).value, RDMAMSG_ATOMIC_HOST);
	*target = 40;
	assert_int_equal(ibv_post_send(qp[0], &add, &bad), 0);
	expect(0, IBV_WC_SUCCESS);
	assert_int_equal(*target, 43);
	assert_true(is_native(RDMAMSG_CAP_EXT_ATOMICS));
	assert_int_equal(ask(RDMAMSG_CAP_EXT_ATOMICS).value, 32);
	/* without calls of its own the device has the raw requests */
	table.query_masked = NULL;
	table.post_masked = NULL;
#ifdef HAVE_MLX5DV
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_NATIVE, "worked");
	assert_int_equal(ask(RDMAMSG_CAP_EXT_ATOMICS).value, 8);
#endif
	table.mlx5_is_supported = NULL;
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_SOFTWARE, "worked");
	assert_int_equal(ask(RDMAMSG_CAP_EXT_ATOMICS).value, 8);
	table.mlx5_is_supported = soft_mlx5_is_supported;
#ifdef HAVE_MLX5DV
	assert_true(is_native(RDMAMSG_CAP_DC));
	assert_true(is_native(RDMAMSG_CAP_UMR));
	assert_true(is_native(RDMAMSG_CAP_CHAINS));
#else
	assert_cap(RDMAMSG_CAP_DC, RDMAMSG_CAP_SOFTWARE, "mlx5dv.h");
	assert_cap(RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE, "mlx5dv.h");
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, "libmlx5");
#endif
	assert_true(is_native(RDMAMSG_CAP_IMMEDIATE));
	assert_int_equal(post_recv(qp[1], 4, 64), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND_WITH_IMM, 3, 8, 0, 0), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next(cq);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(!(wc.wc_flags & IBV_WC_WITH_IMM),
				 wc.wr_id != 4);
	}
}

static void caps__windows_CAN_BE_BOUND_AND_INVALIDATED(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, bind = {
		.wr_id = 1, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr[1], .addr = (uintptr_t)mem[1],
				.length = 64,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	assert_true(is_native(RDMAMSG_CAP_WINDOWS));
	assert_true(is_native(RDMAMSG_CAP_INVALIDATE));
	assert_int_equal(ibv_post_send(qp[1], &bind, &bad), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(post_recv(qp[1], 2, 64), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND_WITH_INV, 3, 8, 0,
			      bind.bind_mw.rkey), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next(cq).status, IBV_WC_SUCCESS);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 4, 8,
			      (uintptr_t)mem[1], bind.bind_mw.rkey), 0);
	expect(4, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void caps__alternate_path_CAN_BE_LOADED(void **state)
{
	struct ibv_qp_attr a = {
		.alt_ah_attr = {
			.port_num = 2, .is_global = 1,
			.grh.dgid.raw = { [15] = 1 },
		},
		.alt_port_num = 2, .alt_timeout = 9,
		.path_mig_state = IBV_MIG_REARM,
	};
	struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_APM);

	assert_int_equal(cap.how == RDMAMSG_CAP_NATIVE,
			 !soft_modify_qp(qp[0], &a, IBV_QP_ALT_PATH |
					 IBV_QP_PATH_MIG_STATE));
	assert_non_null(strstr(cap.reason, "port 2"));
}

static void caps__memory_IS_WHAT_CAN_BE_REGISTERED(void **state)
{
	const struct rdmamsg_device_cap_attr huge = ask(RDMAMSG_CAP_HUGE_PAGES);
	void *page = mmap(NULL, 2u << 20, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26,
			  -1, 0);
	struct ibv_mr *m = soft_reg_mr(pd, mem[0], 64, IBV_ACCESS_ON_DEMAND);

	assert_null(m);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_cap(RDMAMSG_CAP_ODP, RDMAMSG_CAP_ABSENT, "not supported");
	assert_null(soft.reg_dmabuf_mr);
	assert_cap(RDMAMSG_CAP_DMABUF, RDMAMSG_CAP_ABSENT, "not supported");
	assert_int_equal(huge.how == RDMAMSG_CAP_NATIVE, page != MAP_FAILED);
	assert_int_equal(huge.value, page != MAP_FAILED ? 2u << 20 : 0);
	if (page != MAP_FAILED)
		munmap(page, 2u << 20);
	assert_null(soft.is_fork_initialized);
	assert_true(is_native(RDMAMSG_CAP_FORK));
}

static void caps__multicast_CAN_BE_ATTACHED(void **state)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp *q = soft_create_qp(pd, &a);
	union ibv_gid gid = { .raw = { 0xff, 0x12, [15] = 9 } };
	struct ibv_qp_attr init = { .port_num = 1, .qkey = 1 };

	assert_true(is_native(RDMAMSG_CAP_MULTICAST));
	assert_int_equal(qp_walk(soft_modify_qp, q, &init, IBV_QPS_INIT), 0);
	assert_int_equal(soft_attach_mcast(q, &gid, 0xc000), 0);
	assert_int_equal(soft_detach_mcast(q, &gid, 0xc000), 0);
	assert_int_equal(soft_destroy_qp(q), 0);
}

/* ---- lists and errors --------------------------------------------------- */

static void caps__list_HAS_ALL_IN_ORDER(void **state)
{
	struct rdmamsg_device_cap_attr list[RDMAMSG_CAPS], small[2];
	int n = rdmamsg_device_caps("soft0", list, sizeof(list[0]),
				    RDMAMSG_CAPS);

	assert_int_equal(n, RDMAMSG_CAPS);
	for (int i = 0; i < n; i++) {
		struct rdmamsg_device_cap_attr one =
			ask((enum rdmamsg_cap_id)i);

		assert_int_equal(list[i].id, i);
		assert_int_equal(list[i].size, sizeof(list[i]));
		assert_string_equal(list[i].name, one.name);
		assert_int_equal(list[i].how, one.how);
		assert_int_equal(list[i].value, one.value);
		assert_string_equal(list[i].reason, one.reason);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(list[i].name, list[j].name);
	}
	memset(small, 0x55, sizeof(small));
	assert_int_equal(
		rdmamsg_device_caps(
			"soft0", small,
			offsetof(struct rdmamsg_device_cap_attr, value), 1),
		RDMAMSG_CAPS);
	assert_string_equal(small[0].name, "inline");
	assert_int_equal(small[0].reason[0], 0x55);
	assert_int_equal(small[1].id, 0x55555555);
	assert_int_equal(rdmamsg_device_caps("soft0", NULL, 0, 0),
			 RDMAMSG_CAPS);
}

static void assert_error(int ret, int error, const char *text)
{
	assert_int_equal(ret, error);
	assert_non_null(strstr(rdmamsg_error(), text));
}

static void caps__errors_DIFFER(void **state)
{
	struct rdmamsg_device_cap_attr cap = { .size = 0 };
	const int end = RDMAMSG_CAPS;

	assert_error(rdmamsg_device_caps("nosuch", NULL, 0, 0), -ENXIO,
		     "nosuch");
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 1), -EINVAL, "list");
	assert_error(rdmamsg_device_caps("soft0", &cap, 4, 1), -EINVAL, "size");
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, -1), -EINVAL,
		     "list");
	assert_error(rdmamsg_device_cap_query("soft0", (enum rdmamsg_cap_id)end,
					      &cap),
		     -EINVAL, "no ability");
	assert_error(rdmamsg_device_cap_query("soft0", RDMAMSG_CAP_UD, &cap),
		     -EINVAL, "size");
	open_error = EACCES;
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 0), -EACCES,
		     "/dev/infiniband");
	open_error = 0;
	refused = QUERY_DEVICE;
	refusal = EIO;
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 0), -EIO,
		     "attributes");
	refusal = ENOMEM;
	refused = ALLOC_PD;
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 0), -ENOMEM,
		     "protection");
	refused = CREATE_CQ;
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 0), -ENOMEM,
		     "completion");
	refused = REG_MR;
	assert_error(rdmamsg_device_caps("soft0", NULL, 0, 0), -ENOMEM,
		     "memory");
}

/* A failing attempt does not fail the call. */
static void caps__attempt_fails_KEEPS_THE_LAST_ERROR(void **state)
{
	assert_error(rdmamsg_device_caps("nosuch", NULL, 0, 0), -ENXIO,
		     "nosuch");
	refused = CREATE_QP;
	refusal = EINVAL;
	assert_cap(RDMAMSG_CAP_UC, RDMAMSG_CAP_ABSENT, "type UC");
	assert_non_null(strstr(rdmamsg_error(), "nosuch"));
}

/* ---- calls that fail ---------------------------------------------------- */

static void caps__call_refused_ABSENT(void **state)
{
	static const struct {
		enum call call;
		enum rdmamsg_cap_id id;
		const char *text;
	} cases[] = {
		{ CREATE_QP, RDMAMSG_CAP_INLINE, "queue pair of type RC" },
		{ CREATE_QP, RDMAMSG_CAP_WRITE, "queue pair of type RC" },
		{ CREATE_QP, RDMAMSG_CAP_WINDOWS, "queue pair of type RC" },
		{ CREATE_QP, RDMAMSG_CAP_APM, "queue pair of type RC" },
		{ CREATE_QP, RDMAMSG_CAP_UC, "queue pair of type UC" },
		{ CREATE_QP, RDMAMSG_CAP_UD, "queue pair of type UD" },
		{ CREATE_QP, RDMAMSG_CAP_MULTICAST, "queue pair of type UD" },
		{ CREATE_QP, RDMAMSG_CAP_RAW_PACKET, "RAW_PACKET" },
		{ CREATE_QP_EX, RDMAMSG_CAP_XRC, "XRC_RECV" },
		{ CREATE_QP_EX, RDMAMSG_CAP_SEND_OPS, "ibv_wr_start()" },
		{ CREATE_QP_EX, RDMAMSG_CAP_TSO, "max_tso_header" },
		{ MODIFY_QP, RDMAMSG_CAP_INLINE, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_IMMEDIATE, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_READ, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_ATOMICS, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_EXT_ATOMICS, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_INVALIDATE, "connecting" },
		{ MODIFY_QP, RDMAMSG_CAP_UD, "INIT" },
		{ MODIFY_QP, RDMAMSG_CAP_MULTICAST, "INIT" },
		{ LOAD_PATH, RDMAMSG_CAP_APM, "loading an alternate path" },
		{ QUERY_QP, RDMAMSG_CAP_APM, "migration state" },
		{ MIGRATE, RDMAMSG_CAP_APM, "migrating" },
		{ CREATE_SRQ, RDMAMSG_CAP_SRQ, "shared receive queue" },
		{ CREATE_AH, RDMAMSG_CAP_UD, "address handle" },
		{ ATTACH, RDMAMSG_CAP_MULTICAST, "attaching" },
		{ DETACH, RDMAMSG_CAP_MULTICAST, "detaching" },
		{ QUERY_PORT, RDMAMSG_CAP_MULTICAST, "the port" },
		{ ALLOC_MW, RDMAMSG_CAP_WINDOWS, "memory window" },
		{ ALLOC_MW, RDMAMSG_CAP_INVALIDATE, "memory window" },
		{ OPEN_XRCD, RDMAMSG_CAP_XRC, "XRC domain" },
		{ POST_SEND, RDMAMSG_CAP_INLINE, "posting" },
		{ POST_SEND, RDMAMSG_CAP_UD, "posting" },
		{ POST_RECV, RDMAMSG_CAP_IMMEDIATE, "posting" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		refused = cases[i].call;
		refusal = EDQUOT;
		assert_cap(cases[i].id, RDMAMSG_CAP_ABSENT, cases[i].text);
		assert_cap(cases[i].id, RDMAMSG_CAP_ABSENT, strerror(EDQUOT));
		assert_int_equal(ask(cases[i].id).value, 0);
	}
	refused = ATTACH;
	assert_cap(RDMAMSG_CAP_MULTICAST, RDMAMSG_CAP_ABSENT,
		   "unicast:ADDRESS:PORT instead");
	/* without datagrams there are no such groups either */
	refused = CREATE_QP;
	assert_null(strstr(ask(RDMAMSG_CAP_MULTICAST).reason, "unicast"));
	refused = POLL_CQ;
	assert_cap(RDMAMSG_CAP_READ, RDMAMSG_CAP_ABSENT, "completion queue");
	refused = CREATE_QP;
	refusal = EPERM;
	assert_cap(RDMAMSG_CAP_RAW_PACKET, RDMAMSG_CAP_ABSENT, "CAP_NET_RAW");
	/* errno 524 is the kernel's ENOTSUPP, which strerror() does not know */
	refusal = 524;
	assert_cap(RDMAMSG_CAP_UC, RDMAMSG_CAP_ABSENT, strerror(EOPNOTSUPP));
}

static void caps__call_refused_SOFTWARE(void **state)
{
	refusal = EOPNOTSUPP;
	refused = RESIZE_CQ;
	assert_cap(RDMAMSG_CAP_CQ_RESIZE, RDMAMSG_CAP_SOFTWARE, "resizing");
	refused = CREATE_QP_EX;
	assert_cap(RDMAMSG_CAP_BLOCK_LOOPBACK, RDMAMSG_CAP_SOFTWARE,
		   "groups drop own datagrams");
#ifdef HAVE_MLX5DV
	refused = MLX5_CREATE_QP;
	assert_cap(RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE, "that defines keys");
	assert_cap(RDMAMSG_CAP_DC, RDMAMSG_CAP_SOFTWARE, "a target of DC");
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE,
		   "a cross-channel queue pair");
	refused = MODIFY_QP;
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, "connecting");
	refused = POLL_CQ;
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, "polling");
	refused = CREATE_MKEY;
	assert_cap(RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE, "indirect key");
	refused = NONE;
	table.mlx5_is_supported = NULL;
	assert_cap(RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE, "libmlx5");
	assert_cap(RDMAMSG_CAP_DC, RDMAMSG_CAP_SOFTWARE, "libmlx5");
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, "libmlx5");
#endif
}

/* ---- false attributes --------------------------------------------------- */

#ifdef HAVE_MLX5DV

/* An addition without the ends of its fields, as cards without them do. */
static bool raw_of_one_field(void *wqe, bool fenced)
{
	/* behind the two segments, and the number to add */
	if (*(uint8_t *)wqe == 8)
		memset((uint8_t *)wqe + 32 + 4, 0, 4);
	else
		memset((uint8_t *)wqe + 32 + 8, 0, 8);
	return true;
}

static bool raw_refused(void *wqe, bool fenced)
{
	return false;
}

/* The same device, which has raw requests only. */
static void raw__device_lies_ABSENT(void **state)
{
	table.query_masked = NULL;
	table.post_masked = NULL;
	replace_raw(&table, raw_of_one_field);
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_SOFTWARE, "worked");
	replace_raw(&table, raw_refused);
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_SOFTWARE, "worked");
	table.query_masked = soft_query_masked;
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_ABSENT,
		   "posting a masked atomic");
	replace_raw(&table, raw_of_one_field);
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_ABSENT,
		   "wrong result");
}

#include "caps_chains.h"

#endif

static int post_masked_refused(struct ibv_qp *q, struct ibv_send_wr *wr,
			       const struct masked *m)
{
	return EINVAL;
}

static void caps__device_lies_ABSENT(void **state)
{
	other_inline = true;
	assert_cap(RDMAMSG_CAP_INLINE, RDMAMSG_CAP_ABSENT, "changed");
	other_imm = true;
	assert_cap(RDMAMSG_CAP_IMMEDIATE, RDMAMSG_CAP_ABSENT, "did not arrive");
	long_windows = true;
	assert_cap(RDMAMSG_CAP_WINDOWS, RDMAMSG_CAP_ABSENT, "its bounds");
	from_op = IBV_WR_SEND_WITH_INV;
	to_op = IBV_WR_SEND;
	assert_cap(RDMAMSG_CAP_INVALIDATE, RDMAMSG_CAP_ABSENT, "which key");
	from_op = IBV_WR_RDMA_READ;
	to_op = IBV_WR_RDMA_WRITE;
	assert_cap(RDMAMSG_CAP_READ, RDMAMSG_CAP_ABSENT, "changed");
	from_op = IBV_WR_RDMA_WRITE;
	to_op = IBV_WR_RDMA_READ;
	assert_cap(RDMAMSG_CAP_WRITE, RDMAMSG_CAP_ABSENT, "changed");
	from_op = IBV_WR_ATOMIC_CMP_AND_SWP;
	to_op = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_cap(RDMAMSG_CAP_ATOMICS, RDMAMSG_CAP_ABSENT, "wrong result");
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_NATIVE, "worked");
	table.mlx5_is_supported = NULL;
	table.query_masked = NULL;
	table.post_masked = NULL;
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_ABSENT, "wrong result");
	table.query_masked = soft_query_masked;
	table.post_masked = post_masked_refused;
	assert_cap(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_ABSENT,
		   "posting a masked atomic");
	table.post_masked = soft_post_masked;
	table.mlx5_is_supported = soft_mlx5_is_supported;
	from_op = to_op;
	wc_status = IBV_WC_LOC_QP_OP_ERR;
	assert_cap(RDMAMSG_CAP_WRITE, RDMAMSG_CAP_ABSENT, "itself failed");
}

/* ---- no way to try ------------------------------------------------------ */

static void assert_untried(enum rdmamsg_cap_id id, enum rdmamsg_cap_how how,
			   const char *text)
{
	struct rdmamsg_device_cap_attr cap = ask(id);

	assert_int_equal(cap.how, how);
	assert_int_equal(cap.tried, 0);
	assert_non_null(strstr(cap.reason, text));
}

static void assert_all_untried(const char *text)
{
	assert_untried(RDMAMSG_CAP_INLINE, RDMAMSG_CAP_NATIVE, text);
	assert_int_equal(ask(RDMAMSG_CAP_INLINE).value, 1024);
	assert_untried(RDMAMSG_CAP_IMMEDIATE, RDMAMSG_CAP_NATIVE, text);
	assert_untried(RDMAMSG_CAP_WRITE, RDMAMSG_CAP_NATIVE, text);
	assert_untried(RDMAMSG_CAP_READ, RDMAMSG_CAP_NATIVE, text);
	assert_untried(RDMAMSG_CAP_ATOMICS, RDMAMSG_CAP_NATIVE, text);
	assert_int_equal(ask(RDMAMSG_CAP_ATOMICS).value, RDMAMSG_ATOMIC_HOST);
	assert_untried(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_NATIVE, text);
	table.query_masked = NULL;
	assert_untried(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_SOFTWARE, text);
	table.query_masked = soft_query_masked;
	assert_untried(RDMAMSG_CAP_WINDOWS, RDMAMSG_CAP_NATIVE, text);
	assert_untried(RDMAMSG_CAP_INVALIDATE, RDMAMSG_CAP_NATIVE, text);
	assert_untried(RDMAMSG_CAP_APM, RDMAMSG_CAP_ABSENT, text);
	assert_untried(RDMAMSG_CAP_APM, RDMAMSG_CAP_ABSENT, "device reports");
	no_caps = IBV_DEVICE_AUTO_PATH_MIG;
	assert_untried(RDMAMSG_CAP_APM, RDMAMSG_CAP_ABSENT, "not report");
	no_caps = 0;
}

static void caps__no_port_active_REPORTED(void **state)
{
	ports_down = true;
	assert_all_untried("no port of device soft0 is active");
	assert_untried(RDMAMSG_CAP_UD, RDMAMSG_CAP_NATIVE, "active");
	/* abilities that need no port are still tried */
	assert_cap(RDMAMSG_CAP_SRQ, RDMAMSG_CAP_NATIVE, "was created");
	assert_cap(RDMAMSG_CAP_MULTICAST, RDMAMSG_CAP_NATIVE, "attached");
	refused = ALLOC_MW;
	refusal = EDQUOT;
	assert_cap(RDMAMSG_CAP_WINDOWS, RDMAMSG_CAP_ABSENT, strerror(EDQUOT));
}

/*
 * Without the connection manager, an iWARP device cannot connect queue pairs.
 */
static void caps__iwarp_REPORTED(void **state)
{
	const char manager[] = "connection manager";

	assert_untried(RDMAMSG_CAP_INLINE, RDMAMSG_CAP_NATIVE, manager);
	assert_untried(RDMAMSG_CAP_WRITE, RDMAMSG_CAP_NATIVE, manager);
	assert_untried(RDMAMSG_CAP_IMMEDIATE, RDMAMSG_CAP_ABSENT, "RFC 5040");
	assert_untried(RDMAMSG_CAP_APM, RDMAMSG_CAP_ABSENT, manager);
	assert_cap(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, "the library");
	assert_cap(RDMAMSG_CAP_SRQ, RDMAMSG_CAP_NATIVE, "was created");
}

static void caps__device_does_not_deliver_REPORTED(void **state)
{
	wc_status = IBV_WC_RETRY_EXC_ERR;
	assert_all_untried("after all retries");
	assert_untried(RDMAMSG_CAP_UD, RDMAMSG_CAP_NATIVE, "after all retries");
}

static void caps__device_reports_none_ABSENT(void **state)
{
	no_caps = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	assert_untried(RDMAMSG_CAP_WINDOWS, RDMAMSG_CAP_ABSENT, "type 2");
	assert_untried(RDMAMSG_CAP_INVALIDATE, RDMAMSG_CAP_ABSENT, "type 2");
	no_caps = IBV_DEVICE_MEM_MGT_EXTENSIONS;
	assert_cap(RDMAMSG_CAP_WINDOWS, RDMAMSG_CAP_NATIVE, "refused");
	assert_untried(RDMAMSG_CAP_INVALIDATE, RDMAMSG_CAP_ABSENT, "MEM_MGT");
	no_atomics = true;
	assert_untried(RDMAMSG_CAP_ATOMICS, RDMAMSG_CAP_ABSENT,
		       "IBV_ATOMIC_NONE");
	assert_untried(RDMAMSG_CAP_EXT_ATOMICS, RDMAMSG_CAP_ABSENT,
		       "IBV_ATOMIC_NONE");
	assert_cap(RDMAMSG_CAP_WRITE, RDMAMSG_CAP_NATIVE, "arrived");
}

#include "caps_more.h"
#include "caps_limits.h"

/* ---- names -------------------------------------------------------------- */

static void names__how_HAS_TEXT(void **state)
{
	assert_string_equal(
		rdmamsg_name(RDMAMSG_NAME_CAP_HOW, RDMAMSG_CAP_ABSENT),
		"absent");
	assert_string_equal(
		rdmamsg_name(RDMAMSG_NAME_CAP_HOW, RDMAMSG_CAP_SOFTWARE),
		"software");
	assert_string_equal(
		rdmamsg_name(RDMAMSG_NAME_CAP_HOW, RDMAMSG_CAP_NATIVE),
		"native");
	assert_string_equal(rdmamsg_name(RDMAMSG_NAME_CAP_HOW, 3), "unknown");
}

/* ---- the link modes ----------------------------------------------------- */

static int set_up_pair(void **state)
{
	return set_up(state) || setup_pair(state) ? -1 : 0;
}

static int tear_down_pair(void **state)
{
	return teardown_pair(state) || tear_down(state) ? -1 : 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
#define DONE(fn) cmocka_unit_test_setup_teardown(fn, set_up_pair, \
						 tear_down_pair)

static int run_iwarp(void)
{
	const struct CMUnitTest tests[] = {
		TEST(caps__list_HAS_ALL_IN_ORDER),
		TEST(caps__iwarp_REPORTED),
	};

	return cmocka_run_group_tests_name("iwarp", tests, NULL, NULL);
}

static int run(const char *link)
{
	const struct CMUnitTest tests[] = {
		DONE(caps__inline_IS_WHAT_A_QUEUE_PAIR_GETS),
		DONE(caps__types_ARE_THOSE_THAT_CAN_BE_MADE),
		DONE(caps__srq_HAS_SO_MANY_RECEIVES),
		DONE(caps__requests_DO_WHAT_IS_SAID),
		DONE(caps__windows_CAN_BE_BOUND_AND_INVALIDATED),
		DONE(caps__alternate_path_CAN_BE_LOADED),
		DONE(caps__memory_IS_WHAT_CAN_BE_REGISTERED),
		DONE(caps__multicast_CAN_BE_ATTACHED),
		TEST(caps__list_HAS_ALL_IN_ORDER),
		TEST(caps__errors_DIFFER),
		TEST(caps__attempt_fails_KEEPS_THE_LAST_ERROR),
		TEST(caps__call_refused_ABSENT),
		TEST(caps__call_refused_SOFTWARE),
		TEST(caps__device_lies_ABSENT),
#ifdef HAVE_MLX5DV
		TEST(raw__device_lies_ABSENT),
		TEST(raw__chains_do_not_work_SOFTWARE),
		DONE(limits__native_ARE_THE_DEVICES),
#endif
		DONE(limits__in_software_ARE_THE_LIBRARYS),
		TEST(limits__of_absent_abilities_ARE_0),
		TEST(caps__no_port_active_REPORTED),
		TEST(caps__device_does_not_deliver_REPORTED),
		TEST(caps__device_reports_none_ABSENT),
		TEST(caps__device_can_more_NATIVE),
		TEST(caps__fork_SAYS_WHO_COPIES),
		TEST(names__how_HAS_TEXT),
	};

	return cmocka_run_group_tests_name(link, tests, NULL, NULL);
}

/* A process has one fabric, so each link mode has a process. */
int main(void)
{
	static const char *const links[] = { "ethernet", "ib", "iwarp" };
	int bad = 0;

	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		int status = 1;

		if (!child) {
			(void)setenv("RDMAMSG_SOFT_LINK", links[i], 1);
			(void)unsetenv("RDMAMSG_DEVICE");
			join_own_fabric(links[i]);
			exit(i == 2 ? run_iwarp() : run(links[i]));
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		bad |= status;
	}
	return bad != 0;
}
