/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The account of a shared receive queue: what its peers may send, and what is
 * kept for each of them. All amounts are receives.
 *
 *   eps * (floor + SRQ_CTRL) + lobby + extra <= capacity
 *   promised + answers <= eps * floor + extra
 *
 * floor + SRQ_CTRL is the place of an endpoint. The second line's difference is
 * kept for endpoints that have not used their floor. Debug builds assert both
 * lines after each change.
 */
#ifndef RDMAMSG_LIB_SRQ_ACCOUNT_H
#define RDMAMSG_LIB_SRQ_ACCOUNT_H

#include <assert.h>
#include <stdint.h>

#include "base/util.h"
#include "wire/flight.h"

/*
 * Control messages that a peer may have in flight. RECV_RESERVE has RNDV_MAX
 * DONEs, but SRQ_CTRL has one. Each further rendezvous that this side announces
 * takes a receive from the shared part. SETUP comes before any DONE.
 */
#define SRQ_CTRL	(CREDIT_MAX + 4 /* PING PONG CLOSE, SETUP or DONE */)

struct srq_account {
	uint32_t floor;			/* credits of each endpoint */
	uint32_t capacity;		/* receives that may be promised */
	uint32_t eps;			/* with SETUP from the peer */
	uint32_t lobby;			/* other endpoints, one receive each */
	uint32_t promised;		/* credits granted and not used */
	uint32_t answers;		/* DONEs beyond each endpoint's first */
	uint32_t extra;			/* credits above floor, and answers */
};

/* Receives that each endpoint always has. */
static inline uint32_t rdmamsg__srq_place(const struct srq_account *a)
{
	return a->floor + SRQ_CTRL;
}

/* Receives that may be promised beyond those of each endpoint. */
static inline uint32_t rdmamsg__srq_spare(const struct srq_account *a)
{
	uint32_t fixed = a->eps * rdmamsg__srq_place(a) + a->lobby + a->extra;

	return a->capacity > fixed ? a->capacity - fixed : 0;
}

/*
 * The part of the spare receives for endpoints. An eighth of the capacity, and
 * at least the place of one endpoint, is kept for new endpoints.
 */
static inline uint32_t rdmamsg__srq_shared(const struct srq_account *a)
{
	uint32_t spare = rdmamsg__srq_spare(a);
	uint32_t keep = max(a->capacity / 8, rdmamsg__srq_place(a));

	return spare > keep ? spare - keep : 0;
}

/* The rest of all floors, which is kept for their endpoints. */
static inline uint32_t rdmamsg__srq_kept(const struct srq_account *a)
{
	return a->eps * a->floor + a->extra - a->answers - a->promised;
}

/* Messages that peers may have in flight now. */
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

/* How many of 'out' credits are beyond the floor. */
static inline uint32_t rdmamsg__srq_above(const struct srq_account *a,
					  uint32_t out)
{
	return out > a->floor ? out - a->floor : 0;
}

/* Adds a peer that has not sent SETUP. There must be a place. */
static inline void rdmamsg__srq_visit(struct srq_account *a)
{
	a->lobby++;
	rdmamsg__srq_balance(a);
}

/*
 * Moves an endpoint out of the lobby and grants the floor.
 * rdmamsg__srq_send_back() undoes it.
 */
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

/* Removes an endpoint that has 'out' credits. */
static inline void rdmamsg__srq_give_back(struct srq_account *a, uint32_t out)
{
	a->eps--;
	a->promised -= out;
	a->extra -= rdmamsg__srq_above(a, out);
	rdmamsg__srq_balance(a);
}

/* Grants n more credits to an endpoint that has 'out' credits. */
static inline void rdmamsg__srq_promise(struct srq_account *a, uint32_t out,
					uint32_t n)
{
	a->promised += n;
	a->extra += rdmamsg__srq_above(a, out + n) - rdmamsg__srq_above(a, out);
	rdmamsg__srq_balance(a);
}

/* An endpoint that has 'out' credits has used one. */
static inline void rdmamsg__srq_use(struct srq_account *a, uint32_t out)
{
	a->promised--;
	a->extra -= out > a->floor;
	rdmamsg__srq_balance(a);
}

/*
 * Another DONE may come, beyond the first of an endpoint.
 * rdmamsg__srq_expected() follows when it has come.
 */
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
