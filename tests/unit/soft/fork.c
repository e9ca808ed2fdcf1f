/* SPDX-License-Identifier: BSD-2-Clause */
/* The soft HCA in a forked child, and in its parent. */
#include "pair.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_fabric.h"

/* A child starts the thread of its device. ThreadSanitizer must allow it. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* For the child, whose assertions are lost: the line is the exit status. */
#define MUST(what) do { if (!(what)) _exit(__LINE__ & 0x7f); } while (0)

static void expect_end(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_traffic(void)
{
	assert_int_equal(post_recv(qp[1], 1, 64), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 2, 64, 0, 0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next(cq).status, IBV_WC_SUCCESS);
}

static bool device_thread_runs(void)
{
	DIR *tasks = opendir("/proc/self/task");
	bool runs = false;
	struct dirent *d;

	assert_non_null(tasks);
	while ((d = readdir(tasks))) {
		char path[sizeof("/proc/self/task//comm") + sizeof(d->d_name)];
		char name[16] = "";
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			       d->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		runs |= fgets(name, sizeof(name), f) &&
			!strcmp(name, "soft-hca\n");
		(void)fclose(f);
	}
	(void)closedir(tasks);
	return runs;
}

/*
 * AddressSanitizer allocates where a thread begins, and a child forked just
 * then has its lock held for ever. So the thread runs before anything forks.
 */
static int setup_running(void **state)
{
	if (setup_pair(state))
		return -1;
	for (int i = 0; i < 20000 && !device_thread_runs(); i++)
		(void)usleep(1000);
	return device_thread_runs() ? 0 : -1;
}

#define RUNNING(fn) \
	cmocka_unit_test_setup_teardown(fn, setup_running, teardown_pair)

static void use_parents(void)
{
	struct ibv_device_attr attr;
	struct ibv_wc wc;

	MUST(soft_query_device(c, &attr) == EIO);
	MUST(!soft_alloc_pd(c) && errno == EIO);
	/* of no use, and of no harm: the parent's rings are the parent's */
	(void)post(qp[0], IBV_WR_SEND, 3, 64, 0, 0);
	for (int i = 0; i < 100; i++)
		(void)ibv_poll_cq(cq, 1, &wc);
}

static void close_parents(void)
{
	MUST(!soft_destroy_qp(qp[0]) && !soft_destroy_qp(qp[1]));
	MUST(!soft_dereg_mr(mr[0]) && !soft_dereg_mr(mr[1]));
	MUST(!soft_destroy_cq(cq) && !soft_dealloc_pd(pd));
	MUST(!soft_close_device(c));
}

static void open_own(__be64 guid)
{
	struct ibv_device **list = soft_get_device_list(NULL);
	struct ibv_device_attr attr;
	struct ibv_context *own;
	struct ibv_pd *own_pd;

	MUST(list && list[0] && soft_get_device_guid(list[0]) == guid);
	own = soft_open_device(list[0]);
	MUST(own && !soft_query_device(own, &attr));
	MUST(attr.node_guid == guid);
	own_pd = soft_alloc_pd(own);
	MUST(own_pd && !soft_dealloc_pd(own_pd) && !soft_close_device(own));
	soft_free_device_list(list);
}

static void fork__the_child_HAS_A_DEVICE_OF_ITS_OWN(void **state)
{
	struct ibv_device_attr attr;
	pid_t pid;

	expect_traffic();
	assert_int_equal(soft_query_device(c, &attr), 0);
	pid = fork();
	if (!pid) {
		(void)alarm(300);
		use_parents();
		open_own(attr.node_guid);
		close_parents();
		open_own(attr.node_guid);
		_exit(0);
	}
	expect_traffic();
	expect_end(pid);
	expect_traffic();
}

/* An event channel and its context in a child. */
static void fork__a_channel_IS_THE_PARENT_S(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *ch = soft_cma_create_event_channel(), *own;
	struct rdma_cm_id *id, *other;
	pid_t pid;

	assert_non_null(ch);
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_bind_addr(id, (struct sockaddr *)&in), 0);
	assert_int_equal(soft_cma_listen(id, 4), 0);
	pid = fork();
	if (!pid) {
		struct ibv_device_attr attr;

		(void)alarm(300);
		own = soft_cma_create_event_channel();
		MUST(own && !soft_cma_create_id(own, &other, NULL,
						RDMA_PS_TCP));
		/* the parent has the name, and keeps it */
		in.sin_port = soft_cma_get_src_port(id);
		MUST(soft_cma_bind_addr(other, (struct sockaddr *)&in));
		in.sin_port = 0;
		MUST(!soft_cma_bind_addr(other, (struct sockaddr *)&in));
		MUST(other->verbs && other->verbs != id->verbs);
		MUST(!soft_query_device(other->verbs, &attr));
		MUST(!soft_cma_destroy_id(id) && !soft_cma_destroy_id(other));
		soft_cma_destroy_event_channel(ch);
		soft_cma_destroy_event_channel(own);
		_exit(0);
	}
	expect_end(pid);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
}

/* Whenever the fork happens, no lock is held in the child. */
static void fork__while_the_device_works_NO_CHILD_HANGS(void **state)
{
	for (int i = 0; i < 30; i++) {
		pid_t pid;

		assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, SIZE / 2,
				      (uintptr_t)mem[1], mr[1]->rkey), 0);
		pid = fork();
		if (!pid) {
			(void)alarm(300);
			close_parents();
			_exit(0);
		}
		expect_end(pid);
		expect(1, IBV_WC_SUCCESS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNNING(fork__the_child_HAS_A_DEVICE_OF_ITS_OWN),
		RUNNING(fork__a_channel_IS_THE_PARENT_S),
		RUNNING(fork__while_the_device_works_NO_CHILD_HANGS),
	};

	join_own_fabric("fork");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
