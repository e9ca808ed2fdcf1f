/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA's unreliable queue pairs: datagrams, address handles, groups,
 * UC; what arrives, and what is lost without a word.
 */
#include "../qp_walk.h"
#include "soft/soft.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "own_fabric.h"

#define SIZE	65536u
#define QKEY	0x1111u
#define ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static const union ibv_gid group = {
	.raw = { 0xff, 0x12, 0x40, 1, 0xff, 0xff, [14] = 7, [15] = 9 },
};

static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr[2];
static uint8_t *mem[2];

static int walk(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.port_num = 1, .qkey = QKEY, .qp_access_flags = ALL,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
	};

	return qp_walk(soft_modify_qp, q, &a, IBV_QPS_RTS);
}

static int open_all(enum ibv_qp_type type)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	c = soft_open_device(list[0]);
	soft_free_device_list(list);
	if (!c)
		return -1;
	pd = soft_alloc_pd(c);
	cq = soft_create_cq(c, 256, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = cq, .recv_cq = cq, .qp_type = type,
			.cap = { 64, 64, 4, 4, 64 },
		};

		mem[i] = calloc(1, SIZE);
		mr[i] = soft_reg_mr(pd, mem[i], SIZE, ALL);
		qp[i] = soft_create_qp(pd, &a);
		if (!mr[i] || !qp[i])
			return -1;
	}
	return walk(qp[0], qp[1]->qp_num) || walk(qp[1], qp[0]->qp_num);
}

static int close_all(void)
{
	int ret = 0;

	for (int i = 0; i < 2; i++) {
		ret |= soft_destroy_qp(qp[i]);
		ret |= soft_dereg_mr(mr[i]);
		free(mem[i]);
	}
	ret |= soft_destroy_cq(cq);
	ret |= soft_dealloc_pd(pd);
	return ret | soft_close_device(c);
}

static int setup_ud(void **state)
{
	return open_all(IBV_QPT_UD);
}

static int setup_uc(void **state)
{
	return open_all(IBV_QPT_UC);
}

static int teardown(void **state)
{
	return close_all();
}

static struct ibv_ah *new_ah(const union ibv_gid *to)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .dlid = 0xc001,
		.grh = { .hop_limit = 7, .traffic_class = 3 },
	};

	if (to)
		a.grh.dgid = *to;
	else if (soft_query_gid(c, 1, 0, &a.grh.dgid))
		return NULL;
	else
		a.dlid = 0;
	return soft_create_ah(pd, &a);
}

static int post_ud(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		   uint32_t len, uint64_t wr_id)
{
	struct ibv_sge sge[2] = {
		{ (uintptr_t)mem[0], len / 2, mr[0]->lkey },
		{ (uintptr_t)mem[0] + len / 2, len - len / 2, mr[0]->lkey },
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = sge, .num_sge = 2,
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 0x1234,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
			      (len <= 64 ? IBV_SEND_INLINE : 0),
		.wr.ud = { ah, qpn, qkey },
	};

	return ibv_post_send(qp[0], &wr, &bad);
}

static int post_recv(int i, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], len, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(qp[i], &wr, &bad);
}

/* The next completion; none within a while: 0. */
static int next(struct ibv_wc *wc, int ms)
{
	int n = 0;

	for (int i = 0; i < 1000 + ms && !n; i++) {
		n = ibv_poll_cq(cq, 1, wc);
		if (!n && i > 1000)
			(void)poll(NULL, 0, 1);
	}
	return n;
}

static struct ibv_wc expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	assert_int_equal(next(&wc, 20000), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

/* ---- datagrams -------------------------------------------------------- */

static void create_ah__bad_address_REFUSED(void **state)
{
	struct ibv_ah_attr a = { .port_num = 1 };
	struct ibv_ah *ah;

	assert_null(soft_create_ah(pd, &a));	/* no GRH on Ethernet */
	a.is_global = 1;
	a.port_num = 3;
	assert_null(soft_create_ah(pd, &a));
	a.port_num = 1;
	a.grh.sgid_index = 2;
	assert_null(soft_create_ah(pd, &a));
	a.grh.sgid_index = 0;
	a.grh.dgid.raw[0] = 0x20;		/* nobody's */
	assert_null(soft_create_ah(pd, &a));
	assert_int_equal(errno, EHOSTUNREACH);
	ah = new_ah(NULL);
	assert_non_null(ah);
	assert_int_equal(soft_dealloc_pd(pd), EBUSY);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

static void modify__ud_without_qkey_EINVAL(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;

	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE | IBV_QP_PORT |
			 IBV_QP_PKEY_INDEX), EINVAL);
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE | IBV_QP_PORT |
			 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), EINVAL);
	assert_int_equal(walk(qp[0], 0), 0);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_QKEY, &init), 0);
	assert_int_equal(a.qkey, QKEY);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
}

static void send__of_every_size_ARRIVES(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 64, 65, 4095, 4096 };
	struct ibv_ah *ah = new_ah(NULL), *back;
	struct ibv_wc wc;

	assert_non_null(ah);
	for (uint32_t i = 0; i < SIZE; i++)
		mem[0][i] = (uint8_t)(i * 7);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(post_recv(1, 1, 40 + sizes[i]), 0);
		assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, sizes[i], 2),
				 0);
		expect(2, IBV_WC_SUCCESS);
		wc = expect(1, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 40 + sizes[i]);
		assert_int_equal(wc.src_qp, qp[0]->qp_num);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x1234);
		assert_memory_equal(mem[0], mem[1] + 40, sizes[i]);
		/* RoCE v2: an IPv4 header, whole and from 127.0.0.1 */
		assert_int_equal(mem[1][20], 0x45);
		assert_int_equal(mem[1][28], 7);
		assert_int_equal(mem[1][32], 127);
	}
	assert_int_equal(soft_destroy_ah(ah), 0);
	back = soft_create_ah_from_wc(pd, &wc, (struct ibv_grh *)mem[1], 1);
	assert_non_null(back);
	assert_int_equal(post_recv(0, 3, 100), 0);
	assert_int_equal(post_ud(back, wc.src_qp, 0x80000000u, 10, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(soft_destroy_ah(back), 0);
}

static void send__undeliverable_LOST_IN_SILENCE(void **state)
{
	struct ibv_ah *ah = new_ah(NULL);
	uint32_t to = qp[1]->qp_num;
	struct ibv_wc wc;

	/* nobody receives; another key; nobody there; nowhere; too long */
	assert_int_equal(post_ud(ah, to, QKEY, 100, 1), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(post_recv(1, 10, 140), 0);
	assert_int_equal(post_ud(ah, to, QKEY + 1, 100, 2), 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to + 9, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, 0xfffff0, QKEY, 100, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to, QKEY, 4097, 5), 0);
	expect(5, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to, QKEY, 101, 6), 0);
	expect(6, IBV_WC_SUCCESS);
	/* the receive is still there for this one */
	mem[0][99] = 77;
	assert_int_equal(post_ud(ah, to, QKEY, 100, 7), 0);
	expect(7, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][139], 77);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

static void send__of_what_ud_has_not_EINVAL(void **state)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE };

	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;		/* no address */
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), EINVAL);
}

static void send__local_error_ONLY_SQE(void **state)
{
	struct ibv_ah *ah = new_ah(NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr init;
	uint32_t key = mr[0]->lkey;

	assert_int_equal(post_recv(1, 10, 200), 0);
	assert_int_equal(post_recv(0, 11, 200), 0);
	mr[0]->lkey = key + 1;
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 1), 0);
	expect(1, IBV_WC_LOC_PROT_ERR);
	mr[0]->lkey = key;
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 2), 0);
	expect(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_SQE);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE), 0);
	/* its receive has stayed */
	assert_int_equal(post_ud(ah, qp[0]->qp_num, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	expect(11, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

/* ---- groups ----------------------------------------------------------- */

static void group__two_members_ONE_COPY_EACH(void **state)
{
	struct ibv_ah *ah = new_ah(&group);
	struct ibv_wc wc;

	assert_non_null(ah);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_attach_mcast(qp[i], &group, 0xc001), 0);
		assert_int_equal(soft_attach_mcast(qp[i], &group, 0xc001), 0);
		assert_int_equal(post_recv(i, 10 + (uint64_t)i, 200), 0);
		assert_int_equal(post_recv(i, 20 + (uint64_t)i, 200), 0);
	}
	assert_int_equal(post_ud(ah, 0xffffff, QKEY, 100, 1), 0);
	expect(1, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	wc = expect(11, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(mem[1][24], 0xff);	/* the GRH's dgid */
	assert_int_equal(soft_destroy_qp(qp[1]), EBUSY);
	assert_int_equal(soft_detach_mcast(qp[0], &group, 0xc001), 0);
	assert_int_equal(soft_detach_mcast(qp[0], &group, 0xc001), EINVAL);
	assert_int_equal(post_ud(ah, 0xffffff, QKEY, 100, 2), 0);
	expect(2, IBV_WC_SUCCESS);
	expect(21, IBV_WC_SUCCESS);
	assert_int_equal(soft_detach_mcast(qp[1], &group, 0xc001), 0);
	assert_int_equal(post_ud(ah, 0xffffff, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

static void attach__of_what_is_no_group_EINVAL(void **state)
{
	union ibv_gid gid;

	assert_int_equal(soft_query_gid(c, 1, 0, &gid), 0);
	assert_int_equal(soft_attach_mcast(qp[0], &gid, 0), EINVAL);
	gid.raw[12] = 239;			/* IPv4's are, too */
	assert_int_equal(soft_attach_mcast(qp[0], &gid, 0), 0);
	assert_int_equal(soft_detach_mcast(qp[0], &gid, 0), 0);
}

/* More of them than there is room for. */
static void attach__too_many_groups_ENOMEM(void **state)
{
	union ibv_gid gid = group;
	int n = 0, ret = 0;

	for (; n < 1000 && !ret; n++) {
		gid.raw[10] = (uint8_t)n;
		gid.raw[11] = (uint8_t)(n >> 8);
		ret = soft_attach_mcast(qp[0], &gid, 0);
	}
	assert_int_equal(ret, ENOMEM);
	for (n -= 2; n >= 0; n--) {
		gid.raw[10] = (uint8_t)n;
		gid.raw[11] = (uint8_t)(n >> 8);
		assert_int_equal(soft_detach_mcast(qp[0], &gid, 0), 0);
	}
}

/* ---- two processes ---------------------------------------------------- */

static void child_member(int fd, bool ib)
{
	char byte = 0;
	struct ibv_wc wc;

	if (open_all(IBV_QPT_UD) || soft_attach_mcast(qp[1], &group, 0xc001))
		_exit(2);
	for (uint64_t i = 0; i < 60; i++)
		if (post_recv(1, i, 4136))
			_exit(3);
	if (write(fd, &qp[1]->qp_num, 4) != 4)
		_exit(4);
	/* one by unicast, one from the group; then we die at work */
	for (int i = 0; i < 2; i++)
		if (!next(&wc, 20000) || wc.status || wc.byte_len != 1040 ||
		    mem[1][40] != 0x5a || (ib && !wc.slid))
			_exit(5);
	(void)!write(fd, &byte, 1);
	for (;;)
		(void)pause();
}

static void member__of_another_process_RECEIVES_UNTIL_KILLED(void **state)
{
	struct ibv_ah *ah, *all;
	struct ibv_wc wc;
	uint32_t qpn;
	int fd[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pid = fork();
	if (!pid)
		child_member(fd[1], *state != NULL);
	close(fd[1]);
	assert_int_equal(open_all(IBV_QPT_UD), 0);
	assert_int_equal(soft_attach_mcast(qp[1], &group, 0xc001), 0);
	assert_int_equal(read(fd[0], &qpn, 4), 4);
	memset(mem[0], 0x5a, SIZE);
	all = new_ah(&group);
	if (*state) {				/* by LID: no GRH */
		struct ibv_ah_attr a = { .port_num = 1 };
		struct ibv_port_attr port;

		assert_int_equal(soft_query_port(c, 1, &port), 0);
		a.dlid = (uint16_t)(1 + (qpn >> 14) * 8);
		assert_int_not_equal(a.dlid, port.lid);
		ah = soft_create_ah(pd, &a);
	} else {
		ah = new_ah(NULL);
	}
	assert_non_null(ah);
	assert_non_null(all);
	assert_int_equal(post_ud(ah, qpn, QKEY, 1000, 1), 0);
	assert_int_equal(post_ud(all, 0xffffff, QKEY, 1000, 2), 0);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(read(fd[0], &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* what it has left in the fabric's memory is in nobody's way */
	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(post_recv(1, 100, 2000), 0);
		assert_int_equal(post_ud(all, 0xffffff, QKEY, 1000, i), 0);
		expect(i, IBV_WC_SUCCESS);
		wc = expect(100, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 1040);
		assert_int_equal(post_ud(ah, qpn, QKEY, 1000, i), 0);
		expect(i, IBV_WC_SUCCESS);
	}
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(soft_destroy_ah(all), 0);
	assert_int_equal(soft_detach_mcast(qp[1], &group, 0xc001), 0);
	assert_int_equal(close_all(), 0);
	close(fd[0]);
}

static void child_sender(int fd)
{
	uint32_t qpn;
	struct ibv_ah *ah;

	if (open_all(IBV_QPT_UD) || read(fd, &qpn, 4) != 4)
		_exit(2);
	ah = new_ah(NULL);
	for (uint64_t i = 0; i < 10; i++)
		if (!ah || post_ud(ah, qpn, QKEY, 100, i))
			_exit(3);
	_exit(0);
}

/* What has been sent arrives, though its sender is gone by then. */
static void send__and_end_at_once_ARRIVES(void **state)
{
	int fd[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pid = fork();
	if (!pid)
		child_sender(fd[1]);
	close(fd[1]);
	assert_int_equal(open_all(IBV_QPT_UD), 0);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(post_recv(1, i, 140), 0);
	assert_int_equal(write(fd[0], &qp[1]->qp_num, 4), 4);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (uint64_t i = 0; i < 10; i++)
		expect(i, IBV_WC_SUCCESS);
	assert_int_equal(close_all(), 0);
	close(fd[0]);
}

/* A peer that is stopped does not stop its sender. */
static void send__to_a_stopped_process_GOES_ON(void **state)
{
	struct ibv_ah *ah;
	uint32_t qpn;
	int fd[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pid = fork();
	if (!pid)
		child_member(fd[1], false);
	close(fd[1]);
	assert_int_equal(open_all(IBV_QPT_UD), 0);
	assert_int_equal(read(fd[0], &qpn, 4), 4);
	ah = new_ah(NULL);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (uint64_t i = 0; i < 600; i++) {
		assert_int_equal(post_ud(ah, qpn, QKEY, 4096, i), 0);
		expect(i, IBV_WC_SUCCESS);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(close_all(), 0);
	close(fd[0]);
}

/* ---- the link layer --------------------------------------------------- */

static int set_ib(void **state)
{
	return setenv("RDMAMSG_SOFT_LINK", "ib", 1) ||
	       setenv("RDMAMSG_SOFT_PORTS", "3", 1);
}

static int unset_ib(void **state)
{
	return unsetenv("RDMAMSG_SOFT_LINK") || unsetenv("RDMAMSG_SOFT_PORTS");
}

static void options__infiniband_COHERENT(void **state)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	struct ibv_gid_entry e[8];
	struct ibv_port_attr port[2];
	struct ibv_device_attr d;
	struct ibv_wc wc;
	struct ibv_ah *ah;
	unsigned int type;
	__be16 pkey;

	assert_int_equal(open_all(IBV_QPT_UD), 0);
	assert_int_equal(soft_query_device(c, &d), 0);
	assert_int_equal(d.phys_port_cnt, 3);
	assert_int_equal(soft_query_port(c, 1, &port[0]), 0);
	assert_int_equal(soft_query_port(c, 3, &port[1]), 0);
	assert_int_equal(soft_query_port(c, 4, &port[1]), EINVAL);
	assert_int_equal(port[0].link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(port[1].lid, port[0].lid + 2);
	assert_int_equal(port[0].gid_tbl_len, 1);
	assert_int_equal(soft_query_gid_table(c, e, 8, 0, sizeof(e[0])), 3);
	assert_int_equal(soft_query_gid_table(c, e, 2, 0, sizeof(e[0])),
			 -EINVAL);
	assert_int_equal(e[2].port_num, 3);
	assert_int_equal(e[0].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(be64toh(e[0].gid.global.subnet_prefix) >> 48, 0xfe80);
	/* the ports of a node count from a GUID that is not the device's */
	assert_true(be64toh(e[2].gid.global.interface_id) ==
		    be64toh(e[0].gid.global.interface_id) + 2);
	assert_true(d.node_guid && d.node_guid != e[0].gid.global.interface_id);
	assert_int_equal(soft_query_gid_ex(c, 1, 1, &e[0], 0, sizeof(e[0])),
			 EINVAL);
	assert_int_equal(soft_query_gid_type(c, 1, 0, &type), 0);
	assert_int_equal(type, 0);
	assert_int_equal(soft_query_pkey(c, 1, 0, &pkey), 0);
	assert_int_equal(soft_get_pkey_index(c, 1, pkey), 0);
	assert_int_equal(soft_get_pkey_index(c, 1, 0), -1);
	/* by GID alone, with a GRH that leads back */
	assert_int_equal(soft_query_gid(c, 1, 0, &a.grh.dgid), 0);
	ah = soft_create_ah(pd, &a);
	assert_non_null(ah);
	assert_int_equal(post_recv(1, 1, 200), 0);
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 2), 0);
	expect(2, IBV_WC_SUCCESS);
	wc = expect(1, IBV_WC_SUCCESS);
	assert_int_equal(wc.slid, port[0].lid);
	assert_int_equal(soft_init_ah_from_wc(c, 1, &wc,
			 (struct ibv_grh *)mem[1], &a), 0);
	assert_int_equal(a.dlid, port[0].lid);
	assert_int_equal(soft_destroy_ah(ah), 0);
	/* another port's LID: not where the queue pair is */
	memset(&a, 0, sizeof(a));
	a.port_num = 1;
	a.dlid = port[1].lid;
	ah = soft_create_ah(pd, &a);
	assert_int_equal(post_recv(1, 1, 200), 0);
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(soft_attach_mcast(qp[0], &group, 7), EINVAL);
	assert_int_equal(close_all(), 0);
}

static void options__that_make_no_sense_EINVAL(void **state)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	assert_int_equal(setenv("RDMAMSG_SOFT_PORTS", "9", 1), 0);
	assert_null(soft_open_device(list[0]));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(unsetenv("RDMAMSG_SOFT_PORTS"), 0);
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", "token ring", 1), 0);
	assert_null(soft_open_device(list[0]));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(unsetenv("RDMAMSG_SOFT_LINK"), 0);
	soft_free_device_list(list);
}

/* ---- UC --------------------------------------------------------------- */

static int post_uc(enum ibv_wr_opcode op, uint32_t len, uint32_t rkey,
		   uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = 0x4321,
		.wr.rdma = { (uintptr_t)mem[1], rkey },
	};

	return ibv_post_send(qp[0], &wr, &bad);
}

static void uc__sends_and_writes_ARRIVE_OR_ARE_LOST(void **state)
{
	struct ibv_wc wc;

	memset(mem[0], 0x77, SIZE);
	/* nobody receives; no such key; too short a receive */
	assert_int_equal(post_uc(IBV_WR_SEND, 60000, 0, 1), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(post_uc(IBV_WR_RDMA_WRITE, 100, mr[1]->rkey + 1, 2),
			 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(post_recv(1, 10, 100), 0);
	assert_int_equal(post_uc(IBV_WR_SEND, 101, 0, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(mem[1][0], 0);
	/* all of that forgotten */
	assert_int_equal(post_uc(IBV_WR_SEND_WITH_IMM, 100, 0, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	wc = expect(10, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0x4321);
	assert_int_equal(post_recv(1, 11, 0), 0);
	assert_int_equal(post_uc(IBV_WR_RDMA_WRITE_WITH_IMM, SIZE, mr[1]->rkey,
				 5), 0);
	expect(5, IBV_WC_SUCCESS);
	wc = expect(11, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, SIZE);
	assert_memory_equal(mem[0], mem[1], SIZE);
	assert_int_equal(post_uc(IBV_WR_RDMA_READ, 8, mr[1]->rkey, 6), EINVAL);
	/* as if nobody had ever been there */
	assert_int_equal(soft_modify_qp(qp[1], &(struct ibv_qp_attr){
			 .qp_state = IBV_QPS_RESET }, IBV_QP_STATE), 0);
	assert_int_equal(post_uc(IBV_WR_SEND, 100, 0, 7), 0);
	expect(7, IBV_WC_SUCCESS);
}

#define UD(fn) cmocka_unit_test_setup_teardown(fn, setup_ud, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		UD(create_ah__bad_address_REFUSED),
		UD(modify__ud_without_qkey_EINVAL),
		UD(send__of_every_size_ARRIVES),
		UD(send__undeliverable_LOST_IN_SILENCE),
		UD(send__of_what_ud_has_not_EINVAL),
		UD(send__local_error_ONLY_SQE),
		UD(group__two_members_ONE_COPY_EACH),
		UD(attach__of_what_is_no_group_EINVAL),
		UD(attach__too_many_groups_ENOMEM),
		cmocka_unit_test(
			member__of_another_process_RECEIVES_UNTIL_KILLED),
		cmocka_unit_test(send__and_end_at_once_ARRIVES),
		cmocka_unit_test(send__to_a_stopped_process_GOES_ON),
		cmocka_unit_test_setup_teardown(options__infiniband_COHERENT,
						set_ib, unset_ib),
		{ "member__on_infiniband_RECEIVES",
		  member__of_another_process_RECEIVES_UNTIL_KILLED,
		  set_ib, unset_ib, "ib" },
		cmocka_unit_test(options__that_make_no_sense_EINVAL),
		cmocka_unit_test_setup_teardown(
			uc__sends_and_writes_ARRIVE_OR_ARE_LOST, setup_uc,
			teardown),
	};

	join_own_fabric("ud");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
