/* SPDX-License-Identifier: BSD-2-Clause */
/* The device and its port, as the library describes them. */
#include "conform.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmamsg/rdmamsg.h>

#define SIW_VENDOR_ID	0x626d74u	/* Linux, sw/siw/siw.h */

/* Returns 0, or an error whose text is rdmamsg_error(). */
static int ask(struct facts *f)
{
	int ret;

	f->device.size = sizeof(f->device);
	f->port.size = sizeof(f->port);
	ret = rdmamsg_device_query(options.device, &f->device);
	if (!ret && f->device.error)
		return f->device.error;
	if (!ret)
		ret = rdmamsg_port_query(options.device, options.port,
					 &f->port);
	if (ret)
		return ret;
	ret = rdmamsg_device_caps(options.device, f->caps, sizeof(*f->caps),
				  CAPS);
	f->n_caps = ret > CAPS ? CAPS : ret;
	return ret < 0 ? ret : 0;
}

static void write_all(int fd, const struct facts *f)
{
	const char *at = (const char *)f;
	size_t left = sizeof(*f);
	ssize_t n;

	for (; left; at += n, left -= (size_t)n) {
		n = write(fd, at, left);
		if (n <= 0)
			_exit(1);
	}
}

static void child(int fd, pid_t parent)
{
	static struct facts f;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	(void)alarm((unsigned int)options.seconds);
	f.error = ask(&f);
	if (f.error)
		(void)snprintf(f.text, sizeof(f.text), "%s", rdmamsg_error());
	write_all(fd, &f);
	_exit(0);
}

static bool read_all(int fd, struct facts *ret)
{
	char *at = (char *)ret;
	size_t left = sizeof(*ret);
	ssize_t n;

	for (; left; at += n, left -= (size_t)n) {
		n = read(fd, at, left);
		if (n <= 0)
			return false;
	}
	return true;
}

void facts_get(struct facts *ret)
{
	pid_t parent = getpid();
	int status = 0, fds[2];
	bool whole;
	pid_t pid;

	if (pipe(fds))
		err(DIFFERENCES, "pipe");
	pid = fork();
	if (pid < 0)
		err(DIFFERENCES, "fork");
	if (!pid) {
		(void)close(fds[0]);
		child(fds[1], parent);
	}
	(void)close(fds[1]);
	whole = read_all(fds[0], ret);
	(void)close(fds[0]);
	(void)waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		errx(DIFFERENCES, "%s: the library did not describe it in %d "
		     "seconds", options.device, options.seconds);
	if (!whole)
		errx(DIFFERENCES, "%s: the library crashed on this device",
		     options.device);
}

const char *facts_kind(const struct facts *f)
{
	if (!strcmp(f->device.kind, "soft"))
		return "soft";
	if (!strcmp(f->device.kind, "soft-roce"))
		return "rxe";
	return f->device.vendor_id == SIW_VENDOR_ID ? "siw" : NULL;
}

/* ---- what the cases ask ------------------------------------------------- */

uint32_t masked_sizes(bool *ret_swapped)
{
	struct rdmamsg_device_cap_attr cap = { .size = sizeof(cap) };
	int ret = rdmamsg_device_cap_query(options.device,
					   RDMAMSG_CAP_EXT_ATOMICS, &cap);

	if (ret || cap.how != RDMAMSG_CAP_NATIVE || !cap.tried)
		return 0;
	*ret_swapped = cap.limits.ext_atomics.swapped;
	return cap.limits.ext_atomics.sizes;
}
