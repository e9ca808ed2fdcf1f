/* SPDX-License-Identifier: BSD-2-Clause */
/* After fork(2) every call in the child fails, and the parent goes on. */
#include "common.h"
#include "request.h"
#include "../dc_post.h"

#include <sys/wait.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/timer.h>

static struct pair p;

static struct rdmamsg_msg *lent, *shared;
static struct rdmamsg_region *region;

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

static const struct rdmamsg_op *an_op(void)
{
	static const struct rdmamsg_sge sge = { .data = "x", .len = 1 };
	static const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &sge,
		.count = 1,
	};

	return &op;
}

/* Makes every call of rdmamsg.h, in its order, and those beside them. */
static int use_all_in_child(void)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct sockaddr_storage addr;
	struct rdmamsg_listener *l;
	struct rdmamsg_key key;
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
	ECHILD_FROM(rdmamsg_submit_wait(p.c.ctx, run_never, NULL, -1));

	ECHILD_FROM(rdmamsg_connect(p.c.ctx, test_addr(), "1", NULL, &ep));
	rdmamsg_ep_hold(p.c.ep);
	rdmamsg_ep_release(p.c.ep);
	(void)rdmamsg_ep_state(p.c.ep);
	(void)rdmamsg_ep_reason(p.c.ep);
	(void)rdmamsg_ep_ctx(p.c.ep);
	(void)rdmamsg_ep_user(p.c.ep);
	rdmamsg_ep_set_user(p.c.ep, NULL);
	(void)rdmamsg_ep_peer_data(p.c.ep, &len);
	ECHILD_FROM(rdmamsg_ep_query(p.c.ep, &info));
	if (!rdmamsg_ep_device_name(p.c.ep))
		wrong++;

	ECHILD_FROM(rdmamsg_send(p.c.ep, "x", 1, 0, NULL));
	ECHILD_FROM(rdmamsg_sendv(p.c.ep, &iov, 1, 0, NULL));
	ECHILD_FROM(rdmamsg_post(p.c.ep, an_op()));
	ECHILD_FROM(rdmamsg_flush(p.c.ep, NULL));
	ECHILD_FROM(rdmamsg_msg_send(p.c.ep, lent, 0, NULL));
	ECHILD_FROM(rdmamsg_msg_alloc(p.c.ep, 1, &msg));
	(void)rdmamsg_msg_data(lent);
	(void)rdmamsg_msg_len(lent);
	(void)rdmamsg_msg_tag(lent);
	(void)rdmamsg_msg_set_len(lent, 1);
	ECHILD_FROM(rdmamsg_msg_ref(lent));
	ECHILD_FROM(rdmamsg_msg_ref(shared));
	ECHILD_FROM(rdmamsg_msg_send(p.c.ep, shared, 0, NULL));
	(void)rdmamsg_msg_len(shared);
	rdmamsg_msg_free(shared);
	rdmamsg_msg_free(lent);

	ECHILD_FROM(rdmamsg_listen(p.c.ctx, test_addr(), "0", NULL, &l));
	(void)rdmamsg_listener_user(p.listener);
	(void)rdmamsg_listener_ctx(p.listener);
	(void)rdmamsg_listener_port(p.listener);
	ECHILD_FROM(rdmamsg_request_addrs(waiting[0], &addr, &addr));
	(void)rdmamsg_request_data(waiting[0], &len);
	ECHILD_FROM(rdmamsg_request_get_key(waiting[0], region, &key));
	ECHILD_FROM(rdmamsg_request_move(waiting[0], p.c.ctx, move_never,
					 NULL));
	ECHILD_FROM(rdmamsg_request_accept(waiting[0], NULL, &ep));
	ECHILD_FROM(rdmamsg_request_reject(waiting[0], NULL, 0));

	ECHILD_FROM(rdmamsg_connect_wait(p.c.ctx, test_addr(), "1", NULL, -1,
					 &ep));
	ECHILD_FROM(rdmamsg_listener_accept_wait(p.listener, NULL, -1, &ep));
	ECHILD_FROM(rdmamsg_send_wait(p.c.ep, "x", 1, 0, -1));
	ECHILD_FROM(rdmamsg_recv_wait(p.c.ep, -1, &msg));
	ECHILD_FROM(rdmamsg_ep_close_wait(p.c.ep, -1));
	ECHILD_FROM(rdmamsg_shutdown(p.c.ctx, -1));
	ECHILD_FROM(rdmamsg_shutdown_wait(p.c.ctx, -1));

	ECHILD_FROM(rdmamsg_get_stats(p.c.ctx, &stats));
	ECHILD_FROM(rdmamsg_ep_get_stats(p.c.ep, &stats));
	rdmamsg_dump(p.c.ctx, line_never, NULL);
	(void)rdmamsg_devices(NULL, 0, 0);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_NONE);

	ECHILD_FROM(rdmamsg_ep_close_with(p.c.ep, 1, "x", 1));
	ECHILD_FROM(rdmamsg_ep_abort_with(p.c.ep, 1, "x", 1));
	rdmamsg_ep_close(p.c.ep);
	rdmamsg_ep_abort(p.c.ep);
	rdmamsg_listener_close(p.listener);
	rdmamsg_close(p.c.ctx);
	rdmamsg_close(p.s.ctx);
	return wrong != 0;
}

static void fork__all_calls_in_the_child_ECHILD(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	static char mem[64];
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
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 100, &shared), 0);
	assert_int_equal(rdmamsg_msg_ref(shared), 0);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &later) ||
	    rdmamsg_connect(p.c.ctx, test_addr(), listener_service(later, port),
			    NULL, &ep))
		fail_msg("a second connection: %s", rdmamsg_error());
	WAIT_FOR(waiting_count);
	if (rdmamsg_region_create(p.s.ctx, mem, sizeof(mem),
				  RDMAMSG_ACCESS_READ, &region))
		fail_msg("rdmamsg_region_create: %s", rdmamsg_error());

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_all_in_child());
	assert_true(pid > 0);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	if (status)
		fail_msg("the child ended with status 0x%x", status);

	/* the parent's messages are unchanged */
	assert_memory_equal(rdmamsg_msg_data(lent), pattern(1), 100);
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	p.c.then_message = NULL;
	rdmamsg_msg_free(lent);
	rdmamsg_msg_free(shared);
	rdmamsg_msg_free(shared);
	rdmamsg_region_destroy(region);
	lent = NULL;
	for (uint32_t n = 0; n < 20; n++) {
		end_send_all(&p.c, HOW_SENDV, 1000 * n, n);
		end_send_all(&p.s, HOW_SENDV, 1000 * n, n);
	}
	pair_close(&p);
	pair_fini(&p);
}

/* Makes every call of dc.h. */
static int use_dc_in_child(struct rdmamsg_dc_target *t,
			   struct rdmamsg_dc_sender *s,
			   struct rdmamsg_dc_address *a,
			   struct rdmamsg_region *r)
{
	struct rdmamsg_dc_target_attr target = { .size = sizeof(target) };
	struct rdmamsg_dc_sender_attr sender = { .size = sizeof(sender) };
	struct rdmamsg_dc_address_attr address = { .size = sizeof(address) };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct rdmamsg_dc_target *other_t;
	struct rdmamsg_dc_sender *other_s;
	struct rdmamsg_dc_address *other_a;
	struct rdmamsg_key key;

	ECHILD_FROM(rdmamsg_dc_target_create(p.c.ctx, test_addr(), "0", NULL,
					     &other_t));
	(void)rdmamsg_dc_target_user(t);
	(void)rdmamsg_dc_target_port(t);
	ECHILD_FROM(rdmamsg_dc_target_arm(t));
	ECHILD_FROM(rdmamsg_dc_target_get_key(t, r, &key));
	ECHILD_FROM(rdmamsg_dc_target_query(t, &target));
	ECHILD_FROM(rdmamsg_dc_sender_create(p.c.ctx, NULL, &other_s));
	(void)rdmamsg_dc_sender_user(s);
	ECHILD_FROM(rdmamsg_dc_sender_query(s, &sender));
	ECHILD_FROM(rdmamsg_dc_address_create(s, test_addr(), "1", 0,
					      NULL, &other_a));
	(void)rdmamsg_dc_address_user(a);
	ECHILD_FROM(rdmamsg_dc_address_query(a, &address));
	ECHILD_FROM(rdmamsg_dc_send(a, "x", 1, 0, NULL));
	ECHILD_FROM(dc_sendv(a, &iov, 1, 0, NULL));
	rdmamsg_dc_address_destroy(a);
	rdmamsg_dc_sender_destroy(s);
	rdmamsg_dc_target_destroy(t);
	rdmamsg_close(p.c.ctx);
	return wrong != 0;
}

static void got_never(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		      uint64_t sender)
{
	rdmamsg_msg_free(msg);
}

static void fork__all_calls_of_DC_in_the_child_ECHILD(void **state)
{
	static char mem[4096];
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .on_message = got_never,
	};
	struct rdmamsg_dc_address *a;
	struct rdmamsg_dc_target *t;
	struct rdmamsg_dc_sender *s = NULL;
	struct rdmamsg_region *r;
	int status = 0;
	char port[8];
	pid_t pid;

	p.c.ctx = test_open(NULL);
	if (rdmamsg_dc_target_create(p.c.ctx, test_addr(), "0", &opts, &t) ||
	    rdmamsg_dc_sender_create(p.c.ctx, NULL, &s))
		fail_msg("DC: %s", rdmamsg_error());
	snprintf(port, sizeof(port), "%u", rdmamsg_dc_target_port(t));
	if (rdmamsg_dc_address_create(s, test_addr(), port, 0, NULL, &a) ||
	    rdmamsg_dc_send(a, "x", 1, 0, NULL) ||
	    rdmamsg_region_create(p.c.ctx, mem, sizeof(mem),
				  RDMAMSG_ACCESS_READ, &r))
		fail_msg("DC: %s", rdmamsg_error());
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_dc_in_child(t, s, a, r));
	assert_true(pid > 0);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	if (status)
		fail_msg("the child ended with status 0x%x", status);
	test_close(p.c.ctx);
}

/* ---- timers, chains, teams and groups --------------------------------- */

static struct rdmamsg_timer *timer;
static struct rdmamsg_chain *chain;
static struct rdmamsg_group *group;	/* NULL on iWARP */

static void expire_never(struct rdmamsg_timer *t, void *user)
{
	note("a timer of a context that is not ours");
}

static int use_others_in_child(void)
{
	const struct rdmamsg_group_options here = {
		.size = sizeof(here), .device = test_device(),
	};
	const char *const addresses[] = { "127.0.0.1:1", "127.0.0.1:2" };
	struct rdmamsg_timer *other_timer;
	struct rdmamsg_chain *other_chain;
	struct rdmamsg_group *other_group;
	struct rdmamsg_team *team;

	ECHILD_FROM(rdmamsg_timer_create(p.c.ctx, expire_never, NULL,
					 &other_timer));
	ECHILD_FROM(rdmamsg_timer_start(timer, 0, 1));
	ECHILD_FROM(rdmamsg_timer_stop(timer));
	rdmamsg_timer_destroy(timer);
	ECHILD_FROM(rdmamsg_chain_create(p.c.ctx, NULL, &other_chain));
	ECHILD_FROM(rdmamsg_chain_add(chain, 0, p.c.ep, an_op()));
	rdmamsg_chain_destroy(chain);
	ECHILD_FROM(rdmamsg_team_create(p.c.ctx, NULL,
					(struct rdmamsg_ep *[]){ NULL, p.c.ep },
					2, 0, &team));
	ECHILD_FROM(rdmamsg_team_connect(p.c.ctx, NULL, addresses, 2, 0,
					 &team));
	ECHILD_FROM(rdmamsg_group_join(p.c.ctx, "239.1.2.3", &here,
				       &other_group));
	if (group) {
		ECHILD_FROM(rdmamsg_group_publish(group, "x", 1));
		ECHILD_FROM(rdmamsg_group_post(group, an_op()));
		rdmamsg_group_leave(group);
	}
	return wrong != 0;
}

static void expire(struct rdmamsg_timer *t, void *user)
{
	++*(int *)user;
}

/* The timer goes on in the parent, as the child's calls change nothing. */
static void fork__calls_of_other_objects_in_the_child_ECHILD(void **state)
{
	const struct rdmamsg_group_options here = {
		.size = sizeof(here), .device = test_device(),
	};
	int status = 0, expired = 0;
	pid_t pid;

	pair_open(&p);
	assert_int_equal(rdmamsg_timer_create(p.c.ctx, expire, &expired,
					      &timer), 0);
	assert_int_equal(rdmamsg_timer_start(timer, 1, 1), 0);
	assert_int_equal(rdmamsg_chain_create(p.c.ctx, NULL, &chain), 0);
	group = NULL;
	if (!test_iwarp() &&
	    rdmamsg_group_join(p.c.ctx, "239.1.2.3", &here, &group))
		fail_msg("rdmamsg_group_join: %s", rdmamsg_error());
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_others_in_child());
	assert_true(pid > 0);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	if (status)
		fail_msg("the child ended with status 0x%x", status);
	expired = 0;
	WAIT_FOR(expired > 1);
	rdmamsg_timer_destroy(timer);
	rdmamsg_chain_destroy(chain);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(fork__all_calls_in_the_child_ECHILD),
		TEST(fork__all_calls_of_DC_in_the_child_ECHILD),
		TEST(fork__calls_of_other_objects_in_the_child_ECHILD),
	};

	return test_main(tests, NULL, argc, argv);
}
