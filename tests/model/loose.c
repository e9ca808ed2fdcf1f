/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loose device: a completion proves nothing but itself, as on iWARP. Requests
 * reach the peer in the order in which they were posted. A send or a write
 * completes at any time after it was posted: its bytes are taken then, and may
 * arrive later or, if the connection ends, never. The peer answers reads in
 * order, when it wants, and requests behind them pass. A read completes when
 * its answer is there, and the program's memory has no byte of it before. In
 * some schedules requests of both kinds complete each in order, as iWARP does,
 * and in others nothing orders completions.
 *
 * Requests before 'done' have reached the peer. In the error state, only those
 * before 'bad' do.
 */
#include "sim.h"

#include <stdlib.h>

static bool in_order;		/* of requests of a kind */
/* The device does not notice that nothing reaches the peer. */
static bool silent;
/* Requests posted to a failed queue pair never complete, as on Linux's siw. */
static bool swallows;


void loose_choose(void)
{
	in_order = sim_once_in(2);
	silent = sim_once_in(2);
	swallows = sim_once_in(2);
}

static struct sim_wqe *at(const struct sim_qp *qp, uint32_t i)
{
	return &qp->sends[i & qp->smask];
}

static bool has_arrived(const struct sim_qp *qp, uint32_t i)
{
	return (int32_t)(i - qp->done) < 0;
}

static bool reaches_peer(const struct sim_qp *qp)
{
	return !qp->cut && sim_is_up(sim_qp_find(qp->dest));
}

uint32_t loose_used(const struct sim_qp *qp)
{
	uint32_t used = 0;

	for (uint32_t i = qp->head; i != qp->tail; i++)
		used += !at(qp, i)->told;
	return used;
}

/* Forgets the first requests, which have completed and arrived, or never do. */
static void pop(struct sim_qp *qp)
{
	for (; qp->head != qp->tail; qp->head++) {
		struct sim_wqe *w = at(qp, qp->head);

		if (!w->told)
			return;
		if (qp->head == qp->done) {
			bool lost = qp->ibv.state == IBV_QPS_ERR &&
				    qp->done == qp->bad;

			if (!qp->cut && !lost)
				return;
			qp->done++;
			qp->bad += lost;
		}
		free(w->taken);
		w->taken = NULL;
	}
}

void loose_post(struct sim_qp *qp, struct sim_wqe *w)
{
	if (w->flags & IBV_SEND_FENCE)
		sim_fail("a request is fenced, and may wait for ever");
	w->told = swallows && qp->ibv.state == IBV_QPS_ERR;
}

/* ---- what reaches the peer --------------------------------------------- */

static bool can_reach(const struct sim_qp *qp)
{
	switch (qp->ibv.state) {
	case IBV_QPS_RTS:
		return qp->done != qp->tail;
	case IBV_QPS_ERR:
		return qp->done != qp->bad;
	default:
		return false;
	}
}

/* Returns the first read that the peer can answer, or NULL. */
static struct sim_wqe *unanswered(const struct sim_qp *qp)
{
	for (uint32_t i = qp->head; i != qp->done; i++)
		if (at(qp, i)->asked)
			return at(qp, i);
	return NULL;
}

bool loose_can_execute(const struct sim_qp *qp)
{
	return reaches_peer(qp) && (can_reach(qp) || unanswered(qp));
}

static void answer(struct sim_qp *qp, struct sim_wqe *w)
{
	w->taken = malloc(sim_length(w) + 1);
	sim_carry_out(qp, w);
	w->asked = false;
	w->answered = true;
}

void loose_execute(struct sim_qp *qp)
{
	struct sim_wqe *w = unanswered(qp);

	if (w && (!can_reach(qp) || sim_once_in(2))) {
		answer(qp, w);
		return;
	}
	w = at(qp, qp->done++);
	if (!sim_is_read(w))
		sim_carry_out(qp, w);
	else if (qp->ibv.state == IBV_QPS_RTS)
		w->asked = true;
	/* nobody gets the answer, but an atomic has its effect */
	else if (w->opcode != IBV_WR_RDMA_READ && sim_once_in(2))
		answer(qp, w);
	pop(qp);
}

/* ---- what becomes visible ---------------------------------------------- */

/* Counts the requests that have completed and not arrived. */
static uint32_t under_way(const struct sim_qp *qp)
{
	uint32_t count = 0;

	for (uint32_t i = qp->done; i != qp->tail; i++)
		count += at(qp, i)->told;
	return count;
}

static bool can_complete(const struct sim_qp *qp, uint32_t i)
{
	const struct sim_wqe *w = at(qp, i);

	if (w->told)
		return false;
	if (sim_is_read(w))
		return w->answered && !qp->cut;
	/* the buffers of the network have room for some that do not arrive */
	return has_arrived(qp, i) || qp->cut || under_way(qp) < qp->depth;
}

static bool is_next(const struct sim_qp *qp, uint32_t i)
{
	return !at(qp, i)->told &&
	       (qp->ibv.state == IBV_QPS_ERR || can_complete(qp, i));
}

bool loose_can_ack(const struct sim_qp *qp)
{
	for (uint32_t i = qp->head; i != qp->tail && !qp->gone; i++)
		if (is_next(qp, i))
			return true;
	return false;
}

/* Chooses one of those that may complete. */
static uint32_t choose(const struct sim_qp *qp)
{
	bool waits[2] = { false };
	uint32_t found = qp->head, count = 0;

	for (uint32_t i = qp->head; i != qp->tail; i++) {
		const bool read = sim_is_read(at(qp, i));

		if (!is_next(qp, i))
			continue;
		if (qp->ibv.state == IBV_QPS_ERR)
			return i;
		if ((!in_order || !waits[read]) && sim_once_in(++count))
			found = i;
		waits[read] = true;
	}
	return found;
}

static bool may_arrive(const struct sim_qp *qp, uint32_t i)
{
	return !has_arrived(qp, i) && (qp->ibv.state != IBV_QPS_ERR ||
				       (int32_t)(i - qp->bad) < 0);
}

static uint8_t *take(const struct sim_wqe *w)
{
	uint8_t *bytes = malloc(sim_length(w) + 1);

	sim_gather(bytes, w);
	return bytes;
}

void loose_ack(struct sim_qp *qp)
{
	const uint32_t i = choose(qp);
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct sim_wqe *w = at(qp, i);

	if (qp->ibv.state == IBV_QPS_ERR) {
		status = qp->why;
		qp->why = IBV_WC_WR_FLUSH_ERR;
	} else if (sim_is_read(w)) {
		sim_scatter(w, w->taken);
	}
	if (!sim_is_read(w) && may_arrive(qp, i))
		w->taken = take(w);
	w->told = true;
	sim_complete(qp, w, status);
	pop(qp);
}

/* ---- the end of the connection ----------------------------------------- */

bool loose_can_time_out(const struct sim_qp *qp)
{
	const struct sim_qp *peer = sim_qp_find(qp->dest);

	if (qp->ibv.state != IBV_QPS_RTS || !loose_used(qp))
		return false;
	if (qp->cut)
		return !silent;
	return (!peer || peer->ibv.state == IBV_QPS_ERR) && !sim_end_waits(qp);
}

/* Returns the number behind the last request that has been sent. */
static uint32_t sent(const struct sim_qp *qp)
{
	uint32_t end = qp->done;

	for (uint32_t i = qp->done; i != qp->tail; i++)
		if (at(qp, i)->told)
			end = i + 1;
	return end;
}

void loose_disconnect(struct sim_qp *qp)
{
	if (qp->ibv.state != IBV_QPS_RTS || sim_rude)
		return;
	qp->closes = true;
	qp->bad = sent(qp);
}

bool loose_owes(const struct sim_qp *qp)
{
	for (uint32_t i = qp->head; i != qp->done; i++)
		if (!at(qp, i)->told && !sim_is_read(at(qp, i)))
			return true;
	return false;
}

bool loose_is_ahead(const struct sim_qp *qp)
{
	const bool ends = qp->closes || qp->ibv.state == IBV_QPS_ERR;

	return ends && (int32_t)(qp->bad - qp->done) > 0 && reaches_peer(qp);
}

/* Some of the requests that have completed still arrive. */
void loose_fail(struct sim_qp *qp)
{
	uint32_t least = qp->closes && (int32_t)(qp->bad - qp->done) > 0 ?
			 qp->bad : qp->done;

	qp->bad = least + sim_below(sent(qp) - least + 1);
	pop(qp);
}

bool loose_lingers(const struct sim_qp *qp)
{
	return qp->ibv.state == IBV_QPS_ERR && loose_can_execute(qp);
}
