/* SPDX-License-Identifier: BSD-2-Clause */
#include "common.h"
#include "harm.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char device[64], netdev[64];
static pid_t removal;		/* or 0: it has ended */

static pid_t run_aside(const char *line)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	return pid;
}

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *fmt, ...)
{
	char line[256];
	int status = -1;
	va_list ap;
	pid_t pid;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pid = run_aside(line);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	if (status)
		fail_msg("'%s': status 0x%x", line, status);
}

/* Finds the device of the address, and the network interface below it. */
void harm_find(void)
{
	char line[256], *at;
	FILE *f;

	device[0] = netdev[0] = 0;
	if (test_on_soft()) {
		snprintf(device, sizeof(device), "%s", test_device());
		return;
	}
	f = popen("rdma link show", "r");
	while (fgets(line, sizeof(line), f)) {
		at = strstr(line, "netdev ");
		if (!at || sscanf(line, "link %63[^/]", device) != 1 ||
		    sscanf(at, "netdev %63s", netdev) != 1)
			fail_msg("rdma link: '%s'", line);
	}
	pclose(f);
	assert_true(device[0] && netdev[0]);
}

const char *harm_device(void)
{
	return device;
}

void harm_port(unsigned int port, bool up)
{
	run("rdmamsg-soft-ctl --all port %u %s", port, up ? "up" : "down");
}

void harm_port_of(pid_t pid, unsigned int port, const char *state)
{
	run("rdmamsg-soft-ctl --pid %d port %u %s", pid, port, state);
}

void harm_drop_of(pid_t pid, bool on)
{
	run("rdmamsg-soft-ctl --pid %d faults drop=%d", pid, on ? 100 : 0);
}

/* No loop runs meanwhile, so no request is posted. */
static void set_link(bool up)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { 0 };

	assert_true(fd >= 0);
	(void)snprintf(r.ifr_name, sizeof(r.ifr_name), "%.15s", netdev);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &r), 0);
	if (up)
		r.ifr_flags |= IFF_UP;
	else
		r.ifr_flags &= ~IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	close(fd);
}

void harm_link(bool up)
{
	if (test_on_soft())
		harm_port(1, up);
	else
		set_link(up);
}

void harm_silence(bool on)
{
	run("rdmamsg-soft-ctl --all port all %s", on ? "blackhole" : "up");
}

static bool take_removal(int flags)
{
	int status = 0;

	if (removal && waitpid(removal, &status, flags) != removal)
		return false;
	if (status)
		fail_msg("removing %s: status 0x%x", device, status);
	removal = 0;
	return true;
}

/*
 * The soft HCA's removal waits for nobody, and an order that did not reach it
 * is no reason to wait. The removal of another device lasts until all have let
 * go.
 */
void harm_remove(void)
{
	char line[128];

	snprintf(line, sizeof(line), test_on_soft() ?
		 "exec rdmamsg-soft-ctl --all remove" : "exec rdma link del %s",
		 device);
	removal = run_aside(line);
	if (test_on_soft())
		assert_true(take_removal(0));
}

bool harm_removed(void)
{
	return take_removal(WNOHANG);
}

void harm_add(void)
{
	if (test_on_soft())
		run("rdmamsg-soft-ctl --all add");
	else
		run("rdma link add %s type %s netdev %s", device,
		    test_on_siw() ? "siw" : "rxe", netdev);
}
