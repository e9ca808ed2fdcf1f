/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads the library, and unloads it while a thread of the library
 * resolves a name. The thread returns into the library long after that. Here the
 * resolver is the program's, and answers when the test wants.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdmamsg/rdmamsg.h>

#include "../fds.h"

#define SLOW	"slow.invalid"
#define WAIT_S	60

static sem_t asked, answer;

static void await(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

int getaddrinfo(const char *restrict node, const char *restrict service,
		const struct addrinfo *restrict hints,
		struct addrinfo **restrict ret)
{
	__typeof__(&getaddrinfo) of_libc;

	*(void **)&of_libc = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!node || strcmp(node, SLOW))
		return of_libc(node, service, hints, ret);
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	(void)sem_post(&asked);
	await(&answer);
	return EAI_AGAIN;
}

static int threads(void)
{
	return entries_of("/proc/self/task");
}

static void *load(void)
{
	char path[PATH_MAX + 32] = "";
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
	void *lib;

	assert_true(len > 0);
	/* BUILD/tests/integration/unload */
	for (int i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/.libs/librdmamsg.so");
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		fail_msg("%s", dlerror());
	return lib;
}

static void unload__while_a_name_is_resolved_LIVES_ON(void **state)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	const int before = threads();
	time_t end = time(NULL) + WAIT_S;
	void *lib = load();
	__typeof__(&rdmamsg_open) open_ctx;
	__typeof__(&rdmamsg_close) close_ctx;
	__typeof__(&rdmamsg_connect) connect_ep;
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;

	*(void **)&open_ctx = dlsym(lib, "rdmamsg_open");
	*(void **)&close_ctx = dlsym(lib, "rdmamsg_close");
	*(void **)&connect_ep = dlsym(lib, "rdmamsg_connect");
	assert_int_equal(open_ctx(&ctx, NULL), 0);
	assert_int_equal(connect_ep(ctx, SLOW, "1", NULL, &ep), 0);
	await(&asked);
	close_ctx(ctx);
	assert_int_equal(dlclose(lib), 0);
	assert_true(threads() > before);
	(void)sem_post(&answer);
	while (threads() > before) {
		assert_true(time(NULL) < end);
		(void)nanosleep(&ms, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unload__while_a_name_is_resolved_LIVES_ON),
	};

	if (sem_init(&asked, 0, 0) || sem_init(&answer, 0, 0))
		return 1;
	return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
