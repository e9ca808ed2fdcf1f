/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: memory is protected from fork(2) once, before the first device
 * is opened, where the kernel does not copy it.
 */
#include "../../fake/nulldev.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

/*
 * The observations of a child process, in shared memory. Each case needs its
 * own process, because fork protection starts once per process.
 */
static struct seen {
	unsigned int asked, inits;
	/* devices that were open at the first init */
	unsigned int opened;
	bool warned;
} *seen;

static struct verbs_api device;		/* the null device */
static enum ibv_fork_status status;
static int init_error;
static unsigned int opened;

static struct ibv_context *open_device(struct ibv_device *d)
{
	opened++;
	return nulldev_verbs.open_device(d);
}

static enum ibv_fork_status is_fork_initialized(void)
{
	seen->asked++;
	return status;
}

static int fork_init(void)
{
	if (!seen->inits++)
		seen->opened = opened;
	if (!init_error)
		status = IBV_FORK_ENABLED;
	return init_error;
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	if (level <= RDMAMSG_LOG_WARN && strstr(line, "fork"))
		seen->warned = true;
}

static bool connected;

static void on_connected(struct rdmamsg_ep *ep)
{
	connected = true;
}

/* Connects to itself, which opens the device and registers memory. */
static int use_device(void)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
	};
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	char port[8];

	connected = false;
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, "127.0.0.1", "0", &lo, &l))
		return 1;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(ctx, "127.0.0.1", port, &eo, NULL))
		return 1;
	for (int i = 0; i < 100 && !connected; i++)
		rdmamsg_process(ctx);
	rdmamsg_close(ctx);
	return !connected;
}

static void run(enum ibv_fork_status is, int error)
{
	int end = -1;
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	status = is;
	init_error = error;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		device = nulldev_verbs;
		device.open_device = open_device;
		device.is_fork_initialized = is_fork_initialized;
		device.fork_init = fork_init;
		rdmamsg__verbs = &device;
		rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_WARN);
		/* the second use_device() opens the device again */
		_exit(use_device() || use_device() || opened < 2);
	}
	assert_int_equal(waitpid(pid, &end, 0), pid);
	assert_int_equal(end, 0);
	assert_true(seen->asked > 0);
}

static void fork__kernel_copies_IS_LEFT_ALONE(void **state)
{
	run(IBV_FORK_UNNEEDED, 0);
	assert_int_equal(seen->inits, 0);
	assert_false(seen->warned);
}

static void fork__program_has_initialized_IS_LEFT_ALONE(void **state)
{
	run(IBV_FORK_ENABLED, 0);
	assert_int_equal(seen->inits, 0);
	assert_false(seen->warned);
}

static void fork__kernel_does_not_copy_ONCE_BEFORE_THE_FIRST(void **state)
{
	run(IBV_FORK_DISABLED, 0);
	assert_int_equal(seen->inits, 1);
	assert_int_equal(seen->opened, 0);
	assert_false(seen->warned);
}

/* ibv_fork_init() fails because the program has registered memory before. */
static void fork__too_late_WARNS_AND_GOES_ON(void **state)
{
	run(IBV_FORK_DISABLED, EINVAL);
	assert_int_equal(seen->inits, 1);
	assert_true(seen->warned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork__kernel_copies_IS_LEFT_ALONE),
		cmocka_unit_test(fork__program_has_initialized_IS_LEFT_ALONE),
		cmocka_unit_test(fork__kernel_does_not_copy_ONCE_BEFORE_THE_FIRST),
		cmocka_unit_test(fork__too_late_WARNS_AND_GOES_ON),
	};

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
