/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID table of the soft HCA, with fake addresses. */
#include "pair.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_fabric.h"

#define ADDRS	64

static struct ifaddrs list[ADDRS];
static struct sockaddr_storage storage[ADDRS];
static int count, fails;

int __wrap_getifaddrs(struct ifaddrs **ret);
void __wrap_freeifaddrs(struct ifaddrs *all);

/* The lowest number of a socket that libc would have here. */
static int lowest = INT_MAX;

int __wrap_getifaddrs(struct ifaddrs **ret)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && fd < lowest)
		lowest = fd;
	close(fd);
	if (fails) {
		errno = ENOMEM;
		return -1;
	}
	for (int i = 0; i < count; i++)
		list[i].ifa_next = i + 1 < count ? &list[i + 1] : NULL;
	*ret = count ? list : NULL;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
}

static void add(const char *text, unsigned int flags)
{
	struct ifaddrs *a = &list[count];
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage[count];
	struct sockaddr_in *in = (struct sockaddr_in *)&storage[count++];

	a->ifa_name = (char *)"lo";
	a->ifa_flags = flags;
	a->ifa_addr = NULL;
	if (!text)
		return;
	a->ifa_addr = (struct sockaddr *)in;
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
		in6->sin6_family = AF_INET6;
	}
}

static void set(const char *a, const char *b)
{
	count = 0;
	add("127.0.0.1", IFF_UP);
	add(NULL, IFF_UP);
	if (a)
		add(a, IFF_UP);
	if (b)
		add(b, IFF_UP);
	add("::1", IFF_UP);
}

static int start(void **state)
{
	set("192.0.2.7", "2001:db8::7");
	fails = 0;
	return open_device(state);
}

/* Checks an entry with each query call. text NULL: the entry is empty. */
static void expect_gid(uint8_t port, int index, const char *text)
{
	char mapped[INET6_ADDRSTRLEN], got[INET6_ADDRSTRLEN];
	struct ibv_gid_entry e;
	union ibv_gid gid;

	assert_int_equal(soft_query_gid(c, port, index, &gid), 0);
	(void)inet_ntop(AF_INET6, gid.raw, got, sizeof(got));
	(void)snprintf(mapped, sizeof(mapped), "%s%s",
		       text && strchr(text, '.') ? "::ffff:" : "",
		       text ? text : "::");
	assert_string_equal(got, mapped);
	assert_int_equal(soft_query_gid_ex(c, port, (uint32_t)index, &e, 0,
					   sizeof(e)), text ? 0 : ENODATA);
	if (!text)
		return;
	assert_memory_equal(&e.gid, &gid, sizeof(gid));
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(e.port_num, port);
	assert_int_equal(e.ndev_ifindex, if_nametoindex("lo"));
}

/* Nothing that the program prints goes into a socket of libc either. */
static void addresses__read_without_0_to_2_ABOVE_THEM(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		_exit(start(NULL) || lowest < 3 ||
		      fcntl(0, F_GETFD) >= 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int table_len(void)
{
	struct ibv_port_attr port;

	/* which reads the host's addresses anew */
	assert_int_equal(soft_query_port(c, 1, &port), 0);
	return port.gid_tbl_len;
}

static ssize_t valid(void)
{
	struct ibv_gid_entry e[2 * ADDRS];

	return soft_query_gid_table(c, e, 2 * ADDRS, 0, sizeof(e[0]));
}

static void table__the_host_s_addresses_LOOPBACK_FIRST(void **state)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	union ibv_gid gid;
	struct ibv_ah *ah;
	int len = table_len();

	for (uint8_t port = 1; port <= 2; port++) {
		expect_gid(port, 0, "127.0.0.1");
		expect_gid(port, 1, "::1");
		expect_gid(port, 2, "192.0.2.7");
		expect_gid(port, 3, "2001:db8::7");
		for (int i = 4; i < len; i++)
			expect_gid(port, i, NULL);
		assert_int_equal(soft_query_gid(c, port, len, &gid), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(valid(), 2 * 4);
	/* as the way to somebody, and from an empty place */
	assert_int_equal(soft_query_gid(c, 1, 3, &a.grh.dgid), 0);
	a.grh.sgid_index = 3;
	ah = soft_create_ah(pd, &a);
	assert_non_null(ah);
	assert_int_equal(soft_destroy_ah(ah), 0);
	a.grh.sgid_index = 4;
	assert_null(soft_create_ah(pd, &a));
	assert_int_equal(errno, EINVAL);
}

static void modify__from_an_empty_place_EINVAL(void **state)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	make_pair(NULL);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr init = { .port_num = 1 };

		enter(qp[i], IBV_QPS_RESET);
		init.qp_state = IBV_QPS_INIT;
		assert_int_equal(soft_modify_qp(qp[i], &init, IBV_QP_STATE |
				 IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				 IBV_QP_ACCESS_FLAGS), 0);
		a.dest_qp_num = qp[!i]->qp_num;
		a.ah_attr.grh.sgid_index = 4;
		assert_int_equal(soft_modify_qp(qp[i], &a, mask), EINVAL);
		a.ah_attr.grh.sgid_index = 3;
		assert_int_equal(soft_modify_qp(qp[i], &a, mask), 0);
	}
	destroy_pair();
}

static void table__addresses_come_and_go_PLACES_STAY(void **state)
{
	set("2001:db8::7", NULL);
	(void)table_len();
	expect_gid(1, 2, NULL);
	expect_gid(1, 3, "2001:db8::7");
	set("2001:db8::9", "2001:db8::7");
	(void)table_len();
	expect_gid(1, 2, "2001:db8::9");
	expect_gid(1, 3, "2001:db8::7");
	/* an interface that is down */
	list[2].ifa_flags = 0;
	(void)table_len();
	expect_gid(1, 2, NULL);
	/* not told: as it was */
	fails = 1;
	(void)table_len();
	expect_gid(1, 3, "2001:db8::7");
}

static void table__more_than_there_is_room_for_IS_FULL(void **state)
{
	char text[INET6_ADDRSTRLEN];
	int len = table_len();

	set(NULL, NULL);
	while (count < ADDRS) {
		(void)snprintf(text, sizeof(text), "2001:db8::%d", count);
		add(text, IFF_UP);
	}
	assert_int_equal(table_len(), len);
	assert_int_equal(valid(), 2 * len);
	set(NULL, NULL);
	assert_int_equal(valid(), 2 * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses__read_without_0_to_2_ABOVE_THEM),
		cmocka_unit_test_setup_teardown(
			table__the_host_s_addresses_LOOPBACK_FIRST, start,
			close_device),
		cmocka_unit_test_setup_teardown(
			modify__from_an_empty_place_EINVAL, start,
			close_device),
		cmocka_unit_test_setup_teardown(
			table__addresses_come_and_go_PLACES_STAY, start,
			close_device),
		cmocka_unit_test_setup_teardown(
			table__more_than_there_is_room_for_IS_FULL, start,
			close_device),
	};

	join_own_fabric("gid");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
