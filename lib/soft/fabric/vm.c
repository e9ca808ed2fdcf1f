/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A large payload is copied once instead of twice. The sender shows the address
 * of the payload, and the receiver reads it with process_vm_readv(2). No
 * process writes into another process. A late read can be noticed and dropped,
 * but a late write cannot. Each end checks its own memory with its own keys. A
 * peer that lies about addresses only gets its own memory read. No end waits
 * for the other.
 *
 * The sender withdraws a range before its memory may get another use: when the
 * region or window is destroyed, or the request ends. Withdrawing increments a
 * counter. The receiver checks the counter after it has read the bytes, like
 * the reader of a seqlock.
 *
 * Every payload can go through the ring instead. A receiver that cannot fetch
 * sends SOFT_NAK_PUSH, and the sender copies the payload into the ring. The
 * kernel looks up each page of a fetch, so the faster way depends on the page
 * size. The receiver measures both ways. The sender takes the slower way now
 * and then, so that the receiver can measure it again.
 */
#include "soft/fabric/vm.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/memory.h"

#define TURNS		128	/* large messages between two slow ones */
#define TAIL		8u	/* bytes that soft_copy() writes last */

int soft_vm_options(struct soft_dev *dev)
{
	const char *no_vm = getenv("RDMAMSG_SOFT_NO_VM");

	if (no_vm && *no_vm && strcmp(no_vm, "0") && strcmp(no_vm, "1"))
		return -EINVAL;
	dev->no_vm = no_vm && *no_vm == '1';
	return 0;
}

void soft_vm_init(const struct soft_dev *dev, struct soft_wire *w)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	if (w->sock.fd < 0)
		cred.pid = getpid();
	else if (getsockopt(w->sock.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		cred.pid = 0;
	w->pid = cred.pid;
	w->shows = !dev->no_vm;
	/* pid 0: the peer is outside of this PID namespace */
	w->fetches = !dev->no_vm && w->pid > 0;
}

/* ---- showing ---------------------------------------------------------- */

bool soft_vm_shows(struct soft_wire *w, uint32_t len)
{
	bool slow;

	if (likely(len < SOFT_SHOW_MIN) || !w->shows)
		return false;
	slow = atomic_load_explicit(&w->tx.shm->slow, memory_order_relaxed);
	/* the second message takes the other way than the first */
	return slow == (++w->turn % TURNS == 2);
}

static _Atomic uint32_t *counter(struct soft_ring *r, uint32_t i)
{
	return &r->shm->withdrawn[i & (SOFT_WITHDRAWN - 1)];
}

/*
 * Appends a range. The peer learns the index of the counter, but no bit of the
 * key.
 */
void soft_vm_add(const struct soft_dev *dev, struct soft_wire *w,
		 const void *at, uint32_t len, uint32_t key,
		 struct soft_shown *ret)
{
	uint32_t i = soft_key_at(&dev->keys, key)->counter;

	ret->range[ret->count++] = (struct soft_range){
		.addr = (uintptr_t)at, .len = len, .counter = i,
		.value = atomic_load_explicit(counter(&w->tx, i),
					      memory_order_relaxed),
	};
}

int soft_vm_show_at(const struct soft_dev *dev, struct soft_wire *w,
		    const void *at, uint32_t len, uint32_t key,
		    struct soft_shown *ret)
{
	ret->count = ret->pad = 0;
	soft_vm_add(dev, w, at, len, key, ret);
	return (int)soft_vm_shown_len(1);
}

void soft_vm_add_qp(struct soft_wire *w, uint32_t qpn, struct soft_shown *ret)
{
	ret->range[ret->count++] = (struct soft_range){
		.counter = qpn & (SOFT_WITHDRAWN - 1),
		.value = atomic_load_explicit(counter(&w->tx, qpn),
					      memory_order_relaxed),
	};
}

/* Increments a counter of each wire. */
static void withdraw(struct soft_dev *dev, uint32_t i)
{
	struct list *n;

	list_for_each(n, &dev->wires) {
		struct soft_wire *w = list_entry(n, struct soft_wire, node);

		atomic_fetch_add_explicit(counter(&w->tx, i), 1,
					  memory_order_relaxed);
	}
	/* pairs with the fence in valid(); memory may be reused after it */
	atomic_thread_fence(memory_order_seq_cst);
}

void soft_vm_withdraw(struct soft_dev *dev, uint32_t key)
{
	const struct soft_key *k = soft_key_at(&dev->keys, key);

	/* the key was freed before the request with the key ended */
	if (k)
		withdraw(dev, k->counter);
}

void soft_vm_withdraw_qp(struct soft_dev *dev, uint32_t qpn)
{
	withdraw(dev, qpn);
}

/* ---- fetching --------------------------------------------------------- */

bool soft_vm_decode(struct soft_wire *w, struct soft_rec *rec,
		    const void *payload, struct soft_fetch *ret)
{
	struct soft_shown *s = &ret->shown;
	uint64_t len = 0;

	if (rec->flags & SOFT_F_UNRELIABLE ||
	    rec->bytes < soft_vm_shown_len(1) || rec->bytes > sizeof(*s))
		return false;
	memcpy(s, payload, rec->bytes);
	if (s->count > SOFT_MAX_SGE ||
	    rec->bytes != soft_vm_shown_len(s->count))
		return false;
	for (uint32_t i = 0; i < s->count; i++)
		len += s->range[i].len;
	if (!len || len > (rec->op == SOFT_OFFER ? SOFT_MAX_MSG :
			   SOFT_SHOW_MAX))
		return false;
	ret->wire = w;
	rec->bytes = (uint32_t)len;
	return true;
}

bool soft_vm_stands(const struct soft_fetch *from)
{
	for (uint32_t i = 0; i < from->shown.count; i++) {
		const struct soft_range *r = &from->shown.range[i];

		if (atomic_load_explicit(counter(&from->wire->rx, r->counter),
					 memory_order_relaxed) != r->value)
			return false;
	}
	return true;
}

/*
 * Returns true if the bytes read are the payload. An open socket proves that
 * the pid still belongs to the peer. No range may be withdrawn.
 */
static bool valid(const struct soft_fetch *from)
{
	struct pollfd p = { .fd = from->wire->sock.fd };

	if (p.fd >= 0 && poll(&p, 1, 0))
		return false;
	/* pairs with the fence in withdraw() */
	atomic_thread_fence(memory_order_seq_cst);
	return soft_vm_stands(from);
}

static uint32_t cost(uint32_t best, uint64_t ns, uint32_t len)
{
	uint64_t each = ns * SOFT_SEGMENT / len + 1;

	/*
	 * limit the growth: ignore an interrupted sample, follow a lasting
	 * change
	 */
	return best ? (uint32_t)min(each, (uint64_t)best + best / 16 + 1) :
	       (uint32_t)min(each, (uint64_t)UINT32_MAX / 2);
}

/* Prefers fetching if it costs at most 25 % more than copying from the ring. */
static void compare(struct soft_wire *w)
{
	uint32_t slow = w->push_cost && w->fetch_cost &&
			w->fetch_cost > w->push_cost + w->push_cost / 4;

	if (atomic_load_explicit(&w->rx.shm->slow, memory_order_relaxed) !=
	    slow)
		atomic_store_explicit(&w->rx.shm->slow, slow,
				      memory_order_relaxed);
}

void soft_vm_landed(struct soft_wire *w, uint64_t since)
{
	w->push_cost = cost(w->push_cost, soft_now() - since, SOFT_SEGMENT);
	compare(w);
}

static int failed(const struct soft_fetch *from, const struct iovec *to,
		  uint32_t n, int err)
{
	if (err && err != EFAULT) {
		from->wire->fetches = false;
		return -EPERM;
	}
	if (!valid(from))
		return -EAGAIN;
	for (uint32_t i = 0; i < n; i++)
		if (soft_touch(-1, to[i].iov_base, to[i].iov_len,
			       IBV_ACCESS_LOCAL_WRITE))
			return -EACCES;
	return -EFAULT;
}

int soft_vm_read(const struct soft_fetch *from, struct iovec *to, uint32_t n,
		 uint32_t len)
{
	struct soft_wire *w = from->wire;
	struct iovec there[SOFT_MAX_SGE], *last = &to[n - 1];
	size_t tail = min(last->iov_len, TAIL);
	uint64_t begun = soft_now();
	uint8_t end[TAIL];
	ssize_t got;

	if (!w->fetches)
		return -EPERM;
	for (uint32_t i = 0; i < from->shown.count; i++)
		there[i] = (struct iovec){
			(void *)(uintptr_t)from->shown.range[i].addr,
			from->shown.range[i].len,
		};
	/* a program may poll on the last bytes, so write them after valid() */
	last->iov_len -= tail;
	to[n] = (struct iovec){ end, tail };
	got = process_vm_readv(w->pid, to, n + 1, there, from->shown.count, 0);
	if (unlikely(got != (ssize_t)len)) {
		int err = got < 0 ? errno : 0;

		last->iov_len += tail;
		return failed(from, to, n, err);
	}
	if (unlikely(!valid(from)))
		return -EAGAIN;
	atomic_thread_fence(memory_order_release);
	soft_copy((uint8_t *)last->iov_base + last->iov_len, end, tail);
	w->fetched += len;
	/* a shorter one costs more for each byte, and is faster nevertheless */
	if (len >= SOFT_SEGMENT) {
		w->fetch_cost = cost(w->fetch_cost, soft_now() - begun, len);
		compare(w);
	}
	return 0;
}

int soft_vm_fetch(const struct soft_fetch *from, void *at, uint32_t len)
{
	struct iovec to[2] = { { at, len } };

	return soft_vm_read(from, to, 1, len);
}
