/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: two processes bounce one cache line. Any message between their
 * processors takes at least as long: it is the distance of the two.
 */
#include "rival.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define ROUNDS		1000000u
#define LOOK		1024u	/* rounds between two looks at the clock */
#define SECONDS		1.0

static _Atomic uint32_t *line;

/* Makes memory that both children share. */
static bool there(const struct rival *r)
{
	(void)r;
	if (!line) {
		void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		line = at == MAP_FAILED ? NULL : at;
	}
	if (line)
		atomic_store(line, 0);
	return line;
}

/* Answers each odd number with the next one. The parent ends this. */
static int serve(const struct rival_run *run)
{
	(void)run;
	for (uint32_t n = 1;; n += 2) {
		while (atomic_load_explicit(line, memory_order_acquire) != n)
			;
		atomic_store_explicit(line, n + 1, memory_order_release);
	}
	return 0;
}

static int client(const struct rival_run *run, struct rival_result *ret)
{
	double begin = rival_now(), now = begin;
	uint32_t n = 0;

	(void)run;
	while (n < 2 * ROUNDS && now - begin < SECONDS) {
		for (uint32_t i = 0; i < LOOK; i++, n += 2) {
			atomic_store_explicit(line, n + 1,
					      memory_order_release);
			while (atomic_load_explicit(line,
						    memory_order_acquire) !=
			       n + 2)
				;
		}
		now = rival_now();
	}
	ret->value = (now - begin) * 1e6 / n;
	return 0;
}

const struct rival rival_line[] = {
	{ .name = "a cache line", .flags = "", .figures = { true }, .there = there,
	  .serve = serve, .client = client },
	{ .name = NULL },
};
