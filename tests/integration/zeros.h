/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls each function of a library with zeros, and checks its answer. */
#ifndef RDMAMSG_TESTS_INTEGRATION_ZEROS_H
#define RDMAMSG_TESTS_INTEGRATION_ZEROS_H

#include "common.h"
#include "exports.h"

#include <signal.h>
#include <sys/wait.h>

enum zeros_kind {
	ZEROS_EINVAL,		/* as every function that is not listed */
	ZEROS_NOTHING,		/* void */
	ZEROS_VALUE,
	ZEROS_NULL,
	ZEROS_COUNT,		/* at least 0 */
	ZEROS_POINTER,		/* never NULL, and it can be read */
};

struct zeros_answer {
	const char *name;
	enum zeros_kind kind;
	int value;		/* of ZEROS_VALUE */
};

typedef long zeros_fn(long, long, long, long, long, long, long, long, long,
		      long);

/* The last one has no name. */
static const struct zeros_answer *zeros_answers;
static unsigned int zeros_called, zeros_wrong;

static inline struct zeros_answer zeros_answer(const char *name)
{
	const struct zeros_answer *a = zeros_answers;

	while (a->name && strcmp(a->name, name))
		a++;
	return *a;
}

static inline bool zeros_fits(struct zeros_answer expected, long ret)
{
	switch (expected.kind) {
	case ZEROS_NOTHING:
		return true;
	case ZEROS_VALUE:
		return (int)ret == expected.value;
	case ZEROS_NULL:
		return ret == 0;
	case ZEROS_COUNT:
		return (int)ret >= 0;
	case ZEROS_POINTER:
		return ret && *(const volatile char *)ret != -1;
	default:
		return (int)ret == -EINVAL;
	}
}

/* In the child. The alarm ends a call that waits. */
static inline int zeros_try(const char *name, zeros_fn *fn)
{
	long ret;

	/* cmocka catches these */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGILL, SIG_DFL);
	signal(SIGFPE, SIG_DFL);
	alarm(TEST_SECONDS / 4);
	ret = fn(0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	if (zeros_fits(zeros_answer(name), ret))
		return 0;
	fprintf(stderr, "%s(0, ...) answered %ld\n", name, ret);
	return 1;
}

static inline void zeros_call(const char *name, void *addr)
{
	zeros_fn *fn;
	pid_t pid;
	int status;

	memcpy(&fn, &addr, sizeof(fn));
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(zeros_try(name, fn));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	zeros_called++;
	if (!status)
		return;
	zeros_wrong++;
	print_error("%s(0, ...): wait status %#x\n", name,
		    (unsigned int)status);
}

/* Calls the exports of the library with this symbol; returns their number. */
static inline unsigned int zeros_all(const char *symbol,
				     const struct zeros_answer *answers)
{
	struct exports e = exports_of(symbol);

	zeros_answers = answers;
	zeros_called = zeros_wrong = 0;
	exports_each(&e, zeros_call);
	print_message("%u functions\n", zeros_called);
	assert_int_equal(zeros_wrong, 0);
	return zeros_called;
}

#endif
