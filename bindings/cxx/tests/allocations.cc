/* SPDX-License-Identifier: BSD-2-Clause */
/* A message allocates nothing in the binding. The library has its own memory. */
#include "test.hpp"

/* The thread sanitizer of clang has these operators itself. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define OPERATORS_TAKEN
#endif
#endif

#ifndef OPERATORS_TAKEN
#include <atomic>
#include <cstdlib>
#include <new>

static std::atomic<std::size_t> allocations;

void *operator new(std::size_t size)
{
	allocations++;
	if (void *p = std::malloc(size ? size : 1))
		return p;
	throw std::bad_alloc();
}

void operator delete(void *p) noexcept
{
	std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
	std::free(p);
}

using namespace test;

/* There and back by callbacks, which hold more than a std::function has. */
static void message()
{
	static const int warm = 100, all = 2000;
	const std::string text = pattern(64);
	std::size_t first = 0, last = 0;
	int got = 0;
	rmsg::endpoint_options s, c;

	s.on.on_message = [](rmsg::endpoint_ref ep, rmsg::message m) {
		ep.send(std::move(m));
	};
	c.on.on_message = [&](rmsg::endpoint_ref ep, rmsg::message m) {
		check(m.text() == text, "content");
		got++;
		if (got == warm)
			first = allocations;
		if (got == all)
			last = allocations;
		else
			ep.send(text);
	};
	pair p(std::move(s), std::move(c));

	p.client.send(text);
	until(p.ctx, [&] { return got == all; });
	check(first > 0, "allocations are counted");
	check(last == first, "a message has allocated");
}
static const add a1("allocations of a message", message);
#endif
