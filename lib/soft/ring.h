/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a wire: a ring of records with one producer and one
 * consumer, in memory that both processes can write. Each side keeps its own
 * position to itself and believes the other's only as far as it makes sense;
 * what does not breaks the ring, never the process.
 *
 * The data is mapped twice in a row, so a record is contiguous wherever it
 * begins, and no length that passes the check below leads out of it.
 */
#ifndef SOFT_RING_H
#define SOFT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_RING_SIZE	(1u << 20)	/* a power of two, whole pages */
#define SOFT_RING_ALIGN	16u
#define SOFT_COUNTERS	512u		/* a power of two */

/* A page at the beginning of the shared part. */
struct soft_ring_shm {
	_Atomic uint64_t tail;		/* written by the producer */
	uint8_t pad1[120];
	_Atomic uint64_t head;		/* written by the consumer */
	uint8_t pad2[120];
	/*
	 * The consumer asks for a doorbell when there is news (1) or anything
	 * (2); the producer, when there is room again. Who rings takes it back.
	 */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t full;
	_Atomic uint32_t slow;		/* the consumer: fetching is (vm.c) */
	uint8_t pad3[244];
	/* the producer: what was shown under them is the payload no more */
	_Atomic uint32_t withdrawn[SOFT_COUNTERS];
	uint8_t pad4[4096 - 512 - 4 * SOFT_COUNTERS];
};
_Static_assert(sizeof(struct soft_ring_shm) == 4096, "a page");

struct soft_ring {
	struct soft_ring_shm *shm;
	uint8_t *data;
	uint64_t pos;			/* ours */
	uint64_t seen;			/* the other's, when last looked at */
	bool broken;			/* what is there cannot be true */
};

static inline size_t soft_ring_round(size_t len)
{
	return (len + SOFT_RING_ALIGN - 1) & ~(size_t)(SOFT_RING_ALIGN - 1);
}

/* Where a record of len bytes goes, or NULL: no room, or broken. */
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

/* Bytes there are to read, 0 when broken. */
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
 * The shared part of a wire: ring 0 goes from the one who made it to the one
 * it was given to, ring 1 back.
 */
#define SOFT_RINGS_SIZE	(2 * (sizeof(struct soft_ring_shm) + SOFT_RING_SIZE))

/* A sealed memfd with two empty rings, or -errno. */
int soft_rings_create(void);
/* -EPROTO unless the descriptor is what soft_rings_create() makes. */
int soft_rings_check(int fd);
int soft_rings_map(int fd, struct soft_ring rings[2]);
/* One ring that is both ends, in private memory: the wire to oneself. */
int soft_ring_loop(struct soft_ring *tx, struct soft_ring *rx);
void soft_ring_unmap(struct soft_ring *r);

#endif
