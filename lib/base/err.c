/* SPDX-License-Identifier: BSD-2-Clause */
/* Error texts: what has failed, and what to do about it. */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define TEXT_MAX	256
#define NO_THREAD	"no thread can be made: raise the limit on processes " \
			"and threads (ulimit -u, or TasksMax= of the service)"
#define NO_STACK	NO_THREAD ", or that on memory (ulimit -v, -d)"

static _Thread_local char error_text[TEXT_MAX] = "no error";
static _Thread_local char try_text[TEXT_MAX];
static _Thread_local unsigned int tries;	/* nesting of tries */
static _Thread_local bool last_in_try;

const char *rdmamsg_error(void)
{
	return error_text;
}

const char *rdmamsg__text(void)
{
	return last_in_try ? try_text : error_text;
}

void rdmamsg__try_begin(void)
{
	tries++;
}

void rdmamsg__try_end(void)
{
	tries--;
}

void rdmamsg__fail_text(int err, const char *fmt, ...)
{
	char text[TEXT_MAX];	/* an argument may be rdmamsg__text() */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	last_in_try = tries;
	memcpy(last_in_try ? try_text : error_text, text, sizeof(text));
	log_debug("%s (%s)", text, strerror(-err));
}

int rdmamsg__fail_again(int err)
{
	if (err < 0 && last_in_try && !tries) {
		memcpy(error_text, try_text, sizeof(error_text));
		last_in_try = false;
	}
	return err;
}

static void memlock_text(char *buf, size_t size)
{
	struct rlimit rl;

	buf[0] = 0;
	if (getrlimit(RLIMIT_MEMLOCK, &rl) || rl.rlim_cur == RLIM_INFINITY ||
	    !geteuid())
		return;
	snprintf(buf, size, "; the locked-memory limit is %llu KB: raise it "
		 "(ulimit -l unlimited, or LimitMEMLOCK= of the service)",
		 (unsigned long long)rl.rlim_cur / 1024);
}

void rdmamsg__fail_verbs_text(int err, const char *what)
{
	char more[160];

	switch (-err) {
	case EACCES:
	case EPERM:
		rdmamsg__fail_text(err, "%s: permission denied: the RDMA "
				   "device nodes in /dev/infiniband must be "
				   "readable and writable for this user, and "
				   "the user must be the one that opened "
				   "them (open the context after setuid)",
				   what);
		break;
	case ENOMEM:
		memlock_text(more, sizeof(more));
		rdmamsg__fail_text(err, "%s: out of memory or device "
				   "resources%s", what, more);
		break;
	case EMFILE:
	case ENFILE:
		rdmamsg__fail_text(err, "%s: no descriptors left: raise the "
				   "limit with 'ulimit -n'", what);
		break;
	case ENODEV:
		rdmamsg__fail_text(err, "%s: no RDMA device for this "
				   "address: see rdmamsg_devices(3), give an "
				   "Ethernet card one with 'rdma link add "
				   "rxe0 type rxe netdev NAME', or take "
				   "the soft HCA: RDMAMSG_DEVICE=soft", what);
		break;
	case EADDRINUSE:
		rdmamsg__fail_text(err, "%s: the port is in use by another "
				   "listener: choose another, or \"0\" for a "
				   "free one", what);
		break;
	case EADDRNOTAVAIL:
		rdmamsg__fail_text(err, "%s: not an address of this host",
				   what);
		break;
	default:
		rdmamsg__fail_text(err, "%s: %s", what, strerror(-err));
		break;
	}
}

/* A thread that has no memory for its stack fails with -EAGAIN, too. */
static bool limits_memory(void)
{
	static const int which[] = { RLIMIT_AS, RLIMIT_DATA };
	struct rlimit rl;

	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++)
		if (!getrlimit(which[i], &rl) && rl.rlim_cur != RLIM_INFINITY)
			return true;
	return false;
}

const char *rdmamsg__thread_text(int err)
{
	if (err != -EAGAIN)
		return strerror(-err);
	return limits_memory() ? NO_STACK : NO_THREAD;
}

const char *rdmamsg__wc_text(int status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "no answer from the peer's device after all retries: "
		       "host or network gone, or the peer was killed";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "the peer had no receive posted for too long";
	case IBV_WC_REM_ACCESS_ERR:
		return "the peer's device refused a memory key: wrong, out of "
		       "range or revoked, as when the peer was killed";
	case IBV_WC_REM_INV_REQ_ERR:
		return "the peer's device refused the request as invalid";
	case IBV_WC_REM_OP_ERR:
		return "the peer's device failed to carry out a request: it "
		       "is broken, or the peer was killed";
	case IBV_WC_LOC_LEN_ERR:
		return "a message was larger than its buffer";
	case IBV_WC_LOC_PROT_ERR:
		return "a local memory key was refused";
	case IBV_WC_MW_BIND_ERR:
		return "a window could not be bound or invalidated: the device "
		       "refused, or the peer had taken it back before";
	case IBV_WC_LOC_QP_OP_ERR:
		return "the local queue pair failed: its network interface is "
		       "down or has no route (Soft-RoCE), or the device failed";
	default:
		return ibv_wc_status_str(status);
	}
}

const char *rdmamsg__event_text(int type)
{
	return type < 0 ? "device removed" : ibv_event_type_str(type);
}
