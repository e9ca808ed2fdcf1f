/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One copy instead of two: who has a large payload shows where it lies, and
 * who takes it reads it from there, by process_vm_readv(2). Nobody ever writes
 * into another process: what was read too late is noticed and dropped, what is
 * written too late is not. So each end checks its own memory with its own keys,
 * a lie about addresses only gets the liar's memory read, and nobody waits for
 * anybody.
 *
 * What was shown is withdrawn before its memory may become another's: when the
 * region or window goes, or the request. A counter tells, which is looked at
 * after the bytes, as that of a seqlock.
 *
 * The ring is always there as well. Who cannot fetch says so, and it is pushed.
 * Which way is faster depends on the pages, since each of them is looked up for
 * a fetch: so both are measured where the bytes land, and now and then the
 * slower one is taken to see whether it still is.
 */
#include "priv.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TURNS		128	/* large ones until the slower way is tried */
#define TAIL		8u	/* bytes, as of soft_copy() */

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
	/* 0 is one that our PID namespace does not see */
	w->fetches = !dev->no_vm && w->pid > 0;
}

/* ---- showing ---------------------------------------------------------- */

bool soft_vm_shows(struct soft_wire *w, uint32_t len)
{
	bool slow;

	if (likely(len < SOFT_SHOW_MIN) || !w->shows)
		return false;
	slow = atomic_load_explicit(&w->tx.shm->slow, memory_order_relaxed);
	/* the second one as well: until then nothing is known */
	return slow == (++w->turn % TURNS == 2);
}

static _Atomic uint32_t *counter(struct soft_ring *r, uint32_t i)
{
	return &r->shm->withdrawn[i & (SOFT_COUNTERS - 1)];
}

static void add_range(struct soft_wire *w, const void *at, uint32_t len,
		      uint32_t key, struct soft_shown *ret)
{
	ret->range[ret->count++] = (struct soft_range){
		.addr = (uintptr_t)at, .len = len, .counter = key >> 8,
		.value = atomic_load_explicit(counter(&w->tx, key >> 8),
					      memory_order_relaxed),
	};
}

static size_t shown_len(uint32_t count)
{
	return offsetof(struct soft_shown, range) +
	       count * sizeof(struct soft_range);
}

int soft_vm_show_at(struct soft_wire *w, const void *at, uint32_t len,
		    uint32_t key, struct soft_shown *ret)
{
	ret->count = ret->pad = 0;
	add_range(w, at, len, key, ret);
	return (int)shown_len(1);
}

int soft_vm_show(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe, uint32_t len, struct soft_shown *ret)
{
	struct soft_walk walk = {
		wqe->sge, wqe->num_sge, wqe->sent, len, 0,
	};
	uint32_t part;

	ret->count = ret->pad = 0;
	while (walk.len) {
		const void *at = soft_walk(dev, &qp->pd->ibv, &walk, 0, &part);

		if (!at)
			return -EACCES;
		add_range(qp->wire, at, part, walk.key, ret);
	}
	wqe->shown = true;
	return (int)shown_len(ret->count);
}

void soft_vm_withdraw(struct soft_dev *dev, uint32_t key)
{
	struct list *n;

	list_for_each(n, &dev->wires) {
		struct soft_wire *w = list_entry(n, struct soft_wire, node);

		atomic_fetch_add_explicit(counter(&w->tx, key >> 8), 1,
					  memory_order_relaxed);
	}
	/* before whatever is put there next; pairs with the one in valid() */
	atomic_thread_fence(memory_order_seq_cst);
}

void soft_vm_forget(struct soft_dev *dev, struct soft_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct soft_swqe *wqe = &qp->sq[i & qp->sq_mask];

		for (uint32_t s = 0; wqe->shown && s < wqe->num_sge; s++)
			soft_vm_withdraw(dev, wqe->sge[s].lkey);
		wqe->shown = false;
	}
}

/* ---- fetching --------------------------------------------------------- */

bool soft_vm_decode(struct soft_wire *w, struct soft_rec *rec,
		    const void *payload, struct soft_fetch *ret)
{
	struct soft_shown *s = &ret->shown;
	uint64_t len = 0;

	if (rec->flags & SOFT_F_UNRELIABLE || rec->bytes < shown_len(1) ||
	    rec->bytes > sizeof(*s))
		return false;
	memcpy(s, payload, rec->bytes);
	if (s->count > SOFT_MAX_SGE || shown_len(s->count) != rec->bytes)
		return false;
	for (uint32_t i = 0; i < s->count; i++)
		len += s->range[i].len;
	if (!len || len > SOFT_SHOW_MAX)
		return false;
	ret->wire = w;
	rec->bytes = (uint32_t)len;
	return true;
}

/*
 * Whether what has been read is what was shown: by that process, since its
 * socket is still open and its number not yet another's; and not withdrawn.
 */
static bool valid(const struct soft_fetch *from)
{
	struct soft_wire *w = from->wire;
	struct pollfd p = { .fd = w->sock.fd };

	if (w->sock.fd >= 0 && poll(&p, 1, 0))
		return false;
	/* pairs with the one in soft_vm_withdraw() */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < from->shown.count; i++) {
		const struct soft_range *r = &from->shown.range[i];

		if (atomic_load_explicit(counter(&w->rx, r->counter),
					 memory_order_relaxed) != r->value)
			return false;
	}
	return true;
}

static uint32_t cost(uint32_t best, uint64_t ns, uint32_t len)
{
	uint64_t each = ns * SOFT_SEGMENT / len + 1;

	/* who was interrupted says nothing, but what has changed is noticed */
	return best ? (uint32_t)min(each, (uint64_t)best + best / 16 + 1) :
	       (uint32_t)min(each, (uint64_t)UINT32_MAX / 2);
}

/* One copy may take somewhat longer than the second of two. */
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
		if (soft_touch(to[i].iov_base, to[i].iov_len,
			       IBV_ACCESS_LOCAL_WRITE))
			return -EACCES;
	return -EFAULT;
}

/* There is room for one more in to[]. */
static int fetch(const struct soft_fetch *from, struct iovec *to, uint32_t n,
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
	/* a poller on the last byte sees it when it is known to be right */
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
	w->fetch_cost = cost(w->fetch_cost, soft_now() - begun, len);
	compare(w);
	return 0;
}

int soft_vm_fetch(const struct soft_fetch *from, void *at, uint32_t len)
{
	struct iovec to[2] = { { at, len } };

	return fetch(from, to, 1, len);
}

int soft_vm_scatter(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const struct soft_fetch *from, uint32_t len)
{
	struct soft_walk walk = { sge, n, offset, len, 0 };
	struct iovec to[SOFT_MAX_SGE + 1];
	uint32_t parts = 0, part;

	while (walk.len) {
		void *at = soft_walk(dev, pd, &walk, IBV_ACCESS_LOCAL_WRITE,
				     &part);

		if (!at)
			return -EACCES;
		to[parts++] = (struct iovec){ at, part };
	}
	return fetch(from, to, parts, len);
}
