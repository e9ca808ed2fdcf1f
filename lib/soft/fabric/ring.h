/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring carries the records of one direction of a wire, from one producer to
 * one consumer. Both processes can write its memory. Each side keeps its own
 * position in private memory, and checks the other's position before use. If
 * the other's position is impossible, the ring is broken, and nothing else is
 * harmed.
 *
 * The data is mapped twice in a row. So every record is contiguous, and no
 * record that passes soft_ring_avail() extends beyond the mapping.
 *
 * For a record these cache lines move from the producer's processor to the
 * consumer's: the one with 'tail', and those of the record. 'head' moves once
 * in a round of the ring, when the producer has used the room that it has seen.
 * 'sleeping' and 'full' are read, and written only if somebody sleeps. So a
 * ping-pong of 64 bytes moves 3.5 lines each way: 'tail', 112 bytes of the
 * message, and 48 bytes of the ACK for the last one, which lie before it.
 * Measured between two processors with rdmamsg-perf and tests/bench/bounce: a
 * line alone takes 0.5 to 0.9 us, a message of 16 bytes 0.74 us, and 64 bytes
 * more 0.05 us. So a message waits for 'tail' only, and the lines of its record
 * come meanwhile.
 */
#ifndef SOFT_FABRIC_RING_H
#define SOFT_FABRIC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_RING_SIZE	(1u << 20)	/* a power of two, whole pages */
#define SOFT_RING_ALIGN	16u
#define SOFT_WITHDRAWN	512u		/* a power of two */

/* A consumer that sleeps wants a doorbell for each record that needs it, ... */
#define SOFT_SLEEPS		1u
#define SOFT_SLEEPS_LIGHTLY	2u	/* or for every record, */
#define SOFT_SLEEPS_NEAR	4u	/* and not that of its thread */

/* The control page of a ring in shared memory, or the beginning of it. */
struct soft_ring_shm {
	_Atomic uint64_t tail;		/* written by the producer */
	uint8_t pad1[120];
	_Atomic uint64_t head;		/* written by the consumer */
	uint8_t pad2[120];
	/*
	 * sleeping: the consumer wants a doorbell, see SOFT_SLEEPS. full: the
	 * producer wants a doorbell when there is room. Ringing the doorbell
	 * clears the flag.
	 */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t full;
	_Atomic uint32_t slow;		/* by the consumer: copying is faster */
	uint8_t pad3[244];
	/* the producer increments a counter to withdraw ranges (rec.h) */
	_Atomic uint32_t withdrawn[SOFT_WITHDRAWN];
	uint8_t pad4[4096 - 512 - 4 * SOFT_WITHDRAWN];
};
_Static_assert(sizeof(struct soft_ring_shm) == 4096, "the smallest page");

struct soft_ring {
	struct soft_ring_shm *shm;
	uint8_t *data;
	uint64_t pos;			/* own position */
	uint64_t seen;			/* the other side's, last read */
	bool broken;			/* the shared state was impossible */
};

static inline size_t soft_ring_round(size_t len)
{
	return (len + SOFT_RING_ALIGN - 1) & ~(size_t)(SOFT_RING_ALIGN - 1);
}

/*
 * Returns the place for a record of len bytes, or NULL if there is no room or
 * the ring is broken.
 */
static inline void *soft_ring_reserve(struct soft_ring *r, size_t len)
{
	size_t need = soft_ring_round(len);

	if (__builtin_expect(r->pos + need - r->seen > SOFT_RING_SIZE, 0)) {
		/* pairs with the release in soft_ring_consume() */
		r->seen = atomic_load_explicit(&r->shm->head,
					       memory_order_acquire);
		if (r->pos - r->seen > SOFT_RING_SIZE)
			r->broken = true;
		if (r->broken || r->pos + need - r->seen > SOFT_RING_SIZE)
			return NULL;
	}
	return r->data + (r->pos & (SOFT_RING_SIZE - 1));
}

static inline void soft_ring_commit(struct soft_ring *r, size_t len)
{
	r->pos += soft_ring_round(len);
	/* pairs with the acquire in soft_ring_avail() */
	atomic_store_explicit(&r->shm->tail, r->pos, memory_order_release);
}

/* Returns the number of bytes to read, or 0 if the ring is broken. */
static inline size_t soft_ring_avail(struct soft_ring *r)
{
	uint64_t n;

	if (r->pos == r->seen) {
		/* pairs with the release in soft_ring_commit() */
		r->seen = atomic_load_explicit(&r->shm->tail,
					       memory_order_acquire);
		n = r->seen - r->pos;
		if (__builtin_expect(n > SOFT_RING_SIZE ||
				     n % SOFT_RING_ALIGN, 0)) {
			r->broken = true;
			r->seen = r->pos;
		}
	}
	return r->broken ? 0 : (size_t)(r->seen - r->pos);
}

static inline const void *soft_ring_read(const struct soft_ring *r)
{
	return r->data + (r->pos & (SOFT_RING_SIZE - 1));
}

static inline void soft_ring_consume(struct soft_ring *r, size_t len)
{
	r->pos += soft_ring_round(len);
	/* pairs with the acquire in soft_ring_reserve() */
	atomic_store_explicit(&r->shm->head, r->pos, memory_order_release);
}

/*
 * The shared memory of a wire. Ring 0 carries records from the node that made
 * the memory, ring 1 carries records to it.
 */
size_t soft_rings_size(void);
/* Returns a sealed memfd with two empty rings, or -errno. */
int soft_rings_create(void);
/* Returns -EPROTO unless fd has the size and seals of soft_rings_create(). */
int soft_rings_check(int fd);
int soft_rings_map(int fd, struct soft_ring rings[2]);
/* Makes one ring with both ends in this process. */
int soft_ring_loop(struct soft_ring *tx, struct soft_ring *rx);
void soft_ring_unmap(struct soft_ring *r);

#endif
