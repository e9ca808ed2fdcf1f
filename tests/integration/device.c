/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The choice of the device, and the errors of a program without a device,
 * without permission, or under low limits.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/group.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/verbs.h>

static struct pair p;

/* ---- a program without permission or resources ------------------------ */

#define NOBODY		65534

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

/* Connects to itself, if possible, and prints the result of each step. */
static int talk_to_itself(int argc, char **argv)
{
	struct rdmamsg_ep_options ep_opts = {
		.size = sizeof(ep_opts), .timeout_ms = WAIT_MS,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep_opts,
	};
	struct rdmamsg_device_attr info = { .size = sizeof(info) };
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
	ret = rdmamsg_devices(&info, sizeof(info), 1);
	/* the list has the error, the query has the text */
	if (ret > 0 && info.error)
		ret = rdmamsg_device_query(info.name, &info);
	answer("devices", ret);
	ctx = test_open(NULL);
	if (!strcmp(how, "nofile"))
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 1024 });
	ret = rdmamsg_listen(ctx, test_addr(), "0", &opts, &l);
	answer("listen", ret);
	if (l)
		listener_service(l, port);
	if (!strcmp(how, "changed") && seteuid(NOBODY))
		note("seteuid: %s", strerror(errno));
	/* the leak checker traces this process, which NOBODY may not do */
	prctl(PR_SET_DUMPABLE, 1);
	ret = rdmamsg_connect_wait(ctx, test_addr(), port, &ep_opts, WAIT_MS,
				   &ep);
	answer("connect", ret);
	if (!ret)
		rdmamsg_ep_close_wait(ep, WAIT_MS);
	if (!strcmp(how, "changed") && seteuid(0))
		note("seteuid: %s", strerror(errno));
	/* the leak checker opens files */
	if (!strcmp(how, "nofile"))
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1024, 1024 });
	return 0;
}

/* Connects with few descriptors. Prints the first failure and its text. */
static int talk_with_few(int argc, char **argv)
{
	struct rdmamsg_ep_options ep_opts = {
		.size = sizeof(ep_opts), .timeout_ms = WAIT_MS,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep_opts,
	};
	struct rlimit rl;
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;
	char port[8];
	int ret;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = argc ? (rlim_t)atoi(argv[0]) : 0;
	setrlimit(RLIMIT_NOFILE, &rl);
	ret = rdmamsg_open(&ctx, NULL);
	if (!ret)
		ret = rdmamsg_listen(ctx, test_addr(), "0", &opts, &l);
	if (!ret) {
		listener_service(l, port);
		ret = rdmamsg_connect_wait(ctx, test_addr(), port, &ep_opts,
					   WAIT_MS, &ep);
	}
	answer("few", ret);
	/* _exit() skips the leak checker, which opens files */
	_exit(0);
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
 * This test runs before the process uses RDMA itself, because the kernel waits
 * for every open context of a removed device.
 */
static void device__none_there_ENODEV(void **state)
{
	char del[64], add[128];
	struct talk t, other;

	if (test_on_soft())
		skip_because("the soft HCA is in the process that looks "
			     "for it");
	snprintf(del, sizeof(del), "rdma link del %s", test_device());
	snprintf(add, sizeof(add), "rdma link add %s type %s netdev veth0",
		 test_device(), test_on_siw() ? "siw" : "rxe");
	assert_int_equal(system(del), 0);
	setenv("RDMAMSG_DEVICE", "hw", 1);
	t = talk(NULL);
	unsetenv("RDMAMSG_DEVICE");
	other = talk(NULL);
	assert_int_equal(system(add), 0);
	check_answer(&other.devices, 1, NULL);	/* the soft HCA */
	check_answer(&t.listen, -ENODEV, "rdma link add");
	check_answer(&t.connect, -ENODEV, "rdma link add");
	check_talk(&other);			/* which serves unless hw */
	t = talk(NULL);
	check_talk(&t);
}

static void devices__ours_IS_LISTED(void **state)
{
	struct rdmamsg_device_attr list[8], *d = NULL;
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
	/* the size of an older program's struct */
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
	/* "hw" is last: the machine may have no hardware device */
	const char *const good[] = { test_device(), "soft", "hw" };
	struct talk t;

	for (size_t i = 0; i < ARRAY_SIZE(good) - test_on_soft(); i++) {
		t = talk_with(good[i]);
		check_talk(&t);
	}
}

static void device__unknown_in_the_environment_FAILS(void **state)
{
	struct talk t = talk_with("nope0");

	check_answer(&t.listen, test_unknown_device(), "nope0");
	check_answer(&t.connect, test_unknown_device(), "nope0");
}

static void device__unknown_in_the_options_FAILS(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .device = "nope0",
	};
	const struct rdmamsg_group_options group = {
		.size = sizeof(group), .device = "nope0",
	};
	const struct rdmamsg_group_options from = {
		.size = sizeof(from), .device = "nope0", .source = test_addr(),
	};
	const struct rdmamsg_qp_options raw = {
		.size = sizeof(raw), .device = "nope0",
	};
	const int error = test_unknown_device();
	struct rdmamsg_group *g;
	struct rdmamsg_ep *ep;
	struct rdmamsg_qp *qp;

	pair_init(&p, NULL);
	p.c.opts.device = "nope0";
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     error, "nope0");
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, NULL),
		     error, "nope0");
	assert_error(rdmamsg_oob_offer(p.c.ctx, &p.c.opts, &ep), error,
		     "nope0");
	assert_error(rdmamsg_device_watch(p.c.ctx, "nope0"), error, "nope0");
	assert_error(rdmamsg_qp_create(p.c.ctx, &raw, &qp), error, "nope0");
	assert_error(rdmamsg_group_join(p.c.ctx, "239.1.2.3", &group, &g),
		     error, "nope0");
	assert_error(rdmamsg_group_join(p.c.ctx, "239.1.2.3", &from, &g),
		     error, "nope0");
	p.c.opts.source = test_addr();
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     error, "nope0");
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
	assert_string_equal(rdmamsg_ep_device_name(p.c.ep), test_device());
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

/* Changes the modes of the nodes, if there are any: the soft HCA has none. */
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

static void need_root(void)
{
	if (geteuid())
		skip_because("only root becomes another user");
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

	need_root();
	nodes_chmod(0666);
	t = talk("nobody");
	nodes_restore();
	check_talk(&t);
}

static void permission__user_changed_after_open_EPERM(void **state)
{
	struct talk t;

	need_root();
	t = talk("changed");
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

/*
 * The error names the descriptor limit, whichever descriptor is missing first.
 */
static void limit__few_open_files_EMFILE(void **state)
{
	struct answer a = { .ret = -EMFILE };
	struct child c;
	char n[12];

	if (!test_on_soft())
		skip_because("what a device of the kernel needs is its own");
	for (int i = 3; a.ret && i < 64; i++) {
		snprintf(n, sizeof(n), "%d", i);
		child_start(&c, "few", n);
		read_answer(&c, "few", &a);
		assert_int_equal(child_wait(&c), 0);
		if (a.ret)
			check_answer(&a, -EMFILE, "ulimit -n");
	}
	assert_int_equal(a.ret, 0);
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

/* Expects an error with these words for a depth beyond the device's limit. */
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
	p.s.tuning.send_depth = 65536;
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
	struct rdmamsg_device_attr d;
	char limit[16];

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) > 0);
	if (d.max_qp_wr > 65536 && d.max_cqe > 65536) {
		skip_because("the device allows whatever the library does");
		return;
	}
	snprintf(limit, sizeof(limit), "%u",
		 d.max_qp_wr <= 65536 ? d.max_qp_wr : d.max_cqe);
	check_depth(&p.c.tuning.send_depth, "send_depth", limit);
	check_depth(&p.c.tuning.recv_depth, "recv_depth", limit);
	check_depth_there();
}

/* IBV_QP_CREATE_PCI_WRITE_END_PADDING is a flag that no software device has. */
static void create_flag__that_it_has_not_NAMED(void **state)
{
	pair_init(&p, NULL);
	p.c.tuning.create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed || p.c.connected);
	if (p.c.connected) {
		pair_fini(&p);
		skip_because("this device has it");
		return;
	}
	assert_int_equal(p.c.why.error, -EOPNOTSUPP);
	if (!strstr(p.c.why.text, "IBV_DEVICE_PCI_WRITE_END_PADDING"))
		fail_msg("told: %s", p.c.why.text);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "talk", talk_to_itself }, { "few", talk_with_few }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(device__none_there_ENODEV),
		TEST(devices__ours_IS_LISTED),
		TEST(device__named_in_the_environment_IS_USED),
		TEST(device__unknown_in_the_environment_FAILS),
		TEST(device__unknown_in_the_options_FAILS),
		TEST(device__named_in_the_options_IS_USED),
		TEST(permission__none_for_the_nodes_EACCES),
		TEST(permission__for_everybody_IS_ENOUGH),
		TEST(permission__user_changed_after_open_EPERM),
		TEST(limit__locked_memory_NAMED),
		TEST(limit__open_files_EMFILE),
		TEST(limit__none_for_the_soft_HCA_EMFILE),
		TEST(limit__few_open_files_EMFILE),
		TEST(fabric__bad_name_EINVAL),
		TEST(limit__depth_beyond_the_devices_NAMED),
		TEST(create_flag__that_it_has_not_NAMED),
	};

	return test_main(tests, roles, argc, argv);
}
