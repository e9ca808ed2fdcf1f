/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the server, measured by itself: a part of strangers.c.
 */
#ifndef HOSTILE_HEAP_H
#define HOSTILE_HEAP_H

#define PROOF		(1u << 20)	/* bytes */

/* Of a sanitizer, which has its own allocator. */
int __sanitizer_install_malloc_and_free_hooks(
	void (*on_malloc)(const volatile void *, size_t),
	void (*on_free)(const volatile void *)) __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *)
	__attribute__((weak));

static _Atomic uint64_t live;	/* bytes, since count_heap() */

static void on_malloc(const volatile void *p, size_t size)
{
	live += __sanitizer_get_allocated_size(p);
}

static void on_free(const volatile void *p)
{
	live -= __sanitizer_get_allocated_size(p);
}

/*
 * The sanitizer's own number has what is freed, too, until it lets that go. So
 * this counts.
 */
static void count_heap(void)
{
	if (__sanitizer_install_malloc_and_free_hooks &&
	    !__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free))
		harmed("server: nobody counts its memory");
}

/* Memory of this process. Only differences mean something. */
static uint64_t heap(const struct rdmamsg *of)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	struct mallinfo2 all;

	if (rdmamsg_get_stats(of, &st))
		harmed("server: %s", rdmamsg_error());
	if (__sanitizer_install_malloc_and_free_hooks)
		return live + st.bytes_registered;
	all = mallinfo2();
	return all.uordblks + all.hblkhd + st.bytes_registered;
}

/* A measure that misses this would pass every attack. */
static void prove_heap(const struct rdmamsg *of)
{
	const uint64_t before = heap(of);
	void *volatile p = malloc(PROOF);

	shared->counted = heap(of) - before;
	free(p);
	shared->forgotten = shared->counted - (heap(of) - before);
}

/* Its other threads may allocate meanwhile. */
static void heap_is_counted(void)
{
	verdict("heap-is-counted", shared->counted >= PROOF - SMALL &&
		shared->counted <= PROOF + SMALL &&
		shared->forgotten >= PROOF - SMALL &&
		shared->forgotten <= PROOF + SMALL,
		"%llu bytes for %u, %llu less when they are freed",
		(unsigned long long)shared->counted, PROOF,
		(unsigned long long)shared->forgotten);
}

#endif
