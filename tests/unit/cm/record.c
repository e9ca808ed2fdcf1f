/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a listener of records over TCP and those that reach it: from
 * which address, with which record, and after which time.
 */
#include "../../integration/clock.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "cm/connect.h"
#include "cm/oob/oob.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rdmamsg/listener.h>

#define RECORD_MS	10000		/* a connection may have no record */

static const struct rdmamsg_ep_handlers handlers = END_HANDLERS(NULL);
static struct rdmamsg_listener *listener;

static int set_up(void **state)
{
	clear_ends();
	return rdmamsg_open(&client.ctx, NULL) ||
	       rdmamsg_open(&server.ctx, NULL) ? -1 : 0;
}

static struct rdmamsg_ep_options options(struct side *s)
{
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options), .user = s,
		.handlers = &handlers, .device = "soft",
	};
}

static void listen_with(const struct rdmamsg_ep_options *opts, uint32_t backlog)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts, .device = "soft",
		.backlog = backlog,
	};

	assert_int_equal(rdmamsg_oob_listen(server.ctx, "127.0.0.1", "0",
					    &lopts, &listener), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(listener));
}

static void listen_for_all(void)
{
	const struct rdmamsg_ep_options opts = options(&server);

	listen_with(&opts, 0);
}

static void dial(const struct rdmamsg_ep_options *opts)
{
	assert_int_equal(rdmamsg_oob_connect(client.ctx, "127.0.0.1", service,
					     opts, NULL), 0);
	WAIT_FOR((client.ep && server.ep) || client.closed);
	if (client.closed)
		fail_msg("%s", client.why.text);
}

static int stranger_from(const char *source)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(rdmamsg_listener_port(listener)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, source, &from.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int stranger(void)
{
	return stranger_from("127.0.0.1");
}

static struct rdmamsg_listener_stats stats(void)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_listener_get_stats(listener, &st), 0);
	return st;
}

/* Returns true when the listener has closed the connection. */
static bool has_ended(int fd)
{
	uint8_t more[256];

	return recv(fd, more, sizeof(more), MSG_DONTWAIT) == 0;
}

static void source__of_the_client_IS_ITS_ADDRESS(void **state)
{
	struct rdmamsg_ep_options opts = options(&client);
	const struct sockaddr_in *peer;

	listen_for_all();
	opts.source = "127.0.0.2";
	dial(&opts);
	peer = (struct sockaddr_in *)&server.ep->connect.peer_addr;
	assert_int_equal(peer->sin_family, AF_INET);
	assert_int_equal(ntohl(peer->sin_addr.s_addr), 0x7f000002);
}

/* They are for the side that connects, and are gone after the call. */
static void device__in_the_options_of_accepted_NOT_USED(void **state)
{
	struct rdmamsg_ep_options opts = options(&server);
	char name[] = "nosuch0";

	opts.device = name;
	listen_with(&opts, 0);
	memset(name, 'x', sizeof(name) - 1);
	opts = options(&client);
	dial(&opts);
}

static void connection__without_a_record_ENDS_IN_TIME(void **state)
{
	int fd;

	listen_for_all();
	fd = stranger();
	WAIT_FOR(listener->oob->count == 1);
	clock_pass(RECORD_MS + 1);
	WAIT_FOR(has_ended(fd));
	close(fd);
}

/* The oldest makes room for one of another address. */
static void connection__beyond_the_backlog_DISPLACES_THE_OLDEST(void **state)
{
	const struct rdmamsg_ep_options opts = options(&server);
	int fd[2];

	listen_with(&opts, 1);
	fd[0] = stranger_from("127.0.0.2");
	WAIT_FOR(listener->oob->count == 1);
	fd[1] = stranger_from("127.0.0.3");
	WAIT_FOR(has_ended(fd[0]));
	assert_false(has_ended(fd[1]));
	assert_int_equal(listener->oob->count, 1);
	close(fd[0]);
	close(fd[1]);
}

/* The records have served; the queue pairs tell of the end. */
static void connection__ends_behind_SETUP_NO_END(void **state)
{
	struct rdmamsg_ep_options opts = options(&client);
	uint8_t record[RDMAMSG_OOB_MAX];
	struct rdmamsg_ep *ep;
	int fd, len;

	listen_for_all();
	assert_int_equal(rdmamsg_oob_offer(client.ctx, &opts, &client.ep), 0);
	len = rdmamsg_oob_record(client.ep, record, sizeof(record));
	assert_true(len > 0);
	fd = stranger();
	assert_int_equal(send(fd, record, (size_t)len, MSG_NOSIGNAL), len);
	WAIT_FOR(!list_empty(&server.ctx->sessions->eps));
	ep = list_first(&server.ctx->sessions->eps, struct rdmamsg_ep, node);
	assert_int_equal(ep->state, EP_SETUP);
	ep->connect.setup_seen = true;
	close(fd);
	WAIT_FOR(!ep->connect.oob->conn);
	assert_int_equal(ep->state, EP_SETUP);
}

/* A router leads there, which needs the GID. */
static void address__in_another_subnet_IS_GLOBAL(void **state)
{
	struct ibv_ah_attr ah = { .is_global = 0 };
	struct oob oob = {
		.local.link = PROTO_OOB_IB, .local.has_gid = 1,
		.peer.has_gid = 1, .peer.lid = 7,
	};

	rdmamsg__oob_address(&oob, RDMAMSG_NONE, &ah);
	assert_int_equal(ah.is_global, 0);
	oob.peer.gid[7] = 1;
	rdmamsg__oob_address(&oob, RDMAMSG_NONE, &ah);
	assert_int_equal(ah.is_global, 1);
}

/* An answer, of which the listener has made no offer. */
static void record__of_another_kind_IS_AN_OFFENCE(void **state)
{
	struct rdmamsg_ep_options opts = options(&client);
	uint8_t record[RDMAMSG_OOB_MAX];
	int fd, len;

	listen_for_all();
	exchange_records(&opts);
	len = rdmamsg_oob_record(server.ep, record, sizeof(record));
	assert_true(len > 0);
	fd = stranger();
	assert_int_equal(send(fd, record, (size_t)len, MSG_NOSIGNAL), len);
	WAIT_FOR(has_ended(fd));
	assert_int_equal(stats().offences, 1);
	close(fd);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(source__of_the_client_IS_ITS_ADDRESS),
		T(device__in_the_options_of_accepted_NOT_USED),
		T(connection__without_a_record_ENDS_IN_TIME),
		T(connection__beyond_the_backlog_DISPLACES_THE_OLDEST),
		T(connection__ends_behind_SETUP_NO_END),
		T(address__in_another_subnet_IS_GLOBAL),
		T(record__of_another_kind_IS_AN_OFFENCE),
	};

	join_own_fabric("record");
	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
