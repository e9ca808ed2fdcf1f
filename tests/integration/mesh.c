/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of a team in one process. */
#include "mesh.h"
#include "abilities.h"

#include <time.h>

#include <rdmamsg/device.h>
#include <rdmamsg/listener.h>

struct member members[MESH_MAX];
uint32_t mesh_size, mesh_ack_timeout, mesh_seed;
struct mesh_way mesh_way;
const struct rdmamsg_failover *mesh_failover;
struct rdmamsg_pd *mesh_pd;

void mesh_take(struct mesh_way way)
{
	if (way.takes == RDMAMSG_CHAIN_NATIVE &&
	    !test_has(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE))
		skip_because("the device has no native chains");
	mesh_way = way;
	mesh_failover = NULL;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct link *l = rdmamsg_ep_user(ep);

	l->connected = true;
	l->of->connected++;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct link *l = rdmamsg_ep_user(ep);

	l->ep = NULL;
	l->why = *why;
	l->of->closed++;
	if (!l->connected)
		note("member %u to %u: %s", l->of->rank, l->rank, why->text);
}

static const struct rdmamsg_ep_handlers on = {
	.size = sizeof(on), .on_connected = on_connected,
	.on_closed = on_closed,
};

/* All pairs connect at once, which takes siw long on a busy host. */
#define CONNECT_MS	60000

static struct rdmamsg_ep_options ep_options(struct link *l)
{
	static struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = 16, .send_depth = 16,
		.eager_max = 1024,
	};

	tuning.ack_timeout = mesh_ack_timeout;
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options), .user = l,
		.handlers = &on, .failover = mesh_failover, .pd = mesh_pd,
		.timeout_ms = CONNECT_MS, .tuning = &tuning,
	};
}

/* hello_data is the rank of the peer. */
static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	struct member *m = rdmamsg_listener_user(listener);
	const uint8_t *rank = rdmamsg_request_data(req, &(size_t){ 0 });
	struct rdmamsg_ep_options opts = ep_options(&m->links[*rank]);

	if (rdmamsg_request_accept(req, &opts, &m->links[*rank].ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

void mesh_member(uint32_t rank, uint32_t size)
{
	struct member *m = &members[rank];
	static const struct rdmamsg_listener_handlers listener_on = {
		.size = sizeof(listener_on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &listener_on,
		.setup_timeout_ms = CONNECT_MS,
	};

	memset(m, 0, sizeof(*m));
	mesh_size = size;
	m->rank = rank;
	for (uint32_t i = 0; i < size; i++)
		m->links[i] = (struct link){ .of = m, .rank = i };
	m->ctx = test_open(NULL);
	if (rdmamsg_listen(m->ctx, test_addr(), "0", &opts, &m->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(m->listener, m->port);
}

void mesh_dial(uint32_t rank, uint32_t peer, const char *port)
{
	struct member *m = &members[rank];
	const uint8_t hello = (uint8_t)rank;
	struct rdmamsg_ep_options opts = ep_options(&m->links[peer]);

	opts.hello_data = &hello;
	opts.hello_data_len = 1;
	if (rdmamsg_connect(m->ctx, test_addr(), port, &opts,
			    &m->links[peer].ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
}

static bool all_connected(uint32_t count)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		if (members[i].ctx && members[i].connected < count)
			return false;
	return true;
}

void mesh_open(uint32_t size, uint32_t absent)
{
	for (uint32_t i = 0; i < size; i++)
		if (i != absent)
			mesh_member(i, size);
	if (absent < size)
		memset(&members[absent], 0, sizeof(members[absent]));
	for (uint32_t i = 0; i < size; i++)
		for (uint32_t k = 0; k < i; k++)
			if (i != absent && k != absent)
				mesh_dial(i, k, members[k].port);
	WAIT_FOR(all_connected(absent < size ? size - 2 : size - 1));
}

static void on_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct member *m = rdmamsg_team_user(team);
	const uint32_t path = rdmamsg_team_path(team);

	if (cookie != m)
		note("member %u: the cookie of another operation", m->rank);
	if (!status && mesh_size > 1 && path != mesh_way.takes)
		note("member %u: path %u", m->rank, path);
	m->done++;
	m->status = status;
	if (m->then_done)
		m->then_done(m);
}

void mesh_team(uint32_t rank)
{
	struct member *m = &members[rank];
	static const struct rdmamsg_team_handlers team_on = {
		.size = sizeof(team_on), .on_done = on_done,
	};
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &team_on,
		.path = mesh_way.asks,
	};
	struct rdmamsg_ep *eps[MESH_MAX];

	for (uint32_t k = 0; k < mesh_size; k++)
		eps[k] = m->links[k].ep;
	if (rdmamsg_team_create(m->ctx, &opts, eps, mesh_size, rank, &m->team))
		fail_msg("rdmamsg_team_create: %s", rdmamsg_error());
}

/* The first operation, which does not count. */
static void warm_up(void)
{
	unsigned int done[MESH_MAX];

	for (uint32_t i = 0; i < mesh_size; i++) {
		done[i] = members[i].done;
		members[i].done = 0;
		if (members[i].ctx && rdmamsg_team_barrier(members[i].team,
							   &members[i]))
			fail_msg("rdmamsg_team_barrier: %s", rdmamsg_error());
	}
	WAIT_FOR(mesh_all_done(1));
	for (uint32_t i = 0; i < mesh_size; i++) {
		assert_int_equal(members[i].status, 0);
		members[i].done = done[i];
	}
}

void mesh_teams(void)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		if (members[i].ctx)
			mesh_team(i);
	if (mesh_way.warm)
		warm_up();
}

bool mesh_all_done(unsigned int count)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		if (members[i].ctx && members[i].done < count)
			return false;
	return true;
}

void mesh_choose_seed(void)
{
	const char *seed = getenv("TEST_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	mesh_seed = seed ? (uint32_t)strtoul(seed, NULL, 10) :
		    (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec;
	printf("# seed %u\n", mesh_seed);
}

void mesh_race(uint32_t count, void (*begin)(struct member *m, uint32_t number),
	       void (*check)(const struct member *m, uint32_t number))
{
	uint32_t begun[MESH_MAX] = { 0 }, wait[MESH_MAX] = { 0 };
	uint64_t end = now_ms() + WAIT_MS;	/* without progress */
	uint32_t seed = mesh_size + mesh_seed;

	while (!mesh_all_done(count)) {
		for (uint32_t i = 0; i < mesh_size; i++) {
			struct member *m = &members[i];
			const unsigned int done = m->done;

			assert_true(rdmamsg_poll(m->ctx) >= 0);
			if (m->done != done) {
				assert_int_equal(m->status, 0);
				check(m, done);
				end = now_ms() + WAIT_MS;
				seed = seed * 1664525 + 1013904223;
				wait[i] = seed >> 29;
			}
			if (begun[i] == m->done && begun[i] < count &&
			    !wait[i]--)
				begin(m, begun[i]++);
		}
		check_notes();
		assert_true(now_ms() < end);
	}
}

static bool all_closed(void)
{
	for (uint32_t i = 0; i < mesh_size; i++)
		for (uint32_t k = 0; k < mesh_size; k++)
			if (members[i].ctx && members[i].links[k].ep)
				return false;
	return true;
}

void mesh_close(void)
{
	for (uint32_t i = 0; i < mesh_size; i++) {
		if (members[i].ctx)
			rdmamsg_team_destroy(members[i].team);
		members[i].team = NULL;
	}
	for (uint32_t i = 0; i < mesh_size; i++)
		for (uint32_t k = 0; k < mesh_size; k++)
			if (members[i].ctx && members[i].links[k].ep)
				rdmamsg_ep_close(members[i].links[k].ep);
	WAIT_FOR(all_closed());
	for (uint32_t i = 0; i < mesh_size; i++) {
		if (members[i].ctx)
			test_close(members[i].ctx);
		members[i].ctx = NULL;
	}
	check_notes();
}
