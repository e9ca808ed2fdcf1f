/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases register themselves; main.cc runs them, on the soft HCA. */
#ifndef RDMAMSG_CXX_TEST_HPP
#define RDMAMSG_CXX_TEST_HPP

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <rdmamsg/rdmamsg.hpp>

namespace test {

struct given {
	const char *name;
	void (*run)();
};

std::vector<given> &cases();

struct add {
	add(const char *name, void (*run)())
	{
		cases().push_back({ name, run });
	}
};

struct failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct skip : std::runtime_error {
	using std::runtime_error::runtime_error;
};

inline void check(bool ok, const char *what, int line = __builtin_LINE(),
		  const char *file = __builtin_FILE())
{
	if (!ok)
		throw failure(std::string(file) + ":" + std::to_string(line) +
			      ": " + what);
}

/* Drives the context until 'done', for at most 30 s. */
template <class F>
void until(rmsg::context &ctx, F done,
	   rmsg::milliseconds step = rmsg::milliseconds(100),
	   int line = __builtin_LINE(), const char *file = __builtin_FILE())
{
	const auto end = std::chrono::steady_clock::now() +
			 std::chrono::seconds(30);

	while (!done()) {
		check(std::chrono::steady_clock::now() < end,
		      "it took too long", line, file);
		ctx.wait(step);
	}
}

/* Drives two contexts. */
template <class F> void until(rmsg::context &a, rmsg::context &b, F done)
{
	until(a, [&] {
		b.process();
		a.process();
		return done();
	}, rmsg::milliseconds(1));
}

/* The errno of what 'call' throws, 0 if nothing. */
template <class F> int thrown_by(F call)
{
	try {
		call();
	} catch (const rmsg::error &e) {
		check(*e.what() != 0, "an exception has no text");
		return e.code().value();
	}
	return 0;
}

/* Two ends in one context. */
struct pair {
	rmsg::context ctx;
	rmsg::listener listener;
	rmsg::endpoint server, client;

	explicit pair(rmsg::endpoint_options s = {},
		      rmsg::endpoint_options c = {})
	{
		rmsg::listen_options opts;
		auto accept = [this, &s](rmsg::request req) {
			server = req.accept(std::move(s));
		};

		opts.on_request = accept;
		listener = ctx.listen("127.0.0.1", "0", std::move(opts));
		client = ctx.connect_wait("127.0.0.1", listener.service(),
					  std::move(c));
		until(ctx, [this] { return server.is_connected(); });
	}
	pair(const pair &) = delete;
	pair &operator=(const pair &) = delete;
};

/* Bytes that depend on the length. */
inline std::string pattern(std::size_t len)
{
	std::string s(len, 0);

	for (std::size_t i = 0; i < len; i++)
		s[i] = static_cast<char>(i * 7 + len);
	return s;
}

/* iWARP has none. */
inline bool has_atomics()
{
	return rmsg::capability(RDMAMSG_CAP_ATOMICS).how != RDMAMSG_CAP_ABSENT;
}

/* This program again, as another process that runs 'what'. */
int start_peer(const char *what, const std::string &service);
/* Kills it, and waits for its end. */
void kill_peer(int pid);
/* Runs rdmamsg-soft-ctl(1); skips the case if it is not there. */
void soft_ctl(const std::string &arguments);

} /* namespace test */

#endif
