/* SPDX-License-Identifier: BSD-2-Clause */
/* Large payloads: shown where they lie, fetched by who takes them. All L. */
#ifndef SOFT_VM_H
#define SOFT_VM_H

/* A payload that was shown, and the wire that it was shown on. */
struct soft_fetch {
	struct soft_wire *wire;
	struct soft_shown shown;
};

/* RDMAMSG_SOFT_NO_VM, or -EINVAL. */
int soft_vm_options(struct soft_dev *dev);
/* Who is at the other end. */
void soft_vm_init(const struct soft_dev *dev, struct soft_wire *w);

/* Whether a message of this length is to be shown rather than pushed. */
bool soft_vm_shows(struct soft_wire *w, uint32_t len);
/*
 * The next len bytes of a request, or those behind a key. How long the payload
 * is that says so, or -EACCES.
 */
int soft_vm_show(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe, uint32_t len, struct soft_shown *ret);
int soft_vm_show_at(struct soft_wire *w, const void *at, uint32_t len,
		    uint32_t key, struct soft_shown *ret);
/* What a key stands for may be another's from now on. */
void soft_vm_withdraw(struct soft_dev *dev, uint32_t key);
/* So may all that requests of a queue pair have shown. */
void soft_vm_forget(struct soft_dev *dev, struct soft_qp *qp);

/* Makes a record's length that of what it shows. False: it makes no sense. */
bool soft_vm_decode(struct soft_wire *w, struct soft_rec *rec,
		    const void *payload, struct soft_fetch *ret);
/*
 * Into a scatter list, from an offset, or into plain memory. Lower addresses
 * are visible before higher ones, and the end only if all of it is what was
 * shown. -EACCES: our memory; -EFAULT: the peer's; -EAGAIN: it is to be
 * pushed; -EPERM: and always.
 */
int soft_vm_scatter(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const struct soft_fetch *from, uint32_t len);
int soft_vm_fetch(const struct soft_fetch *from, void *at, uint32_t len);
/* A whole segment came out of the ring, since when. */
void soft_vm_landed(struct soft_wire *w, uint64_t since);

#endif
