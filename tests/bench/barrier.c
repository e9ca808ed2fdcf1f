/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A barrier of 8 members, as a chain of the library, from callbacks of the
 * program, and as a native team: the same messages in the same order. All
 * members are contexts of one thread, which polls them in turn, so the figure
 * is the work of a barrier and not the time of processors to wake each other.
 * Takes turns, and prints the median of each and of their ratios to callbacks.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include "median.h"

#define MEMBERS		8u
#define ROUNDS		3u	/* log2(MEMBERS) */
#define BARRIERS	20000u	/* of a turn */
#define TURNS		9u

/* Each has endpoints of its own. */
enum way { CALLBACKS, CHAIN, NATIVE, WAYS };

struct member {
	struct rdmamsg *ctx;
	struct rdmamsg_listener *listener;
	uint32_t rank, connected;
	struct rdmamsg_ep *eps[WAYS][MEMBERS];
	struct rdmamsg_team *teams[WAYS];
	/* the barrier from callbacks */
	uint32_t round;			/* of this barrier */
	uint32_t came[ROUNDS];		/* messages ahead, by round */
	uint32_t done;
};

static struct member members[MEMBERS];

static void die(const char *what)
{
	fprintf(stderr, "barrier: %s: %s\n", what, rdmamsg_error());
	exit(1);
}

/* ---- from callbacks --------------------------------------------------- */

static void send_round(struct member *m)
{
	uint32_t to = (m->rank + (1u << m->round)) % MEMBERS;

	if (rdmamsg_send(m->eps[CALLBACKS][to], "", 0, m->round, NULL))
		die("rdmamsg_send");
}

/* Begins the next barrier when this one has ended. */
static void go_on(struct member *m)
{
	while (m->done < BARRIERS && m->came[m->round]) {
		m->came[m->round]--;
		if (++m->round == ROUNDS) {
			m->round = 0;
			m->done++;
		}
		if (m->done < BARRIERS)
			send_round(m);
	}
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct member *m = rdmamsg_ep_user(ep);

	m->came[rdmamsg_msg_tag(msg)]++;
	rdmamsg_msg_free(msg);
	go_on(m);
}

/* ---- as a team -------------------------------------------------------- */

static void on_done(struct rdmamsg_team *team, void *cookie, int status)
{
	struct member *m = rdmamsg_team_user(team);

	if (status)
		die("a barrier");
	if (++m->done < BARRIERS && rdmamsg_team_barrier(team, NULL))
		die("rdmamsg_team_barrier");
	(void)cookie;
}

/* ---- all -------------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	((struct member *)rdmamsg_ep_user(ep))->connected++;
}

static const struct rdmamsg_ep_handlers with_messages = {
	.size = sizeof(with_messages), .on_connected = on_connected,
	.on_message = on_message,
};

static const struct rdmamsg_ep_handlers for_chains = {
	.size = sizeof(for_chains), .on_connected = on_connected,
};

static struct rdmamsg_ep_options ep_options(struct member *m, uint8_t way)
{
	static const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = 32, .send_depth = 32,
		.eager_max = 1024,
	};

	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options), .user = m,
		.handlers = way == CALLBACKS ? &with_messages : &for_chains,
		.tuning = &tuning,
	};
}

/* hello_data: the rank of the peer, and the way */
static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct member *m = rdmamsg_listener_user(l);
	size_t len;
	const uint8_t *hello = rdmamsg_request_data(req, &len);
	struct rdmamsg_ep_options opts = ep_options(m, hello[1]);

	if (rdmamsg_request_accept(req, &opts, &m->eps[hello[1]][hello[0]]))
		die("rdmamsg_request_accept");
}

static void dial(struct member *m, uint32_t peer, uint8_t way)
{
	const uint8_t hello[2] = { (uint8_t)m->rank, way };
	struct rdmamsg_ep_options opts = ep_options(m, way);
	char port[8];

	opts.hello_data = hello;
	opts.hello_data_len = sizeof(hello);
	(void)snprintf(port, sizeof(port), "%u",
		       rdmamsg_listener_port(members[peer].listener));
	if (rdmamsg_connect(m->ctx, "127.0.0.1", port, &opts,
			    &m->eps[way][peer]))
		die("rdmamsg_connect");
}

static void open_member(uint32_t rank)
{
	struct member *m = &members[rank];
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &on,
	};

	m->rank = rank;
	if (rdmamsg_open(&m->ctx, NULL) ||
	    rdmamsg_listen(m->ctx, "127.0.0.1", "0", &opts, &m->listener))
		die("rdmamsg_listen");
	for (uint32_t peer = 0; peer < rank; peer++)
		for (uint8_t way = 0; way < WAYS; way++)
			dial(m, peer, way);
}

static void make_team(struct member *m, enum way way)
{
	static const struct rdmamsg_team_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	const struct rdmamsg_team_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &on,
		.path = way == NATIVE ? RDMAMSG_CHAIN_NATIVE :
			RDMAMSG_CHAIN_LOOP,
	};

	if (rdmamsg_team_create(m->ctx, &opts, m->eps[way], MEMBERS, m->rank,
				&m->teams[way]))
		die("rdmamsg_team_create");
}

static void make_teams(void)
{
	for (uint32_t i = 0; i < MEMBERS; i++) {
		struct member *m = &members[i];

		while (m->connected < WAYS * (MEMBERS - 1))
			for (uint32_t k = 0; k < MEMBERS; k++)
				(void)rdmamsg_process(members[k].ctx);
		make_team(m, CHAIN);
		make_team(m, NATIVE);
	}
}

static bool all_done(void)
{
	for (uint32_t i = 0; i < MEMBERS; i++)
		if (members[i].done < BARRIERS)
			return false;
	return true;
}

/* Returns the ns of a barrier. */
static double turn(enum way way)
{
	struct timespec a, b;

	for (uint32_t i = 0; i < MEMBERS; i++)
		members[i].done = 0;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		if (way == CALLBACKS)
			send_round(&members[i]);
		else if (rdmamsg_team_barrier(members[i].teams[way], NULL))
			die("rdmamsg_team_barrier");
	}
	while (!all_done())
		for (uint32_t i = 0; i < MEMBERS; i++)
			(void)rdmamsg_fast_poll(members[i].ctx);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 +
		(double)(b.tv_nsec - a.tv_nsec)) / BARRIERS;
}

static void print(double ns[WAYS][TURNS], double ratio[WAYS][TURNS])
{
	printf("barrier of %u members: chain %.0f ns, callbacks %.0f ns, "
	       "ratio %.2f", MEMBERS, median(ns[CHAIN], TURNS),
	       median(ns[CALLBACKS], TURNS), median(ratio[CHAIN], TURNS));
	if (rdmamsg_team_path(members[0].teams[NATIVE]) == RDMAMSG_CHAIN_NATIVE)
		printf(", native %.0f ns, ratio %.2f",
		       median(ns[NATIVE], TURNS), median(ratio[NATIVE], TURNS));
	printf("\n");
}

int main(void)
{
	double ns[WAYS][TURNS], ratio[WAYS][TURNS];

	for (uint32_t i = 0; i < MEMBERS; i++)
		open_member(i);
	make_teams();
	for (int way = 0; way < WAYS; way++)
		(void)turn((enum way)way);
	for (uint32_t i = 0; i < TURNS; i++)
		for (int way = 0; way < WAYS; way++) {
			ns[way][i] = turn((enum way)way);
			ratio[way][i] = ns[way][i] / ns[CALLBACKS][i];
		}
	print(ns, ratio);
	for (uint32_t i = 0; i < MEMBERS; i++)
		rdmamsg_close(members[i].ctx);
	return 0;
}
