/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scheduler. Each step carries out one of the things that can happen now,
 * with weights that the seed has chosen: in some schedules one end is slow, in
 * others acknowledgements come late.
 */
#include "model.h"
#include "sim.h"

#include <string.h>

#include <rdmamsg/rdmamsg.h>

#define STEPS_MAX	20000
#define TIME_MAX	(600u * 1000000000ull)
#define CHOICES		128

enum what {
	DO_PROCESS, DO_POLL, DO_SEND, DO_TOUCH, DO_FREE, DO_MOVE, DO_PAUSE,
	DO_RESUME, DO_CANCEL, DO_CLOSE, DO_ABORT, DO_QUIT, DO_EXECUTE, DO_ACK,
	DO_ARRIVE, DO_TIME_OUT, DO_TELL, DO_CUT, DO_BREAK, DO_WAIT, WHATS,
};

struct choice {
	enum what what;
	void *arg;
	uint32_t weight;
};

struct totals totals;

static uint32_t weights[2][WHATS];
uint32_t deaths_done;
static uint32_t deaths;			/* left */
static struct choice choices[CHOICES];
static uint32_t count, sum;

static void add(enum what what, void *arg, int end)
{
	struct choice *c = &choices[count++];

	if (count > CHOICES)
		sim_fail("more than %d choices", CHOICES);
	c->what = what;
	c->arg = arg;
	c->weight = weights[end][what];
	sum += c->weight;
}

static void choose_weights(void)
{
	for (int i = 0; i < 2; i++)
		for (int w = 0; w < WHATS; w++)
			weights[i][w] = 64u >> 2 * sim_below(4);
	for (int i = 0; i < 2; i++) {
		weights[i][DO_CUT] = weights[i][DO_BREAK] = 1;
		weights[i][DO_POLL] = 1;
		weights[i][DO_WAIT] = 1;
		weights[i][DO_MOVE] = weights[i][DO_PAUSE] = 1;
		weights[i][DO_ABORT] = weights[i][DO_QUIT] = 1;
		weights[i][DO_CLOSE] = 1 + 8 * sim_below(2);
	}
}

static void add_ends(void)
{
	for (int i = 0; i < 2; i++) {
		struct end *e = &ends[i];

		if (e->ctx && sim_fd_ready(rdmamsg_fd(e->ctx)))
			add(DO_PROCESS, e, i);
		if (end_can_send(e))
			add(DO_SEND, e, i);
		if (end_can_touch(e))
			add(DO_TOUCH, e, i);
		if (end_can_free(e))
			add(DO_FREE, e, i);
		if (end_can_move(e))
			add(DO_MOVE, e, i);
		if (end_can_pause(e))
			add(DO_PAUSE, e, i);
		if (end_can_resume(e))
			add(DO_RESUME, e, i);
		if (end_can_cancel(e))
			add(DO_CANCEL, e, i);
		if (end_can_close(e))
			add(DO_CLOSE, e, i);
	}
}

static int end_of(const struct sim_qp *qp)
{
	for (const struct sim_conn *c = sim_conns; c; c = c->next)
		if (c->qp[1] == qp->ibv.qp_num)
			return 1;
	return 0;
}

static void add_device(void)
{
	for (struct sim_qp *qp = sim_qps; qp; qp = qp->next) {
		int end = end_of(qp);

		if (sim_can_execute(qp))
			add(DO_EXECUTE, qp, end);
		if (sim_can_ack(qp))
			add(DO_ACK, qp, end);
		if (sim_can_arrive(qp))
			add(DO_ARRIVE, qp, end);
		if (sim_can_time_out(qp))
			add(DO_TIME_OUT, qp, end);
	}
	for (struct sim_id *id = sim_ids; id; id = id->next)
		if (sim_can_tell(id))
			add(DO_TELL, id, id->end);
}

static void add_aborts(void)
{
	for (int i = 0; i < 2; i++) {
		if (end_can_abort(&ends[i]))
			add(DO_ABORT, &ends[i], i);
		if (end_can_quit(&ends[i]))
			add(DO_QUIT, &ends[i], i);
	}
}

/* Lanes die after both programs have their endpoint. */
static void add_deaths(void)
{
	if (!deaths || !ends[0].connected || !ends[1].connected)
		return;
	for (struct sim_conn *c = sim_conns; c; c = c->next)
		if (!c->dead)
			add(DO_CUT, c, 0);
	for (struct sim_qp *qp = sim_qps; qp; qp = qp->next)
		if (qp->ibv.state == IBV_QPS_RTS && sim_used(qp))
			add(DO_BREAK, qp, end_of(qp));
}

/* Returns false if nothing will ever happen. */
static bool wait_for_timer(void)
{
	uint64_t when = sim_timer_next();

	if (!when)
		return false;
	if (when > sim_now)
		sim_now = when;
	return true;
}

static void poll_any(void)
{
	const struct end *e = &ends[sim_below(2)];

	if (e->ctx)
		rdmamsg_poll(e->ctx);
}

static void carry_out(const struct choice *c)
{
	switch (c->what) {
	case DO_PROCESS:
		if (sim_once_in(4))
			rdmamsg_poll(((struct end *)c->arg)->ctx);
		else
			rdmamsg_process(((struct end *)c->arg)->ctx);
		break;
	case DO_POLL:
		poll_any();
		break;
	case DO_SEND:
		if (sim_once_in(4))
			inside_cork(c->arg);
		else
			end_send(c->arg);
		break;
	case DO_TOUCH:
		end_touch(c->arg);
		break;
	case DO_FREE:
		end_free(c->arg);
		break;
	case DO_MOVE:
		end_move(c->arg);
		break;
	case DO_PAUSE:
		end_pause(c->arg);
		break;
	case DO_RESUME:
		end_resume(c->arg);
		break;
	case DO_CANCEL:
		end_cancel(c->arg);
		break;
	case DO_ABORT:
		end_abort(c->arg);
		break;
	case DO_QUIT:
		end_quit(c->arg);
		break;
	case DO_CLOSE:
		end_close(c->arg);
		break;
	case DO_EXECUTE:
		sim_execute(c->arg);
		break;
	case DO_ACK:
		sim_ack(c->arg);
		break;
	case DO_ARRIVE:
		sim_arrive(c->arg);
		break;
	case DO_TIME_OUT:
		sim_qp_fail(c->arg, IBV_WC_RETRY_EXC_ERR);
		break;
	case DO_TELL:
		sim_tell(c->arg);
		break;
	case DO_CUT:
		deaths--;
		deaths_done++;
		totals.deaths++;
		sim_conn_cut(c->arg);
		break;
	case DO_BREAK:
		deaths--;
		deaths_done++;
		totals.deaths++;
		sim_qp_fail(c->arg, IBV_WC_RETRY_EXC_ERR);
		break;
	default:
		sim_now += 1 + sim_below(20000000);
		break;
	}
}

static void step(void)
{
	uint32_t at;
	const struct choice *c = choices;

	count = sum = 0;
	add_ends();
	add_device();
	if (!count) {
		if (!wait_for_timer())
			sim_fail("nothing happens any more");
		return;
	}
	add_deaths();
	add_aborts();
	add(DO_POLL, NULL, 0);
	add(DO_WAIT, NULL, 0);
	for (at = sim_below(sum); at >= c->weight; c++)
		at -= c->weight;
	carry_out(c);
}

void sim_sleep(uint32_t ms)
{
	uint64_t when = sim_timer_next(), end = sim_now + ms * 1000000ull;

	count = sum = 0;
	add_device();
	if (count)
		carry_out(&choices[sim_below(count)]);
	else
		sim_now = when > sim_now && when < end ? when : end;
}

static bool is_over(void)
{
	return ends[0].closed && ends[1].closed;
}

/*
 * What a loose device does not flush, the library gives up after some time.
 * Returns false if there is nothing of the kind.
 */
static bool drains(void)
{
	return sim_loose && sim_counts.qps && wait_for_timer();
}

/* Callbacks of both ends have ended: lets the library settle. */
static void settle(void)
{
	for (uint32_t i = 0; i < STEPS_MAX; i++) {
		count = sum = 0;
		add_ends();
		add_device();
		if (count)
			carry_out(&choices[sim_below(count)]);
		else if (!drains())
			return;
	}
	sim_fail("does not come to rest");
}

static void check_empty(void)
{
	const struct sim_counts none = { 0 };

	if (sim_counts.qps)
		sim_fail("%d queue pairs are left", sim_counts.qps);
	if (sim_counts.ids != (listener != NULL))
		sim_fail("%d ids are left, the listener included",
			 sim_counts.ids);
	ends_close();
	simcm_reset();
	sim_qps_reset();
	if (memcmp(&sim_counts, &none, sizeof(none)))
		sim_fail("left: contexts %d, domains %d, registrations %d, "
			 "channels %d, queues %d, ids %d, event channels %d",
			 sim_counts.contexts, sim_counts.pds, sim_counts.mrs,
			 sim_counts.channels, sim_counts.cqs, sim_counts.ids,
			 sim_counts.event_channels);
	if (sim_fds())
		sim_fail("%u descriptors are left", sim_fds());
}

void schedule_run(uint64_t seed)
{
	uint32_t steps = 0;

	sim_seed(seed);
	sim_now = 1000000u;
	plain = sim_once_in(8);
	deaths = plain ? 0 : sim_below(5);
	deaths_done = 0;
	choose_weights();
	sim_loose = sim_once_in(2) || all_loose;
	sim_rude = !plain && sim_once_in(2);
	loose_choose();
	ends_open();
	while (!is_over()) {
		if (++steps > STEPS_MAX)
			sim_fail("not over after %d steps", STEPS_MAX);
		if (sim_now > TIME_MAX)
			sim_fail("not over after %llu s", TIME_MAX /
				 1000000000u);
		step();
	}
	settle();
	ends_check();
	check_empty();
	totals.steps += steps;
}
