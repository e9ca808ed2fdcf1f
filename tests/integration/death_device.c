/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that are removed and come back, and links that go down. */
#include "death.h"
#include "harm.h"
#include "oob_pair.h"

#include <dirent.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>

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
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_failed = on_failed,
		.on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &p.s, .handlers = &on,
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

void removed__ALL_END_AND_CAN_BEGIN_AGAIN(void **state)
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

void removed__in_the_middle_of_traffic_GIVES_BACK_COOKIES(void **state)
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

/* ---- a listener that comes back ---------------------------------------- */

static struct rdmamsg_listener_stats listener_stats(void)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(p.listener, &s), 0);
	return s;
}

static unsigned int said_removed, said_again, said_in_use;

static void count_said(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	char subject[40];

	(void)snprintf(subject, sizeof(subject), ": listening on port %s",
		       p.port);
	if (!strstr(line, subject))
		return;
	said_removed += level == RDMAMSG_LOG_WARN &&
			strstr(line, ": the device was removed");
	said_again += level == RDMAMSG_LOG_INFO && strstr(line, " again");
	said_in_use += level == RDMAMSG_LOG_WARN && strstr(line, "in use");
}

static void begin_at_address(void)
{
	struct rdmamsg_listener *l;

	harm_find();
	said_removed = said_again = said_in_use = 0;
	rdmamsg_set_log(count_said, NULL, RDMAMSG_LOG_INFO);
	listener_failed = 0;
	pair_init(&p, NULL);
	assert_int_equal(listen_at(test_addr(), &l), 0);
	connect_to(l);
	assert_int_equal(listener_stats().listening, 1);
}

/* The program has done nothing but take its clients. */
void removed__listener_at_an_address_LISTENS_AGAIN(void **state)
{
	begin_at_address();
	for (unsigned int round = 1; round <= 2; round++) {
		end_send_all(&p.c, HOW_SENDV, LARGE, 1);
		WAIT_FOR(p.s.received == 1 && p.c.sent_ok == 1);
		remove_device();
		assert_int_equal(listener_stats().listening, 0);
		assert_int_equal(listener_stats().removed, round);
		assert_int_equal(said_removed, round);
		assert_int_equal(said_again, round - 1);
		harm_add();
		WAIT_PASSING(listener_stats().listening);
		assert_int_equal(said_again, round);
		forget(&p.s);
		forget(&p.c);
		listener_failed = 0;
		pair_connect(&p);
	}
	end_send_all(&p.c, HOW_SENDV, LARGE, 1);
	pair_close(&p);
	pair_fini(&p);
}

/* The listener asks for the address at most every 5 s in the end. */
void removed__for_long_A_LISTENER_COSTS_LITTLE(void **state)
{
	uint64_t wakeups;

	if (!test_on_soft())
		skip_because("the time of a device of the kernel is real");
	begin_at_address();
	remove_device();
	wakeups = end_stats(&p.s).wakeups;
	for (int i = 0; i < 1200; i++)
		test_pass(100);
	assert_int_equal(listener_stats().listening, 0);
	assert_in_range(end_stats(&p.s).wakeups - wakeups, 20, 40);
	harm_add();
	WAIT_PASSING(listener_stats().listening);
	pair_fini(&p);
}

/* Another process has been faster. */
void removed__port_taken_meanwhile_IS_SAID_AND_TRIED(void **state)
{
	struct rdmamsg_listener *other;

	if (!test_on_soft())
		skip_because("no time between the device and its listener");
	begin_at_address();
	remove_device();
	for (int i = 0; i < 50; i++)
		test_pass(100);
	harm_add();
	assert_int_equal(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL,
					&other), 0);
	for (int i = 0; i < 150; i++)
		test_pass(100);
	assert_int_equal(listener_stats().listening, 0);
	assert_int_equal(said_in_use, 1);
	rdmamsg_listener_close(other);
	WAIT_PASSING(listener_stats().listening);
	assert_int_equal(said_again, 1);
	pair_fini(&p);
}

/* A listener that is closed does not come back. */
void removed__closed_listener_STAYS_CLOSED(void **state)
{
	struct rdmamsg_listener *l;

	begin_at_address();
	remove_device();
	rdmamsg_listener_close(p.listener);
	harm_add();
	for (int i = 0; i < 80; i++)
		test_pass(100);
	assert_int_equal(said_again, 0);
	WAIT_FOR(!rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL, &l));
	pair_fini(&p);
}

/* Both processes must release the device. */
void removed__of_two_processes_BOTH_ARE_TOLD(void **state)
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
void removed__out_of_band_IS_TOLD(void **state)
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
void removed__no_longer_in_use_LETS_GO(void **state)
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
void removed__only_listening_LETS_GO(void **state)
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
void removed__all_contexts_closed_LETS_GO(void **state)
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
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	struct rdmamsg_options opts = { .size = sizeof(opts), .handlers = &on };

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	test_close(p.c.ctx);
	opts.user = s;
	p.s.ctx = test_open(&opts);
	opts.user = c;
	p.c.ctx = test_open(&opts);
}

/* The device refuses to register before the library has noticed the removal. */
void removed__not_yet_noticed_SENDV_FAILS_EIO(void **state)
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
void removed__not_yet_noticed_WHAT_HAS_COME_IS_DELIVERED(void **state)
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

void removed__IS_AN_EVENT_OF_EACH_CONTEXT(void **state)
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

static void pump_for(uint64_t ms)
{
	for (uint64_t end = now_ms() + ms; now_ms() < end; )
		test_pump(20);
}

void link__down_and_up_IS_TOLD_AND_CLOSES_NOTHING(void **state)
{
	struct seen s = { 0 }, c = { 0 };

	/* Linux 6.1, siw_main.c; not 6.12 */
	if (test_on_siw())
		skip_on_iwarp("siw_netdev_down(): it fails all queue pairs when "
			      "the link goes down");
	harm_find();
	pair_with_events(&s, &c);
	/*
	 * Soft-RoCE fails what is on its way when the link goes down. The
	 * connection ends, and the message of the connection manager that says
	 * so fails, too. From then on the device connects nobody. So no program
	 * sends, and the last acknowledgement is less than a keepalive interval
	 * ago.
	 */
	p.s.opts.dead_after_ms = p.c.opts.dead_after_ms = 16000;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SENDV, LARGE, 1);
	WAIT_FOR(p.s.received == 1 && p.c.sent_ok == 1);
	for (unsigned int round = 1; round <= 2; round++) {
		pump_for(200);
		harm_link(false);
		WAIT_FOR(s.down >= round && c.down >= round);
		/* longer than two keepalive intervals */
		for (int i = 0; i < 45; i++)
			test_pass(100);
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
