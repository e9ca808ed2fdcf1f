/* SPDX-License-Identifier: BSD-2-Clause */
/* Usage: behaviour [CASE...] */
#include "test.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace test {

std::vector<given> &cases()
{
	static std::vector<given> all;

	return all;
}

int start_peer(const char *what, const std::string &service)
{
	int pid = fork();

	check(pid >= 0, "fork");
	if (!pid) {
		execl("/proc/self/exe", "behaviour", "--peer", what,
		      service.c_str(), nullptr);
		_exit(127);
	}
	return pid;
}

void kill_peer(int pid)
{
	kill(pid, SIGKILL);
	check(waitpid(pid, nullptr, 0) == pid, "waitpid");
}

void soft_ctl(const std::string &arguments)
{
	int status = std::system(("rdmamsg-soft-ctl " + arguments).c_str());

	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		throw skip("rdmamsg-soft-ctl is not in PATH");
	check(status == 0, "rdmamsg-soft-ctl");
}

/* "stay": connects, sends a message, and stays until it is killed. */
static int be_peer(const std::string &service)
{
	rmsg::context ctx;
	rmsg::endpoint ep = ctx.connect_wait("127.0.0.1", service);

	ep.send("here");
	ctx.run();
	return 1;
}

static bool is_wanted(const given &c, int argc, char **argv)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++)
		if (!std::strcmp(argv[i], c.name))
			return true;
	return false;
}

/* False if the case has failed. */
static bool run(const given &c)
{
	try {
		c.run();
		std::printf("ok %s\n", c.name);
	} catch (const skip &why) {
		std::printf("skip %s # %s\n", c.name, why.what());
	} catch (const std::exception &e) {
		std::printf("not ok %s\n# %s\n", c.name, e.what());
		return false;
	}
	return true;
}

} /* namespace test */

int main(int argc, char **argv)
{
	int failed = 0;

	/* a case that hangs shows its predecessors */
	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	if (argc == 4 && !std::strcmp(argv[1], "--peer"))
		return test::be_peer(argv[3]);
	for (const test::given &c : test::cases())
		if (test::is_wanted(c, argc, argv))
			failed += !test::run(c);
	return failed != 0;
}
