/* SPDX-License-Identifier: BSD-2-Clause */
/* Exhausted resources, and objects of another user. */
#include "soft/control/soft_ctl.h"
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../../fds.h"
#include "../own_fabric.h"

#define NODES	1024
#define NOBODY	65534
#define CHILD_SECONDS	300	/* a child that hangs ends then */
#define STOPPED	16
#define LOCK_LEAST_MS	20000	/* that a process waits for the lock */
#define LOCK_MOST_MS	60000
#define QUEUES	((1 << 14) - 2)
#define KEYS	(1 << 20)

/* 0, or the error of opening the device */
static int try_open(struct ibv_context **ret)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	assert_non_null(list);
	errno = 0;
	*ret = soft_open_device(list[0]);
	soft_free_device_list(list);
	return *ret ? 0 : errno;
}

static int open_and_close(void)
{
	struct ibv_context *c;
	int err = try_open(&c);

	if (!err)
		assert_int_equal(soft_close_device(c), 0);
	return err;
}

/* Listens under a name of this fabric for user uid. Returns a socket or -1. */
static int take_name(uid_t uid, const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1,
			 "rdmamsg-soft/%u/%s/%s", uid, own_fabric, name);

	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&un,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			      (size_t)n)) || listen(fd, 8))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- a process that joins ---------------------------------------------- */

static int holder = -1;			/* of the lock, while a test holds it */
static uint64_t slept_ms, release_ms;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

/* While the lock is held, the time that is slept passes at once. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (holder < 0)
		return __real_nanosleep(time, left);
	slept_ms += (uint64_t)time->tv_sec * 1000 +
		    (uint64_t)time->tv_nsec / 1000000;
	if (release_ms && slept_ms >= release_ms) {
		close(holder);
		holder = -1;
	}
	return 0;
}

static void hold_lock(uint64_t for_ms)
{
	slept_ms = 0;
	release_ms = for_ms;
	holder = take_name(getuid(), "lock");
	assert_true(holder >= 0);
}

/* A slow machine stops the process that joins for seconds. */
static void lock__held_for_seconds_IS_AWAITED(void **state)
{
	hold_lock(LOCK_LEAST_MS);
	assert_int_equal(open_and_close(), 0);
	assert_int_equal(holder, -1);
	assert_int_equal(slept_ms, LOCK_LEAST_MS);
}

static void lock__never_released_EBUSY(void **state)
{
	int ret;

	hold_lock(0);
	ret = open_and_close();
	close(holder);
	holder = -1;
	assert_int_equal(ret, EBUSY);
	assert_true(slept_ms > LOCK_LEAST_MS && slept_ms <= LOCK_MOST_MS);
	assert_int_equal(open_and_close(), 0);
}

/* ---- another user ----------------------------------------------------- */

static pid_t other;
static int other_end;

/*
 * Starts a process of another user, which calls what() on demand and lives
 * until it is killed. Call this before the device has a thread: a forked child
 * inherits held locks, but no thread that releases them.
 */
static void other_comes(int (*what)(uid_t victim))
{
	int ends[2], ret;
	uid_t victim = getuid();
	char byte;

	if (victim) {
		fprintf(stderr, "skip: only root can become another user\n");
		skip();
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	other = fork();
	if (!other) {
		close(ends[0]);
		if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY) ||
		    read(ends[1], &byte, 1) != 1)
			_exit(1);
		alarm(CHILD_SECONDS);
		ret = what(victim);
		if (write(ends[1], &ret, sizeof(ret)) == sizeof(ret))
			(void)pause();
		_exit(0);
	}
	close(ends[1]);
	other_end = ends[0];
}

/* Lets the other process call what(), and returns the result. */
static int other_does(void)
{
	int ret = -1;

	assert_int_equal(write(other_end, "x", 1), 1);
	assert_int_equal(read(other_end, &ret, sizeof(ret)), sizeof(ret));
	return ret;
}

static void other_goes(void)
{
	close(other_end);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

static int takes_lock(uid_t victim)
{
	return take_name(victim, "lock") < 0;
}

static int takes_numbers(uid_t victim)
{
	return take_name(victim, "node/0") < 0 ||
	       take_name(victim, "node/1") < 0;
}

/* All of them; as a process has fewer descriptors, in children. */
static int takes_all_numbers(uid_t victim)
{
	for (int first = 0; first < NODES; first += 256) {
		int ends[2], bad = 1;

		if (pipe(ends))
			return 1;
		if (!fork()) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (int n = first; n < first + 256; n++) {
				char name[16];

				(void)snprintf(name, sizeof(name), "node/%d",
					       n);
				if (take_name(victim, name) < 0)
					_exit(1);
			}
			bad = 0;
			(void)!write(ends[1], &bad, sizeof(bad));
			(void)pause();
			_exit(0);
		}
		close(ends[1]);
		if (read(ends[0], &bad, sizeof(bad)) != sizeof(bad) || bad)
			return 1;
	}
	return 0;
}

/* The text is that of another user, and not of a full fabric. */
static void user__another_holds_all_numbers_EPERM(void **state)
{
	other_comes(takes_all_numbers);
	assert_int_equal(other_does(), 0);
	assert_int_equal(open_and_close(), EPERM);
	other_goes();
	/* its children end a moment later */
	for (int i = 0; i < 60000 && open_and_close(); i++)
		(void)usleep(1000);
	assert_int_equal(open_and_close(), 0);
}

static int looks(uid_t victim)
{
	struct soft_ctl *ctl;

	return soft_ctl_open(own_fabric, &ctl);
}

static void user__another_holds_the_fabric_EPERM(void **state)
{
	other_comes(takes_lock);
	assert_int_equal(other_does(), 0);
	assert_int_equal(open_and_close(), EPERM);
	other_goes();
	assert_int_equal(open_and_close(), 0);
}

static void user__another_holds_numbers_OTHERS_ARE_TAKEN(void **state)
{
	struct soft_ctl_node node;
	struct ibv_context *c;
	struct soft_ctl *ctl;
	uint32_t n = 0;

	other_comes(takes_numbers);
	assert_int_equal(other_does(), 0);
	assert_int_equal(try_open(&c), 0);
	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_next(ctl, &n, &node), 0);
	assert_int_equal(node.node, 2);
	soft_ctl_close(ctl);
	assert_int_equal(soft_close_device(c), 0);
	other_goes();
}

static void user__another_SEES_NOTHING(void **state)
{
	struct ibv_context *c;

	other_comes(looks);
	assert_int_equal(try_open(&c), 0);
	assert_int_equal(other_does(), -ENOENT);
	other_goes();
	assert_int_equal(soft_close_device(c), 0);
}

/* ---- descriptors and memory ------------------------------------------- */

static void limit_to(int resource, rlim_t n)
{
	struct rlimit rl;

	assert_int_equal(getrlimit(resource, &rl), 0);
	rl.rlim_cur = n;
	assert_int_equal(setrlimit(resource, &rl), 0);
}

static void descriptors__some_too_few_EMFILE(void **state)
{
	struct rlimit was;
	int before, err = EMFILE, n;

	assert_int_equal(open_and_close(), 0);
	before = open_fds();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (n = 0; err && n < 64; n++) {
		limit_to(RLIMIT_NOFILE, (rlim_t)(before + n));
		err = open_and_close();
		limit_to(RLIMIT_NOFILE, was.rlim_cur);
		if (err)
			assert_int_equal(err, EMFILE);
		assert_int_equal(open_fds(), before);
	}
	assert_true(n > 4 && n < 64);
}

#define TRIES	10
#define REST_MS	20	/* of a watch that finds no descriptor */

/* calls that found no descriptor */
static atomic_uint accepts_refused, copies_refused;

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __real_fcntl(int fd, int cmd, long arg);
int __wrap_fcntl(int fd, int cmd, long arg);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int ret = __real_accept4(fd, addr, len, flags);

	if (ret < 0 && errno == EMFILE)
		accepts_refused++;
	return ret;
}

int __wrap_fcntl(int fd, int cmd, long arg)
{
	int ret = __real_fcntl(fd, cmd, arg);

	if (ret < 0 && errno == EMFILE)
		copies_refused++;
	return ret;
}

static uint64_t monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/*
 * If the called process has no descriptor left, the caller waits, and the
 * called process sleeps between its tries.
 */
static void descriptors__none_to_accept_WAITS(void **state)
{
	struct soft_ctl_node node;
	struct ibv_context *c;
	struct soft_ctl *ctl;
	struct rlimit was;
	uint32_t n = 0;
	uint64_t began;
	int status, ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	/* before there is a thread: a child has only this one, and its locks */
	pid = fork();
	if (!pid) {
		alarm(CHILD_SECONDS);
		if (read(ready[0], &byte, 1) != 1)
			_exit(1);
		_exit(soft_ctl_open(own_fabric, &ctl) ||
		      soft_ctl_next(ctl, &n, &node));
	}
	assert_int_equal(try_open(&c), 0);
	limit_to(RLIMIT_NOFILE, 0);
	accepts_refused = 0;
	began = monotonic_ms();
	assert_int_equal(write(ready[1], "x", 1), 1);
	while (accepts_refused < TRIES) {
		assert_true(monotonic_ms() - began < CHILD_SECONDS * 1000);
		(void)poll(NULL, 0, 1);
	}
	/* the device rests after each try but the last, to the millisecond */
	assert_true(monotonic_ms() - began >= (TRIES - 1) * REST_MS - 1);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	limit_to(RLIMIT_NOFILE, was.rlim_cur);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(soft_close_device(c), 0);
	close(ready[0]);
	close(ready[1]);
}

/* 0: it was refused, and by the program that listens there. */
static int call(__be16 port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_event_channel *ch = soft_cma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	const char *data;

	if (!ch || soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP) ||
	    soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) ||
	    soft_cma_get_cm_event(ch, &ev) || soft_cma_ack_cm_event(ev) ||
	    soft_cma_resolve_route(id, 1000) ||
	    soft_cma_get_cm_event(ch, &ev) || soft_cma_ack_cm_event(ev) ||
	    soft_cma_connect(id, &param) || soft_cma_get_cm_event(ch, &ev))
		return 1;
	data = ev->param.conn.private_data;
	return ev->event != RDMA_CM_EVENT_REJECTED || !data || *data != 'n';
}

/* Starts a child that reads a port number and calls that port. */
static pid_t caller(int from)
{
	pid_t pid = fork();
	__be16 port;

	if (!pid) {
		alarm(CHILD_SECONDS);
		_exit(read(from, &port, sizeof(port)) != sizeof(port) ||
		      call(port));
	}
	return pid;
}

static struct rdma_cm_id *listening(struct rdma_event_channel *ch)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_cm_id *id;

	assert_non_null(ch);
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_bind_addr(id, (struct sockaddr *)&at), 0);
	assert_int_equal(soft_cma_listen(id, 0), 0);
	return id;
}

static void refuse(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_int_equal(poll(&p, 1, CHILD_SECONDS * 1000), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_reject(id, "n", 2), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

/* Waits until a caller has arrived, or has found too few descriptors. */
static void wait_for_caller(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	uint64_t end = monotonic_ms() + CHILD_SECONDS * 1000;

	while (!accepts_refused && !copies_refused && !poll(&p, 1, 1))
		assert_true(monotonic_ms() < end);
}

/* Leaves 'room' free descriptors for the callers of this process. */
static void few_for_a_caller(int room)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct rlimit was;
	int go[2], status;
	__be16 port;
	pid_t pid;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(pipe(go), 0);
	/* before there is a thread, as above */
	pid = caller(go[0]);
	ch = soft_cma_create_event_channel();
	id = listening(ch);
	port = soft_cma_get_src_port(id);
	limit_to(RLIMIT_NOFILE, (rlim_t)(open_fds() + room));
	accepts_refused = copies_refused = 0;
	assert_int_equal(write(go[1], &port, sizeof(port)), sizeof(port));
	wait_for_caller(ch);
	limit_to(RLIMIT_NOFILE, was.rlim_cur);
	refuse(ch);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
	close(go[0]);
	close(go[1]);
}

static void descriptors__too_few_for_a_caller_WAITS(void **state)
{
	for (int room = 0; room < 5; room++)
		few_for_a_caller(room);
}

/* ---- numbers ---------------------------------------------------------- */

static void processes__too_many_EUSERS(void **state)
{
	static int fds[NODES];
	struct rlimit was;
	char name[20];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	if (was.rlim_max < NODES + 64) {
		fprintf(stderr, "skip: too few descriptors for that\n");
		skip();
	}
	limit_to(RLIMIT_NOFILE, NODES + 64);
	for (int i = 0; i < NODES; i++) {
		snprintf(name, sizeof(name), "node/%d", i);
		fds[i] = take_name(geteuid(), name);
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(open_and_close(), EUSERS);
	for (int i = 0; i < NODES; i++)
		close(fds[i]);
	limit_to(RLIMIT_NOFILE, was.rlim_cur);
	assert_int_equal(open_and_close(), 0);
}

/*
 * A fabric of processes that are all stopped is opened by two at once: the
 * second one does not wait for all that the first one has to ask.
 */
static void processes__stopped_KEEP_NOBODY_OUT(void **state)
{
	int fds[STOPPED], status;
	struct ibv_context *c;
	char name[20];
	pid_t pid;

	for (int i = 0; i < STOPPED; i++) {
		snprintf(name, sizeof(name), "node/%d", i);
		fds[i] = take_name(geteuid(), name);
		assert_true(fds[i] >= 0);
	}
	pid = fork();
	if (!pid) {
		alarm(CHILD_SECONDS);
		_exit(try_open(&c));
	}
	/* when it has asked, it has the lock of the fabric */
	assert_int_equal(poll(&(struct pollfd){ fds[0], POLLIN, 0 }, 1,
			      CHILD_SECONDS * 1000), 1);
	assert_int_equal(open_and_close(), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < STOPPED; i++)
		close(fds[i]);
}

static void queues__too_many_ENOMEM(void **state)
{
	static struct ibv_qp *qps[QUEUES + 1];
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_context *c;
	struct ibv_pd *pd;
	int n = 0;

	assert_int_equal(try_open(&c), 0);
	pd = soft_alloc_pd(c);
	a.send_cq = a.recv_cq = soft_create_cq(c, 16, NULL, NULL, 0);
	while (n <= QUEUES && (qps[n] = soft_create_qp(pd, &a)))
		n++;
	assert_int_equal(n, QUEUES);
	assert_int_equal(errno, ENOMEM);
	/* one less, and there is room for one */
	assert_int_equal(soft_destroy_qp(qps[n / 2]), 0);
	qps[n / 2] = soft_create_qp(pd, &a);
	assert_non_null(qps[n / 2]);
	while (n--)
		assert_int_equal(soft_destroy_qp(qps[n]), 0);
	assert_int_equal(soft_destroy_cq(a.send_cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);
}

static void regions__too_many_ENOMEM(void **state)
{
	struct ibv_mr **mrs = calloc(KEYS + 1, sizeof(struct ibv_mr *));
	struct ibv_context *c;
	struct ibv_pd *pd;
	char memory[8];
	int n = 0;

	assert_non_null(mrs);
	assert_int_equal(try_open(&c), 0);
	pd = soft_alloc_pd(c);
	while (n <= KEYS &&
	       (mrs[n] = soft_reg_mr(pd, memory, sizeof(memory), 0)))
		n++;
	assert_int_equal(errno, ENOMEM);
	assert_true(n > KEYS / 2 && n <= KEYS);
	while (n--)
		assert_int_equal(soft_dereg_mr(mrs[n]), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);
	free(mrs);
}

/* ---- what the device shall lack --------------------------------------- */

static void lacks(const char *what)
{
	assert_int_equal(setenv("RDMAMSG_SOFT_LACKS", what, 1), 0);
}

static void lacks__windows_and_resizing_EOPNOTSUPP(void **state)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = 8, .max_sge = 1 },
	};
	struct ibv_srq_attr more = { .max_wr = 16 };
	struct ibv_device_attr a;
	struct ibv_context *c;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;

	lacks("windows,resizing");
	assert_int_equal(try_open(&c), 0);
	assert_int_equal(soft_query_device(c, &a), 0);
	assert_int_equal(a.max_mw, 0);
	assert_false(a.device_cap_flags & (IBV_DEVICE_MEM_WINDOW |
					   IBV_DEVICE_MEM_WINDOW_TYPE_2B |
					   IBV_DEVICE_SRQ_RESIZE));
	pd = soft_alloc_pd(c);
	errno = 0;
	assert_null(soft_alloc_mw(pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, EOPNOTSUPP);
	cq = soft_create_cq(c, 8, NULL, NULL, 0);
	assert_int_equal(soft_resize_cq(cq, 100), EOPNOTSUPP);
	srq = soft_create_srq(pd, &init);
	assert_int_equal(soft_modify_srq(srq, &more, IBV_SRQ_MAX_WR),
			 EOPNOTSUPP);
	assert_int_equal(soft_destroy_srq(srq), 0);
	assert_int_equal(soft_destroy_cq(cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);

	lacks("resizing");
	assert_int_equal(try_open(&c), 0);
	assert_int_equal(soft_query_device(c, &a), 0);
	assert_true(a.max_mw);
	assert_int_equal(soft_close_device(c), 0);
	lacks("windows;resizing");
	assert_int_equal(try_open(&c), EINVAL);
	assert_int_equal(unsetenv("RDMAMSG_SOFT_LACKS"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock__held_for_seconds_IS_AWAITED),
		cmocka_unit_test(lock__never_released_EBUSY),
		cmocka_unit_test(user__another_holds_the_fabric_EPERM),
		cmocka_unit_test(user__another_holds_numbers_OTHERS_ARE_TAKEN),
		cmocka_unit_test(user__another_holds_all_numbers_EPERM),
		cmocka_unit_test(user__another_SEES_NOTHING),
		cmocka_unit_test(descriptors__some_too_few_EMFILE),
		cmocka_unit_test(descriptors__none_to_accept_WAITS),
		cmocka_unit_test(descriptors__too_few_for_a_caller_WAITS),
		cmocka_unit_test(processes__too_many_EUSERS),
		cmocka_unit_test(processes__stopped_KEEP_NOBODY_OUT),
		cmocka_unit_test(lacks__windows_and_resizing_EOPNOTSUPP),
		cmocka_unit_test(queues__too_many_ENOMEM),
		cmocka_unit_test(regions__too_many_ENOMEM),
	};

	join_own_fabric("limits");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
