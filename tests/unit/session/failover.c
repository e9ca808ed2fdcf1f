/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the agreement on an alternate path, with a device that arms late
 * or refuses, and with a peer that breaks the rules. Both ends are on one soft
 * HCA in InfiniBand mode.
 */
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/resume.h"
#include "session/tx.h"
#include "wire/path.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

#define LATE	3	/* answers of a device that arms late */

static struct verbs_api table;
static bool refuses;			/* the device takes no alternate path */
static unsigned int late;		/* answers that name REARM */
static unsigned int loads;		/* alternate paths that were loaded */
static struct ibv_qp_attr loaded[5];	/* the last of them, by its port */
static bool lacks;			/* reports no path migration */
static bool deaf;			/* the device reports no events of QPs */

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_ALT_PATH) {
		if (refuses)
			return EINVAL;
		loads++;
		loaded[attr->alt_port_num] = *attr;
	}
	return rdmamsg__verbs_soft.modify_qp(qp, attr, mask);
}

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_device(verbs, attr);

	if (lacks)
		attr->device_cap_flags &= ~(unsigned int)
					  IBV_DEVICE_AUTO_PATH_MIG;
	return ret;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	int ret = rdmamsg__verbs_soft.query_qp(qp, attr, mask, init);

	if (!ret && late && attr->path_mig_state == IBV_MIG_ARMED) {
		attr->path_mig_state = IBV_MIG_REARM;
		late--;
	}
	return ret;
}

static int get_async_event(struct ibv_context *verbs,
			   struct ibv_async_event *ev)
{
	int ret = rdmamsg__verbs_soft.get_async_event(verbs, ev);

	if (!ret && deaf && ev->event_type == IBV_EVENT_PATH_MIG) {
		rdmamsg__verbs_soft.ack_async_event(ev);
		errno = EAGAIN;
		return -1;
	}
	return ret;
}

/* ---- both ends -------------------------------------------------------- */

static unsigned int armed[2], migrated[2], lost[2];
static unsigned int received[2];

static int index_of(const struct rdmamsg_ep *ep)
{
	return rdmamsg_ep_user(ep) == &server;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	int i = index_of(ep);

	armed[i] += ev->change == RDMAMSG_PATH_CHANGE_ARMED;
	migrated[i] += ev->change == RDMAMSG_PATH_CHANGE_MIGRATED;
	lost[i] += ev->change == RDMAMSG_PATH_CHANGE_LOST;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	received[index_of(ep)]++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = on_complete,
	.on_closed = on_closed, .on_path = on_path,
};
static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_PATH,
};

static int set_up(void **state)
{
	clear_ends();
	memset(armed, 0, sizeof(armed));
	memset(migrated, 0, sizeof(migrated));
	memset(lost, 0, sizeof(lost));
	memset(received, 0, sizeof(received));
	refuses = deaf = lacks = false;
	late = loads = 0;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static void connect_both(const struct rdmamsg_failover *f)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = f,
	};

	connect_ends(&opts);
}

static void connect_armed(void)
{
	connect_both(&failover);
	WAIT_FOR(armed[0] && armed[1]);
}

static bool is_in(const struct side *s, enum rdmamsg_path_state state)
{
	return s->ep->failover->state == state;
}

/* Messages still pass in both directions. */
static void expect_traffic(void)
{
	unsigned int a = received[0], b = received[1];

	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(received[0] > a && received[1] > b);
}

/* ---- the path --------------------------------------------------------- */

/* The path that was loaded at port 'from' must lead to port 'to'. */
static void expect_loaded(uint8_t from, uint8_t to)
{
	const struct rdmamsg_device *d = client.ep->lane.dev->device;
	const struct ibv_qp_attr *a = &loaded[from];
	struct ibv_port_attr port;
	union ibv_gid gid;

	assert_int_equal(rdmamsg__verbs_soft.query_port(d->verbs, to, &port),
			 0);
	assert_int_equal(rdmamsg__verbs_soft.query_gid(d->verbs, to, 0, &gid),
			 0);
	assert_int_equal(a->path_mig_state, IBV_MIG_REARM);
	assert_int_equal(a->alt_port_num, from);
	assert_int_equal(a->alt_ah_attr.port_num, from);
	assert_int_equal(a->alt_ah_attr.dlid, port.lid);
	assert_memory_equal(&a->alt_ah_attr.grh.dgid, &gid, sizeof(gid));
	assert_int_equal(a->alt_pkey_index, 0);
	assert_int_equal(a->alt_timeout,
			 client.ep->failover->route.timeout);
}

static void load__the_path_OF_BOTH_PORTS(void **state)
{
	const struct rdmamsg_failover third = {
		.size = sizeof(third), .rungs = RDMAMSG_RUNG_PATH, .port = 3,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &failover,
	};
	struct rdmamsg_ep *first;

	connect_armed();
	first = client.ep;
	memset(armed, 0, sizeof(armed));
	opts.failover = &third;
	loads = 0;
	connect_client(&opts);
	assert_ptr_not_equal(client.ep, first);
	WAIT_FOR(armed[0] && armed[1]);
	assert_int_equal(loads, 2);
	expect_loaded(3, 2);
	expect_loaded(2, 3);
}

/* The LID of a port of the one device on which both ends are. */
static uint16_t lid_of(uint8_t port)
{
	struct ibv_port_attr attr;

	assert_int_equal(rdmamsg__verbs_soft.query_port(
				 client.ep->lane.dev->device->verbs, port,
				 &attr), 0);
	return attr.lid;
}

static void load__lid_given_at_connect_LEADS_THERE(void **state)
{
	struct rdmamsg_failover given = {
		.size = sizeof(given), .rungs = RDMAMSG_RUNG_PATH, .port = 3,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &given,
	};
	struct rdmamsg_ep *refused;
	char text[64];

	connect_armed();
	memset(armed, 0, sizeof(armed));
	given.lid = lid_of(3);		/* the peer's port would be 2 */
	connect_client(&opts);
	WAIT_FOR(armed[0] && armed[1]);
	assert_int_equal(loads, 4);
	assert_int_equal(loaded[3].alt_ah_attr.dlid, lid_of(3));
	expect_loaded(2, 3);
	(void)snprintf(text, sizeof(text), "from port 3 to LID %u", given.lid);
	assert_string_equal(client.ep->failover->text, text);
	assert_string_equal(server.ep->failover->text,
			    "from port 2 to port 3 of the peer");
	given.lid = 0xc000;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &refused), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "lid"));
}

/* Another port, another LID, and any port again. */
static void alternate__changed_while_open_LOADED(void **state)
{
	struct rdmamsg_alternate a = { .size = sizeof(a), .port = 3 };

	connect_armed();
	assert_int_equal(client.ep->failover->own.port, 2);
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), 0);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
	assert_int_equal(loads, 4);
	expect_loaded(3, 2);
	expect_loaded(2, 3);
	expect_traffic();
	/* a LID that is not of the peer's port 2 */
	a.lid = lid_of(3);
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), 0);
	WAIT_FOR(armed[0] == 3 && armed[1] == 3);
	assert_int_equal(loads, 6);
	assert_int_equal(loaded[3].alt_ah_attr.dlid, lid_of(3));
	a.lid = lid_of(2);
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), 0);
	WAIT_FOR(armed[0] == 4 && armed[1] == 4);
	expect_loaded(3, 2);
	assert_int_equal(rdmamsg_ep_migrate(server.ep, NULL), 0);
	WAIT_FOR(migrated[0] == 1 && migrated[1] == 1);
	assert_int_equal(client.ep->lane.port, 3);
	assert_int_equal(client.ep->failover->opts.lid, 0);
	WAIT_FOR(armed[0] == 5 && armed[1] == 5);
	expect_traffic();
	/* after a migration, too */
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, NULL), 0);
	WAIT_FOR(armed[0] == 6 && armed[1] == 6);
	expect_traffic();
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(migrated[0] == 2 && migrated[1] == 2);
	expect_traffic();
}

static void alternate__of_no_use_REFUSED(void **state)
{
	struct rdmamsg_alternate a = { .size = sizeof(a), .port = 9 };

	assert_int_equal(rdmamsg_ep_set_alternate(NULL, &a), -EINVAL);
	connect_armed();
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "port 9"));
	a.port = 1;
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "itself uses"));
	a.port = 0;
	a.lid = 0xc000;
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "lid"));
	assert_true(is_in(&client, RDMAMSG_PATH_ARMED));
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	(void)set_up(state);
	a.lid = 0;
	connect_both(NULL);
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, &a), -EOPNOTSUPP);
	assert_non_null(strstr(rdmamsg_error(), "off"));
}

/* An InfiniBand device that does not report path migration. */
static void device__without_the_capability_EOPNOTSUPP(void **state)
{
	lacks = true;
	connect_both(&failover);
	assert_true(is_in(&client, RDMAMSG_PATH_NONE));
	assert_non_null(strstr(client.ep->failover->text,
			       "soft0 has no alternate paths"));
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), -EOPNOTSUPP);
	assert_int_equal(rdmamsg_ep_set_alternate(client.ep, NULL),
			 -EOPNOTSUPP);
	assert_non_null(strstr(rdmamsg_error(), "no alternate paths"));
	assert_int_equal(loads, 0);
	expect_traffic();
}

static void retries__with_an_alternate_TIME_FOR_BOTH(void **state)
{
	struct ibv_qp_attr a = { .timeout = 0 };
	uint8_t with, without;

	connect_both(NULL);
	rdmamsg__dead_transport(client.ep, &a);
	without = a.timeout;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	(void)set_up(state);
	connect_armed();
	rdmamsg__dead_transport(client.ep, &a);
	with = a.timeout;
	/* eight tries, twice, and each fourfold, in 20 s */
	assert_true(2 * 4 * 8 * (4096ull << with) <= 20000000000ull);
	assert_true(8 * (4096ull << without) >= 20000000000ull);
}

static void device__arms_late_ARMED(void **state)
{
	late = 2 * LATE;
	connect_both(&failover);
	WAIT_FOR(armed[0] && armed[1]);
	assert_int_equal(late, 0);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
}

static void device__refuses_NONE_then_ARMED(void **state)
{
	refuses = true;
	connect_both(&failover);
	WAIT_FOR(is_in(&client, RDMAMSG_PATH_NONE) &&
		 strstr(client.ep->failover->text, "loading"));
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), -EHOSTUNREACH);
	expect_traffic();
	refuses = false;
	/* a port that becomes active is a new chance */
	rdmamsg__failover_port(client.ctx, client.ep->lane.dev->device,
			       IBV_EVENT_PORT_ACTIVE, 1);
	WAIT_FOR(armed[0] && armed[1]);
}

static void device__cannot_migrate_LOST(void **state)
{
	connect_armed();
	rdmamsg__failover_event(client.ep, IBV_EVENT_PATH_MIG_ERR);
	WAIT_FOR(lost[0] == 1 && lost[1] == 1);
	assert_true(is_in(&client, RDMAMSG_PATH_NONE));
	assert_int_equal(rdmamsg_ep_migrate(server.ep, NULL), -EBUSY);
	expect_traffic();
	rdmamsg__failover_port(client.ctx, client.ep->lane.dev->device,
			       IBV_EVENT_PORT_ACTIVE, 1);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
}

/* No event tells of the migration, so the peer's PATH does. */
static void device__reports_nothing_MIGRATED(void **state)
{
	connect_armed();
	deaf = true;
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(migrated[0] == 1 && migrated[1] == 1);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
	assert_int_equal(client.ep->lane.port, 2);
	assert_int_equal(server.ep->lane.port, 2);
}

static void migrate__from_both_sides_AGAIN(void **state)
{
	connect_armed();
	for (unsigned int i = 1; i <= 20; i++) {
		assert_int_equal(rdmamsg_ep_migrate(i & 1 ? client.ep :
						    server.ep, NULL), 0);
		WAIT_FOR(armed[0] == i + 1 && armed[1] == i + 1);
	}
	expect_traffic();
	assert_int_equal(lost[0] + lost[1], 0);
}

/* ---- another lane ----------------------------------------------------- */

static bool has_standby(const struct side *s)
{
	const struct resume *r = s->ep->resume;

	return r->carrier && r->carrier->state == EP_OPEN;
}

/* Both ends have an armed path, and a standby lane that has none yet. */
static void connect_standby(void)
{
	static const struct rdmamsg_failover standby = {
		.size = sizeof(standby),
		.rungs = RDMAMSG_RUNG_PATH | RDMAMSG_RUNG_STANDBY,
	};

	connect_both(&standby);
	WAIT_FOR(armed[0] && armed[1] && has_standby(&client) &&
		 has_standby(&server));
	assert_int_equal(loads, 2);
}

static void lane__standby_LOADS_WHEN_IN_USE(void **state)
{
	const struct rdmamsg_migrate_options lane = {
		.size = sizeof(lane), .lane = true,
	};

	connect_standby();
	expect_traffic();
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &lane), 0);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
	assert_int_equal(loads, 4);
	expect_loaded(2, 2);
	expect_traffic();
	assert_int_equal(rdmamsg_ep_migrate(server.ep, NULL), 0);
	WAIT_FOR(migrated[0] == 1 && migrated[1] == 1);
	expect_traffic();
}

/* ---- a peer that breaks the rules ------------------------------------- */

static void send_bytes(const uint8_t *bytes, uint32_t len)
{
	rdmamsg__tx_message(client.ep, PROTO_PATH, 0, 0, NULL, NULL, bytes,
			    len);
}

static void send_path(const struct proto_path *p)
{
	uint8_t out[PROTO_PATH_LEN];

	rdmamsg__path_encode(p, out);
	client.ep->live.ping_out = true;
	send_bytes(out, sizeof(out));
}

/* Sends it, and believes it, so that the answer breaks no rule. */
static void offer_path(struct proto_path p)
{
	p.offer++;
	p.state = PROTO_PATH_OFFERED;
	client.ep->failover->own = client.ep->failover->sent = p;
	send_path(&p);
}

static void expect_protocol(const char *word)
{
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	if (!strstr(server.why.text, word))
		fail_msg("no '%s' in '%s'", word, server.why.text);
}

static void path__not_agreed_PROTOCOL(void **state)
{
	const struct proto_path p = { .offer = 1 };

	connect_both(NULL);
	send_path(&p);
	expect_protocol("not agreed");
}

/* The session dials the next standby lane. */
static void path__before_RESUME_CARRIER_ENDS(void **state)
{
	struct rdmamsg_ep *carrier;
	uint8_t out[PROTO_PATH_LEN];
	uint32_t epoch;

	connect_standby();
	carrier = client.ep->resume->carrier;
	epoch = client.ep->resume->epoch;
	rdmamsg__path_encode(&carrier->failover->sent, out);
	/* so that the PONG is no offence */
	carrier->live.ping_out = true;
	rdmamsg__tx_message(carrier, PROTO_PATH, 0, 0, NULL, NULL, out,
			    sizeof(out));
	WAIT_FOR(client.ep->resume->epoch > epoch && has_standby(&client) &&
		 has_standby(&server));
	assert_int_equal(loads, 2);
	expect_traffic();
}

static void path__broken_PROTOCOL(void **state)
{
	static const uint8_t zeros[PROTO_PATH_LEN];

	connect_armed();
	send_bytes(zeros, sizeof(zeros));
	expect_protocol("broken PATH");
}

static void path__short_PROTOCOL(void **state)
{
	connect_armed();
	send_bytes((const uint8_t *)"abc", 3);
	expect_protocol("broken PATH");
}

static void path__twice_PROTOCOL(void **state)
{
	struct proto_path p;

	connect_armed();
	p = client.ep->failover->sent;
	send_path(&p);
	send_path(&p);
	expect_protocol("before the PONG");
}

static void path__back_in_time_PROTOCOL(void **state)
{
	struct proto_path p;

	connect_armed();
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
	p = client.ep->failover->sent;
	p.offer--;
	send_path(&p);
	expect_protocol("PATH 1 after 2");
}

static void path__migrations_back_PROTOCOL(void **state)
{
	struct proto_path p;

	connect_armed();
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(armed[0] == 2 && armed[1] == 2);
	p = client.ep->failover->sent;
	p.migrations--;
	send_path(&p);
	expect_protocol("PATH");
}

static void path__for_what_was_not_offered_PROTOCOL(void **state)
{
	struct proto_path p;

	connect_armed();
	p = client.ep->failover->sent;
	p.seen++;
	send_path(&p);
	expect_protocol("for 2 after 1");
}

/* A false count of migrations keeps the server from loading, for ever. */
static void path__false_migrations_NOT_ARMED(void **state)
{
	struct proto_path p;

	connect_armed();
	loads = 0;
	p = client.ep->failover->sent;
	p.migrations++;
	offer_path(p);
	WAIT_FOR(lost[1] == 1);
	assert_true(is_in(&server, RDMAMSG_PATH_ARMING));
	expect_traffic();
	assert_int_equal(loads, 0);
	assert_int_equal(migrated[1], 0);
}

static void path__withdrawn_LOST(void **state)
{
	struct proto_path p;

	connect_armed();
	p = client.ep->failover->sent;
	p.port = 0;
	p.lid = 0;
	offer_path(p);
	WAIT_FOR(lost[1] == 1);
	assert_true(is_in(&server, RDMAMSG_PATH_NONE));
	assert_non_null(strstr(server.ep->failover->text, "the peer has no"));
	expect_traffic();
}

static void path__other_subnet_NONE(void **state)
{
	struct proto_path p;

	connect_armed();
	p = client.ep->failover->sent;
	p.gid[0] ^= 1;
	offer_path(p);
	WAIT_FOR(is_in(&server, RDMAMSG_PATH_NONE));
	assert_non_null(strstr(server.ep->failover->text, "subnets"));
	expect_traffic();
}

int main(void)
{
#define PATH_TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		PATH_TEST(load__the_path_OF_BOTH_PORTS),
		PATH_TEST(load__lid_given_at_connect_LEADS_THERE),
		PATH_TEST(alternate__changed_while_open_LOADED),
		PATH_TEST(alternate__of_no_use_REFUSED),
		PATH_TEST(device__without_the_capability_EOPNOTSUPP),
		PATH_TEST(retries__with_an_alternate_TIME_FOR_BOTH),
		PATH_TEST(device__arms_late_ARMED),
		PATH_TEST(device__refuses_NONE_then_ARMED),
		PATH_TEST(device__cannot_migrate_LOST),
		PATH_TEST(device__reports_nothing_MIGRATED),
		PATH_TEST(migrate__from_both_sides_AGAIN),
		PATH_TEST(lane__standby_LOADS_WHEN_IN_USE),
		PATH_TEST(path__not_agreed_PROTOCOL),
		PATH_TEST(path__before_RESUME_CARRIER_ENDS),
		PATH_TEST(path__broken_PROTOCOL),
		PATH_TEST(path__short_PROTOCOL),
		PATH_TEST(path__twice_PROTOCOL),
		PATH_TEST(path__back_in_time_PROTOCOL),
		PATH_TEST(path__migrations_back_PROTOCOL),
		PATH_TEST(path__for_what_was_not_offered_PROTOCOL),
		PATH_TEST(path__false_migrations_NOT_ARMED),
		PATH_TEST(path__withdrawn_LOST),
		PATH_TEST(path__other_subnet_NONE),
	};

	join_own_fabric("failover");
	(void)setenv("RDMAMSG_SOFT_LINK", "ib", 1);
	(void)setenv("RDMAMSG_SOFT_PORTS", "3", 1);
	table = rdmamsg__verbs_soft;
	table.modify_qp = modify_qp;
	table.query_device = query_device;
	table.query_qp = query_qp;
	table.get_async_event = get_async_event;
	rdmamsg__verbs = &table;
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
