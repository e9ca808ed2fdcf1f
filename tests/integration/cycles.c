/* SPDX-License-Identifier: BSD-2-Clause */
/* A thousand peers are killed, and no resource of theirs stays behind. */
#include "common.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <rdmamsg/device.h>
#include <rdmamsg/listener.h>

#define AT_ONCE		8
#define LARGE		20000
#define WINDOW		6	/* messages in flight; more only take time */
#define CLIENTS		1000
#define SERVERS		300
#define FEWER		10	/* divides both in a slow virtual machine */

static uint32_t next_random(void)
{
	static uint32_t x = 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x;
}

/* ---- the killed children ---------------------------------------------- */

static void chatter(struct end *e)
{
	static char memory[LARGE];
	int ret = 0;

	while (!ret && e->sent < e->received + WINDOW) {
		size_t len = e->sent % 5 == 3 ? LARGE : e->sent % 300;
		struct iovec iov = { memory, len };

		ret = rdmamsg_sendv(e->ep, &iov, 1, 0, NULL);
		e->sent += !ret;
	}
	if (ret && ret != -EAGAIN && ret != -ESHUTDOWN)
		note("%s: %s", e->name, rdmamsg_error());
}

static void hear(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	chatter(e);
}

static void end_of_child(struct end *e)
{
	end_init(e, "child", test_open(NULL));
	e->opts.flags = getpid() % 2 ? RDMAMSG_EP_GUARD : 0;
	e->expect_nothing = true;
	e->then_connected = e->then_writable = chatter;
	e->then_message = hear;
}

static int client(const char *port)
{
	pid_t pid = getpid();
	struct end e;

	end_of_child(&e);
	e.opts.hello_data = &pid;
	e.opts.hello_data_len = sizeof(pid);
	if (rdmamsg_connect(e.ctx, test_addr(), port, &e.opts, &e.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	while (!e.closed)
		test_pump(1000);
	return 0;
}

static void on_peer(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = rdmamsg_listener_user(l);

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static int server(void)
{
	struct end e;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_peer,
	};
	/* a host with much to do may take longer than the default's 5 s */
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &e, .handlers = &on,
		.setup_timeout_ms = WAIT_MS,
	};
	struct rdmamsg_listener *l;

	end_of_child(&e);
	if (rdmamsg_listen(e.ctx, test_addr(), "0", &opts, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	say("port %d %u\n", getpid(), rdmamsg_listener_port(l));
	while (!e.closed)
		test_pump(1000);
	return 0;
}

static void bear(const char *what, const char *port)
{
	if (fork())
		return;
	say("born %d\n", getpid());
	alarm(TEST_SECONDS);
	exit(strcmp(what, "client") ? server() : client(port));
}

static void bury(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		say("failed %d\n", pid);
}

/*
 * The nursery forks the hundreds of processes, because loading the libraries in
 * each takes longer than all else. It only looks for devices, so that its
 * children may use them.
 */
static int nursery(int argc, char **argv)
{
	char line[64], what[16], arg[16];

	if (rdmamsg_devices(NULL, 0, 0) < 1)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		alarm(TEST_SECONDS);
		if (sscanf(line, "%15s %15s", what, arg) != 2)
			return 1;
		if (!strcmp(what, "kill"))
			bury(atoi(arg));
		else
			bear(what, arg);
	}
	return 0;
}

static const struct role roles[] = { { "nursery", nursery }, { NULL } };

/* ---- the surviving process -------------------------------------------- */

struct guest {
	struct end end;
	pid_t pid;
	struct guest *next;
};

/* A child and its lifetime. */
struct slot {
	pid_t pid;			/* 0: none */
	char port[8];			/* port of a server, once known */
	struct guest *guest;		/* endpoint connected to the child */
	uint64_t kill_at;		/* 0: no time limit */
	size_t kill_after;		/* kill after so many of its messages */
};

static struct {
	struct rdmamsg *ctx;
	struct rdmamsg_listener *listener;
	char port[8];
	const char *role;
	struct child nursery;
	struct slot slots[AT_ONCE];
	struct guest *guests;
	unsigned int started, killed, exchanged;
	unsigned int typical_ms;	/* mean time until the first message */
	char last_end[200];		/* of a connection that was not up */
} t;

static void answer(struct end *e, struct rdmamsg_msg *msg)
{
	struct cookie *c = end_cookie(e);

	if (rdmamsg_msg_send(e->ep, msg, 1, c)) {
		rdmamsg_msg_free(msg);
		c->count = 1;
	}
}

static void check_reason(struct end *e)
{
	const struct rdmamsg_reason *why = &e->why;

	if (!e->connected)
		(void)snprintf(t.last_end, sizeof(t.last_end), "%s", why->text);
	if (e->connected ? !end_tells_death(why) :
	    why->who == RDMAMSG_WHO_LOCAL || why->who == RDMAMSG_WHO_DEVICE)
		note("connected %u, closed by %d, cause %d: %s", e->connected,
		     why->who, why->cause, why->text);
}

static struct guest *guest_new(void)
{
	static unsigned int made;
	struct guest *g = calloc(1, sizeof(*g));

	end_init(&g->end, "guest", t.ctx);
	/* guard every second endpoint */
	g->end.opts.flags = made++ % 2 ? RDMAMSG_EP_GUARD : 0;
	g->end.expect_nothing = true;
	g->end.then_message = answer;
	g->end.then_closed = check_reason;
	g->end.opts.timeout_ms = 30000;
	g->next = t.guests;
	t.guests = g;
	return g;
}

/* Frees those that are closed, and returns how many are not. */
static unsigned int sweep(void)
{
	struct guest **at = &t.guests, *g;
	unsigned int alive = 0;

	while ((g = *at)) {
		if (!g->end.closed) {
			at = &g->next;
			alive++;
			continue;
		}
		for (int i = 0; i < AT_ONCE; i++)
			if (t.slots[i].guest == g)
				t.slots[i].guest = NULL;
		*at = g->next;
		end_fini(&g->end);
		free(g);
	}
	return alive;
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct guest *g = guest_new();
	size_t len;

	memcpy(&g->pid, rdmamsg_request_data(req, &len), sizeof(g->pid));
	if (rdmamsg_request_accept(req, &g->end.opts, &g->end.ep)) {
		g->end.closed = 1;	/* killed before that */
		texts_are_fine = true;
	}
}

static void connect_back(struct slot *s)
{
	s->guest = guest_new();
	s->guest->pid = s->pid;
	if (rdmamsg_connect(t.ctx, test_addr(), s->port, &s->guest->end.opts,
			    &s->guest->end.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
}

/* Reads a line from the nursery. Returns the new process, or 0. */
static pid_t hear_news(void)
{
	char line[64], what[16] = "", port[8] = "";
	int pid = 0;

	child_line(&t.nursery, line, sizeof(line));
	sscanf(line, "%15s %d %7s", what, &pid, port);
	if (!strcmp(what, "born"))
		return pid;
	if (strcmp(what, "port"))
		fail_msg("the nursery says '%s'", line);
	for (int i = 0; i < AT_ONCE; i++)
		if (t.slots[i].pid == pid)
			memcpy(t.slots[i].port, port, sizeof(port));
	return 0;
}

static void hear_all_news(void)
{
	struct pollfd fd = { .fd = t.nursery.from, .events = POLLIN };

	while (poll(&fd, 1, 0) > 0)
		if (hear_news())
			fail_msg("nobody has asked for that one");
}

static void slot_start(struct slot *s)
{
	char line[32];

	memset(s, 0, sizeof(*s));
	snprintf(line, sizeof(line), "%s %s\n", t.role, t.port);
	child_say(&t.nursery, line);
	while (!s->pid)
		s->pid = hear_news();
	s->kill_after = 1 + next_random() % 20;
	/* kill some children before they are connected */
	if (t.started++ % 4 == 3)
		s->kill_at = now_ms() + next_random() % t.typical_ms;
}

static void slot_kill(struct slot *s)
{
	char line[32];

	snprintf(line, sizeof(line), "kill %d\n", s->pid);
	child_say(&t.nursery, line);
	t.killed++;
	t.exchanged += s->guest && s->guest->end.received;
	memset(s, 0, sizeof(*s));
}

static void slot_work(struct slot *s, unsigned int goal)
{
	if (!s->pid && t.started < goal)
		slot_start(s);
	if (!s->pid)
		return;
	if (s->port[0] && !s->guest)
		connect_back(s);
	for (struct guest *g = t.guests; g && !s->guest; g = g->next)
		if (g->pid == s->pid)
			s->guest = g;
	if (s->kill_at ? now_ms() >= s->kill_at :
	    s->guest && s->guest->end.received >= s->kill_after)
		slot_kill(s);
}

/* Says what each child is waited for. */
static void stands_still(void)
{
	for (int i = 0; i < AT_ONCE; i++) {
		const struct slot *s = &t.slots[i];
		const struct end *e = s->guest ? &s->guest->end : NULL;

		if (s->pid)
			printf("  child %d, port '%s': %s, %zu of %zu "
			       "messages; the last end: %s\n", s->pid, s->port,
			       !e ? "no connection" : e->connected ?
			       "connected" : "connecting", e ? e->received : 0,
			       s->kill_after, t.last_end);
	}
	fail_msg("after %u no more", t.killed);
}

static void kill_many(unsigned int goal)
{
	uint64_t began = now_ms(), progress = began;

	while (t.killed < goal) {
		unsigned int before = t.killed;

		for (int i = 0; i < AT_ONCE; i++)
			slot_work(&t.slots[i], goal);
		test_pump(10);
		check_notes();
		hear_all_news();
		sweep();
		if (t.killed != before) {
			progress = now_ms();
			alarm(TEST_SECONDS);
			if (t.killed % 100 == 0)
				printf("  %u killed, %u ms\n", t.killed,
				       (unsigned int)(progress - began));
		}
		if (now_ms() - progress > WAIT_MS)
			stands_still();
	}
	WAIT_FOR(!sweep());
	printf("  %u killed, %u of them in the middle of an exchange\n",
	       t.killed, t.exchanged);
	assert_true(t.exchanged >= goal / 2);
}

/* ---- resources held --------------------------------------------------- */

struct held {
	int fds, qp, cq, mr, pd, cm_id;
};

static struct held held_now(void)
{
	struct held h = {
		open_fds(), rdma_count("qp"), rdma_count("cq"),
		rdma_count("mr"), rdma_count("pd"), rdma_count("cm_id"),
	};

	return h;
}

static bool same(const struct held *a)
{
	struct held b = held_now();

	return !memcmp(a, &b, sizeof(b));
}

static void wait_same(const struct held *a, const char *when)
{
	uint64_t end = now_ms() + WAIT_MS;
	struct held b;

	while (!same(a) && now_ms() < end)
		test_pump(500);
	b = held_now();
	if (memcmp(a, &b, sizeof(b)))
		fail_msg("%s: fd %d, was %d, qp %d, %d, cq %d, %d, mr %d, %d, "
			 "pd %d, %d, cm_id %d, %d", when, b.fds, a->fds, b.qp,
			 a->qp, b.cq, a->cq, b.mr, a->mr, b.pd, a->pd, b.cm_id,
			 a->cm_id);
}

static void open_and_listen(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.setup_timeout_ms = WAIT_MS,
	};

	t.ctx = test_open(NULL);
	if (rdmamsg_listen(t.ctx, test_addr(), "0", &opts, &t.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(t.listener, t.port);
}

static unsigned int few(unsigned int many)
{
	return getenv("RDMAMSG_VM") ? many / FEWER : many;
}

static void cycles(const char *role, unsigned int goal)
{
	struct held nothing, listening;
	uint64_t began;

	memset(&t, 0, sizeof(t));
	t.role = role;
	t.typical_ms = 1000;
	child_start(&t.nursery, "nursery", "");
	/* libraries loaded once are no leak; this round also measures times */
	open_and_listen();
	began = now_ms();
	kill_many(1);
	t.typical_ms = (unsigned int)(now_ms() - began) * AT_ONCE / 4;
	test_close(t.ctx);

	nothing = held_now();
	open_and_listen();
	listening = held_now();
	t.started = t.killed = t.exchanged = 0;
	kill_many(goal);
	/* the library closes the device some time after its last endpoint */
	wait_same(&listening, "idle");

	/* the resources serve another context */
	t.started = t.killed = t.exchanged = 0;
	kill_many(2);
	test_close(t.ctx);
	wait_same(&nothing, "closed");
	close(t.nursery.to);
	t.nursery.to = -1;
	assert_int_equal(child_wait(&t.nursery), 0);
}

static void clients__killed_LEAVE_NOTHING(void **state)
{
	cycles("client", few(CLIENTS));
}

static void servers__killed_LEAVE_NOTHING(void **state)
{
	cycles("server", few(SERVERS));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(clients__killed_LEAVE_NOTHING),
		TEST(servers__killed_LEAVE_NOTHING),
	};

	return test_main(tests, roles, argc, argv);
}
