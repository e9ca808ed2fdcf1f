/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA's datagrams to groups and to other processes, and the link
 * layer that they go over.
 */
#include "ud.h"

static const union ibv_gid group = {
	.raw = { 0xff, 0x12, 0x40, 1, 0xff, 0xff, [14] = 7, [15] = 9 },
};

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

/* Attaches to more groups than the table holds. */
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
	close_all();
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

/* A datagram arrives after its sender has ended. */
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
	close_all();
	close(fd[0]);
}

/* A stopped receiver does not block its sender. */
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
	close_all();
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
	close_all();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	join_own_fabric("ud-group");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
