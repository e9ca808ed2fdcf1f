/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fails says why: errors, texts, log, and what a look at a context and
 * the devices shows.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <grp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct pair p;

/* ---- a program in bad surroundings ------------------------------------ */

#define NOBODY		65534
#define NOT_LOCAL	"192.0.2.1"	/* RFC 5737 */

struct answer {
	int ret;
	char text[256];
};

struct talk {
	struct answer devices, listen, connect;
};

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		note("setuid: %s", strerror(errno));
}

static void answer(const char *what, int ret)
{
	say("%s %d %s\n", what, ret, ret < 0 ? rdmamsg_error() : "no error");
}

/* Talks to itself, if it can, and says how far it came. */
static int talk_to_itself(int argc, char **argv)
{
	struct rdmamsg_ep_options ep_opts = {
		.size = sizeof(ep_opts), .timeout_ms = WAIT_MS,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep_opts,
	};
	struct rdmamsg_device_info info;
	const char *how = argc ? argv[0] : "";
	struct rdmamsg_listener *l = NULL;
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;
	char port[8] = "1";
	int ret;

	if (!strcmp(how, "memlock")) {
		struct rlimit rl = { 64 << 10, 64 << 10 };

		setrlimit(RLIMIT_MEMLOCK, &rl);
	}
	if (!strcmp(how, "nobody") || !strcmp(how, "memlock"))
		become_nobody();
	answer("devices", rdmamsg_devices(&info, sizeof(info), 1));
	ctx = test_open(NULL);
	if (!strcmp(how, "nofile"))
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 1024 });
	ret = rdmamsg_listen(ctx, test_addr(), "0", &opts, &l);
	answer("listen", ret);
	if (l)
		listener_service(l, port);
	if (!strcmp(how, "changed") && seteuid(NOBODY))
		note("seteuid: %s", strerror(errno));
	/* the leak checker traces its process, which this user may not */
	prctl(PR_SET_DUMPABLE, 1);
	ret = rdmamsg_connect_wait(ctx, test_addr(), port, &ep_opts, WAIT_MS,
				   &ep);
	answer("connect", ret);
	if (!ret)
		rdmamsg_close_wait(ep, WAIT_MS);
	if (!strcmp(how, "changed") && seteuid(0))
		note("seteuid: %s", strerror(errno));
	return 0;
}

static void read_answer(struct child *c, const char *what, struct answer *a)
{
	char line[sizeof(a->text) + 40];
	size_t len = strlen(what);
	int at = 0;

	child_line(c, line, sizeof(line));
	if (strncmp(line, what, len) ||
	    sscanf(line + len, " %d %n", &a->ret, &at) != 1)
		fail_msg("not about %s: '%s'", what, line);
	snprintf(a->text, sizeof(a->text), "%s", line + len + at);
}

static struct talk talk(const char *how)
{
	struct child c;
	struct talk t;

	child_start(&c, "talk", how);
	read_answer(&c, "devices", &t.devices);
	read_answer(&c, "listen", &t.listen);
	read_answer(&c, "connect", &t.connect);
	assert_int_equal(child_wait(&c), 0);
	return t;
}

static void check_answer(const struct answer *a, int ret, const char *word)
{
	if (a->ret != ret || (word && !strstr(a->text, word)))
		fail_msg("got %d, not %d, without '%s': %s", a->ret, ret,
			 word ? word : "", a->text);
}

static void check_talk(const struct talk *t)
{
	assert_true(t->devices.ret > 0);
	check_answer(&t->listen, 0, NULL);
	check_answer(&t->connect, 0, NULL);
}

/* ---- devices ---------------------------------------------------------- */

/*
 * Before this process has used RDMA itself: the kernel waits for every open
 * context of the device that goes.
 */
static void device__none_there_ENODEV(void **state)
{
	struct talk t;

	if (test_on_soft())
		skip_because("the soft HCA is in the process that looks for it");
	if (system("rdma link del rxe0"))
		skip_because("rxe0 cannot be removed");
	t = talk(NULL);
	assert_int_equal(system("rdma link add rxe0 type rxe netdev veth0"), 0);
	check_answer(&t.devices, 1, NULL);	/* the soft HCA */
	check_answer(&t.listen, -ENODEV, "rdma link add");
	check_answer(&t.connect, -ENODEV, "rdma link add");
	t = talk(NULL);
	check_talk(&t);
}

static void devices__ours_IS_LISTED(void **state)
{
	struct rdmamsg_device_info list[8], *d = NULL;
	struct {
		size_t size;
		char name[64];
	} names[2];
	int n = rdmamsg_devices(list, sizeof(list[0]), ARRAY_SIZE(list));

	assert_true(n > 0);
	for (int i = 0; i < n && i < (int)ARRAY_SIZE(list); i++)
		if (!strcmp(list[i].name, test_device()))
			d = &list[i];
	assert_non_null(d);
	assert_string_equal(d->kind, test_kind());
	assert_int_equal(d->size, sizeof(*d));
	assert_true(d->ports >= 1);
	assert_int_equal(d->ports_active, d->ports);
	assert_true(d->node_guid && d->max_qp && d->max_cq && d->max_cqe &&
		    d->max_mr && d->max_qp_wr && d->max_sge &&
		    d->max_read_responder && d->max_read_initiator &&
		    d->max_mr_size);
	assert_int_equal(rdmamsg_devices(NULL, 0, 0), n);
	/* of an older program's size */
	memset(names, 0x55, sizeof(names));
	assert_int_equal(rdmamsg_devices((void *)names, sizeof(names[0]), 1),
			 n);
	assert_string_equal(names[0].name, list[0].name);
	assert_int_equal(names[1].name[0], 0x55);
	assert_error(rdmamsg_devices(NULL, sizeof(*d), 1), -EINVAL, "list");
	assert_error(rdmamsg_devices(list, 0, 1), -EINVAL, "size");
	assert_error(rdmamsg_devices(list, sizeof(*d), -1), -EINVAL, "list");
}

static struct talk talk_with(const char *device)
{
	struct talk t;

	setenv("RDMAMSG_DEVICE", device, 1);
	t = talk(NULL);
	if (test_on_soft())
		setenv("RDMAMSG_DEVICE", "soft", 1);	/* as it was */
	else
		unsetenv("RDMAMSG_DEVICE");
	return t;
}

static void device__named_in_the_environment_IS_USED(void **state)
{
	/* "hw" last: there may be none */
	const char *const good[] = { test_device(), "soft", "hw" };
	struct talk t;

	for (size_t i = 0; i < ARRAY_SIZE(good) - test_on_soft(); i++) {
		t = talk_with(good[i]);
		check_talk(&t);
	}
}

static void device__unknown_in_the_environment_ENODEV(void **state)
{
	struct talk t = talk_with("nope0");

	check_answer(&t.listen, -ENODEV, "nope0");
	check_answer(&t.connect, -ENODEV, "nope0");
}

static void device__unknown_in_the_options_ENODEV(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .device = "nope0",
	};
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.opts.device = "nope0";
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -ENODEV, "nope0");
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, NULL),
		     -ENODEV, "nope0");
	pair_fini(&p);
}

static void device__named_in_the_options_IS_USED(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .device = test_device(), .ep = &p.s.opts,
	};

	pair_init(&p, NULL);
	p.c.opts.device = test_device();
	if (rdmamsg_listen(p.s.ctx, NULL, "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	pair_connect(&p);
	assert_string_equal(rdmamsg_device_name(p.c.ep), test_device());
	pair_close(&p);
	pair_fini(&p);
}

/* ---- permission and limits -------------------------------------------- */

#define NODES_DIR	"/dev/infiniband"
#define NODES_MAX	16

static struct {
	char path[300];
	mode_t mode;
} nodes[NODES_MAX];
static int node_count;

/* Whatever the mode of the nodes: the soft HCA has none. */
static void nodes_chmod(mode_t mode)
{
	DIR *dir;
	struct dirent *e;

	if (test_on_soft())
		return;
	dir = opendir(NODES_DIR);
	assert_non_null(dir);
	for (node_count = 0; (e = readdir(dir)) && node_count < NODES_MAX;) {
		struct stat st;

		snprintf(nodes[node_count].path, sizeof(nodes[0].path),
			 NODES_DIR "/%s", e->d_name);
		if (stat(nodes[node_count].path, &st) || !S_ISCHR(st.st_mode))
			continue;
		nodes[node_count].mode = st.st_mode & 07777;
		chmod(nodes[node_count++].path, mode);
	}
	closedir(dir);
	assert_true(node_count > 0);
}

static void nodes_restore(void)
{
	for (int i = 0; i < node_count; i++)
		chmod(nodes[i].path, nodes[i].mode);
}

static void permission__none_for_the_nodes_EACCES(void **state)
{
	struct talk t;

	if (test_on_soft())
		skip_because("the soft HCA needs no permission");
	nodes_chmod(0600);
	t = talk("nobody");
	nodes_restore();
	check_answer(&t.devices, -EACCES, NODES_DIR);
	check_answer(&t.listen, -EACCES, NODES_DIR);
	check_answer(&t.connect, -EACCES, NODES_DIR);
}

static void permission__for_everybody_IS_ENOUGH(void **state)
{
	struct talk t;

	nodes_chmod(0666);
	t = talk("nobody");
	nodes_restore();
	check_talk(&t);
}

static void permission__user_changed_after_open_EPERM(void **state)
{
	struct talk t = talk("changed");

	check_answer(&t.listen, 0, NULL);
	check_answer(&t.connect, -EPERM, "credentials");
	check_answer(&t.connect, -EPERM, "setuid");
}

static void limit__locked_memory_NAMED(void **state)
{
	struct talk t;

	if (test_on_soft())
		skip_because("the soft HCA locks no memory");
	nodes_chmod(0666);
	t = talk("memlock");
	nodes_restore();
	check_answer(&t.listen, 0, NULL);
	check_answer(&t.connect, -ENOMEM, "locked-memory limit is 64 KB");
	check_answer(&t.connect, -ENOMEM, "ulimit -l");
}

static void limit__open_files_EMFILE(void **state)
{
	struct rlimit old, low;
	struct rdmamsg *ctx;
	int ret;

	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &low);
	ret = rdmamsg_open(&ctx, NULL);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_error(ret, -EMFILE, "ulimit -n");
}

static void limit__none_for_the_soft_HCA_EMFILE(void **state)
{
	struct talk t;

	if (!test_on_soft())
		skip_because("what a device of the kernel needs is its own");
	t = talk("nofile");
	check_answer(&t.listen, -EMFILE, "ulimit -n");
	check_answer(&t.connect, -EMFILE, "ulimit -n");
}

static void fabric__bad_name_EINVAL(void **state)
{
	char was[64];
	struct talk t;

	if (!test_on_soft())
		skip_because("only the soft HCA has fabrics");
	snprintf(was, sizeof(was), "%s", getenv("RDMAMSG_SOFT_FABRIC"));
	setenv("RDMAMSG_SOFT_FABRIC", "no/name", 1);
	t = talk(NULL);
	setenv("RDMAMSG_SOFT_FABRIC", was, 1);
	check_answer(&t.listen, -EINVAL, "RDMAMSG_SOFT_FABRIC");
	check_answer(&t.connect, -EINVAL, "RDMAMSG_SOFT_FABRIC");
}

/* Within the library's own limit; the device's is among these words. */
static void check_depth(uint32_t *depth, const char *field, const char *limit)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	*depth = 65536;
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed || p.c.connected);
	assert_int_equal(p.c.connected, 0);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(p.c.why.error, -EINVAL);
	if (!strstr(p.c.why.text, field) || !strstr(p.c.why.text, limit))
		fail_msg("no '%s', '%s' in '%s'", field, limit, p.c.why.text);
	pair_fini(&p);
}

static void check_depth_there(void)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &p.s.opts,
	};

	pair_init(&p, NULL);
	p.s.opts.send_depth = 65536;
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed || p.c.connected);
	assert_int_equal(p.c.connected, 0);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_RESOURCES);
	pair_fini(&p);
}

static void limit__depth_beyond_the_devices_NAMED(void **state)
{
	struct rdmamsg_device_info d;
	char limit[16];

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) > 0);
	if (d.max_qp_wr > 65536 && d.max_cqe > 65536) {
		skip_because("the device allows whatever the library does");
		return;
	}
	snprintf(limit, sizeof(limit), "%u",
		 d.max_qp_wr <= 65536 ? d.max_qp_wr : d.max_cqe);
	check_depth(&p.c.opts.send_depth, "send_depth", limit);
	check_depth(&p.c.opts.recv_depth, "recv_depth", limit);
	check_depth_there();
}

/* ---- addresses -------------------------------------------------------- */

static void connect__no_such_name_SAYS_SO(void **state)
{
	pair_init(&p, NULL);
	if (rdmamsg_connect(p.c.ctx, "no.such.name.invalid", "1", &p.c.opts,
			    &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ADDRESS);
	assert_int_equal(p.c.why.error, -EADDRNOTAVAIL);
	assert_non_null(strstr(p.c.why.text, "no.such.name.invalid"));
	pair_fini(&p);
}

static void connect__source_that_is_not_ours_SAYS_SO(void **state)
{
	struct rdmamsg_ep *ep;
	int ret;

	pair_init(&p, NULL);
	p.c.opts.source = "rxe-host";
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -EINVAL, "source 'rxe-host'");
	p.c.opts.source = NOT_LOCAL;
	ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep);
	assert_error(ret, -EADDRNOTAVAIL, "source");
	p.c.opts.source = test_addr6();
	ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep);
	assert_error(ret, -EINVAL, "source");
	pair_fini(&p);
}

static void connect__source_that_is_ours_WORKS(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.source = test_addr();
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
}

static const char *const bad_services[] = {
	"no-such-service", "65536", "70000", "-1", "12x", "",
};

static void service__not_a_port_EINVAL(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_services); i++) {
		const char *service = bad_services[i];

		assert_error(rdmamsg_connect(p.c.ctx, test_addr(), service,
					     &p.c.opts, &ep), -EINVAL, service);
		assert_error(rdmamsg_connect(p.c.ctx, "rxe-host", service,
					     &p.c.opts, &ep), -EINVAL, service);
		assert_error(rdmamsg_listen(p.s.ctx, test_addr(), service, NULL,
					    NULL), -EINVAL, service);
		assert_error(rdmamsg_listen(p.s.ctx, NULL, service, NULL, NULL),
			     -EINVAL, service);
	}
	pair_fini(&p);
}

static void listen__port_in_use_EADDRINUSE(void **state)
{
	struct rdmamsg_listener *other;

	pair_init(&p, NULL);
	pair_listen(&p);
	for (int i = 0; i < 2; i++)
		assert_error(rdmamsg_listen(i ? p.c.ctx : p.s.ctx, test_addr(),
					    p.port, NULL, NULL),
			     -EADDRINUSE, "in use");
	rdmamsg_listener_close(p.listener);
	assert_int_equal(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL,
					&other), 0);
	pair_fini(&p);
}

static void listen__address_of_another_host_EADDRNOTAVAIL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	assert_error(rdmamsg_listen(ctx, NOT_LOCAL, "0", NULL, NULL),
		     -EADDRNOTAVAIL, "not an address of this host");
	assert_error(rdmamsg_listen(ctx, "2001:db8::1", "0", NULL, NULL),
		     -EADDRNOTAVAIL, "not an address of this host");
	assert_error(rdmamsg_listen(ctx, "no.such.name.invalid", "0", NULL,
				    NULL), -EADDRNOTAVAIL,
		     "no.such.name.invalid");
}

/* ---- after fork ------------------------------------------------------- */

static struct rdmamsg_request *waiting;
static struct rdmamsg_msg *lent;

static void keep_request(struct rdmamsg_listener *l,
			 struct rdmamsg_request *req)
{
	waiting = req;
}

static void keep_message(struct end *e, struct rdmamsg_msg *msg)
{
	lent = msg;
}

static void run_never(struct rdmamsg *ctx, void *arg)
{
	note("something ran in a context that is not ours");
}

static void move_never(struct rdmamsg *ctx, struct rdmamsg_request *req,
		       void *arg)
{
	note("a request was moved in a child");
}

static void line_never(void *arg, const char *text)
{
	note("a dump of a context that is not ours: %s", text);
}

static int wrong;

static void expect_echild(int ret, const char *what)
{
	if (ret == -ECHILD && strstr(rdmamsg_error(), "fork"))
		return;
	fprintf(stderr, "%s in a child: %d, '%s'\n", what, ret,
		rdmamsg_error());
	wrong++;
}

#define ECHILD_FROM(call)	expect_echild(call, #call)

/* Everything in rdmamsg.h, in its order. */
static int use_all_in_child(void)
{
	struct rdmamsg_ep_info info = { .size = sizeof(info) };
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct sockaddr_storage addr;
	struct rdmamsg_listener *l;
	struct rdmamsg_msg *msg;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	size_t len;

	ECHILD_FROM(rdmamsg_open(&ctx, NULL));
	(void)rdmamsg_user(p.c.ctx);
	ECHILD_FROM(rdmamsg_fd(p.c.ctx));
	ECHILD_FROM(rdmamsg_process(p.c.ctx));
	ECHILD_FROM(rdmamsg_poll(p.c.ctx));
	ECHILD_FROM(rdmamsg_wait(p.c.ctx, -1));
	ECHILD_FROM(rdmamsg_run(p.c.ctx));
	rdmamsg_stop(p.c.ctx);
	ECHILD_FROM(rdmamsg_submit(p.c.ctx, run_never, NULL));

	ECHILD_FROM(rdmamsg_connect(p.c.ctx, test_addr(), "1", NULL, &ep));
	rdmamsg_ep_hold(p.c.ep);
	rdmamsg_ep_rele(p.c.ep);
	(void)rdmamsg_ep_state(p.c.ep);
	(void)rdmamsg_ep_reason(p.c.ep);
	(void)rdmamsg_ep_ctx(p.c.ep);
	(void)rdmamsg_ep_user(p.c.ep);
	rdmamsg_ep_set_user(p.c.ep, NULL);
	(void)rdmamsg_ep_peer_data(p.c.ep, &len);
	ECHILD_FROM(rdmamsg_ep_info(p.c.ep, &info));
	if (!rdmamsg_device_name(p.c.ep))
		wrong++;

	ECHILD_FROM(rdmamsg_send(p.c.ep, "x", 1, 0, NULL));
	ECHILD_FROM(rdmamsg_sendv(p.c.ep, &iov, 1, 0, NULL));
	ECHILD_FROM(rdmamsg_msg_send(p.c.ep, lent, 0, NULL));
	ECHILD_FROM(rdmamsg_msg_alloc(p.c.ep, 1, &msg));
	(void)rdmamsg_msg_data(lent);
	(void)rdmamsg_msg_len(lent);
	(void)rdmamsg_msg_tag(lent);
	(void)rdmamsg_msg_set_len(lent, 1);
	rdmamsg_msg_free(lent);

	ECHILD_FROM(rdmamsg_listen(p.c.ctx, test_addr(), "0", NULL, &l));
	(void)rdmamsg_listener_user(p.listener);
	(void)rdmamsg_listener_ctx(p.listener);
	(void)rdmamsg_listener_port(p.listener);
	ECHILD_FROM(rdmamsg_request_peer(waiting, &addr));
	(void)rdmamsg_request_data(waiting, &len);
	ECHILD_FROM(rdmamsg_request_move(waiting, p.c.ctx, move_never, NULL));
	ECHILD_FROM(rdmamsg_accept(waiting, NULL, &ep));
	ECHILD_FROM(rdmamsg_reject(waiting, NULL, 0));

	ECHILD_FROM(rdmamsg_connect_wait(p.c.ctx, test_addr(), "1", NULL, -1,
					 &ep));
	ECHILD_FROM(rdmamsg_accept_wait(p.listener, NULL, -1, &ep));
	ECHILD_FROM(rdmamsg_send_wait(p.c.ep, "x", 1, 0, -1));
	ECHILD_FROM(rdmamsg_recv_wait(p.c.ep, -1, &msg));
	ECHILD_FROM(rdmamsg_close_wait(p.c.ep, -1));

	ECHILD_FROM(rdmamsg_stats(p.c.ctx, &stats));
	ECHILD_FROM(rdmamsg_ep_stats(p.c.ep, &stats));
	rdmamsg_dump(p.c.ctx, line_never, NULL);
	(void)rdmamsg_devices(NULL, 0, 0);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_NONE);

	rdmamsg_ep_close(p.c.ep);
	rdmamsg_ep_abort(p.c.ep);
	rdmamsg_listener_close(p.listener);
	rdmamsg_close(p.c.ctx);
	rdmamsg_close(p.s.ctx);
	return wrong != 0;
}

static void fork__all_calls_in_the_child_ECHILD(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = keep_request,
	};
	struct rdmamsg_listener *later;
	struct rdmamsg_ep *ep;
	int status = 0;
	char port[8];
	pid_t pid;

	pair_init(&p, NULL);
	p.c.then_message = keep_message;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.s, HOW_SEND, 100, 1);
	WAIT_FOR(lent);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &later) ||
	    rdmamsg_connect(p.c.ctx, test_addr(), listener_service(later, port),
			    NULL, &ep))
		fail_msg("a second connection: %s", rdmamsg_error());
	WAIT_FOR(waiting);

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_all_in_child());
	assert_true(pid > 0);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	if (status)
		fail_msg("the child ended with status 0x%x", status);

	/* nothing has changed here */
	assert_memory_equal(rdmamsg_msg_data(lent), pattern(1), 100);
	assert_int_equal(rdmamsg_reject(waiting, NULL, 0), 0);
	p.c.then_message = NULL;
	rdmamsg_msg_free(lent);
	lent = NULL;
	for (uint32_t n = 0; n < 20; n++) {
		end_send_all(&p.c, HOW_SENDV, 1000 * n, n);
		end_send_all(&p.s, HOW_SENDV, 1000 * n, n);
	}
	pair_close(&p);
	pair_fini(&p);
}

/* ---- log -------------------------------------------------------------- */

/* Makes a line of each level that it can, on its standard output. */
static int log_to_output(int argc, char **argv)
{
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;

	dup2(STDOUT_FILENO, STDERR_FILENO);
	if (rdmamsg_open(&ctx, NULL))
		return 1;
	if (rdmamsg_listen(ctx, test_addr(), "0", NULL, &l))	/* info */
		return 1;
	if (rdmamsg_listen(ctx, NULL, NULL, NULL, &l) != -EINVAL) /* debug */
		return 1;
	rdmamsg_close(ctx);
	say("end\n");
	return 0;
}

static void print_line(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	say("%s %d: %s\n", (const char *)arg, level, line);
}

static int log_to_callback(int argc, char **argv)
{
	char name[] = "callback";

	rdmamsg_set_log(print_line, name, RDMAMSG_LOG_ERROR);
	return log_to_output(argc, argv);
}

struct log {
	char text[16384];
};

static void read_log(const char *role, const char *name, const char *value,
		     struct log *log)
{
	size_t at = 0;
	struct child c;

	if (name)
		setenv(name, value, 1);
	child_start(&c, role, NULL);
	if (name)
		unsetenv(name);
	for (;;) {
		char line[512];

		child_line(&c, line, sizeof(line));
		if (!strcmp(line, "end"))
			break;
		at += (size_t)snprintf(log->text + at, sizeof(log->text) - at,
				       "%s\n", line);
		assert_true(at < sizeof(log->text));
	}
	log->text[at] = 0;
	assert_int_equal(child_wait(&c), 0);
}

static void check_log(const struct log *log, const char *has, const char *not)
{
	if (has && !strstr(log->text, has))
		fail_msg("no '%s' in the log:\n%s", has, log->text);
	if (not && strstr(log->text, not))
		fail_msg("'%s' in the log:\n%s", not, log->text);
}

static void env__unknown_variable_IS_REPORTED(void **state)
{
	static struct log log;

	read_log("log", "RDMAMSG_FOO", "1", &log);
	check_log(&log, "RDMAMSG_FOO", "info:");
	check_log(&log, "rdmamsg-env(7)", "=1");
	/* a prefix of one that is known, and the other way round */
	read_log("log", "RDMAMSG_LO", "debug", &log);
	check_log(&log, "RDMAMSG_LO:", "debug:");
	read_log("log", "RDMAMSG_LOGS", "debug", &log);
	check_log(&log, "RDMAMSG_LOGS", "debug:");
	/* of the test machines, and of others */
	read_log("log", "RDMAMSG_VM_FOO", "1", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSGFOO", "1", &log);
	assert_string_equal(log.text, "");
}

static void env__no_variable_IS_SILENT(void **state)
{
	static struct log log;

	read_log("log", NULL, NULL, &log);
	assert_string_equal(log.text, "");
}

static void env__log_levels_AS_ASKED(void **state)
{
	static struct log log;

	read_log("log", "RDMAMSG_LOG", "none", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "error", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "warn", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "info", &log);
	check_log(&log, "rdmamsg: info: listening on port", "debug:");
	read_log("log", "RDMAMSG_LOG", "INFO", &log);
	check_log(&log, "rdmamsg: info: listening on port", "debug:");
	read_log("log", "RDMAMSG_LOG", "debug", &log);
	check_log(&log, "rdmamsg: info: listening on port", NULL);
	check_log(&log, "rdmamsg: debug: rdmamsg_listen: service", NULL);
	read_log("log", "RDMAMSG_LOG", "loud", &log);
	check_log(&log, "RDMAMSG_LOG is 'loud'", "info:");
}

static void env__log_level_WINS_OVER_THE_PROGRAMS(void **state)
{
	static struct log log;

	read_log("log-callback", NULL, NULL, &log);
	assert_string_equal(log.text, "");
	read_log("log-callback", "RDMAMSG_LOG", "info", &log);
	check_log(&log, "callback 3: listening on port", "rdmamsg: ");
	read_log("log-callback", "RDMAMSG_LOG", "debug", &log);
	check_log(&log, "callback 4: rdmamsg_listen: service", "rdmamsg: info");
}

static unsigned int lines_of[5];

static void count_line(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	if (arg != lines_of || level < RDMAMSG_LOG_ERROR ||
	    level > RDMAMSG_LOG_DEBUG || !line[0] || strchr(line, '\n'))
		note("level %d: '%s'", level, line);
	else
		lines_of[level]++;
}

/* One error, some of info and debug. */
static void make_lines(enum rdmamsg_log_level level)
{
	memset(lines_of, 0, sizeof(lines_of));
	rdmamsg_set_log(count_line, lines_of, level);
	pair_open(&p);
	p.s.keep = true;
	end_send_all(&p.c, HOW_SEND, 1, 1);
	WAIT_FOR(p.s.received);
	rdmamsg_msg_free(p.s.kept[0]);
	rdmamsg_msg_free(p.s.kept[0]);	/* not ours any more */
	p.s.kept_count = 0;
	assert_error(rdmamsg_sendv(p.c.ep, NULL, 1, 0, NULL), -EINVAL, "");
	pair_close(&p);
	pair_fini(&p);
}

static void set_log__levels_AS_ASKED(void **state)
{
	if (getenv("RDMAMSG_LOG")) {
		skip_because("RDMAMSG_LOG is set");
		return;
	}
	make_lines(RDMAMSG_LOG_NONE);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 0);
	make_lines(RDMAMSG_LOG_ERROR);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_int_equal(lines_of[RDMAMSG_LOG_INFO], 0);
	make_lines(RDMAMSG_LOG_WARN);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_int_equal(lines_of[RDMAMSG_LOG_INFO], 0);
	make_lines(RDMAMSG_LOG_INFO);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_true(lines_of[RDMAMSG_LOG_INFO] > 0);
	assert_int_equal(lines_of[RDMAMSG_LOG_DEBUG], 0);
	make_lines(RDMAMSG_LOG_DEBUG);
	assert_true(lines_of[RDMAMSG_LOG_INFO] > 0);
	assert_true(lines_of[RDMAMSG_LOG_DEBUG] > 0);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_DEBUG);
	memset(lines_of, 0, sizeof(lines_of));
	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_int_equal(lines_of[RDMAMSG_LOG_DEBUG], 0);
}

/* ---- arguments -------------------------------------------------------- */

#define FIELD(name, value) \
	{ #name, offsetof(struct rdmamsg_ep_options, name), (value) }

static const struct {
	const char *name;
	size_t offset;
	uint32_t value;
} bad_fields[] = {
	FIELD(flags, 1u << 31),
	FIELD(timeout_ms, 86400001),
	FIELD(max_msg_size, 0x80000000u),
	FIELD(max_copy, 0x80000000u),
	FIELD(inline_max, 513),
	FIELD(eager_max, (1 << 20) + 1),
	FIELD(recv_depth, 65537),
	FIELD(recv_depth, RDMAMSG_NONE),
	FIELD(send_depth, 65537),
	FIELD(send_depth, RDMAMSG_NONE),
	FIELD(send_queue, 65537),
	FIELD(dead_after_ms, 9),
	FIELD(dead_after_ms, 86400001),
	FIELD(stall_after_ms, 9),
	FIELD(stall_after_ms, 86400001),
	FIELD(peer_timeout_ms, 9),
	FIELD(peer_timeout_ms, 86400001),
	FIELD(fetch_timeout_ms, 9),
	FIELD(fetch_timeout_ms, 86400001),
	FIELD(close_timeout_ms, 86400001),
	FIELD(ack_timeout, 32),
	FIELD(retry_count, 8),
	FIELD(rnr_retry_count, 8),
	FIELD(min_rnr_timer, 32),
	FIELD(responder_resources, 256),
	FIELD(initiator_depth, 256),
	FIELD(tos, 256),
};

/* As options of an endpoint, and of those that a listener is to accept. */
static void check_ep_options(const struct rdmamsg_ep_options *opts,
			     const char *word)
{
	struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = opts,
	};
	struct rdmamsg_ep *ep;
	int ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", opts, &ep);

	if (ret != -EINVAL || !strstr(rdmamsg_error(), word))
		fail_msg("connect, %s: %d, %s", word, ret, rdmamsg_error());
	ret = rdmamsg_listen(p.s.ctx, test_addr(), "0", &listen, NULL);
	if (ret != -EINVAL || !strstr(rdmamsg_error(), word))
		fail_msg("listen, %s: %d, %s", word, ret, rdmamsg_error());
}

static void options__of_endpoints_out_of_range_NAMED(void **state)
{
	static const uint8_t data[RDMAMSG_SETUP_DATA_MAX + 1];
	struct rdmamsg_ep_options o;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_fields); i++) {
		o = p.c.opts;
		memcpy((char *)&o + bad_fields[i].offset, &bad_fields[i].value,
		       sizeof(uint32_t));
		check_ep_options(&o, bad_fields[i].name);
	}
	o = p.c.opts;
	o.hello_data = data;
	o.hello_data_len = RDMAMSG_HELLO_DATA_MAX + 1;
	check_ep_options(&o, "hello_data_len");
	o.hello_data = NULL;
	o.hello_data_len = 1;
	check_ep_options(&o, "hello_data");
	o = p.c.opts;
	o.setup_data = data;
	o.setup_data_len = RDMAMSG_SETUP_DATA_MAX + 1;
	check_ep_options(&o, "setup_data_len");
	o.setup_data = NULL;
	o.setup_data_len = 1;
	check_ep_options(&o, "setup_data");
	pair_fini(&p);
}

static const size_t bad_sizes[] = { 0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX };

static void options__struct_sizes_out_of_range_NAMED(void **state)
{
	struct rdmamsg_ep_options ep_opts;
	struct rdmamsg_handlers on;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		struct rdmamsg_options opts = { .size = bad_sizes[i] };
		struct rdmamsg_listen_options listen = { .size = bad_sizes[i] };
		struct rdmamsg_stats stats = { .size = bad_sizes[i] };
		struct rdmamsg *ctx;

		assert_error(rdmamsg_open(&ctx, &opts), -EINVAL,
			     "rdmamsg_options");
		assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &listen,
					    NULL), -EINVAL,
			     "rdmamsg_listen_options");
		ep_opts = p.c.opts;
		ep_opts.size = bad_sizes[i];
		check_ep_options(&ep_opts, "rdmamsg_ep_options");
		on = p.c.on;
		on.size = bad_sizes[i];
		ep_opts = p.c.opts;
		ep_opts.handlers = &on;
		check_ep_options(&ep_opts, "rdmamsg_handlers");
		assert_error(rdmamsg_stats(p.s.ctx, &stats), -EINVAL, "size");
	}
	pair_fini(&p);
}

/* A newer program is served as long as it asks for nothing new. */
static void options__longer_struct_ONLY_WITH_ZEROS(void **state)
{
	struct {
		struct rdmamsg_options opts;
		uint64_t more;
	} o = { .opts.size = sizeof(o) };
	struct {
		struct rdmamsg_stats stats;
		uint64_t more;
	} s = { .stats.size = sizeof(s), .more = 7 };
	struct rdmamsg *ctx = test_open(&o.opts);

	assert_int_equal(rdmamsg_stats(ctx, &s.stats), 0);
	assert_int_equal(s.more, 0);
	assert_int_equal(s.stats.size, sizeof(s));
	o.more = 1;
	assert_error(rdmamsg_open(&ctx, &o.opts), -EINVAL, "does not know");
}

/* An older program has fewer fields: the rest are defaults, or not filled. */
static void options__shorter_struct_IS_FINE(void **state)
{
	struct rdmamsg_stats s;
	struct rdmamsg_options o = {
		.size = offsetof(struct rdmamsg_options, spin_us),
		.spin_us = 0xffffff, .submit_depth = 0xffffff,
	};
	struct rdmamsg *ctx = test_open(&o);

	memset(&s, 0x55, sizeof(s));
	s.size = offsetof(struct rdmamsg_stats, msgs_received);
	assert_int_equal(rdmamsg_stats(ctx, &s), 0);
	assert_int_equal(s.msgs_sent, 0);
	assert_int_equal(s.msgs_received, 0x5555555555555555ull);

	pair_init(&p, NULL);
	p.c.opts.size = offsetof(struct rdmamsg_ep_options, source);
	p.c.opts.source = "not looked at";
	p.c.opts.tos = 999;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	pair_close(&p);
	pair_fini(&p);
}

static void options__of_contexts_and_listeners_NAMED(void **state)
{
	struct rdmamsg_options o = { .size = sizeof(o) };
	struct rdmamsg_listen_options l = {
		.size = sizeof(l), .backlog = 65536,
	};
	struct rdmamsg *ctx;

	o.spin_us = 1000001;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "spin_us");
	o.spin_us = RDMAMSG_NONE;
	o.submit_depth = (1 << 20) + 1;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "submit_depth");
	o.submit_depth = RDMAMSG_NONE;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "submit_depth");
	o.submit_depth = 1 << 20;
	ctx = test_open(&o);
	assert_error(rdmamsg_listen(ctx, test_addr(), "0", &l, NULL), -EINVAL,
		     "backlog");
}

static void arguments__NULL_context_EINVAL(void **state)
{
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_fd(NULL), -EINVAL, "context");
	assert_error(rdmamsg_process(NULL), -EINVAL, "context");
	assert_error(rdmamsg_poll(NULL), -EINVAL, "context");
	assert_error(rdmamsg_wait(NULL, 0), -EINVAL, "context");
	assert_error(rdmamsg_run(NULL), -EINVAL, "context");
	assert_error(rdmamsg_connect(NULL, "a", "1", NULL, &ep), -EINVAL,
		     "context");
	assert_error(rdmamsg_connect_wait(NULL, "a", "1", NULL, 0, &ep),
		     -EINVAL, "context");
	assert_error(rdmamsg_listen(NULL, "a", "1", NULL, &l), -EINVAL,
		     "context");
	assert_error(rdmamsg_stats(NULL, &stats), -EINVAL, "context");
	rdmamsg_stop(NULL);
	rdmamsg_dump(NULL, line_never, NULL);
	rdmamsg_dump(ctx, NULL, NULL);
	rdmamsg_close(NULL);

	assert_error(rdmamsg_connect(ctx, NULL, "1", NULL, &ep), -EINVAL,
		     "host");
	assert_error(rdmamsg_connect(ctx, test_addr(), NULL, NULL, &ep),
		     -EINVAL, "service");
	assert_error(rdmamsg_listen(ctx, NULL, NULL, NULL, &l), -EINVAL,
		     "service");
	assert_error(rdmamsg_stats(ctx, NULL), -EINVAL, "struct");
}

static void arguments__NULL_endpoint_EINVAL(void **state)
{
	struct rdmamsg_ep_info info = { .size = sizeof(info) };
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct rdmamsg_msg *msg;

	assert_error(rdmamsg_ep_info(NULL, &info), -EINVAL, "endpoint");
	assert_error(rdmamsg_ep_stats(NULL, &stats), -EINVAL, "endpoint");
	assert_error(rdmamsg_send(NULL, "x", 1, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_sendv(NULL, &iov, 1, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_msg_send(NULL, NULL, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_msg_alloc(NULL, 1, &msg), -EINVAL, "endpoint");
	assert_error(rdmamsg_send_wait(NULL, "x", 1, 0, 0), -EINVAL,
		     "endpoint");
	assert_error(rdmamsg_recv_wait(NULL, 0, &msg), -EINVAL, "endpoint");
	assert_error(rdmamsg_close_wait(NULL, 0), -EINVAL, "endpoint");
	rdmamsg_ep_close(NULL);
	rdmamsg_ep_abort(NULL);
	rdmamsg_ep_hold(NULL);
	rdmamsg_ep_rele(NULL);
	rdmamsg_msg_free(NULL);
}

static void arguments__NULL_request_and_listener_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct sockaddr_storage addr;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_request_peer(NULL, &addr), -EINVAL, "request");
	assert_error(rdmamsg_accept(NULL, NULL, &ep), -EINVAL, "request");
	assert_error(rdmamsg_reject(NULL, NULL, 0), -EINVAL, "request");
	assert_error(rdmamsg_request_move(NULL, ctx, move_never, NULL), -EINVAL,
		     "request");
	assert_error(rdmamsg_accept_wait(NULL, NULL, 0, &ep), -EINVAL,
		     "listener");
	rdmamsg_listener_close(NULL);
}

static void arguments__of_a_connected_endpoint_EINVAL(void **state)
{
	struct rdmamsg_ep_info info = { .size = 1 };
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_error(rdmamsg_ep_info(p.c.ep, &info), -EINVAL, "size");
	assert_error(rdmamsg_ep_info(p.c.ep, NULL), -EINVAL, "struct");
	assert_error(rdmamsg_ep_stats(p.c.ep, NULL), -EINVAL, "struct");
	assert_error(rdmamsg_msg_alloc(p.c.ep, 1, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_msg_send(p.c.ep, NULL, 0, NULL), -EINVAL,
		     "message");
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 100, &msg), 0);
	assert_error(rdmamsg_msg_set_len(msg, 100000), -EINVAL, "100000");
	rdmamsg_msg_free(msg);
	pair_close(&p);
	pair_fini(&p);
}

static void arguments__of_a_request_EINVAL(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = keep_request,
	};
	uint8_t data[RDMAMSG_HELLO_DATA_MAX + 1] = { 0 };

	waiting = NULL;
	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(waiting);
	assert_error(rdmamsg_request_peer(waiting, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_request_move(waiting, NULL, move_never, NULL),
		     -EINVAL, "context");
	assert_error(rdmamsg_request_move(waiting, p.c.ctx, NULL, NULL),
		     -EINVAL, "fn");
	/* it ends, whatever this returns */
	assert_error(rdmamsg_reject(waiting, data, sizeof(data)), -EINVAL,
		     "32");
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(p.c.why.data_len, 0);
	pair_fini(&p);
}

static void *another_thread(void *arg)
{
	snprintf(arg, 256, "%s", rdmamsg_error());
	return NULL;
}

/* ---- a look at it ----------------------------------------------------- */

static char dumped[8192];

static void add_line(void *arg, const char *text)
{
	size_t at = strlen(dumped);

	if (arg != dumped || strchr(text, '\n'))
		note("a line of the dump: '%s'", text);
	snprintf(dumped + at, sizeof(dumped) - at, "%s\n", text);
}

static void check_dump(const struct rdmamsg *ctx, const char *const *words)
{
	dumped[0] = 0;
	rdmamsg_dump(ctx, add_line, dumped);
	for (; *words; words++)
		if (!strstr(dumped, *words))
			fail_msg("no '%s' in\n%s", *words, dumped);
}

static void dump__of_a_server_SHOWS_WHAT_THERE_IS(void **state)
{
	char port[24];
	const char *const empty[] = { "0 endpoints", NULL };
	const char *const words[] = {
		"1 endpoints", test_device(), test_kind(), port, "open",
		test_addr(),
		"received 1 messages 100 bytes", NULL,
	};

	pair_init(&p, NULL);
	check_dump(p.s.ctx, empty);
	pair_listen(&p);
	pair_connect(&p);
	snprintf(port, sizeof(port), "port %s", p.port);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	WAIT_FOR(p.s.received == 1);
	check_dump(p.s.ctx, words);
	pair_close(&p);
	check_dump(p.s.ctx, empty);
	pair_fini(&p);
}

static void stats__of_an_exchange_ADD_UP(void **state)
{
	struct rdmamsg_stats c = { .size = sizeof(c) };
	struct rdmamsg_stats s = { .size = sizeof(s) };

	pair_open(&p);
	p.s.keep = true;
	end_send_all(&p.c, HOW_SEND, 100, 1);
	end_send_all(&p.c, HOW_SEND, 5000, 2);
	end_send_all(&p.c, HOW_SENDV, 100000, 3);
	WAIT_FOR(p.s.received == 3 && p.c.sent_ok == 3);
	assert_int_equal(rdmamsg_ep_stats(p.c.ep, &c), 0);
	assert_int_equal(rdmamsg_ep_stats(p.s.ep, &s), 0);
	assert_int_equal(c.msgs_sent, 3);
	assert_int_equal(c.bytes_sent, 105100);
	assert_int_equal(c.sent_inline, 1);
	assert_int_equal(c.sent_eager, 1);
	assert_int_equal(c.sent_rendezvous, 1);
	assert_int_equal(c.msgs_received, 0);
	assert_true(c.completions > 0);
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.bytes_received, 105100);
	assert_int_equal(s.received_rendezvous, 1);
	assert_int_equal(s.msgs_sent, 0);
	s = end_stats(&p.s);
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.msgs_lent, 3);
	assert_int_equal(s.endpoints, 1);
	assert_true(s.wakeups > 0);
	assert_true(s.bytes_registered > 100000);
	end_release(&p.s);
	assert_int_equal(end_stats(&p.s).msgs_lent, 0);
	pair_close(&p);
	s = end_stats(&p.s);
	/* what was counted stays, what is now is over */
	assert_int_equal(s.msgs_received, 3);
	assert_int_equal(s.endpoints, 0);
	pair_fini(&p);
}

static void error__text_BELONGS_TO_THE_THREAD(void **state)
{
	char text[256] = "";
	pthread_t thread;

	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_false(pthread_create(&thread, NULL, another_thread, text));
	pthread_join(thread, NULL);
	assert_string_equal(text, "no error");
	assert_non_null(strstr(rdmamsg_error(), "ret"));
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "talk", talk_to_itself }, { "log", log_to_output },
		{ "log-callback", log_to_callback }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(device__none_there_ENODEV),	/* the first one */
		TEST(devices__ours_IS_LISTED),
		TEST(device__named_in_the_environment_IS_USED),
		TEST(device__unknown_in_the_environment_ENODEV),
		TEST(device__unknown_in_the_options_ENODEV),
		TEST(device__named_in_the_options_IS_USED),
		TEST(permission__none_for_the_nodes_EACCES),
		TEST(permission__for_everybody_IS_ENOUGH),
		TEST(permission__user_changed_after_open_EPERM),
		TEST(limit__locked_memory_NAMED),
		TEST(limit__open_files_EMFILE),
		TEST(limit__none_for_the_soft_HCA_EMFILE),
		TEST(fabric__bad_name_EINVAL),
		TEST(limit__depth_beyond_the_devices_NAMED),
		TEST(connect__no_such_name_SAYS_SO),
		TEST(connect__source_that_is_not_ours_SAYS_SO),
		TEST(connect__source_that_is_ours_WORKS),
		TEST(service__not_a_port_EINVAL),
		TEST(listen__port_in_use_EADDRINUSE),
		TEST(listen__address_of_another_host_EADDRNOTAVAIL),
		TEST(fork__all_calls_in_the_child_ECHILD),
		TEST(env__unknown_variable_IS_REPORTED),
		TEST(env__no_variable_IS_SILENT),
		TEST(env__log_levels_AS_ASKED),
		TEST(env__log_level_WINS_OVER_THE_PROGRAMS),
		TEST(set_log__levels_AS_ASKED),
		TEST(options__of_endpoints_out_of_range_NAMED),
		TEST(options__struct_sizes_out_of_range_NAMED),
		TEST(options__longer_struct_ONLY_WITH_ZEROS),
		TEST(options__shorter_struct_IS_FINE),
		TEST(options__of_contexts_and_listeners_NAMED),
		TEST(arguments__NULL_context_EINVAL),
		TEST(arguments__NULL_endpoint_EINVAL),
		TEST(arguments__NULL_request_and_listener_EINVAL),
		TEST(arguments__of_a_connected_endpoint_EINVAL),
		TEST(arguments__of_a_request_EINVAL),
		TEST(dump__of_a_server_SHOWS_WHAT_THERE_IS),
		TEST(stats__of_an_exchange_ADD_UP),
		TEST(error__text_BELONGS_TO_THE_THREAD),
	};

	return test_main(tests, roles, argc, argv);
}
