/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The budget of an attack: memory of the server for a stranger, bytes answered
 * for a byte received, and the time until the innocent is served. A part of
 * strangers.c.
 */
#ifndef HOSTILE_BUDGET_H
#define HOSTILE_BUDGET_H

/*
 * Bytes of the server for those that connect, also while they close: a MB each,
 * because memory that nothing has used for some seconds is the system's again.
 */
#define INNOCENT	(4u << 20)

/* Payload that the device of this process has sent and received. */
static uint64_t octets(enum soft_counter what)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SOFT_PORTS_MAX; i++)
		sum += dev->count[i][what];
	return sum;
}

/* At the beginning of an attack. */
struct attack {
	uint64_t heap, sent, got;
};

static struct attack begin_attack(void)
{
	shared->anew = true;
	ask_server();
	return (struct attack){
		.heap = shared->heap, .sent = octets(SOFT_XMIT_DATA),
		.got = octets(SOFT_RCV_DATA),
	};
}

/* The allowance, and bytes that the device does not count. */
struct cost {
	uint32_t strangers;	/* with memory at a time */
	uint32_t each;		/* bytes of the server for one of them */
	bool connects;		/* an innocent, meanwhile */
	uint64_t stays;		/* of these bytes, for longer than this waits */
	uint64_t sent, got;	/* bytes; sent 0: as the device has counted */
	uint32_t times;		/* bytes answered for a byte */
};

/*
 * Returns true if the attack has kept within its budget, and the innocent goes
 * on. Soon afterwards the server has nothing of it.
 */
static bool in_budget(const struct attack *b, struct cost c)
{
	const uint64_t sent = c.sent ?: octets(SOFT_XMIT_DATA) - b->sent;
	const uint64_t got = c.sent ? c.got : octets(SOFT_RCV_DATA) - b->got;
	const uint64_t most = (uint64_t)c.strangers * c.each + SMALL +
			      (c.connects ? INNOCENT : 0);
	const uint64_t after = c.stays + SMALL;
	const uint64_t end = now_ms() + SERVED_MS;
	int64_t left, peak;
	bool good;

	do {
		ask_server();
		(void)rdmamsg_wait(ctx, 5);
		left = (int64_t)(shared->heap - b->heap);
	} while (left > (int64_t)after && now_ms() < end);
	peak = (int64_t)(shared->peak - b->heap);
	good = peak <= (int64_t)most && left <= (int64_t)after &&
	       got <= c.times * sent;
	printf("#   %lld bytes more at the server, at most %llu for %u, then "
	       "%lld; %llu bytes answered for %llu, %.1f times, at most %u;",
	       (long long)peak, (unsigned long long)most, c.strangers,
	       (long long)left, (unsigned long long)got,
	       (unsigned long long)sent,
	       (double)got / (double)max(sent, (uint64_t)1), c.times);
	good &= goes_on();
	printf(" %llu ms until the innocent was served\n",
	       (unsigned long long)shared->waited);
	return good;
}

#endif
