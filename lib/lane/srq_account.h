/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The account of a shared receive queue: what its peers may send by the rules,
 * and what is kept for each of them. All amounts are receives.
 *
 *   endpoints * place + lobby + extra <= capacity
 *   endpoints * floor + extra - answers >= promised; the difference is kept
 *
 * 'place' is the floor and SRQ_CTRL. 'extra' is what endpoints have beyond
 * their floor, and the answers. Debug builds assert both after each change.
 */
#ifndef RDMAMSG_LIB_SRQ_ACCOUNT_H
#define RDMAMSG_LIB_SRQ_ACCOUNT_H

#include <assert.h>
#include <stdint.h>

#include "base/util.h"
#include "wire/flight.h"

/*
 * Control messages that a peer may have in flight, unlike RECV_RESERVE with
 * one answer to a rendezvous: for each further one that we announce at once a
 * receive is taken out of what is shared. SETUP comes before there is any.
 */
#define SRQ_CTRL	(CREDIT_MAX + 4 /* PING PONG CLOSE, SETUP or DONE */)

struct srq_account {
	uint32_t floor;			/* credits that each one always has */
	uint32_t capacity;		/* what may be promised in all */
	uint32_t eps;			/* whose peers have sent SETUP */
	uint32_t lobby;			/* the others: one receive for each */
	uint32_t promised;		/* credits out, not yet used */
	uint32_t answers;		/* DONEs beyond each one's first */
	uint32_t extra;			/* credits beyond the floor, answers */
};

/* Receives that each connection always has. */
static inline uint32_t rdmamsg__srq_place(const struct srq_account *a)
{
	return a->floor + SRQ_CTRL;
}

/* What may be promised beyond what every connection always has. */
static inline uint32_t rdmamsg__srq_spare(const struct srq_account *a)
{
	uint32_t fixed = a->eps * rdmamsg__srq_place(a) + a->lobby + a->extra;

	return a->capacity > fixed ? a->capacity - fixed : 0;
}

/*
 * Of that, what connections may have. An eighth, and the place of one at least,
 * is for connections to come.
 */
static inline uint32_t rdmamsg__srq_shared(const struct srq_account *a)
{
	uint32_t spare = rdmamsg__srq_spare(a);
	uint32_t keep = max(a->capacity / 8, rdmamsg__srq_place(a));

	return spare > keep ? spare - keep : 0;
}

/* Of all the floors, what is not out: it is for nobody else. */
static inline uint32_t rdmamsg__srq_kept(const struct srq_account *a)
{
	return a->eps * a->floor + a->extra - a->answers - a->promised;
}

/* What peers may have in flight now. */
static inline uint32_t rdmamsg__srq_in_flight(const struct srq_account *a)
{
	return a->promised + a->eps * SRQ_CTRL + a->lobby + a->answers;
}

static inline void rdmamsg__srq_balance(const struct srq_account *a)
{
	assert((uint64_t)a->eps * rdmamsg__srq_place(a) + a->lobby + a->extra <=
	       a->capacity);
	assert((uint64_t)a->eps * a->floor + a->extra >=
	       (uint64_t)a->answers + a->promised);
	(void)a;
}

/* How much of 'out' credits is beyond the floor. */
static inline uint32_t rdmamsg__srq_above(const struct srq_account *a,
					  uint32_t out)
{
	return out > a->floor ? out - a->floor : 0;
}

/* A peer that has sent no SETUP. There is a place for it. */
static inline void rdmamsg__srq_visit(struct srq_account *a)
{
	a->lobby++;
	rdmamsg__srq_balance(a);
}

/* Out of the lobby, with the floor; and back again. */
static inline void rdmamsg__srq_admit(struct srq_account *a)
{
	a->lobby--;
	a->eps++;
	a->promised += a->floor;
	rdmamsg__srq_balance(a);
}
static inline void rdmamsg__srq_send_back(struct srq_account *a)
{
	a->lobby++;
	a->eps--;
	a->promised -= a->floor;
	rdmamsg__srq_balance(a);
}

/* An endpoint with 'out' credits has gone. */
static inline void rdmamsg__srq_give_back(struct srq_account *a, uint32_t out)
{
	a->eps--;
	a->promised -= out;
	a->extra -= rdmamsg__srq_above(a, out);
	rdmamsg__srq_balance(a);
}

/* An endpoint with 'out' credits gets n more. */
static inline void rdmamsg__srq_promise(struct srq_account *a, uint32_t out,
					uint32_t n)
{
	a->promised += n;
	a->extra += rdmamsg__srq_above(a, out + n) - rdmamsg__srq_above(a, out);
	rdmamsg__srq_balance(a);
}

/* An endpoint with 'out' credits has used one. */
static inline void rdmamsg__srq_use(struct srq_account *a, uint32_t out)
{
	a->promised--;
	a->extra -= out > a->floor;
	rdmamsg__srq_balance(a);
}

/* One more DONE may come, beyond the first of an endpoint; and it has come. */
static inline void rdmamsg__srq_expect(struct srq_account *a)
{
	a->answers++;
	a->extra++;
	rdmamsg__srq_balance(a);
}
static inline void rdmamsg__srq_expected(struct srq_account *a)
{
	a->answers--;
	a->extra--;
	rdmamsg__srq_balance(a);
}

#endif
