/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * echo PORT: sends each message back; 0: a free port, which it prints
 * echo HOST PORT TEXT: sends the text, and prints what comes back
 *
 *	c++ -std=c++17 echo.cc $(pkg-config --cflags --libs rdmamsg)
 */
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include <rdmamsg/rdmamsg.hpp>

static void serve(const std::string &port)
{
	rmsg::context ctx;
	rmsg::listen_options opts;
	rmsg::listener listener;

	opts.endpoint.emplace();
	opts.endpoint->on.on_message = [](rmsg::endpoint_ref ep,
					  rmsg::message &&msg) {
		/* a client that sends on without reading is not served */
		if (ep.try_send(std::move(msg)).again())
			ep.abort();
	};
	listener = ctx.listen("", port, std::move(opts));
	std::cout << listener.service() << '\n' << std::flush;
	ctx.run();
}

static void ask(const std::string &host, const std::string &port,
		const std::string &text)
{
	rmsg::context ctx;
	rmsg::endpoint ep = ctx.connect_wait(host, port);

	ep.send(text);
	std::cout << ep.recv(rmsg::milliseconds(10000)).text() << '\n';
	ep.close_wait();
}

int main(int argc, char **argv)
{
	try {
		if (argc == 2)
			serve(argv[1]);
		else if (argc == 4)
			ask(argv[1], argv[2], argv[3]);
		else
			std::cerr << "Usage: echo PORT | HOST PORT TEXT\n";
		return argc != 4;
	} catch (const std::exception &e) {
		std::cerr << "echo: " << e.what() << '\n';
		return 1;
	}
}
