/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same echo written in C and in C++, in turns. Both ends are endpoints of
 * one context, so one thread does all of the work, and the other processor and
 * wake-ups add nothing. Prints nanoseconds per exchange, the median of the
 * rounds, and the ratio.
 *
 * Usage: echo [ROUNDS]
 */
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <rdmamsg/rdmamsg.hpp>

namespace {

constexpr std::array<std::size_t, 4> sizes = { 64, 1024, 4096, 65536 };
constexpr unsigned int warm = 2000;

using call = void (*)(std::size_t size, unsigned int n, double *ns);

double since(std::chrono::steady_clock::time_point start, unsigned int n)
{
	const std::chrono::duration<double, std::nano> t =
		std::chrono::steady_clock::now() - start;

	return t.count() / n;
}

void must(bool ok)
{
	if (!ok)
		throw std::runtime_error(rdmamsg_error());
}

/* ---- C ---------------------------------------------------------------- */

struct c_state {
	rdmamsg_ep *server;
	unsigned int got;
	bool connected;
};

void c_echo(rdmamsg_ep *ep, rdmamsg_msg *msg)
{
	must(!rdmamsg_send(ep, rdmamsg_msg_data(msg), rdmamsg_msg_len(msg), 0,
			   nullptr));
	rdmamsg_msg_free(msg);
}

void c_count(rdmamsg_ep *ep, rdmamsg_msg *msg)
{
	static_cast<c_state *>(rdmamsg_ep_user(ep))->got++;
	rdmamsg_msg_free(msg);
}

void c_connected(rdmamsg_ep *ep)
{
	static_cast<c_state *>(rdmamsg_ep_user(ep))->connected = true;
}

void c_request(rdmamsg_listener *l, rdmamsg_request *req)
{
	auto s = static_cast<c_state *>(rdmamsg_listener_user(l));
	rdmamsg_ep_handlers on = {};
	rdmamsg_ep_options opts = {};

	on.size = sizeof(on);
	on.on_message = c_echo;
	opts.size = sizeof(opts);
	opts.handlers = &on;
	must(!rdmamsg_request_accept(req, &opts, &s->server));
}

rdmamsg_ep *c_connect(rdmamsg *ctx, c_state *s)
{
	rdmamsg_listener_handlers lon = {};
	rdmamsg_listen_options lopts = {};
	rdmamsg_ep_handlers on = {};
	rdmamsg_ep_options opts = {};
	rdmamsg_listener *l;
	rdmamsg_ep *ep;

	lon.size = sizeof(lon);
	lon.on_request = c_request;
	lopts.size = sizeof(lopts);
	lopts.user = s;
	lopts.handlers = &lon;
	must(!rdmamsg_listen(ctx, "127.0.0.1", "0", &lopts, &l));
	on.size = sizeof(on);
	on.on_connected = c_connected;
	on.on_message = c_count;
	opts.size = sizeof(opts);
	opts.user = s;
	opts.handlers = &on;
	must(!rdmamsg_connect(ctx, "127.0.0.1",
			      std::to_string(rdmamsg_listener_port(l)).c_str(),
			      &opts, &ep));
	while (!s->connected)
		must(rdmamsg_wait(ctx, 1000) >= 0);
	return ep;
}

void in_c(std::size_t size, unsigned int n, double *ns)
{
	const std::string data(size, 'x');
	std::chrono::steady_clock::time_point start;
	c_state s = {};
	rdmamsg *ctx;
	rdmamsg_ep *ep;

	must(!rdmamsg_open(&ctx, nullptr));
	ep = c_connect(ctx, &s);
	for (unsigned int i = 0; i < warm + n; i++) {
		if (i == warm)
			start = std::chrono::steady_clock::now();
		must(!rdmamsg_send(ep, data.data(), data.size(), 0, nullptr));
		while (s.got == i)
			must(rdmamsg_process(ctx) >= 0);
	}
	*ns = since(start, n);
	rdmamsg_close(ctx);
}

/* ---- C++ -------------------------------------------------------------- */

void in_cxx(std::size_t size, unsigned int n, double *ns)
{
	const std::string data(size, 'x');
	std::chrono::steady_clock::time_point start;
	unsigned int got = 0;
	rmsg::context ctx;
	rmsg::listen_options lopts;
	rmsg::endpoint_options opts;

	lopts.endpoint.emplace();
	lopts.endpoint->on.on_message = [](rmsg::endpoint_ref ep,
					   rmsg::message &&m) {
		ep.send(m.data());
	};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(lopts));
	opts.on.on_message = [&got](rmsg::endpoint_ref, rmsg::message &&) {
		got++;
	};
	rmsg::endpoint ep = ctx.connect_wait("127.0.0.1", l.service(),
					     std::move(opts));
	for (unsigned int i = 0; i < warm + n; i++) {
		if (i == warm)
			start = std::chrono::steady_clock::now();
		ep.send(data);
		while (got == i)
			ctx.process();
	}
	*ns = since(start, n);
}

/* ---- both ------------------------------------------------------------- */

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

void compare(std::size_t size, unsigned int rounds)
{
	const unsigned int n = size > 8192 ? 20000 : 100000;
	const std::array<call, 2> calls = { in_c, in_cxx };
	std::array<std::vector<double>, 2> ns;

	for (unsigned int i = 0; i < 2 * rounds; i++) {
		/* c, c++, c++, c, ... */
		const unsigned int who = (i + i / 2) % 2;
		double one;

		calls[who](size, n, &one);
		ns[who].push_back(one);
	}
	std::printf("%8zu %10.0f %10.0f %6.3f\n", size, median(ns[0]),
		    median(ns[1]), median(ns[1]) / median(ns[0]));
	std::fflush(stdout);
}

} /* namespace */

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;

	if (rounds < 1) {
		std::fprintf(stderr, "usage: %s [ROUNDS]\n", argv[0]);
		return 2;
	}
	std::printf("%8s %10s %10s %6s\n", "bytes", "C, ns", "C++, ns",
		    "ratio");
	for (std::size_t size : sizes)
		compare(size, static_cast<unsigned int>(rounds));
	return 0;
}
