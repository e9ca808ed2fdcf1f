/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: XRC domains, and ibv_open_qp(). A queue pair cannot place data into
 * the memory of another process. So if several processes open a domain by one
 * file, each sees only its own shared receive queues. A request that names a
 * queue of another process gets the NAK of an invalid request, as a wrong
 * number does.
 */
#include "soft/verbs/srq.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft/fabric/names.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"

static struct soft_domain *find(struct soft_dev *dev, const struct stat *st)
{
	struct list *n;

	for (n = dev->domains.next; n != &dev->domains; n = n->next) {
		struct soft_domain *d = list_entry(n, struct soft_domain, node);

		if (d->by_file && d->st_dev == st->st_dev &&
		    d->st_ino == st->st_ino)
			return d;
	}
	return NULL;
}

/* Returns 0 or an errno. L */
static int open_domain(struct soft_dev *dev, const struct stat *st, int oflags,
		       struct soft_domain **ret)
{
	struct soft_domain *d = st ? find(dev, st) : NULL;
	int name = -1;

	if (d && oflags & O_CREAT && oflags & O_EXCL)
		return EINVAL;
	if (d) {
		d->refs++;
		*ret = d;
		return 0;
	}
	if (st) {
		name = soft_name_listen(dev, 1, "xrcd.%llx.%llx",
					(unsigned long long)st->st_dev,
					(unsigned long long)st->st_ino);
		if (name < 0 && name != -EADDRINUSE)
			return -name;
	}
	if (name == -EADDRINUSE) {	/* another process holds the domain */
		if (oflags & O_CREAT && oflags & O_EXCL)
			return EINVAL;
		name = -1;
	} else if (!(oflags & O_CREAT)) {
		if (name >= 0)
			close(name);
		return st ? EAGAIN : EINVAL;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		if (name >= 0)
			close(name);
		return ENOMEM;
	}
	d->refs = 1;
	d->name = name;
	d->by_file = st;
	if (st) {
		d->st_dev = st->st_dev;
		d->st_ino = st->st_ino;
	}
	list_add_tail(&dev->domains, &d->node);
	*ret = d;
	return 0;
}

struct ibv_xrcd *soft_open_xrcd(struct ibv_context *verbs,
				struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_xrcd *xrcd;
	struct stat st;
	int err = 0;

	if (dev->iwarp)
		err = EOPNOTSUPP;
	else if (attr->comp_mask != need || attr->oflags & ~(O_CREAT | O_EXCL))
		err = EINVAL;
	else if (attr->fd != -1 && fstat(attr->fd, &st))
		err = errno;
	if (!err)
		err = soft_may_create(verbs, SOFT_OBJ_XRCD);
	xrcd = err ? NULL : calloc(1, sizeof(*xrcd));
	if (!xrcd) {
		errno = err ? err : ENOMEM;
		return NULL;
	}
	xrcd->ibv.context = verbs;
	soft_lock(dev);
	err = open_domain(dev, attr->fd == -1 ? NULL : &st, attr->oflags,
			  &xrcd->domain);
	soft_unlock(dev);
	if (err) {
		free(xrcd);
		errno = err;
		return NULL;
	}
	return &xrcd->ibv;
}

int soft_close_xrcd(struct ibv_xrcd *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_xrcd *xrcd = (struct soft_xrcd *)ibv;
	struct soft_domain *d = xrcd->domain;

	soft_lock(dev);
	if (xrcd->users) {
		soft_unlock(dev);
		return EBUSY;
	}
	if (!--d->refs) {
		list_del(&d->node);
		if (d->name >= 0)
			close(d->name);
		free(d);
	}
	soft_unlock(dev);
	free(xrcd);
	return 0;
}

bool soft_xrc_choose(struct soft_dev *dev, struct soft_qp *qp, uint32_t srqn)
{
	struct soft_srq *srq = soft_srq_find(dev, srqn);

	if (!srq || !srq->xrcd || srq->xrcd->domain != qp->xrcd->domain)
		return false;
	/* a receive already taken belongs to a message for the old queue */
	if (qp->srq != srq && qp->rq.head != qp->rq.tail)
		return false;
	qp->srq = srq;
	qp->recv_pd = srq->ibv.pd;
	return true;
}

struct ibv_qp *soft_open_qp(struct ibv_context *verbs,
			    struct ibv_qp_open_attr *attr)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			      IBV_QP_OPEN_ATTR_TYPE;
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_xrcd *xrcd = (struct soft_xrcd *)attr->xrcd;
	struct soft_qp *open, *qp;

	if ((attr->comp_mask & need) != need || !xrcd ||
	    attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED ||
	    attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	open = calloc(1, sizeof(*open));
	if (!open)
		return NULL;
	soft_lock(dev);
	qp = attr->qp_num >> SOFT_QPN_BITS == dev->node ?
	     soft_qp_find(dev, attr->qp_num) : NULL;
	if (!qp || qp->ibv.qp_type != attr->qp_type ||
	    qp->xrcd->domain != xrcd->domain) {
		soft_unlock(dev);
		free(open);
		errno = EINVAL;
		return NULL;
	}
	open->real = qp;
	open->xrcd = xrcd;
	xrcd->users++;
	open->ibv = qp->ibv;
	open->ibv.context = verbs;
	open->ibv.events_completed = 0;
	open->ibv.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ?
			       attr->qp_context : NULL;
	list_add_tail(&qp->opened, &open->opened);
	soft_unlock(dev);
	(void)pthread_mutex_init(&open->ibv.mutex, NULL);
	(void)pthread_cond_init(&open->ibv.cond, NULL);
	return &open->ibv;
}
