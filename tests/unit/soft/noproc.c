/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes of a fabric where /proc is not mounted. */
#include "other.h"

#include <sched.h>
#include <stdio.h>

#include "../own_fabric.h"

#define SECONDS	300

static char empty[] = "/tmp/soft-noproc-XXXXXX";

static int waits(int fd)
{
	return hear(fd) ? 0 : 1;
}

/* Leaves the process with an empty root directory. */
static bool leave_proc(void)
{
	if (geteuid() && unshare(CLONE_NEWUSER))
		return false;
	return !chroot(empty) && !chdir("/") && access("/proc", F_OK);
}

static int talk(void)
{
	struct other o = start_other(waits);

	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, i, SIZE, o.addr,
				      o.rkey), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(i, IBV_WC_SUCCESS);
	assert_true(say(o.fd));
	end_other(&o, 0);
	return 0;
}

static void proc__not_mounted_WIRES_ARE_MADE(void **state)
{
	int status;
	pid_t pid;

	assert_non_null(mkdtemp(empty));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		(void)alarm(SECONDS);
		(void)setenv("CMOCKA_TEST_ABORT", "1", 1);
		_exit(leave_proc() ? talk() : 77);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rmdir(empty), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "skip: chroot() is not permitted\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proc__not_mounted_WIRES_ARE_MADE),
	};

	join_own_fabric("noproc");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
