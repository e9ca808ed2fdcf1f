/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: what a subnet manager can change is read anew by each call, with
 * and without the event that tells of the change; and the event comes once. The
 * calls that keep values query a device and a port once, and again after an
 * event that may have changed them.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/cached.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"
#include "../until.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/group.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#define PREFIX	0xfec0000000000012ull

static struct rdmamsg *ctx;
static struct soft_ctl *ctl;
static struct rdmamsg_group *group;
static uint32_t joined, lost, events, last_port;
static int last_type;

/* ---- what the library says -------------------------------------------- */

static struct now {
	uint32_t state, lid, sm_lid, pkey;
	uint64_t prefix;
} in_event;

static struct now look(uint32_t port)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };
	struct rdmamsg_gid_attr gid = { .size = sizeof(gid) };
	uint16_t pkey = 0;
	struct now n;

	assert_int_equal(rdmamsg_port_query("soft0", port, &a), 0);
	assert_true(rdmamsg_port_gids("soft0", port, &gid, sizeof(gid), 1) >=
		    1);
	assert_int_equal(rdmamsg_port_pkeys("soft0", port, &pkey, 1), 1);
	n = (struct now){ a.state, a.lid, a.sm_lid, pkey, 0 };
	for (int i = 0; i < 8; i++)
		n.prefix = n.prefix << 8 | gid.gid[i];
	return n;
}

static void on_event(struct rdmamsg *c, const struct rdmamsg_event *ev)
{
	events++;
	last_type = ev->type;
	last_port = ev->port;
	in_event = look(ev->port);
}

static void on_joined(struct rdmamsg_group *g)
{
	joined++;
}

static void on_lost(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	lost++;
}

#define WAIT_FOR(condition)	UNTIL(ctx, condition)

static void set_up_link(const char *link)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined, .on_lost = on_lost,
	};
	static const struct rdmamsg_ctx_handlers ctx_on = {
		.size = sizeof(ctx_on), .on_event = on_event,
	};
	const struct rdmamsg_options o = {
		.size = sizeof(o), .handlers = &ctx_on,
	};
	const struct rdmamsg_group_options go = {
		.size = sizeof(go), .handlers = &on,
	};

	join_own_fabric(link);
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", link, 1), 0);
	joined = lost = events = 0;
	assert_int_equal(rdmamsg_open(&ctx, &o), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.2.3", &go, &group), 0);
	WAIT_FOR(joined == 1);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
}

static void tear_down(void)
{
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
}

/* ---- changes ---------------------------------------------------------- */

static void check(const struct now *is, const struct now *want)
{
	assert_int_equal(is->state, want->state);
	assert_int_equal(is->lid, want->lid);
	assert_int_equal(is->sm_lid, want->sm_lid);
	assert_int_equal(is->pkey, want->pkey);
	assert_true(is->prefix == want->prefix);
}

/* The change is made. The event has not been read yet. */
static void expect(uint32_t port, const struct now *want, int type)
{
	struct now now = look(port);
	uint32_t before = events;

	check(&now, want);
	WAIT_FOR(events > before);
	assert_int_equal(last_type, type);
	assert_int_equal(last_port, port);
	check(&in_event, want);
	now = look(port);
	check(&now, want);
	/* and no second one, before an event that follows */
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
					IBV_EVENT_CLIENT_REREGISTER, port), 0);
	WAIT_FOR(events > before + 1);
	assert_int_equal(last_type, IBV_EVENT_CLIENT_REREGISTER);
	assert_int_equal(events, before + 2);
}

static void set(enum soft_attr what, uint8_t port, uint64_t value)
{
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, what, port, value),
			 0);
}

static void infiniband__each_change_IS_SEEN_AT_ONCE(void **state)
{
	struct now want, first;

	set_up_link("ib");
	first = want = look(2);
	want.lid = 0x1234;
	set(SOFT_ATTR_LID, 2, want.lid);
	expect(2, &want, IBV_EVENT_LID_CHANGE);
	want.sm_lid = 77;
	set(SOFT_ATTR_SM_LID, 2, want.sm_lid);
	expect(2, &want, IBV_EVENT_SM_CHANGE);
	want.pkey = 0x8001;
	set(SOFT_ATTR_PKEY, 2, want.pkey);
	expect(2, &want, IBV_EVENT_PKEY_CHANGE);
	want.prefix = PREFIX;
	set(SOFT_ATTR_PREFIX, 2, want.prefix);
	expect(2, &want, IBV_EVENT_GID_CHANGE);
	want.state = IBV_PORT_DOWN;
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_DOWN),
			 0);
	expect(2, &want, IBV_EVENT_PORT_ERR);
	want.state = IBV_PORT_ACTIVE;
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_UP), 0);
	expect(2, &want, IBV_EVENT_PORT_ACTIVE);
	/* the other port has kept its own, and the group is there */
	assert_int_equal(look(1).lid, first.lid - 1);
	assert_int_equal(look(1).pkey, first.pkey);
	assert_int_equal(lost, 0);
	set(SOFT_ATTR_LID, 2, 0);
	assert_int_equal(look(2).lid, first.lid);
	tear_down();
}

/* A group on the port joins again, with the values that hold now. */
static void infiniband__group_on_the_port_JOINS_AGAIN(void **state)
{
	static const struct {
		enum soft_attr what;
		uint64_t value;
	} rows[] = {
		{ SOFT_ATTR_LID, 0x2345 }, { SOFT_ATTR_SM_LID, 5 },
		{ SOFT_ATTR_PREFIX, PREFIX },
	};

	set_up_link("ib");
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set(rows[i].what, 1, rows[i].value);
		WAIT_FOR(lost == i + 1 && joined == i + 2);
		assert_int_equal(rdmamsg_group_publish(group, "x", 1), 0);
	}
	tear_down();
}

static void infiniband__bad_value_IS_REFUSED(void **state)
{
	set_up_link("ib");
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_LID, 1,
				      0xc000), -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_LID, 9, 7),
			 -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_LID, 0, 7),
			 -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_LID, 1,
				      look(2).lid), -EADDRINUSE);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_PKEY, 1,
				      0x10000), -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_PREFIX, 1,
				      0xff15000000000000ull), -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_GID_ERROR,
				      1, 4096), -EINVAL);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTRS, 1, 1),
			 -EINVAL);
	assert_int_equal(events, 0);
	tear_down();
}

static void ethernet__each_change_IS_SEEN_AT_ONCE(void **state)
{
	struct now want;

	set_up_link("ethernet");
	want = look(2);
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_LID, 2, 7),
			 -EOPNOTSUPP);
	want.pkey = 0x8001;
	set(SOFT_ATTR_PKEY, 2, want.pkey);
	expect(2, &want, IBV_EVENT_PKEY_CHANGE);
	want.state = IBV_PORT_ARMED;
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_ARMED),
			 0);
	expect(2, &want, IBV_EVENT_PORT_ERR);
	want.state = IBV_PORT_ACTIVE;
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_UP), 0);
	expect(2, &want, IBV_EVENT_PORT_ACTIVE);
	tear_down();
}

/* ---- a device without groups ------------------------------------------ */

static struct rdmamsg_reason closed_why;
static uint32_t closed;

static void on_closed(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	closed++;
	closed_why = *why;
}

static void iwarp__join_EOPNOTSUPP(void **state)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_closed = on_closed,
	};
	const struct rdmamsg_group_options go = {
		.size = sizeof(go), .handlers = &on,
	};
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	join_own_fabric("iwarp");
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", "iwarp", 1), 0);
	joined = closed = 0;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_device_query("soft0", &a), 0);
	assert_int_equal(a.max_mcast_groups, 0);
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.2.3", &go, &group), 0);
	WAIT_FOR(closed == 1);
	assert_int_equal(joined, 0);
	assert_int_equal(closed_why.error, -EOPNOTSUPP);
	assert_non_null(strstr(closed_why.text, "soft0"));
	rdmamsg_close(ctx);
}

/* ---- values that the library keeps ------------------------------------ */

static struct {
	uint32_t device, extended, port;
} queries;

static bool silent;	/* the device has no event for an active port */

static int count_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	int ret = rdmamsg__verbs_soft.query_device(c, a);

	queries.device++;
	if (silent)
		a->device_cap_flags &= ~(unsigned int)
				       IBV_DEVICE_PORT_ACTIVE_EVENT;
	return ret;
}

static int count_extended(struct ibv_context *c, struct ibv_device_attr_ex *a)
{
	queries.extended++;
	return rdmamsg__verbs_soft.query_device_ex(c, a);
}

static int count_port(struct ibv_context *c, uint8_t port,
		      struct ibv_port_attr *a)
{
	queries.port++;
	return rdmamsg__verbs_soft.query_port(c, port, a);
}

static void set_up_counting(const char *link)
{
	static struct verbs_api counting;

	join_own_fabric(link);
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", link, 1), 0);
	counting = rdmamsg__verbs_soft;
	counting.query_device = count_device;
	counting.query_device_ex = count_extended;
	counting.query_port = count_port;
	rdmamsg__verbs = &counting;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	memset(&queries, 0, sizeof(queries));
}

static void tear_down_counting(void)
{
	tear_down();
	rdmamsg__verbs = &rdmamsg__verbs_soft;
}

static struct rdmamsg_port_attr cached(uint32_t port, uint32_t parts)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_port_cached(ctx, "soft0", port, parts, &a),
			 0);
	return a;
}

#define BOTH	(RDMAMSG_PORT_STATIC | RDMAMSG_PORT_DYNAMIC)

static void cached__infiniband_ONE_QUERY_UNTIL_AN_EVENT(void **state)
{
	struct rdmamsg_port_attr asked = { .size = sizeof(asked) }, a;

	set_up_counting("ib");
	a = cached(1, BOTH);
	for (int i = 0; i < 3; i++) {
		cached(1, BOTH);
		cached(2, RDMAMSG_PORT_STATIC);
	}
	assert_int_equal(queries.port, 2);
	assert_int_equal(queries.device, 0);	/* opening has queried it */
	assert_int_equal(rdmamsg_port_query("soft0", 1, &asked), 0);
	assert_memory_equal(&a, &asked, sizeof(a));
	queries.port = 0;
	/* the event has not been delivered, and the value is the new one */
	set(SOFT_ATTR_LID, 1, 0x1234);
	assert_int_equal(cached(1, RDMAMSG_PORT_STATIC).gid_count, a.gid_count);
	assert_int_equal(queries.port, 0);
	assert_int_equal(cached(1, RDMAMSG_PORT_DYNAMIC).lid, 0x1234);
	assert_int_equal(cached(1, BOTH).lid, 0x1234);
	cached(2, BOTH);
	assert_int_equal(queries.port, 1);
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_DOWN),
			 0);
	assert_int_equal(cached(2, BOTH).state, IBV_PORT_DOWN);
	assert_int_equal(cached(2, BOTH).state, IBV_PORT_DOWN);
	assert_int_equal(queries.port, 2);
	tear_down_counting();
}

static void cached__infiniband_untold_IS_QUERIED(void **state)
{
	silent = true;
	set_up_counting("ib");
	for (int i = 0; i < 3; i++)
		cached(1, RDMAMSG_PORT_STATIC);
	assert_int_equal(queries.port, 1);
	cached(1, BOTH);
	cached(1, BOTH);
	assert_int_equal(queries.port, 3);
	tear_down_counting();
	silent = false;
}

static void cached__ethernet_DYNAMIC_PART_IS_QUERIED(void **state)
{
	set_up_counting("ethernet");
	for (int i = 0; i < 3; i++)
		cached(1, RDMAMSG_PORT_STATIC);
	assert_int_equal(queries.port, 1);
	cached(1, RDMAMSG_PORT_DYNAMIC);
	cached(1, BOTH);
	assert_int_equal(queries.port, 3);
	tear_down_counting();
}

static void cached__device_IS_QUERIED_ONCE(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) }, asked = a;

	set_up_counting("ib");
	assert_int_equal(rdmamsg_device_cached(ctx, "soft0", &a), 0);
	assert_int_equal(a.ports_active, 2);
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 2, SOFT_PORT_DOWN),
			 0);
	assert_int_equal(rdmamsg_device_cached(ctx, "soft0", &a), 0);
	assert_int_equal(queries.device, 0);
	assert_int_equal(queries.extended, 1);
	assert_int_equal(queries.port, 3);
	assert_int_equal(rdmamsg_device_query("soft0", &asked), 0);
	assert_int_equal(a.ports_active, 1);
	assert_memory_equal(&a, &asked, sizeof(a));
	tear_down_counting();
}

/* Those that need them: queue pairs, and endpoints with create flags. */
static void cached__extended_attributes_ARE_QUERIED_ONCE(void **state)
{
	const struct rdmamsg_ep_tuning flags = {
		.size = sizeof(flags),
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .device = "soft0", .tuning = &flags,
	};
	const struct rdmamsg_qp_options ud = {
		.size = sizeof(ud), .device = "soft0", .type = IBV_QPT_UD,
	};
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct rdmamsg_ep *refused;
	struct rdmamsg_qp *q;

	set_up_counting("ib");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rdmamsg_qp_create(ctx, &ud, &q), 0);
		assert_int_equal(rdmamsg_oob_offer(ctx, &o, &refused),
				 -EINVAL);
		assert_non_null(strstr(rdmamsg_error(), "BLOCK_SELF"));
	}
	assert_int_equal(rdmamsg_device_cached(ctx, "soft0", &a), 0);
	assert_int_equal(queries.extended, 1);
	assert_int_equal(rdmamsg_device_refresh(ctx, "soft0"), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &ud, &q), 0);
	assert_int_equal(queries.extended, 2);
	tear_down_counting();
}

/* The event comes from the device of which the context keeps values. */
static void come(enum ibv_event_type type, int port)
{
	const struct ibv_async_event ev = {
		.event_type = type, .element.port_num = port,
	};

	rdmamsg__cache_event(list_entry(ctx->devices->devs.next, struct dev,
					node)->device->cache, &ev);
}

/* Other events, and those of other ports, forget nothing. */
static void cached__each_event_of_a_port_FORGETS_ITS_DYNAMIC_PART(void **state)
{
	static const enum ibv_event_type tells[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE,
		IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
		IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE,
	}, other[] = {
		IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED,
		IBV_EVENT_PATH_MIG,
	};

	set_up_counting("ib");
	cached(1, BOTH);
	cached(2, BOTH);
	for (size_t i = 0; i < sizeof(tells) / sizeof(tells[0]); i++) {
		queries.port = 0;
		come(tells[i], 2);
		cached(1, BOTH);
		cached(2, RDMAMSG_PORT_STATIC);
		assert_int_equal(queries.port, 0);
		cached(2, BOTH);
		cached(2, BOTH);
		if (queries.port != 1)
			fail_msg("%s: %u queries",
				 ibv_event_type_str(tells[i]),
				 queries.port);
	}
	queries.port = 0;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		come(other[i], 2);
	come(IBV_EVENT_LID_CHANGE, 0);
	come(IBV_EVENT_LID_CHANGE, 3);
	cached(2, BOTH);
	assert_int_equal(queries.port, 0);
	come(IBV_EVENT_DEVICE_FATAL, 1);
	cached(1, RDMAMSG_PORT_STATIC);
	cached(2, RDMAMSG_PORT_STATIC);
	assert_int_equal(queries.port, 2);
	tear_down_counting();
}

static void refresh__IS_QUERIED_AGAIN(void **state)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	set_up_counting("ib");
	cached(1, BOTH);
	assert_int_equal(rdmamsg_device_cached(ctx, "soft0", &a), 0);
	memset(&queries, 0, sizeof(queries));
	assert_int_equal(rdmamsg_device_refresh(ctx, "soft0"), 0);
	assert_int_equal(queries.port, 0);
	cached(1, RDMAMSG_PORT_STATIC);
	assert_int_equal(queries.port, 1);
	assert_int_equal(rdmamsg_device_cached(ctx, "soft0", &a), 0);
	assert_int_equal(queries.extended, 1);
	assert_int_equal(queries.port, 2);
	tear_down_counting();
}

static void cached__wrong_arguments_FAIL(void **state)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };

	set_up_counting("ib");
	assert_int_equal(rdmamsg_port_cached(ctx, "soft0", 3, BOTH, &a),
			 -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "soft0 has 2"));
	assert_int_equal(rdmamsg_port_cached(ctx, "soft0", 0, BOTH, &a),
			 -EINVAL);
	assert_int_equal(rdmamsg_port_cached(ctx, "soft0", 1, 0, &a), -EINVAL);
	assert_int_equal(rdmamsg_port_cached(ctx, "soft0", 1, 4, &a), -EINVAL);
	assert_int_equal(rdmamsg_port_cached(ctx, "nosuch", 1, BOTH, &a),
			 -ENXIO);
	assert_int_equal(rdmamsg_device_refresh(ctx, "nosuch"), -ENXIO);
	assert_int_equal(rdmamsg_device_cached(ctx, "nosuch", NULL), -ENXIO);
	assert_int_equal(rdmamsg_device_refresh(NULL, "soft0"), -EINVAL);
	assert_int_equal(queries.port, 0);
	tear_down_counting();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(infiniband__each_change_IS_SEEN_AT_ONCE),
		cmocka_unit_test(infiniband__group_on_the_port_JOINS_AGAIN),
		cmocka_unit_test(infiniband__bad_value_IS_REFUSED),
		cmocka_unit_test(ethernet__each_change_IS_SEEN_AT_ONCE),
		cmocka_unit_test(iwarp__join_EOPNOTSUPP),
		cmocka_unit_test(cached__infiniband_ONE_QUERY_UNTIL_AN_EVENT),
		cmocka_unit_test(cached__infiniband_untold_IS_QUERIED),
		cmocka_unit_test(cached__ethernet_DYNAMIC_PART_IS_QUERIED),
		cmocka_unit_test(cached__device_IS_QUERIED_ONCE),
		cmocka_unit_test(cached__extended_attributes_ARE_QUERIED_ONCE),
		cmocka_unit_test(
			cached__each_event_of_a_port_FORGETS_ITS_DYNAMIC_PART),
		cmocka_unit_test(refresh__IS_QUERIED_AGAIN),
		cmocka_unit_test(cached__wrong_arguments_FAIL),
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
