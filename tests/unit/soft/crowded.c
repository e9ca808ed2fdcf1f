/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other users of the host fill the backlog of a process's name, so that
 * connect(2) fails with EAGAIN for a while. Here its wrapper fails.
 */
#include "soft/fabric/dev.h"
#include "soft/fabric/shared.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "other.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../own_fabric.h"

#define TIMES	30			/* that connect(2) fails */

/* The child makes threads, whatever the sanitizer has to say. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* of both processes */
static struct shared {
	_Atomic int crowded;
	_Atomic uint16_t port;
} *shared;

int __real_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)addr;

	if (addr->sa_family == AF_UNIX && strstr(un->sun_path + 1, "/node/") &&
	    atomic_fetch_sub(&shared->crowded, 1) > 0) {
		errno = EAGAIN;
		return -1;
	}
	return __real_connect(fd, addr, len);
}

/*
 * A device that opens waits for the fabric's memory for 300 ms, and then makes
 * memory of its own. In a test that asks whose memory it is, the process which
 * has the memory may be slow.
 */
static _Thread_local bool patient;

int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	return __real_poll(fds, n, patient && ms ? 60000 : ms);
}

/* Each look at the clock is beyond any time that is waited for. */
static _Thread_local bool hurried;

uint64_t __real_soft_now(void);
uint64_t __wrap_soft_now(void);

uint64_t __wrap_soft_now(void)
{
	static _Atomic uint64_t looks;

	return __real_soft_now() + (hurried ? ++looks * 3600000000000u : 0);
}

static void crowd(void)
{
	shared->crowded = TIMES;
}

static int stay(int fd)
{
	return !hear(fd);
}

/* The queue pair is ready at once, and dials when it has something to send. */
static void peer__with_a_full_backlog_IS_DIALLED_AGAIN(void **state)
{
	struct other o;

	ack_timeout = 24;		/* 69 s: a peer that is not run is not gone */
	before_walk = crowd;
	o = start_other(stay);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8, o.addr, o.rkey),
			 0);
	assert_int_equal(next(cq).status, IBV_WC_SUCCESS);
	assert_true(shared->crowded <= 0);
	assert_true(say(o.fd));
	end_other(&o, 0);
}

/* ---- a process that talks on a socket ---------------------------------- */

struct talker {
	pid_t pid;
	int fd;
};

/*
 * Returns when the process has said that it is ready. No device's thread may
 * run here at the fork: it could hold a lock of AddressSanitizer's, which then
 * nobody releases in the child.
 */
static struct talker start_talker(int (*fn)(int fd))
{
	struct talker t;
	int fd[2];

	shared->crowded = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	t.pid = fork();
	assert_true(t.pid >= 0);
	if (!t.pid) {
		(void)alarm(300);
		_exit(fn(fd[1]));
	}
	close(fd[1]);
	t.fd = fd[0];
	assert_true(hear(t.fd));
	return t;
}

static void end_talker(const struct talker *t)
{
	int status;

	assert_true(say(t->fd));
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
	close(t->fd);
}

/* ---- connecting -------------------------------------------------------- */

static struct rdma_cm_event *await(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	return ev;
}

static int listen_and_reject(int fd)
{
	struct rdma_event_channel *ch = soft_cma_create_event_channel();
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	if (!ch || soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP) ||
	    soft_cma_bind_addr(id, (struct sockaddr *)&at) ||
	    soft_cma_listen(id, 1))
		return 1;
	shared->port = soft_cma_get_src_port(id);
	if (!say(fd))
		return 2;
	ev = await(ch);
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST ||
	    soft_cma_reject(ev->id, NULL, 0))
		return 3;
	return hear(fd) ? 0 : 4;
}

static void request__to_a_full_backlog_ARRIVES(void **state)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_event_channel *ch;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	const struct talker t = start_talker(listen_and_reject);

	ch = soft_cma_create_event_channel();
	to.sin_port = shared->port;
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL,
					       (struct sockaddr *)&to, 1000),
			 0);
	ev = await(ch);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_resolve_route(id, 1000), 0);
	ev = await(ch);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	shared->crowded = TIMES;
	assert_int_equal(soft_cma_connect(id, &param), 0);
	ev = await(ch);
	/* the program has rejected it */
	assert_int_equal(ev->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(ev->status, 28);
	assert_true(shared->crowded <= 0);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
	end_talker(&t);
}

/* ---- joining ----------------------------------------------------------- */

static int open_and_stay(int fd)
{
	if (open_device(NULL))
		return 1;
	return say(fd) && hear(fd) ? 0 : 2;
}

/* The memory of the fabric is that of the process which is there. */
static void fabric__of_a_full_backlog_IS_JOINED(void **state)
{
	const struct talker t = start_talker(open_and_stay);
	const struct soft_dev *dev;

	/* longer than a node that does not answer is waited for */
	shared->crowded = 1000;
	patient = true;
	assert_int_equal(open_device(NULL), 0);
	patient = false;
	dev = soft_dev_of(c);
	assert_int_equal(dev->node, 1);
	assert_true(dev->fabric->guid[0] != 0);
	assert_int_equal(close_device(NULL), 0);
	end_talker(&t);
}

/*
 * It stays full. With memory of its own, the process would not be in the groups
 * of the others.
 */
static void fabric__of_a_backlog_that_stays_full_IS_REFUSED(void **state)
{
	const struct talker t = start_talker(open_and_stay);
	struct soft_dev *dev;

	shared->crowded = INT_MAX;
	hurried = true;
	assert_int_equal(soft_dev_get(&dev), -ETIMEDOUT);
	hurried = false;
	end_talker(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer__with_a_full_backlog_IS_DIALLED_AGAIN),
		cmocka_unit_test(request__to_a_full_backlog_ARRIVES),
		cmocka_unit_test(fabric__of_a_full_backlog_IS_JOINED),
		cmocka_unit_test(
			fabric__of_a_backlog_that_stays_full_IS_REFUSED),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	join_own_fabric("crowded");
	return cmocka_run_group_tests_name("crowded", tests, NULL, NULL);
}
