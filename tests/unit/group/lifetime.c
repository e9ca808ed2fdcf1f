/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: groups that share a queue pair end, are left in callbacks and are
 * joined again, and each is freed once.
 */
#include "members.h"
#include "soft/control/soft_ctl.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Routes to 239.N.x.x come from 127.0.0.N. */
static bool routes;
static uint8_t connected;

int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __real_getsockname(int fd, struct sockaddr *ret, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *ret, socklen_t *len);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;

	if (!routes || to->sa_family != AF_INET)
		return __real_connect(fd, to, len);
	connected = (uint8_t)(ntohl(in->sin_addr.s_addr) >> 16);
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *ret, socklen_t *len)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;

	if (!routes)
		return __real_getsockname(fd, ret, len);
	*in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + connected),
	};
	*len = sizeof(*in);
	return 0;
}

static const struct rdmamsg_group_handlers handlers = {
	.size = sizeof(handlers), .on_joined = on_joined, .on_lost = on_lost,
	.on_closed = on_closed,
};
static struct soft_ctl *ctl;

static struct rdmamsg_group *join(struct rdmamsg *ctx, const char *address,
				  struct end *m,
				  struct rdmamsg_group_options opts)
{
	opts.size = sizeof(opts);
	opts.user = m;
	if (!opts.handlers)
		opts.handlers = &handlers;
	if (rdmamsg_group_join(ctx, address, &opts, &m->group))
		fail_msg("%s", rdmamsg_error());
	return m->group;
}

static struct rdmamsg *open_ctx(void)
{
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	return ctx;
}

static void context__of_two_groups_ENDS_EACH_ONCE(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	struct end m[2] = { 0 };

	join(ctx, "239.1.1.1", &m[0], (struct rdmamsg_group_options){ 0 });
	join(ctx, "239.1.1.2", &m[1], (struct rdmamsg_group_options){ 0 });
	UNTIL(ctx, m[0].joined && m[1].joined);
	rdmamsg_close(ctx);
	assert_int_equal(m[0].closed, 1);
	assert_int_equal(m[1].closed, 1);
}

static void device__of_two_groups_ENDS_EACH_ONCE(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	struct end m[2] = { 0 };

	join(ctx, "239.1.1.1", &m[0], (struct rdmamsg_group_options){ 0 });
	join(ctx, "239.1.1.2", &m[1], (struct rdmamsg_group_options){ 0 });
	UNTIL(ctx, m[0].joined && m[1].joined);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	UNTIL(ctx, m[0].closed && m[1].closed);
	assert_int_equal(soft_ctl_add(ctl, SOFT_CTL_ALL), 0);
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
	assert_int_equal(m[0].closed + m[1].closed, 2);
}

static void options__changed_after_the_call_WERE_COPIED(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	char *source = strdup("127.0.0.1"), *device = strdup("soft");
	struct end m = { 0 };

	join(ctx, GROUP, &m, (struct rdmamsg_group_options){
		.source = source, .device = device,
	});
	memset(source, 'z', strlen(source));
	memset(device, 'z', strlen(device));
	free(source);
	free(device);
	UNTIL(ctx, m.joined);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_SM_CHANGE, 1), 0);
	UNTIL(ctx, m.joined == 2);
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
}

/* What fails at once, twice. */
static void joining__again_that_fails_IS_TRIED_AGAIN(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	struct end m = { 0 };

	join(ctx, GROUP, &m, (struct rdmamsg_group_options){ 0 });
	UNTIL(ctx, m.joined);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_refuse(ctl, SOFT_CTL_ALL, SOFT_OBJ_ID, 1), 0);
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_SM_CHANGE, 1), 0);
	UNTIL(ctx, m.losses == 1);
	assert_int_equal(soft_ctl_refuse(ctl, SOFT_CTL_ALL, SOFT_OBJ_ID, 1), 0);
	UNTIL(ctx, m.joined == 2);
	assert_int_equal(m.losses, 1);
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
	assert_int_equal(m.closed, 1);
}

/* ---- callbacks while a queue pair is drained -------------------------- */

static struct end lost, other, late;
static struct rdmamsg *shared;

/* On the queue pair of 'other', while that of 'lost' is destroyed. */
static void leave_lost(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	if (lost.losses && lost.group) {
		rdmamsg_group_leave(lost.group);
		lost.group = NULL;
	}
	if (lost.losses && !late.group)
		join(shared, "239.1.1.3", &late, (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_SUBSCRIBE,
		});
}

static void group__left_while_it_is_moved_ENDS_ONCE(void **state)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined, .on_lost = on_lost,
		.on_closed = on_closed, .on_message = leave_lost,
	};
	struct rdmamsg *from = open_ctx();
	struct end pub = { 0 };

	shared = open_ctx();
	memset(&lost, 0, sizeof(lost));
	memset(&other, 0, sizeof(other));
	memset(&late, 0, sizeof(late));
	join(shared, "239.1.1.1", &lost, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE,
	});
	/* another depth: another queue pair, and the same completion queue */
	join(shared, "239.1.1.2", &other, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE, .recv_depth = 64,
		.handlers = &on,
	});
	join(from, "239.1.1.2", &pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH, .recv_depth = 32,
	});
	UNTIL(shared, lost.joined && other.joined);
	UNTIL(from, pub.joined);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	for (int i = 0; i < 50 && !lost.closed; i++) {
		assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
						IBV_EVENT_SM_CHANGE, 1), 0);
		for (int k = 0; k < 20; k++) {
			(void)rdmamsg_group_publish(pub.group, "x", 1);
			assert_true(rdmamsg_process(from) >= 0);
			if (k % 4 == 3)
				assert_true(rdmamsg_process(shared) >= 0);
		}
	}
	UNTIL(shared, lost.closed && late.joined);
	soft_ctl_close(ctl);
	rdmamsg_close(shared);
	rdmamsg_close(from);
	assert_int_equal(lost.closed, 1);
	assert_int_equal(late.closed, 1);
}

/* ---- queue pairs ------------------------------------------------------ */

static uint32_t qp_of(const struct end *m)
{
	struct rdmamsg_group_attr i = { .size = sizeof(i) };

	assert_int_equal(rdmamsg_group_query(m->group, &i), 0);
	return i.qp_num;
}

/* With faults, so that each needs its own address to ask and to answer. */
static void families__of_a_context_ARE_REPAIRED_EACH(void **state)
{
	static const char *const address[] = { "239.1.1.1", "ff15::1" };
	const struct soft_ctl_faults faults = { .drop = 100000, .seed = 5 };
	const struct soft_ctl_faults none = { .drop = 0 };
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_gap = on_gap,
	};
	struct rdmamsg *to = open_ctx(), *from = open_ctx();
	struct end sub[2] = { 0 }, pub[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		join(to, address[i], &sub[i], (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
			.handlers = &on,
		});
		UNTIL(to, sub[i].joined);
	}
	for (int i = 0; i < 2; i++) {
		join(from, address[i], &pub[i], (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		});
		UNTIL(from, pub[i].joined);
	}
	assert_int_not_equal(qp_of(&pub[0]), qp_of(&pub[1]));
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &faults), 0);
	for (uint32_t n = 0; n < 100; n++)
		for (int i = 0; i < 2; i++) {
			int ret;

			while ((ret = rdmamsg_group_publish(pub[i].group,
							    content + n % 256,
							    length_of(n))) == -EAGAIN)
				assert_true(rdmamsg_wait(from, 1) >= 0);
			assert_int_equal(ret, 0);
			assert_true(rdmamsg_process(to) >= 0);
		}
	for (int i = 0; i < 2; i++) {
		UNTIL(from, rdmamsg_process(to) >= 0 && sub[i].due == 100);
		assert_int_equal(sub[i].messages, 100);
		assert_false(sub[i].bad);
	}
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &none), 0);
	soft_ctl_close(ctl);
	rdmamsg_close(to);
	rdmamsg_close(from);
}

/* A queue pair of another family must not hide that. */
static void source__of_another_family_EINVAL(void **state)
{
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .source = "127.0.0.1",
	};
	struct rdmamsg *ctx = open_ctx();
	struct rdmamsg_group *g;

	assert_int_equal(rdmamsg_group_join(ctx, "ff15::1", &opts, &g),
			 -EINVAL);
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.1.1", &opts, &g), 0);
	assert_int_equal(rdmamsg_group_join(ctx, "ff15::1", &opts, &g),
			 -EINVAL);
	rdmamsg_close(ctx);
}

/* The routes of this process: one address for each group, as __wrap_ tells. */
static void groups__with_other_routes_HAVE_OTHER_QUEUE_PAIRS(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	struct end m[3] = { 0 };

	routes = true;
	join(ctx, "239.1.1.1", &m[0], (struct rdmamsg_group_options){ 0 });
	join(ctx, "239.1.1.2", &m[1], (struct rdmamsg_group_options){ 0 });
	join(ctx, "239.2.1.1", &m[2], (struct rdmamsg_group_options){ 0 });
	routes = false;
	UNTIL(ctx, m[0].joined && m[1].joined && m[2].joined);
	assert_int_equal(qp_of(&m[0]), qp_of(&m[1]));
	assert_int_not_equal(qp_of(&m[0]), qp_of(&m[2]));
	rdmamsg_close(ctx);
}

/* ---- leaving ---------------------------------------------------------- */

static uint64_t followed(int i)
{
	struct rdmamsg_group_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_group_get_stats(all[i].group, &s), 0);
	return s.senders;
}

static void leave__with_a_full_queue_TELLS_THE_END(void **state)
{
	int ret;

	join_all(0);
	while (!(ret = rdmamsg_group_publish(all[0].group, content, 0)))
		;
	assert_int_equal(ret, -EAGAIN);
	rdmamsg_group_leave(all[0].group);
	WAIT_FOR(all[0].closed);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(!followed(i));
	end_all();
}

/*
 * A subscriber loses the tail and what follows it at once, because it has no
 * receive posted.
 */
static void farewell__lost_WITH_THE_TAIL_IS_REPEATED(void **state)
{
	const uint32_t depth = 16;

	recv_depth = depth;
	join_all(0);
	for (uint32_t n = 0; n < 2 * depth; n++, published++)
		assert_int_equal(rdmamsg_group_publish(all[0].group,
						       content + published % 256,
						       length_of(published)), 0);
	rdmamsg_group_leave(all[0].group);
	WAIT_FOR(all[0].closed);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(!followed(i));
		assert_int_equal(all[i].due, published);
		assert_true(all[i].lost);
		assert_false(all[i].bad);
	}
	end_all();
	recv_depth = 0;
}

static void publish__after_leave_ENOTCONN(void **state)
{
	join_all(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_SM_CHANGE, 1), 0);
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined == 2);
	publish(1);
	rdmamsg_group_leave(all[0].group);
	assert_int_equal(rdmamsg_group_publish(all[0].group, "", 1), -ENOTCONN);
	soft_ctl_close(ctl);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(context__of_two_groups_ENDS_EACH_ONCE),
		cmocka_unit_test(device__of_two_groups_ENDS_EACH_ONCE),
		cmocka_unit_test(options__changed_after_the_call_WERE_COPIED),
		cmocka_unit_test(joining__again_that_fails_IS_TRIED_AGAIN),
		cmocka_unit_test(group__left_while_it_is_moved_ENDS_ONCE),
		cmocka_unit_test(families__of_a_context_ARE_REPAIRED_EACH),
		cmocka_unit_test(source__of_another_family_EINVAL),
		cmocka_unit_test(
			groups__with_other_routes_HAVE_OTHER_QUEUE_PAIRS),
		cmocka_unit_test(leave__with_a_full_queue_TELLS_THE_END),
		cmocka_unit_test(farewell__lost_WITH_THE_TAIL_IS_REPEATED),
		cmocka_unit_test(publish__after_leave_ENOTCONN),
	};

	return run_members("lifetime", tests, sizeof(tests) / sizeof(*tests));
}
