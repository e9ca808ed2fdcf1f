/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules for a whole round. After the round the judge compares the two ends
 * of each connection, from the journals, which outlive the processes. A process
 * checks the rules within itself while it runs.
 */
#include "chaos.h"

#include <stdio.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

/* If a round has only these faults, messages arrive even in a short round. */
#define SURE	(HARM_KILL | HARM_STOP | HARM_LOSS)

/* Messages of one side: the records of their sender and their receiver. */
struct way {
	struct round *r;
	uint32_t id;
	int side;			/* the sender's */
	const struct record *tx, *rx;
	struct journal *tx_j, *rx_j;
};

#define BROKEN(way, fmt, ...) \
	round_violation((way)->r, "connection %08x, messages of side %d: " fmt, \
			(way)->id, (way)->side, ##__VA_ARGS__)

static uint32_t plan_size_of(const struct way *v, uint32_t n)
{
	struct plan p = plan_of(v->r->board, v->id);

	p.side[v->side].max_send = v->tx->max_send;
	return plan_size(&p, v->side, n);
}

static bool graceful(const struct record *r)
{
	return r && r->closed && r->cause == RDMAMSG_CAUSE_CLOSED;
}

uint32_t judge_behind(struct journal *j, const struct record *r)
{
	const uint8_t *rx = record_rx(j, r);
	uint32_t n = r->next;

	while (n < r->room && rx[n] == RX_REFUSED)
		n++;
	return n;
}

static void lost(const struct way *v, uint32_t from, uint32_t end)
{
	for (uint32_t n = from; n < end; n++)
		v->r->totals->lost++;
}

/* ---- rules of messages ------------------------------------------------ */

/*
 * Returns true if the message was taken back. A sender that is killed may not
 * have told its program.
 */
static bool is_taken_back(const struct way *v, uint32_t n, uint8_t tx)
{
	struct plan p = plan_of(v->r->board, v->id);

	return tx == TX_TIMED_OUT ||
	       (tx == TX_PENDING && v->tx_j->killed &&
		plan_timeout(&p, v->side, n));
}

static void one_message(const struct way *v, uint32_t n, uint8_t tx, uint8_t rx)
{
	if (tx == TX_TIMED_OUT && rx != RX_NONE && rx != RX_SKIPPED)
		BROKEN(v, "message %u has timed out before it began, and the "
		       "receiver has state %u for it", n, rx);
	if (tx == TX_OVERDUE && v->tx->closed)
		BROKEN(v, "message %u is overdue, and on_late has not come", n);
	if (rx == RX_SKIPPED && !is_taken_back(v, n, tx)) {
		lost(v, n, n + 1);
		BROKEN(v, "message %u of %u bytes is missing among those "
		       "received, the sender has state %u for it", n,
		       plan_size_of(v, n), tx);
	}
	if (rx == RX_REFUSED && tx == TX_OK)
		BROKEN(v, "message %u was refused and has status 0", n);
	if (tx == TX_CANCELED && graceful(v->tx) && rx != RX_REFUSED &&
	    !v->rx_j->killed)
		BROKEN(v, "message %u was not refused, has -ECANCELED, and the "
		       "connection has closed gracefully", n);
}

/* If either end closes gracefully, all accepted messages were received. */
static void all_there(const struct way *v, uint32_t end)
{
	uint32_t sent = v->tx->sent;

	if (end >= sent)
		return;
	/* a killed or aborting receiver discards messages */
	if (graceful(v->rx) ||
	    (graceful(v->tx) && !v->rx_j->killed && !v->rx->abort_called)) {
		lost(v, end, sent);
		BROKEN(v, "%u were accepted, %u received, and %s has closed "
		       "gracefully; the other end says %s", sent, end,
		       graceful(v->rx) ? "the receiver" : "the sender",
		       graceful(v->rx) ? v->tx->why : v->rx->why);
	}
}

/*
 * The receiver's program gets each message with status 0, unless it is killed.
 * A failing call in the receiver's process may end the endpoint earlier.
 */
static void told_is_there(const struct way *v, uint32_t end)
{
	const uint8_t *tx = record_tx(v->tx_j, v->tx);

	if (v->rx_j->harmed & (HARM_INJECT | HARM_FILES))
		return;
	/* rdmamsg_ep_close() before on_connected is an abort */
	if (v->rx->close_called && !v->rx->connected)
		return;
	if (end < v->tx->sent && tx[end] == TX_OK && !v->rx_j->killed &&
	    !v->rx->abort_called && !graceful(v->rx)) {
		lost(v, end, end + 1);
		BROKEN(v, "message %u of %u bytes has status 0, and the "
		       "receiver, which has ended with '%s', has not seen it",
		       end, plan_size_of(v, end), v->rx->why);
	}
}

static void messages(const struct way *v)
{
	const uint8_t *tx = record_tx(v->tx_j, v->tx);
	const uint8_t *rx = record_rx(v->rx_j, v->rx);
	uint32_t end = judge_behind(v->rx_j, v->rx), most = v->tx->sent;

	/* a kill between the call and the note leaves TX_TRYING */
	most += v->tx_j->killed && tx[most] == TX_TRYING;
	if (end > most)
		BROKEN(v, "%u were received, %u sent", end, most);
	for (uint32_t n = 0; n < v->tx->sent; n++)
		one_message(v, n, tx[n], rx[n]);
	while (end < v->tx->sent &&
	       (tx[end] == TX_TIMED_OUT || rx[end] == RX_REFUSED))
		end++;
	all_there(v, end);
	told_is_there(v, end);
}

/* ---- rules of one-sided operations ------------------------------------ */

static void onesided(const struct way *v)
{
	const struct record *tx = v->tx, *rx = v->rx;
	bool over = graceful(tx) && graceful(rx);
	/* after one that was not executed, swaps find another value */
	bool sure = !tx->atomics_in_doubt;

	if (rx->word_known &&
	    ((sure && rx->word < tx->atomics_ok) ||
	     rx->word > tx->atomics_accepted + v->tx_j->killed ||
	     (over && sure && rx->word != tx->atomics_accepted)))
		BROKEN(v, "the word counts %llu, of %u atomics %u are done",
		       (unsigned long long)rx->word, tx->atomics_accepted,
		       tx->atomics_ok);
	if (rx->imms_received > tx->imms_accepted + v->tx_j->killed ||
	    (over && rx->imms_received != tx->imms_accepted))
		BROKEN(v, "%u writes with a value, %u were told",
		       tx->imms_accepted, rx->imms_received);
	/* the kernel frees a killed process's regions before its connections */
	if (tx->rma_refused && !v->rx_j->killed)
		BROKEN(v, "%u one-sided operations were refused: %s",
		       tx->rma_refused, tx->why);
	if (over && tx->rma_ok + tx->atomics_in_doubt != tx->rma_accepted)
		BROKEN(v, "%u one-sided operations, %u went well",
		       tx->rma_accepted, tx->rma_ok);
}

/* ---- rules of endings ------------------------------------------------- */

/* Returns the faults of all lives of a process, as a mask of enum harm. */
static uint32_t harmed(const struct round *r, uint32_t slot)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; slot < SLOTS && i < r->process[slot].life; i++)
		mask |= r->journal[slot][i]->harmed;
	return mask;
}

/*
 * Returns true if the endpoint ended because the previous message came again.
 */
static bool doubled(const struct record *a)
{
	const char *text = a ? strstr(a->why, "message ") : NULL;
	unsigned int number, due;

	if (!text)
		return false;
	if (sscanf(text, "message %u where %u was due", &number, &due) == 2)
		return number + 1 == due;
	return sscanf(text, "message %u (modulo 16) where %u was due", &number,
		      &due) == 2 && number == ((due - 1) & 15);
}

/*
 * Linux 6.1 can repeat a request under the next number: req_retry() reads the
 * consumer index of the send queue, then comp.psn. If an acknowledgement comes
 * between the two, wqe_index stays at the completed request (rxe_req.c). The
 * library detects the repetition and ends the connection.
 */
static bool kernel_doubled(const struct journal *j, uint32_t harm,
			   const struct record *a, const struct record *b)
{
	return j->kernel && harm & (HARM_SILENT | HARM_PORT) &&
	       (doubled(a) || doubled(b));
}

/*
 * A connection without a fault ends as its programs planned. A fault shorter
 * than dead_after_ms changes nothing.
 */
static void wanted(struct round *r, const struct journal *j,
		   const struct record *a, const struct record *b,
		   uint32_t peer_slot)
{
	uint32_t harm = j->harmed | harmed(r, peer_slot);
	uint32_t passes = HARM_PASSES;

	/* a session that has begun at both ends goes on */
	if (r->sc->failover && a->connected && b && b->connected)
		passes |= HARM_DEVICE;
	if (!a->closed || a->cause == RDMAMSG_CAUSE_CLOSED ||
	    a->abort_called || (b && b->abort_called))
		return;
	/* rdmamsg_ep_close() before on_connected is an abort */
	if (b && b->close_called && !b->connected)
		return;
	if (harm & ~passes || kernel_doubled(j, harm, a, b))
		return;
	/* the fault blocks the path to the server */
	if (!a->connected && harm & (HARM_PORT | HARM_SILENT))
		return;
	if (r->sc->tight && !a->connected)
		return;
	/* the request came while the server was about to end */
	if (!a->connected && j->finish && a->closed_at >= j->finish)
		return;
	round_violation(r, "connection %08x side %u was not harmed (%x) and "
			"has ended after %llu ms with '%s' (%d); the other end "
			"says '%s'", a->id, a->side, harm,
			(unsigned long long)(a->closed_at - a->began), a->why,
			a->error, b ? b->why : "nothing");
}

/* The host of a killed peer lives and reports that the peer has gone. */
static void blamed(struct round *r, const struct journal *j,
		   const struct record *a, const struct journal *peer)
{
	if (peer->killed && !(j->harmed & ~(uint32_t)HARM_STOP) &&
	    !(peer->harmed & ~(uint32_t)(HARM_KILL | HARM_STOP)) &&
	    a->connected && a->closed && !a->abort_called &&
	    a->cause != RDMAMSG_CAUSE_CLOSED && a->who != RDMAMSG_WHO_PEER)
		round_violation(r, "connection %08x side %u: the peer was "
				"killed, and somebody else is blamed (%u): %s",
				a->id, a->side, a->who, a->why);
}

static void closed_once(struct round *r, const struct journal *j,
			const struct record *a)
{
	if (!a->closed && !j->killed)
		round_violation(r, "connection %08x side %u has no on_closed",
				a->id, a->side);
}

/* ---- all rules -------------------------------------------------------- */

struct journal *judge_peer(struct round *r, const struct record *a,
			   const struct record **ret)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++) {
			struct journal *j = r->journal[s][i];

			for (uint32_t n = 0; n < j->records; n++)
				if (j->record[n].id == a->id &&
				    j->record[n].side != a->side) {
					*ret = &j->record[n];
					return j;
				}
		}
	*ret = NULL;
	return NULL;
}

static void both_ends(struct round *r, struct journal *cj,
		      const struct record *c, struct journal *sj,
		      const struct record *s)
{
	struct way there = { r, c->id, 0, c, s, cj, sj };
	struct way back = { r, c->id, 1, s, c, sj, cj };

	closed_once(r, cj, c);
	wanted(r, cj, c, s, c->target);
	if (!s) {
		if (c->connected)
			BROKEN(&there, "it was connected to nobody");
		return;
	}
	closed_once(r, sj, s);
	blamed(r, cj, c, sj);
	blamed(r, sj, s, cj);
	wanted(r, sj, s, c, cj->slot);
	messages(&there);
	messages(&back);
	onesided(&there);
	onesided(&back);
}

static void connection(struct round *r, struct journal *cj,
		       const struct record *c)
{
	const struct record *s;
	struct journal *sj = judge_peer(r, c, &s);
	uint32_t before = r->violations;

	both_ends(r, cj, c, sj, s);
	if (r->violations == before)
		return;
	round_blame(r, cj);
	if (sj)
		round_blame(r, sj);
}

static void count(struct round *r, const struct journal *j)
{
	struct totals *t = r->totals;

	for (uint32_t i = 0; i < j->records; i++) {
		const struct record *a = &j->record[i];

		r->connections += a->side == 0 && a->connected;
		r->messages += a->next;
		t->bytes += a->bytes_received;
		t->rmas += a->rma_ok;
	}
	t->harms[__builtin_ctz(HARM_INJECT)] += j->injected;
	t->harms[__builtin_ctz(HARM_FILES)] += j->starved;
	t->timed_out += j->timed_out;
	t->overdue += j->overdue;
	t->lost += j->lost;
	t->doubled += j->doubled;
}

void judge(struct round *r)
{
	uint64_t *starved = &r->totals->harms[__builtin_ctz(HARM_FILES)];
	uint64_t before = *starved;

	for (uint32_t s = 0; s < SLOTS; s++)
		for (uint32_t i = 0; i < r->process[s].life; i++) {
			struct journal *j = r->journal[s][i];

			count(r, j);
			if (j->violations) {
				round_violation(r, "process %u-%u, %u times: "
						"%s", s, i, j->violations,
						j->violation);
				round_blame(r, j);
			}
			for (uint32_t n = 0; n < j->records; n++)
				if (j->record[n].side == 0)
					connection(r, j, &j->record[n]);
		}
	if (!r->messages && !(r->sc->harm & ~(uint32_t)SURE))
		round_violation(r, "%llu connections, and no message came",
				(unsigned long long)r->connections);
	if (r->sc->harm & HARM_FILES && *starved == before)
		round_violation(r, "no process ran out of descriptors");
	r->totals->connections += r->connections;
	r->totals->messages += r->messages;
	r->totals->violations += r->violations;
}
