/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: what the library shares with the rest of its process: threads and
 * signals, descriptors.
 */
#define _GNU_SOURCE
#include "common.h"
#include "oob_pair.h"

#include <fcntl.h>
#include <signal.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>

#define ONLY_SOFT "only the soft HCA has threads, sockets and memory to share"

static struct pair p;

/* Copies a descriptor of the test to a number that nothing else takes. */
static int far(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 60);

	close(fd);
	return copy;
}

/* ---- started with 0 to 2 closed --------------------------------------- */

static const char *low_when;
static int low_fd = -1;

/* Notes the first descriptor that is below 3. */
static void look(const char *when)
{
	for (int fd = 0; fd < 3 && !low_when; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			low_when = when;
			low_fd = fd;
		}
}

/* Reads the statistics, and looks while the connection is open. */
static void read_stats(struct rdmamsg *ctx, const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = far(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	ssize_t n = -1;
	char buf[256];

	memcpy(un.sun_path + 1, name + 1, strlen(name) - 1);
	if (connect(fd, (struct sockaddr *)&un,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				strlen(name))))
		note("no statistics at %s: %s", name, strerror(errno));
	else
		WAIT_FOR((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0);
	look("statistics");
	close(fd);
}

static void use_oob(void)
{
	oob_init(&p);
	oob_listen(&p, test_addr());
	look("rdmamsg_oob_listen");
	oob_connect(&p, test_addr());
	look("rdmamsg_oob_connect");
	pair_close(&p);
	pair_fini(&p);
}

static void use_groups(void)
{
	struct rdmamsg_group_options o = { .size = sizeof(o) };
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_group *g;

	if (rdmamsg_group_join(ctx, "239.255.3.5", &o, &g))
		note("rdmamsg_group_join: %s", rdmamsg_error());
	look("rdmamsg_group_join");
	test_drive(ctx);
	look("joined");
	test_close(ctx);
}

/* Connects to the parent, whose listener has this port. */
static void use_parent(const char *port)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_ep *ep;

	if (rdmamsg_connect_wait(ctx, test_addr(), port, NULL, WAIT_MS, &ep)) {
		note("to the parent: %s", rdmamsg_error());
		return;
	}
	look("another process");
	if (rdmamsg_send_wait(ep, pattern(1), 100000, 1, WAIT_MS))
		note("to the parent: %s", rdmamsg_error());
	look("a message to another process");
	(void)rdmamsg_ep_close_wait(ep, WAIT_MS);
	test_close(ctx);
}

static int started_closed(int argc, char **argv)
{
	int out = far(STDOUT_FILENO);
	char name[48];

	snprintf(name, sizeof(name), "@rdmamsg-process-%d", (int)getpid());
	setenv("RDMAMSG_STATS", name, 1);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	pair_init(&p, NULL);
	look("rdmamsg_open");
	read_stats(p.s.ctx, name);
	pair_listen(&p);
	look("rdmamsg_listen");
	pair_connect(&p);
	look("rdmamsg_connect");
	end_send_all(&p.c, HOW_SENDV, 100000, 1);
	pair_close(&p);
	pair_fini(&p);
	if (!test_iwarp()) {
		use_oob();
		use_groups();
	}
	use_parent(argv[0]);
	if (low_when)
		dprintf(out, "after %s, %d is open\n", low_when, low_fd);
	else
		dprintf(out, "none\n");
	return 0;
}

static void accept_stranger(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	p.s.expect_nothing = true;
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void open__without_0_to_2_LEAVES_THEM_CLOSED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_stranger,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct child c;
	char line[256];

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	child_start(&c, "closed", listener_service(p.listener, p.port));
	child_line(&c, line, sizeof(line));
	assert_string_equal(line, "none");
	assert_int_equal(child_wait(&c), 0);
	pair_fini(&p);
}

/* ---- fork(2) ------------------------------------------------------------ */

static socklen_t stats_address(const char *name, struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(un->sun_path + 1, name + 1, strlen(name) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			   strlen(name));
}

/* Closes its context while its child lives on, and takes the address itself. */
static int fork_with_stats(int argc, char **argv)
{
	const char *name = argv[0];
	struct rdmamsg *ctx;
	struct sockaddr_un un;
	socklen_t len = stats_address(name, &un);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;
	int hold[2], runs[2];
	pid_t pid;
	char c;

	setenv("RDMAMSG_STATS", name, 1);
	if (pipe2(hold, O_CLOEXEC) || pipe2(runs, O_CLOEXEC) ||
	    rdmamsg_open(&ctx, NULL))
		return 2;
	if (!bind(fd, (struct sockaddr *)&un, len))
		return 3;
	pid = fork();
	if (!pid) {
		close(hold[1]);
		_exit(write(runs[1], "", 1) != 1 || read(hold[0], &c, 1));
	}
	if (pid < 0 || read(runs[0], &c, 1) != 1)
		return 4;
	rdmamsg_close(ctx);
	ret = bind(fd, (struct sockaddr *)&un, len);
	close(hold[1]);
	waitpid(pid, NULL, 0);
	say("%s\n", ret ? strerror(errno) : "free");
	return 0;
}

static void stats__of_a_parent_THE_CHILD_HAS_NOT(void **state)
{
	struct child c;
	char name[48], line[128];

	snprintf(name, sizeof(name), "@rdmamsg-forked-%d", (int)getpid());
	child_start(&c, "stats", name);
	child_line(&c, line, sizeof(line));
	assert_string_equal(line, "free");
	assert_int_equal(child_wait(&c), 0);
}

static int end_of(pid_t pid)
{
	int end = -1;

	return pid > 0 && waitpid(pid, &end, 0) == pid ? end : -1;
}

/*
 * A child of a process that has a context and uses no device. The first one has
 * a child of its own before it uses a device, and both have one afterwards.
 */
static int work(struct rdmamsg *of_parent, bool first)
{
	struct rdmamsg *ctx;
	pid_t pid;

	if (rdmamsg_process(of_parent) != -ECHILD || rdmamsg_open(&ctx, NULL))
		return 1;
	pid = first ? fork() : 0;
	if (first && !pid)
		_exit(work(ctx, false));
	if ((first && end_of(pid)) || rdmamsg_process(ctx) < 0)
		return 2;
	rdmamsg_close(ctx);
	pair_open(&p);
	end_send_all(&p.c, HOW_SENDV, 1000, 1);
	pair_close(&p);
	pair_fini(&p);
	pid = fork();
	if (!pid)
		_exit(rdmamsg_open(&ctx, NULL) != -ECHILD);
	return end_of(pid) ? 3 : 0;
}

static int fork_workers(int argc, char **argv)
{
	struct rdmamsg *ctx;
	int end[2];

	if (rdmamsg_open(&ctx, NULL))
		return 4;
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(work(ctx, true));
		end[i] = end_of(pid);
	}
	rdmamsg_close(ctx);
	say("%#x %#x\n", (unsigned int)end[0], (unsigned int)end[1]);
	return 0;
}

static void workers__of_a_process_without_a_device_WORK(void **state)
{
	struct child c;
	char line[128];

	child_start(&c, "workers", "");
	child_line(&c, line, sizeof(line));
	assert_string_equal(line, "0 0");
	assert_int_equal(child_wait(&c), 0);
}

/* ---- a descriptor that is not the program's ----------------------------- */

static void fd__closed_by_the_program_SAID_AND_CLOSES(void **state)
{
	static const char word[] = "closed the descriptor of rdmamsg_fd()";
	int n = 0;

	texts_are_fine = true;
	pair_open(&p);
	close(rdmamsg_fd(p.s.ctx));
	assert_error(rdmamsg_process(p.s.ctx), -EBADF, word);
	assert_error(rdmamsg_wait(p.s.ctx, 100), -EBADF, word);
	assert_error(rdmamsg_run(p.s.ctx), -EBADF, word);
	while (n >= 0)
		n = rdmamsg_poll(p.s.ctx);
	assert_error(n, -EBADF, word);
	test_close(p.s.ctx);
	assert_int_equal(p.s.closed, 1);
	WAIT_FOR(p.c.closed);
	test_close(p.c.ctx);
	texts_are_fine = false;
}

/* A daemon closes all descriptors that it does not know. */
static int closes_all(int argc, char **argv)
{
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, test_addr(), "0", NULL, &l) ||
	    rdmamsg_connect_wait(ctx, test_addr(), argv[0], NULL, WAIT_MS,
				 &ep))
		return 2;
	/* until the device's thread sleeps */
	while (rdmamsg_wait(ctx, 100) > 0)
		;
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	rdmamsg_close(ctx);
	rdmamsg_ep_release(ep);
	say("closed\n");
	return 0;
}

static void fds__closed_by_the_program_CLOSES(void **state)
{
	struct child c;
	char line[64];

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	pair_init(&p, NULL);
	pair_listen(&p);
	child_start(&c, "closes_all", p.port);
	child_line(&c, line, sizeof(line));
	assert_string_equal(line, "closed");
	assert_int_equal(child_wait(&c), 0);
	pair_fini(&p);
}

/* ---- limits -------------------------------------------------------------- */

#define NOBODY	65534

/* Connects under a limit that came after the device was opened. */
static int limited_late(int argc, char **argv)
{
	struct rlimit rl;
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	int ret;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, test_addr(), "0", NULL, &l) ||
	    getrlimit(RLIMIT_FSIZE, &rl))
		return 2;
	rl.rlim_cur = 4096;
	if (setrlimit(RLIMIT_FSIZE, &rl))
		return 3;
	ret = rdmamsg_connect_wait(ctx, test_addr(), argv[0], NULL, WAIT_MS,
				   &ep);
	say("%d %s\n", ret, rdmamsg_error());
	rdmamsg_close(ctx);
	return 0;
}

static void limit__size_of_files_of_a_connection_EFBIG(void **state)
{
	struct child c;
	char line[512];

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	pair_init(&p, NULL);
	pair_listen(&p);
	child_start(&c, "limited_late", p.port);
	child_line(&c, line, sizeof(line));
	if (atoi(line) != -EFBIG || !strstr(line, "ulimit -f"))
		fail_msg("'%s'", line);
	assert_int_equal(child_wait(&c), 0);
	pair_fini(&p);
}

/* Resolves a name when there are no descriptors. */
static int nameless(int argc, char **argv)
{
	struct rdmamsg *ctx;
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;
	struct rlimit rl;
	int ret;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, test_addr(), "0", NULL, &l) ||
	    getrlimit(RLIMIT_NOFILE, &rl))
		return 2;
	rl.rlim_cur = 3;
	if (setrlimit(RLIMIT_NOFILE, &rl))
		return 3;
	ret = rdmamsg_connect_wait(ctx, "no-host.invalid", "1", NULL, WAIT_MS,
				   &ep);
	say("%d %s\n", ret, rdmamsg_error());
	ret = rdmamsg_listen(ctx, "no-host.invalid", "0", NULL, &l);
	say("%d %s\n", ret, rdmamsg_error());
	rdmamsg_close(ctx);
	/* LeakSanitizer needs some */
	rl.rlim_cur = rl.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &rl) ? 4 : 0;
}

static void limit__files_while_resolving_EMFILE(void **state)
{
	struct child c;
	char line[512];

	child_start(&c, "nameless", "");
	for (int i = 0; i < 2; i++) {
		child_line(&c, line, sizeof(line));
		if (atoi(line) != -EMFILE || !strstr(line, "ulimit -n"))
			fail_msg("'%s'", line);
	}
	assert_int_equal(child_wait(&c), 0);
}

/* Opens the device under a limit, and sends the parent the error and text. */
static int limited(int argc, char **argv)
{
	const bool threads = !strcmp(argv[0], "threads");
	const int which = threads ? RLIMIT_NPROC : RLIMIT_FSIZE;
	struct rlimit rl;
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	char fabric[32];
	int ret;

	/* of its own, so that the process makes the memory of the fabric */
	snprintf(fabric, sizeof(fabric), "limited-%d", (int)getpid());
	setenv("RDMAMSG_SOFT_FABRIC", fabric, 1);
	/* root has no limit on threads */
	if (threads && !geteuid() && setuid(NOBODY))
		return 2;
	if (getrlimit(which, &rl))
		return 3;
	rl.rlim_cur = threads ? 0 : 1 << 20;
	if (setrlimit(which, &rl) || rdmamsg_open(&ctx, NULL))
		return 4;
	ret = rdmamsg_listen(ctx, test_addr(), "0", NULL, &l);
	say("%d %s\n", ret, rdmamsg_error());
	rdmamsg_close(ctx);
	/* LeakSanitizer makes a thread at the end */
	rl.rlim_cur = rl.rlim_max;
	return setrlimit(which, &rl) ? 5 : 0;
}

static void check_limit(const char *which, int error, const char *word)
{
	struct child c;
	char line[512];

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	child_start(&c, "limited", which);
	child_line(&c, line, sizeof(line));
	assert_int_equal(atoi(line), error);
	if (!strstr(line, word))
		fail_msg("'%s' lacks '%s'", line, word);
	assert_int_equal(child_wait(&c), 0);
}

static void limit__size_of_files_EFBIG(void **state)
{
	check_limit("files", -EFBIG, "ulimit -f");
}

static void limit__threads_EAGAIN(void **state)
{
	check_limit("threads", -EAGAIN, "ulimit -u");
}

/* ---- sandboxes ----------------------------------------------------------- */

/* System calls that sandboxes forbid. Landlock forbids some connect(). */
static const struct forbidden {
	const char *name;
	long nr;
	bool late;		/* also after the device was opened */
} forbidden[] = {
	{ "connect", SYS_connect, true },
	{ "memfd_create", SYS_memfd_create, true },
	{ "socket", SYS_socket, true }, { "bind", SYS_bind },
	{ "listen", SYS_listen }, { "eventfd2", SYS_eventfd2, true },
	{ "clone3", SYS_clone3 },
};

static int forbid(const char *name, size_t len)
{
	const struct forbidden *f = forbidden;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { ARRAY_SIZE(filter), filter };

	while (strlen(f->name) != len || strncmp(f->name, name, len))
		f++;
	filter[1].k = (uint32_t)f->nr;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

/*
 * Forbids before the device is opened, or between that and connecting to the
 * port that follows the call's name.
 */
static int sandboxed(int argc, char **argv)
{
	const size_t len = strcspn(argv[0], " ");
	const bool early = !argv[0][len];
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	int ret;

	/* the context itself needs descriptors */
	if (rdmamsg_open(&ctx, NULL))
		return 3;
	/* alone in a fabric, so that the process makes its memory */
	if (early && (setenv("RDMAMSG_SOFT_FABRIC", "sandboxed", 1) ||
		      forbid(argv[0], len)))
		return 2;
	ret = rdmamsg_listen(ctx, test_addr(), "0", NULL, &l);
	if (!early) {
		if (ret || forbid(argv[0], len))
			return 4;
		ret = rdmamsg_connect_wait(ctx, test_addr(),
					   argv[0] + len + 1, NULL, WAIT_MS,
					   &ep);
	}
	say("%d %s\n", ret, rdmamsg_error());
	rdmamsg_close(ctx);
	return 0;
}

static void check_sandbox(const char *arg)
{
	struct child c;
	char line[512];

	child_start(&c, "sandboxed", arg);
	child_line(&c, line, sizeof(line));
	if (atoi(line) != -EACCES || !strstr(line, "Landlock"))
		fail_msg("%s: '%s'", arg, line);
	assert_int_equal(child_wait(&c), 0);
}

static void sandbox__without_a_call_EACCES(void **state)
{
	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	pair_init(&p, NULL);
	pair_listen(&p);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		char arg[32];

		check_sandbox(forbidden[i].name);
		snprintf(arg, sizeof(arg), "%s %s", forbidden[i].name, p.port);
		if (forbidden[i].late)
			check_sandbox(arg);
	}
	pair_fini(&p);
}

static void refused__on_the_soft_HCA_NAMES_ITS_CAUSES(void **state)
{
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	ctx = test_open(NULL);
	assert_error(rdmamsg_connect_wait(ctx, test_addr(), "9", NULL, WAIT_MS,
					  &ep), -ECONNREFUSED, "another user");
	assert_non_null(strstr(rdmamsg_error(), "network namespace"));
	assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_SOFT_FABRIC"));
	test_close(ctx);
}

/* ---- signals ----------------------------------------------------------- */

/* Returns the signals that the thread blocks, from bit 0 for signal 1. */
static unsigned long long blocked_by(const char *task)
{
	char path[300], line[128];
	unsigned long long set = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigBlk: %llx", &set) == 1)
			break;
	if (f)
		fclose(f);
	return set;
}

/* No thread can block these. */
static bool is_special(int sig)
{
	return sig == SIGKILL || sig == SIGSTOP;
}

/*
 * A program that blocks a signal for signalfd(2) after the library has started
 * a thread would else be killed by the signal.
 */
static void threads__of_the_library_BLOCK_SIGNALS(void **state)
{
	struct dirent *d;
	char own[16];
	DIR *tasks;

	pair_open(&p);
	snprintf(own, sizeof(own), "%d", (int)gettid());
	tasks = opendir("/proc/self/task");
	while ((d = readdir(tasks))) {
		if (d->d_name[0] == '.' || !strcmp(d->d_name, own))
			continue;
		for (int sig = 1; sig < 32; sig++)
			if (!is_special(sig) &&
			    !(blocked_by(d->d_name) >> (sig - 1) & 1))
				fail_msg("thread %s takes signal %d", d->d_name,
					 sig);
	}
	closedir(tasks);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "closed", started_closed }, { "stats", fork_with_stats },
		{ "limited", limited }, { "sandboxed", sandboxed },
		{ "limited_late", limited_late }, { "nameless", nameless },
		{ "closes_all", closes_all }, { "workers", fork_workers },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(stats__of_a_parent_THE_CHILD_HAS_NOT),
		TEST(workers__of_a_process_without_a_device_WORK),
		TEST(fd__closed_by_the_program_SAID_AND_CLOSES),
		TEST(fds__closed_by_the_program_CLOSES),
		TEST(limit__size_of_files_EFBIG),
		TEST(limit__threads_EAGAIN),
		TEST(limit__size_of_files_of_a_connection_EFBIG),
		TEST(limit__files_while_resolving_EMFILE),
		TEST(sandbox__without_a_call_EACCES),
		TEST(refused__on_the_soft_HCA_NAMES_ITS_CAUSES),
		TEST(threads__of_the_library_BLOCK_SIGNALS),
		TEST(open__without_0_to_2_LEAVES_THEM_CLOSED),
	};

	return test_main(tests, roles, argc, argv);
}
