/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls with a deadline, by coroutines of C++20.
 * rpc PORT: answers each call after as many ms as it says; 0: a free port
 * rpc HOST PORT: makes three calls, one of which is too slow
 *
 *	c++ -std=c++20 rpc.cc $(pkg-config --cflags --libs rdmamsg)
 */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include <rdmamsg/rdmamsg.hpp>

namespace co = rmsg::co;
using rmsg::milliseconds;

/* The tag is the number of the call. A peer that has gone needs no answer. */
static rmsg::task<> answer(rmsg::context &ctx, std::shared_ptr<co::endpoint> ep,
			   rmsg::message call)
{
	const std::string ms(call.text());
	const long time = std::strtol(ms.c_str(), nullptr, 10);

	co_await co::sleep(ctx, milliseconds(
		std::clamp(time, 0L, 10000L)));
	const std::string text = "after " + ms + " ms";
	static_cast<void>(co_await ep->try_send(text, call.tag()));
}

static rmsg::task<> serve_peer(rmsg::context &ctx,
			       std::shared_ptr<co::endpoint> ep)
{
	while (rmsg::result<rmsg::message> msg = co_await ep->try_recv())
		rmsg::spawn(ctx, answer(ctx, ep, std::move(*msg)));
}

static rmsg::task<> serve(rmsg::context &ctx, co::listener &listener)
{
	for (;;) {
		co::endpoint ep = co_await listener.accept();
		auto shared = std::make_shared<co::endpoint>(std::move(ep));

		rmsg::spawn(ctx, serve_peer(ctx, std::move(shared)));
	}
}

/* Answers to earlier calls, which came too late, are dropped. */
static rmsg::task<std::string> call(co::endpoint &ep, std::uint32_t number,
				    std::string text, milliseconds limit)
{
	using clock = std::chrono::steady_clock;
	const auto end = clock::now() + limit;

	co_await ep.send(text, number, limit);
	for (;;) {
		const auto left = std::chrono::ceil<milliseconds>(
			end - clock::now());
		rmsg::message msg = co_await ep.recv(
			std::max(left, milliseconds(0)));

		if (msg.tag() == number)
			co_return std::string(msg.text());
	}
}

static rmsg::task<> ask(rmsg::context &ctx, std::string host, std::string port)
{
	co::endpoint ep = co_await co::connect(ctx, host, port);

	std::cout << co_await call(ep, 1, "1", milliseconds(10000)) << '\n';
	try {
		co_await call(ep, 2, "500", milliseconds(50));
	} catch (const rmsg::error &e) {
		std::cout << "500 ms: " << e.code().message() << '\n';
	}
	std::cout << co_await call(ep, 3, "2", milliseconds(10000)) << '\n';
	co_await ep.close();
}

int main(int argc, char **argv)
{
	try {
		rmsg::context ctx;

		if (argc == 2) {
			co::listener listener(ctx, "", argv[1]);

			std::cout << listener.service() << '\n' << std::flush;
			rmsg::run(ctx, serve(ctx, listener));
		} else if (argc == 3) {
			rmsg::run(ctx, ask(ctx, argv[1], argv[2]));
		} else {
			std::cerr << "Usage: rpc PORT | HOST PORT\n";
		}
		return argc != 3;
	} catch (const std::exception &e) {
		std::cerr << "rpc: " << e.what() << '\n';
		return 1;
	}
}
