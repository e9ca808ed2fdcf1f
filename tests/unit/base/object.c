/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: contexts and endpoints begin with a cache line, with many
 * different ones, and their whole memory is zero, usable and given back. A
 * forked child is known as one, and has neither memory nor descriptors.
 */
#include "base/base.h"
#include "base/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE	((size_t)sysconf(_SC_PAGESIZE))
#define LINE	64u
#define MANY	200u

static void *begin_of(void *object)
{
	return (char *)object - (uintptr_t)object % PAGE;
}

static bool is_mapped(void *page)
{
	return !msync(page, 1, MS_ASYNC) || errno != ENOMEM;
}

static void objects__of_one_size_BEGIN_AT_MANY_LINES(void **state)
{
	const size_t size = PAGE - 10 * LINE;
	static const uint8_t zeros[LINE];
	unsigned int begun[10 + 1] = { 0 };
	uint8_t *objects[MANY];

	for (unsigned int i = 0; i < MANY; i++) {
		uint8_t *o = rdmamsg__object_new(size);
		size_t at = (uintptr_t)o % PAGE;

		assert_non_null(o);
		assert_int_equal(at % LINE, 0);
		assert_in_range(at / LINE, 0, 10);
		begun[at / LINE]++;
		assert_memory_equal(o, zeros, LINE);
		assert_memory_equal(o + size - LINE, zeros, LINE);
		memset(o, 1, size);
		objects[i] = o;
	}
	for (unsigned int i = 0; i <= 10; i++)
		assert_in_range(begun[i], MANY / 11, MANY / 11 + 1);
	for (unsigned int i = 0; i < MANY; i++) {
		rdmamsg__object_free(objects[i], size);
		assert_false(is_mapped(begin_of(objects[i])));
	}
}

static void object__that_fills_its_pages_BEGINS_THERE(void **state)
{
	uint8_t *o = rdmamsg__object_new(2 * PAGE);

	assert_non_null(o);
	assert_ptr_equal(o, begin_of(o));
	memset(o, 1, 2 * PAGE);
	rdmamsg__object_free(o, 2 * PAGE);
	assert_false(is_mapped(o));
	assert_false(is_mapped(o + PAGE));
	rdmamsg__object_free(NULL, PAGE);
}

/* ---- children of fork(2) ------------------------------------------------ */

static int end_of(pid_t pid)
{
	int end = -1;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &end, 0), pid);
	return end;
}

/* From now on the kernel wipes nothing: it says so, or it does not. */
static enum { WIPES, SAYS_NO, SAYS_NOTHING } wiping;

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
	if (wiping == SAYS_NO && advice == MADV_WIPEONFORK) {
		errno = EINVAL;
		return -1;
	}
	return wiping == SAYS_NOTHING ? 0 : __real_madvise(at, size, advice);
}

static void object__in_a_child_ZEROS(void **state)
{
	for (int i = WIPES; i <= SAYS_NOTHING; i++) {
		uint8_t *gone, *o;
		pid_t pid = fork();

		if (pid) {
			assert_int_equal(end_of(pid), 0);
			continue;
		}
		/* in a process that has not looked at the kernel yet */
		wiping = i;
		gone = rdmamsg__object_new(PAGE);
		o = rdmamsg__object_new(PAGE);
		if (!gone || !o)
			_exit(2);
		o[0] = o[PAGE - 1] = 1;
		rdmamsg__object_free(gone, PAGE);
		pid = fork();
		if (!pid)
			_exit(o[0] || o[PAGE - 1]);
		_exit(end_of(pid) || !o[0]);
	}
}

/* Returns true if fork(2) wipes what MADV_WIPEONFORK names. */
static bool fork_wipes(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *mark = page;
	bool wipes;
	pid_t pid;

	assert_true(page != MAP_FAILED);
	wipes = !madvise(page, PAGE, MADV_WIPEONFORK);
	*mark = 1;
	pid = fork();
	if (!pid)
		_exit(*mark);
	wipes &= !end_of(pid);
	assert_int_equal(munmap(page, PAGE), 0);
	return wipes;
}

/* As fork(2), but without the handlers of pthread_atfork(3). */
static pid_t bare_fork(void)
{
#ifdef __s390__
	return (pid_t)syscall(SYS_clone, 0, SIGCHLD, 0, 0, 0);
#else
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

/* Both are the first process of their namespace, by fork(2) or clone(2). */
static int same_id(bool bare)
{
	pid_t pid;

	rdmamsg__fork_mark();
	if (getpid() != 1 || rdmamsg__fork_check() || unshare(CLONE_NEWPID))
		return 2;
	pid = bare ? bare_fork() : fork();
	if (!pid)
		_exit(getpid() == 1 && rdmamsg__fork_check() == -ECHILD ? 0 :
		      3);
	return end_of(pid) != 0;
}

static void into_namespace(bool bare)
{
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWPID) &&
		    unshare(CLONE_NEWUSER | CLONE_NEWPID))
			_exit(77);
		pid = fork();
		if (!pid)
			_exit(same_id(bare));
		_exit(WEXITSTATUS(end_of(pid)));
	}
	pid = end_of(pid);
	if (WIFEXITED(pid) && WEXITSTATUS(pid) == 77) {
		fprintf(stderr, "skip: no PID namespaces\n");
		skip();
	}
	assert_int_equal(pid, 0);
}

static void fork__into_a_new_PID_namespace_ECHILD(void **state)
{
	into_namespace(false);
}

/* The page that the kernel wipes is the only sign of a bare clone(2). */
static void clone__into_a_new_PID_namespace_ECHILD(void **state)
{
	if (!fork_wipes()) {
		fprintf(stderr, "skip: fork(2) wipes no page, as in an "
			"emulator\n");
		skip();
	}
	into_namespace(true);
}

/* A process whose parent has not used RDMA may. */
static void fork__before_the_first_use_0(void **state)
{
	pid_t pid = fork();

	if (!pid) {
		int err = rdmamsg__fork_check();

		rdmamsg__fork_mark();
		_exit(err || rdmamsg__fork_check());
	}
	assert_int_equal(end_of(pid), 0);
}

static void owned__in_a_child_CLOSED(void **state)
{
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	rdmamsg__fd_own(fds[0]);
	rdmamsg__fd_own(fds[1]);
	rdmamsg__fd_disown(fds[1]);
	pid = fork();
	if (!pid)
		_exit(fcntl(fds[0], F_GETFD) >= 0 ||
		      fcntl(fds[1], F_GETFD) < 0);
	assert_int_equal(end_of(pid), 0);
	assert_true(fcntl(fds[0], F_GETFD) >= 0);
	rdmamsg__fd_disown(fds[0]);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first, so that each looks at the kernel itself */
		cmocka_unit_test(object__in_a_child_ZEROS),
		cmocka_unit_test(fork__before_the_first_use_0),
		cmocka_unit_test(fork__into_a_new_PID_namespace_ECHILD),
		cmocka_unit_test(clone__into_a_new_PID_namespace_ECHILD),
		cmocka_unit_test(owned__in_a_child_CLOSED),
		cmocka_unit_test(objects__of_one_size_BEGIN_AT_MANY_LINES),
		cmocka_unit_test(object__that_fills_its_pages_BEGINS_THERE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
