/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether an address is of this host, on a host that has no free port left. */
#include "base/local.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <cmocka.h>

#define TEST(fn) cmocka_unit_test(fn)
#define RANGE	"/proc/sys/net/ipv4/ip_local_port_range"
#define SECONDS	60

static int local4(const char *text)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(7471),
	};

	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return addr_local((struct sockaddr *)&in, sizeof(in));
}

static int local6(const char *text, uint32_t link)
{
	struct sockaddr_in6 in = {
		.sin6_family = AF_INET6, .sin6_scope_id = link,
	};

	assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
	return addr_local((struct sockaddr *)&in, sizeof(in));
}

static void addr__of_this_host_OR_NOT(void **state)
{
	assert_int_equal(local4("127.0.0.1"), 0);
	assert_int_equal(local4("127.3.2.1"), 0);
	assert_int_equal(local4("0.0.0.0"), 0);
	assert_int_equal(local4("192.0.2.1"), -EADDRNOTAVAIL);
	assert_int_equal(local6("2001:db8::1", 0), -EADDRNOTAVAIL);
	/* a link-local address without its link, or of no link */
	assert_int_equal(local6("fe80::1234:5678", 0), -EADDRNOTAVAIL);
	assert_int_equal(local6("fe80::1234:5678", 1u << 30), -EADDRNOTAVAIL);
}

static bool bound(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return !bind(fd, (struct sockaddr *)&in, sizeof(in));
}

/* Leaves for a network of its own, with one port for each protocol. */
static bool leave(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		return false;
	close(fd);
	fd = open(RANGE, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "40000 40000", 11) != 11)
		return false;
	close(fd);
	return true;
}

static int ask_without_ports(void)
{
	assert_true(bound("127.0.0.1"));
	assert_false(bound("127.0.0.1"));
	assert_int_equal(local4("127.0.0.1"), 0);
	assert_int_equal(local4("192.0.2.1"), -EADDRNOTAVAIL);
	return 0;
}

static void addr__no_port_is_free_SAME_ANSWER(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		(void)alarm(SECONDS);
		(void)setenv("CMOCKA_TEST_ABORT", "1", 1);
		_exit(leave() ? ask_without_ports() : 77);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "skip: a network of its own is not permitted\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(addr__of_this_host_OR_NOT),
		TEST(addr__no_port_is_free_SAME_ANSWER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
