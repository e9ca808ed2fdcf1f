/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are killed or stopped, devices and links that go away. */
#include "common.h"
#include "request.h"
#include "harm.h"
#include "oob_pair.h"

#include <dirent.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/wait.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>

#define BOUND_MS	30000	/* to detect a death, on a busy machine */
#define LARGE		((size_t)1 << 20)

static struct pair p;

/* ---- the peer: a child ------------------------------------------------ */

/* Activity of the child: 'i' none, 'e' echo, 's', 'l' send without end. */
static char activity;

static void pour_small_or_large(struct end *e, char what)
{
	static uint8_t memory[LARGE];
	uint32_t n = 0;
	int ret = 0;

	while (!ret) {
		struct iovec iov = { memory, what == 'l' ? LARGE : n++ % 2000 };

		ret = rdmamsg_sendv(e->ep, &iov, 1, 0, NULL);
	}
	if (ret != -EAGAIN && ret != -ESHUTDOWN)
		note("%s: %s", e->name, rdmamsg_error());
}

static void child_pours(struct end *e)
{
	if (activity == 's' || activity == 'l')
		pour_small_or_large(e, activity);
}

static void child_answers(struct end *e, struct rdmamsg_msg *msg)
{
	if (activity != 'e' || rdmamsg_msg_send(e->ep, msg, 7, NULL))
		rdmamsg_msg_free(msg);
}

static void child_closed(struct end *e)
{
	say("%d %d %d\n", e->why.who, e->why.cause, e->why.error);
}

static void on_request(struct rdmamsg_listener *l,
			     struct rdmamsg_request *req)
{
	struct end *e = rdmamsg_listener_user(l);

	if (rdmamsg_accept(req, &e->opts, &e->ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

/* Arguments: the activity, and the port to connect to, if any. */
static int role_peer(int argc, char **argv)
{
	struct end e;
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &e, .on_request = on_request,
	};
	struct rdmamsg_listener *l;

	activity = argv[0][0];
	end_init(&e, "child", test_open(NULL));
	e.expect_nothing = true;
	e.then_connected = e.then_writable = child_pours;
	e.then_message = child_answers;
	e.then_closed = child_closed;
	if (argv[0][1]) {
		if (rdmamsg_connect(e.ctx, test_addr(), argv[0] + 1, &e.opts,
				    &e.ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	} else {
		if (rdmamsg_listen(e.ctx, test_addr(), "0", &opts, &l))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		say("%u\n", rdmamsg_listener_port(l));
	}
	while (!e.closed)
		test_pump(1000);
	return 0;
}

static const struct role roles[] = { { "peer", role_peer }, { NULL } };

/* ---- this side -------------------------------------------------------- */

static char our_activity;

static void we_pour(struct end *e)
{
	int ret = 0;

	while (!ret && (our_activity == 's' || our_activity == 'l')) {
		size_t len = our_activity == 'l' ? LARGE : e->sent % 2000;
		struct iovec iov = { (void *)(uintptr_t)pattern(0), len };
		struct cookie *c = end_cookie(e);

		ret = rdmamsg_sendv(e->ep, &iov, 1, 0, c);
		if (ret) {
			texts_are_fine = true;
			e->cookies = c->next;
			free(c);
		}
		e->sent += !ret;
	}
	/* EIO: the device is removed, and its event is still to come */
	if (ret && ret != -EAGAIN && ret != -ESHUTDOWN && ret != -EIO)
		note("%s: %s", e->name, rdmamsg_error());
}

static void we_init(char what)
{
	our_activity = what;
	pair_init(&p, NULL);
	p.s.name = "survivor";
	p.s.expect_nothing = true;
	p.s.then_connected = p.s.then_writable = we_pour;
}

/* Connects p.s to a child that is the server, or the client. */
static void we_meet(struct child *child, char what, bool child_serves)
{
	char arg[16] = { what }, port[16];

	if (child_serves) {
		child_start(child, "peer", arg);
		child_line(child, port, sizeof(port));
		if (rdmamsg_connect(p.s.ctx, test_addr(), port, &p.s.opts,
				    &p.s.ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	} else {
		if (!p.listener)
			pair_listen(&p);
		snprintf(arg + 1, sizeof(arg) - 1, "%s", p.port);
		child_start(child, "peer", arg);
	}
	WAIT_FOR(p.s.connected || p.s.closed);
	assert_false(p.s.closed);
}

static void send_and_hear(void)
{
	size_t had = p.s.received;
	int ret;

	while ((ret = rdmamsg_send(p.s.ep, "hello", 5, 3, NULL)) == -EAGAIN)
		WAIT_FOR(p.s.writable);
	assert_int_equal(ret, 0);
	WAIT_FOR(p.s.received > had);
}

/*
 * The kernel may free the memory of a killed process before its connection.
 * Reads of that memory and sends to it fail then, with a text that says so.
 */
static void check_killed(uint64_t when, bool it_sent_large)
{
	bool failed, aborted;

	WAIT_FOR(p.s.closed);
	aborted = p.s.why.cause == RDMAMSG_CAUSE_ABORTED &&
		  p.s.why.error == -ECONNRESET;
	failed = ((p.s.why.cause == RDMAMSG_CAUSE_ACCESS && it_sent_large) ||
		  p.s.why.cause == RDMAMSG_CAUSE_TRANSPORT) &&
		 strstr(p.s.why.text, "killed");
	if (p.s.why.who != RDMAMSG_WHO_PEER || !(aborted || failed))
		fail_msg("by %d, cause %d, error %d: %s", p.s.why.who,
			 p.s.why.cause, p.s.why.error, p.s.why.text);
	if (now_ms() - when > BOUND_MS)
		fail_msg("told after %u ms", (unsigned int)(now_ms() - when));
	end_check_cookies(&p.s);
}

static void child_kill(struct child *child)
{
	int status;

	kill(child->pid, SIGKILL);
	status = child_wait(child);
	assert_true(WIFSIGNALED(status));
}

/* ---- killed ----------------------------------------------------------- */

static void meet_and_kill(bool child_serves, char ours, char theirs)
{
	struct child child;
	uint64_t when;

	we_init(ours);
	we_meet(&child, theirs, child_serves);
	/* let the activity begin before the kill */
	if (theirs != 'i')
		WAIT_FOR(p.s.received >= 10);
	if (ours != 'i')
		WAIT_FOR(p.s.sent_ok >= 10);
	assert_int_equal(p.s.closed, 0);
	when = now_ms();
	child_kill(&child);
	check_killed(when, theirs == 'l');

	/* the listener accepts another peer */
	our_activity = 'i';
	end_fini(&p.s);
	p.s.connected = p.s.closed = 0;
	p.s.received = p.s.sent = p.s.sent_ok = p.s.sent_failed = 0;
	we_meet(&child, 'e', child_serves);
	send_and_hear();
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* The child is killed after its request has arrived, before this side polls. */
static void killed__while_its_request_waits_ECONNRESET_OR_TOLD(void **state)
{
	struct child child;
	char arg[16];
	int ret;

	pair_init(&p, NULL);
	listen_put_off(&p);
	snprintf(arg, sizeof(arg), "i%s", p.port);
	child_start(&child, "peer", arg);
	WAIT_FOR(waiting_count);
	child_kill(&child);
	ret = rdmamsg_accept(waiting[0], &p.s.opts, &p.s.ep);
	if (ret)
		assert_int_equal(ret, -ECONNRESET);
	else
		WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

static void killed__idle_IS_TOLD(void **state)
{
	meet_and_kill(false, 'i', 'i');
	meet_and_kill(true, 'i', 'i');
}

static void killed__sending_to_us_IS_TOLD(void **state)
{
	meet_and_kill(false, 'i', 's');
	meet_and_kill(true, 'i', 's');
	meet_and_kill(false, 'i', 'l');
	meet_and_kill(true, 'i', 'l');
}

static void killed__receiving_from_us_GIVES_BACK_COOKIES(void **state)
{
	meet_and_kill(false, 's', 'i');
	meet_and_kill(true, 's', 'i');
	meet_and_kill(false, 'l', 'i');
	meet_and_kill(true, 'l', 'i');
}

static void killed__both_sending_IS_TOLD(void **state)
{
	meet_and_kill(false, 's', 's');
	meet_and_kill(true, 's', 'l');
	meet_and_kill(false, 'l', 's');
	meet_and_kill(true, 'l', 'l');
}

/* ---- stopped ---------------------------------------------------------- */

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->stalled != e->resumed || silent_ms < e->opts.stall_after_ms)
		note("%s: stalled %u, resumed %u, %u ms", e->name, e->stalled,
		     e->resumed, silent_ms);
	e->stalled++;
}

static void on_resumed(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	e->resumed++;
	if (e->stalled != e->resumed)
		note("%s: stalled %u, resumed %u", e->name, e->stalled,
		     e->resumed);
}

static void stopped__STALLS_AND_RESUMES(void **state)
{
	struct child child;

	we_init('i');
	p.s.on.on_stalled = on_stalled;
	p.s.on.on_resumed = on_resumed;
	/* only a stopped peer answers later than this */
	p.s.opts.stall_after_ms = 3000;
	we_meet(&child, 'e', false);
	send_and_hear();
	for (unsigned int round = 1; round <= 2; round++) {
		size_t had = p.s.received;

		kill(child.pid, SIGSTOP);
		WAIT_FOR(p.s.stalled >= round);
		assert_int_equal(rdmamsg_ep_state(p.s.ep), RDMAMSG_CONNECTED);
		/* the peer's device takes the message, its program does not */
		assert_int_equal(rdmamsg_send(p.s.ep, "a", 1, 0, NULL), 0);
		for (int i = 0; i < 20; i++)
			test_pump(100);
		assert_int_equal(p.s.received, had);
		assert_int_equal(p.s.resumed, round - 1);
		kill(child.pid, SIGCONT);
		WAIT_FOR(p.s.resumed >= round && p.s.received == had + 1);
		send_and_hear();
		assert_int_equal(p.s.stalled, round);
		assert_int_equal(p.s.resumed, round);
	}
	assert_int_equal(end_stats(&p.s).stalls, 2);
	assert_true(end_stats(&p.s).pings > 0);
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

static void stopped__peer_timeout_CLOSES_SILENT(void **state)
{
	struct child child;
	char line[64];

	we_init('i');
	p.s.opts.peer_timeout_ms = 3000;
	we_meet(&child, 'e', true);
	send_and_hear();
	kill(child.pid, SIGSTOP);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_SILENT);
	assert_int_equal(p.s.why.error, -ETIMEDOUT);
	kill(child.pid, SIGCONT);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "2 2 -104");	/* PEER, ABORTED */
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* A talking peer needs no keepalive, and an answering peer is not silent. */
static void idle__peer_timeout_DOES_NOT_CLOSE(void **state)
{
	pair_init(&p, NULL);
	p.s.opts.peer_timeout_ms = p.c.opts.peer_timeout_ms = 3000;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_FOR(end_stats(&p.s).pings >= 4 && end_stats(&p.c).pings >= 1);
	assert_false(p.s.closed || p.c.closed);
	end_send_all(&p.c, HOW_SEND, 10, 10);
	pair_close(&p);
	pair_fini(&p);
}

static void idle__keepalives_ARE_SENT(void **state)
{
	pair_init(&p, NULL);
	p.s.opts.dead_after_ms = p.c.opts.dead_after_ms = 4000;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_FOR(end_stats(&p.s).keepalives >= 5 &&
		 end_stats(&p.c).keepalives >= 5);
	assert_false(p.s.closed || p.c.closed);
	end_send_all(&p.c, HOW_SEND, 10, 10);
	end_send_all(&p.s, HOW_SENDV, LARGE, 10);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- the device ------------------------------------------------------- */

static unsigned int listener_failed;
static int listener_error;

static void on_failed(struct rdmamsg_listener *l, int error)
{
	listener_failed++;
	listener_error = error;
}

static int listen_at(const char *host, struct rdmamsg_listener **ret)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &p.s, .on_failed = on_failed,
		.on_request = on_request,
	};

	return rdmamsg_listen(p.s.ctx, host, "0", &opts, ret);
}

static void connect_to(struct rdmamsg_listener *l)
{
	listener_service(l, p.port);
	p.listener = l;
	pair_connect(&p);
}

static void forget(struct end *e)
{
	assert_int_equal(e->closed, 1);
	e->connected = e->closed = 0;
	e->received = e->expected_count = 0;
	e->sent = e->sent_ok = e->sent_failed = 0;
	end_fini(e);
}

static void check_removed(const struct end *e)
{
	if (e->why.who != RDMAMSG_WHO_DEVICE ||
	    e->why.cause != RDMAMSG_CAUSE_REMOVED)
		fail_msg("%s: by %d, cause %d: %s", e->name, e->why.who,
			 e->why.cause, e->why.text);
	end_check_cookies(e);
}

/*
 * The kernel notifies one id after the other. The first one ends the
 * connection, and the other end may hear of that end before its own notice.
 */
static bool was_ended_by_the_other(const struct end *e)
{
	return !test_on_soft() && e->why.who == RDMAMSG_WHO_PEER &&
	       e->why.cause == RDMAMSG_CAUSE_ABORTED;
}

static void remove_device(void)
{
	harm_remove();
	WAIT_FOR(p.s.closed && p.c.closed && listener_failed);
	/*
	 * the kernel waits until every process, this one too, closes the device
	 */
	WAIT_FOR(harm_removed());
	if (!was_ended_by_the_other(&p.s) || was_ended_by_the_other(&p.c))
		check_removed(&p.s);
	if (!was_ended_by_the_other(&p.c))
		check_removed(&p.c);
	end_check_cookies(&p.s);
	end_check_cookies(&p.c);
	assert_int_equal(listener_failed, 1);
	assert_int_equal(listener_error, -ENODEV);
}

static struct rdmamsg_listener *listen_again(void)
{
	struct rdmamsg_listener *l;

	harm_add();
	/* the addresses of the device come a little later */
	WAIT_FOR(!listen_at(test_addr(), &l));
	return l;
}

static void check_kept(struct end *e)
{
	assert_true(e->kept_count > 0);
	for (size_t i = 0; i < e->kept_count; i++) {
		const struct rdmamsg_msg *msg = e->kept[i];

		assert_memory_equal(rdmamsg_msg_data(msg),
				    pattern(rdmamsg_msg_tag(msg)),
				    rdmamsg_msg_len(msg));
	}
}

static void removed__ALL_END_AND_CAN_BEGIN_AGAIN(void **state)
{
	struct rdmamsg_listener *l, *everywhere, *was;
	int fds = 0;

	harm_find();
	pair_init(&p, NULL);
	p.s.keep = p.c.keep = true;
	for (int round = 0; round < 3; round++) {
		listener_failed = 0;
		if (!round) {
			assert_int_equal(listen_at(NULL, &everywhere), 0);
			assert_int_equal(listen_at(test_addr(), &l), 0);
		}
		connect_to(l);
		for (uint32_t n = 0; n < 5; n++) {
			end_send_all(&p.c, HOW_SEND, 10 + n, n);
			end_send_all(&p.s, HOW_SENDV, 5000, n);
			end_send_all(&p.c, HOW_SENDV, LARGE + n, n);
		}
		WAIT_FOR(p.s.received == 10 && p.c.received == 5);
		WAIT_FOR(p.c.sent_ok == p.c.sent && p.s.sent_ok == p.s.sent);

		remove_device();
		/* lent messages are intact, and the program frees them */
		check_kept(&p.s);
		check_kept(&p.c);
		/* only the soft HCA is left, unless it was the removed one */
		assert_int_equal(rdmamsg_devices(NULL, 0, 0),
				 test_on_soft() ? -ENODEV : 1);
		was = l;
		l = listen_again();
		rdmamsg_listener_close(was);
		check_kept(&p.s);
		check_kept(&p.c);
		end_release(&p.s);
		end_release(&p.c);
		forget(&p.s);
		forget(&p.c);
		/* each round has as many descriptors */
		if (round)
			assert_int_equal(open_fds(), fds);
		fds = open_fds();
	}

	/* the listener without a device continues after the removal */
	connect_to(everywhere);
	end_send_all(&p.c, HOW_SENDV, LARGE, 1);
	pair_close(&p);
	assert_int_equal(listener_failed, 1);
	pair_fini(&p);
}

static void removed__in_the_middle_of_traffic_GIVES_BACK_COOKIES(void **state)
{
	static const char traffic[] = { 's', 'l' };
	struct rdmamsg_listener *l;

	harm_find();
	for (size_t n = 0; n < ARRAY_SIZE(traffic); n++) {
		listener_failed = 0;
		our_activity = traffic[n];
		pair_init(&p, NULL);
		p.s.expect_nothing = p.c.expect_nothing = true;
		p.s.then_connected = p.s.then_writable = we_pour;
		p.c.then_connected = p.c.then_writable = we_pour;
		assert_int_equal(listen_at(test_addr(), &l), 0);
		connect_to(l);
		WAIT_FOR(p.s.sent_ok > 10 && p.c.sent_ok > 10);
		remove_device();

		our_activity = 'i';
		rdmamsg_listener_close(l);
		l = listen_again();
		forget(&p.s);
		forget(&p.c);
		p.s.expect_nothing = p.c.expect_nothing = false;
		connect_to(l);
		end_send_all(&p.c, HOW_SENDV, LARGE, 1);
		pair_close(&p);
		pair_fini(&p);
	}
}

/* Both processes must release the device. */
static void removed__of_two_processes_BOTH_ARE_TOLD(void **state)
{
	struct rdmamsg_listener *l;
	struct child child;
	char line[64];

	harm_find();
	listener_failed = 0;
	we_init('i');
	assert_int_equal(listen_at(test_addr(), &l), 0);
	p.listener = l;
	listener_service(l, p.port);
	we_meet(&child, 'e', false);
	send_and_hear();
	harm_remove();
	WAIT_FOR(p.s.closed && listener_failed);
	child_line(&child, line, sizeof(line));
	assert_int_equal(child_wait(&child), 0);
	WAIT_FOR(harm_removed());
	/* like was_ended_by_the_other(), on the soft HCA as well */
	if (!strcmp(line, "2 2 -104"))		/* PEER, ABORTED, ECONNRESET */
		check_removed(&p.s);
	else
		/* DEVICE, REMOVED, ENODEV */
		assert_string_equal(line, "4 13 -19");
	if (p.s.why.cause != RDMAMSG_CAUSE_ABORTED)
		check_removed(&p.s);
	end_check_cookies(&p.s);
	harm_add();
	pair_fini(&p);
}

/* Counts descriptors of RDMA devices: their nodes and their events. */
static int device_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		char path[300], to[300] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 0)
			n += strstr(to, "/infiniband/uverbs") ||
			     strstr(to, "[infinibandevent]");
	}
	closedir(dir);
	return n;
}

static void use_device(void)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SENDV, LARGE, 1);
	pair_close(&p);
}

/* The endpoints connect without the connection manager. */
static void removed__out_of_band_IS_TOLD(void **state)
{
	skip_on_iwarp(NO_OOB);
	harm_find();
	oob_init(&p);
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	oob_wait_connected(&p);
	harm_remove();
	WAIT_FOR(p.s.closed && p.c.closed);
	check_removed(&p.s);
	check_removed(&p.c);
	WAIT_FOR(harm_removed());
	assert_int_equal(device_fds(), 0);
	/* an unused soft HCA comes back by itself */
	if (!test_on_soft())
		harm_add();
	pair_fini(&p);
}

/* The contexts run their loops and have used the device. */
static void removed__no_longer_in_use_LETS_GO(void **state)
{
	harm_find();
	use_device();
	rdmamsg_listener_close(p.listener);
	harm_remove();
	WAIT_FOR(harm_removed());
	assert_int_equal(device_fds(), 0);
	harm_add();
	pair_fini(&p);
}

/* The context runs its loop and only listens on the device. */
static void removed__only_listening_LETS_GO(void **state)
{
	struct rdmamsg_listener *l;

	harm_find();
	use_device();
	listener_failed = 0;
	assert_int_equal(listen_at(test_addr(), &l), 0);
	harm_remove();
	WAIT_FOR(listener_failed && harm_removed());
	assert_int_equal(device_fds(), 0);
	harm_add();
	pair_fini(&p);
}

/* The process sleeps and has closed its contexts. */
static void removed__all_contexts_closed_LETS_GO(void **state)
{
	uint64_t end = now_ms() + BOUND_MS;

	harm_find();
	use_device();
	pair_fini(&p);
	assert_int_equal(device_fds(), 0);
	/* the soft HCA exists only while a process has it open */
	if (test_on_soft())
		return;
	harm_remove();
	while (!harm_removed() && now_ms() < end)
		usleep(10000);
	assert_true(now_ms() < end);
	harm_add();
	/* the device works again */
	use_device();
	pair_fini(&p);
}

/* ---- events ----------------------------------------------------------- */

struct seen {
	unsigned int down, up, removed;
};

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	struct seen *seen = rdmamsg_user(ctx);

	if (ev->size != sizeof(*ev) || !ev->name || !ev->name[0] ||
	    strcmp(ev->device, harm_device()))
		note("event %d '%s' of device %s", ev->type,
		     ev->name ? ev->name : "", ev->device);
	if (ev->type == IBV_EVENT_PORT_ERR)
		seen->down++;
	else if (ev->type == IBV_EVENT_PORT_ACTIVE)
		seen->up++;
	else if (ev->type == -1)
		seen->removed++;
	else
		return;
	if (ev->port != (ev->type != -1) || ev->ep)
		note("%s: port %u, ep %p", ev->name, ev->port, (void *)ev->ep);
}

/* A pair whose contexts count events. */
static void pair_with_events(struct seen *s, struct seen *c)
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .on_event = on_event,
	};

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	test_close(p.c.ctx);
	opts.user = s;
	p.s.ctx = test_open(&opts);
	opts.user = c;
	p.c.ctx = test_open(&opts);
}

/* The device refuses to register before the library has noticed the removal. */
static void removed__not_yet_noticed_SENDV_FAILS_EIO(void **state)
{
	static uint8_t data[LARGE];
	const struct iovec iov = { data, sizeof(data) };
	uint64_t end = now_ms() + BOUND_MS;

	/* the kernel removes Soft-RoCE when every process has closed it */
	if (!test_on_soft())
		return;
	harm_find();
	pair_open(&p);
	harm_remove();
	while (!harm_removed() && now_ms() < end)
		usleep(10000);
	assert_error(rdmamsg_sendv(p.c.ep, &iov, 1, 0, NULL), -EIO,
		     "registering");
	WAIT_FOR(p.s.closed && p.c.closed);
	harm_add();
	pair_fini(&p);
}

/*
 * The library has not noticed the removal. A call of the receiver's program
 * meets it before the messages that the sender already counts as delivered.
 */
static void removed__not_yet_noticed_WHAT_HAS_COME_IS_DELIVERED(void **state)
{
	uint64_t end = now_ms() + BOUND_MS;

	if (!test_on_soft())
		return;
	harm_find();
	pair_open(&p);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_send(&p.c, HOW_SEND, 100, 0), 0);
	while (p.c.sent_ok < 3 && now_ms() < end)
		rdmamsg_wait(p.c.ctx, 100);
	assert_int_equal(p.c.sent_ok, 3);
	assert_int_equal(p.s.received, 0);
	harm_remove();
	while (!harm_removed() && now_ms() < end)
		usleep(10000);
	/* the library accepts the message but cannot post it */
	(void)rdmamsg_send(p.s.ep, "late", 4, 0, NULL);
	WAIT_FOR(p.s.closed && p.c.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_REMOVED);
	assert_int_equal(p.s.received, 3);
	harm_add();
	pair_fini(&p);
}

static void removed__IS_AN_EVENT_OF_EACH_CONTEXT(void **state)
{
	struct seen s = { 0 }, c = { 0 };
	struct rdmamsg_listener *l;

	harm_find();
	pair_with_events(&s, &c);
	listener_failed = 0;
	assert_int_equal(listen_at(test_addr(), &l), 0);
	connect_to(l);
	remove_device();
	WAIT_FOR(s.removed && c.removed);
	test_drive(p.s.ctx);
	test_drive(p.c.ctx);
	assert_int_equal(s.removed, 1);
	assert_int_equal(c.removed, 1);
	rdmamsg_listener_close(l);
	harm_add();
	pair_fini(&p);
}

static void link__down_and_up_IS_TOLD_AND_CLOSES_NOTHING(void **state)
{
	struct seen s = { 0 }, c = { 0 };

	harm_find();
	pair_with_events(&s, &c);
	/*
	 * No program sends meanwhile, because Soft-RoCE fails such a send at
	 * once.
	 */
	p.s.opts.dead_after_ms = p.c.opts.dead_after_ms = 8000;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SENDV, LARGE, 1);
	WAIT_FOR(p.s.received == 1 && p.c.sent_ok == 1);
	for (unsigned int round = 1; round <= 2; round++) {
		harm_link(false);
		WAIT_FOR(s.down >= round && c.down >= round);
		/* longer than the keepalive interval */
		for (uint64_t end = now_ms() + 2500; now_ms() < end; )
			test_pump(100);
		harm_link(true);
		WAIT_FOR(s.up >= round && c.up >= round);
		assert_false(p.s.closed || p.c.closed);
		end_send_all(&p.c, HOW_SEND, 100, 2);
		end_send_all(&p.s, HOW_SENDV, LARGE, 3);
		WAIT_FOR(p.s.received == 1 + round && p.c.received == round);
	}
	assert_int_equal(s.down, 2);
	assert_int_equal(c.down, 2);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(killed__while_its_request_waits_ECONNRESET_OR_TOLD),
		TEST(killed__idle_IS_TOLD),
		TEST(killed__sending_to_us_IS_TOLD),
		TEST(killed__receiving_from_us_GIVES_BACK_COOKIES),
		TEST(killed__both_sending_IS_TOLD),
		TEST(stopped__STALLS_AND_RESUMES),
		TEST(stopped__peer_timeout_CLOSES_SILENT),
		TEST(idle__peer_timeout_DOES_NOT_CLOSE),
		TEST(idle__keepalives_ARE_SENT),
		TEST(link__down_and_up_IS_TOLD_AND_CLOSES_NOTHING),
		TEST(removed__ALL_END_AND_CAN_BEGIN_AGAIN),
		TEST(removed__in_the_middle_of_traffic_GIVES_BACK_COOKIES),
		TEST(removed__not_yet_noticed_SENDV_FAILS_EIO),
		TEST(removed__not_yet_noticed_WHAT_HAS_COME_IS_DELIVERED),
		TEST(removed__IS_AN_EVENT_OF_EACH_CONTEXT),
		TEST(removed__of_two_processes_BOTH_ARE_TOLD),
		TEST(removed__out_of_band_IS_TOLD),
		TEST(removed__no_longer_in_use_LETS_GO),
		TEST(removed__only_listening_LETS_GO),
		TEST(removed__all_contexts_closed_LETS_GO),
	};

	return test_main(tests, roles, argc, argv);
}
