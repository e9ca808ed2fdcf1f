/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large payloads stay in the sender's memory. The sender shows their addresses,
 * and the receiver fetches the bytes. All L.
 */
#ifndef SOFT_FABRIC_VM_H
#define SOFT_FABRIC_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "soft/fabric/rec.h"
#include "soft/fabric/wire.h"

/* A shown payload and the wire that it arrived on. */
struct soft_fetch {
	struct soft_wire *wire;
	struct soft_shown shown;
};

static inline size_t soft_vm_shown_len(uint32_t count)
{
	return offsetof(struct soft_shown, range) +
	       count * sizeof(struct soft_range);
}

/* Reads RDMAMSG_SOFT_NO_VM; 0 or -EINVAL. */
int soft_vm_options(struct soft_dev *dev);
/* Finds the process at the other end of a wire. */
void soft_vm_init(const struct soft_dev *dev, struct soft_wire *w);

/* ---- showing ---------------------------------------------------------- */

/* Returns true if a message of this length is to be shown, not copied. */
bool soft_vm_shows(struct soft_wire *w, uint32_t len);
/* Appends a range, valid until soft_vm_withdraw() of its key. */
void soft_vm_add(const struct soft_dev *dev, struct soft_wire *w,
		 const void *at, uint32_t len, uint32_t key,
		 struct soft_shown *ret);
/* Shows one range. Returns the length of *ret. */
int soft_vm_show_at(const struct soft_dev *dev, struct soft_wire *w,
		    const void *at, uint32_t len, uint32_t key,
		    struct soft_shown *ret);
/*
 * Appends an empty range, so that all end with soft_vm_withdraw_qp(). Two queue
 * pairs may end each other's ranges.
 */
void soft_vm_add_qp(struct soft_wire *w, uint32_t qpn, struct soft_shown *ret);
void soft_vm_withdraw_qp(struct soft_dev *dev, uint32_t qpn);
/* Ends the validity of all ranges of a key. Call it before the key is freed. */
void soft_vm_withdraw(struct soft_dev *dev, uint32_t key);

/* ---- fetching --------------------------------------------------------- */

/* Returns true if no range has been withdrawn so far. */
bool soft_vm_stands(const struct soft_fetch *from);
/* Reads *ret and sets rec->bytes to its length. Returns false if invalid. */
bool soft_vm_decode(struct soft_wire *w, struct soft_rec *rec,
		    const void *payload, struct soft_fetch *ret);
/*
 * Fetches len bytes into to[0] ... to[n - 1]. to[] must have n + 1 elements,
 * and is overwritten. Lower addresses become visible before higher ones. The
 * last bytes become visible only if all ranges are still valid.
 *
 * Returns -EACCES if to[] is no writable memory, -EFAULT if the shown ranges
 * are no memory of the peer, -EAGAIN if the sender must copy this payload,
 * -EPERM if the sender must copy from now on.
 */
int soft_vm_read(const struct soft_fetch *from, struct iovec *to, uint32_t n,
		 uint32_t len);
int soft_vm_fetch(const struct soft_fetch *from, void *at, uint32_t len);
/* Measures the copy of a segment out of the ring, which began at 'since'. */
void soft_vm_landed(struct soft_wire *w, uint64_t since);

#endif
