/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands: files, ids, events, options. */
#include "soft/cm/id.h"
#include "soft/cm/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "soft/fabric/denied.h"
#include "soft/fabric/wire.h"

#define TIMEOUT_DEFAULT	17	/* ack timeout, as in Linux 6.12 */

/*
 * Decrements the descriptor for an event that is removed unread. Another thread
 * may have decremented it already, and the descriptor may be blocking. So read
 * with RWF_NOWAIT. If the kernel lacks RWF_NOWAIT for eventfds, the count stays
 * too high, and soft_cm_get_event() returns -EAGAIN once.
 */
void soft_cm_uncount(struct soft_cm_file *file)
{
	uint64_t one;
	const struct iovec to = { .iov_base = &one, .iov_len = sizeof(one) };

	(void)!preadv2(file->fd, &to, 1, -1, RWF_NOWAIT);
}

/* ---- ids -------------------------------------------------------------- */

struct soft_cm_id *soft_cm_find(struct soft_dev *dev, uint32_t handle)
{
	uint32_t i = handle >> 8;
	struct soft_cm_id *id = rdmamsg__handle_of(&dev->cm_table, i);

	return id && id->handle == handle ? id : NULL;
}

struct soft_cm_id *soft_cm_id_of(struct soft_cm_file *file, uint32_t handle)
{
	struct soft_cm_id *id = soft_cm_find(file->dev, handle);

	return id && id->file == file ? id : NULL;
}

static int give_handle(struct soft_dev *dev, struct soft_cm_id *id)
{
	static _Atomic uint8_t generation;
	uint32_t i;
	int err = rdmamsg__handle_give(&dev->cm_table, id, 0, 1u << 23, &i);

	if (err)
		return err;
	id->handle = i << 8 | (uint8_t)(++generation | 1);
	return 0;
}

static void on_timer(struct soft_dev *dev, struct soft_timer *t);

struct soft_cm_id *soft_cm_id_new(struct soft_cm_file *file)
{
	struct soft_cm_id *id = calloc(1, sizeof(*id));

	if (!id || give_handle(file->dev, id)) {
		free(id);
		return NULL;
	}
	id->file = file;
	id->sock[0].fd = id->sock[1].fd = id->lookup.fd = -1;
	list_init(&id->timer.node);
	id->timer.fn = on_timer;
	list_add_tail(&file->dev->cm_ids, &id->node);
	return id;
}

void soft_cm_id_free(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	struct list *n, *t;

	soft_cm_hang_up(id);
	soft_cm_unlisten(id);
	soft_timer_stop(&id->timer);
	soft_cm_end_lookup(id);
	soft_cm_leave_all(id);
	list_for_each_safe(n, t, &id->file->events) {
		struct soft_cm_event *ev = list_entry(n, struct soft_cm_event,
						      node);
		struct soft_cm_id *child;

		if (ev->owner != id->handle)
			continue;
		child = ev->child ? soft_cm_find(dev, ev->child) : NULL;
		list_del(n);
		free(ev);
		soft_cm_uncount(id->file);
		if (child)
			soft_cm_id_free(child);
		/* freeing the child may have removed the next event */
		t = id->file->events.next;
	}
	soft_cm_far_free(id);
	soft_wire_put(dev, id->wire);
	rdmamsg__handle_take(&dev->cm_table, id, id->handle >> 8);
	list_del(&id->node);
	free(id);
}

/* ---- events ----------------------------------------------------------- */

struct soft_cm_event *soft_cm_event_new(struct soft_cm_id *id, uint32_t type,
					int status)
{
	struct soft_cm_event *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return NULL;
	ev->resp.uid = id->uid;
	ev->resp.id = id->handle;
	ev->resp.event = type;
	ev->resp.status = (uint32_t)status;
	return ev;
}

void soft_cm_event_post(struct soft_cm_id *owner, struct soft_cm_event *ev)
{
	if (!ev)
		return;
	ev->owner = owner->handle;
	list_add_tail(&owner->file->events, &ev->node);
	(void)!write(owner->file->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/*
 * Raises an event, unless the program has not accepted the id yet. Such an id
 * has no uid to put into the event. Accepting the id fails later. Linux:
 * ucma_event_handler().
 */
void soft_cm_raise(struct soft_cm_id *id, uint32_t type, int status)
{
	if (id->uid)
		soft_cm_event_post(id, soft_cm_event_new(id, type, status));
}

int soft_cm_get_event(struct soft_cm_file *file,
		      struct rdma_ucm_event_resp *resp)
{
	struct soft_cm_event *ev = NULL;
	struct soft_cm_id *id;
	struct soft_cm_mc *mc;

	soft_lock(file->dev);
	if (!list_empty(&file->events)) {
		ev = list_first(&file->events, struct soft_cm_event, node);
		list_del(&ev->node);
		id = soft_cm_find(file->dev, ev->owner);
		if (id)
			id->events_reported++;
		mc = ev->mc ? soft_cm_mc_find(file->dev, ev->mc) : NULL;
		if (mc)
			mc->events_reported++;
	}
	soft_unlock(file->dev);
	if (!ev)
		return -EAGAIN;
	*resp = ev->resp;
	free(ev);
	return 0;
}

int soft_cm_write_event(struct soft_cm_file *file,
			const struct soft_ucm_write_cm_event *cmd)
{
	struct soft_cm_event *ev;
	struct soft_cm_id *id;
	int ret = -EINVAL;

	/* librdmacm completes its own calls with INTERNAL */
	if (cmd->event != SOFT_CM_EVENT_USER &&
	    cmd->event != SOFT_CM_EVENT_INTERNAL)
		return -EINVAL;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id)
		goto out;
	ev = soft_cm_event_new(id, cmd->event, (int)cmd->status);
	ret = ev ? 0 : -ENOMEM;
	if (!ev)
		goto out;
	memcpy(&ev->resp.param, &cmd->arg, sizeof(cmd->arg));
	soft_cm_event_post(id, ev);
out:
	soft_unlock(file->dev);
	return ret;
}

static void on_timer(struct soft_dev *dev, struct soft_timer *t)
{
	struct soft_cm_id *id = list_entry(t, struct soft_cm_id, timer);

	if (id->far && soft_cm_far_again(id))
		return;
	switch (id->state) {
	case SOFT_CM_LOOKUP:
		if (id->lookup.fd < 0) {
			soft_cm_lookup(id);
			break;
		}
		soft_cm_end_lookup(id);
		soft_cm_not_found(id, -ETIMEDOUT);
		break;
	case SOFT_CM_REQ_SENT:
	case SOFT_CM_REP_SENT:		/* far: its answer is lost */
		soft_cm_not_found(id, -ETIMEDOUT);
		break;
	case SOFT_CM_DREQ_SENT:
		id->state = SOFT_CM_OVER;
		soft_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
		break;
	case SOFT_CM_CONNECTED:
		/* far: the timer of the reply that is answered now */
		if (!id->far)
			soft_cm_iwarp_end(id);
		break;
	case SOFT_CM_OVER:
		soft_cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	default:
		break;
	}
}

/* ---- commands --------------------------------------------------------- */

int soft_cm_open(struct soft_cm_file **ret)
{
	struct soft_cm_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	list_init(&file->events);
	err = soft_dev_get(&file->dev);
	if (err)
		goto err_file;
	file->fd = fd_high(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (file->fd < 0) {
		err = soft_denied(-errno);
		goto err_dev;
	}
	soft_lock(file->dev);
	list_add_tail(&file->dev->cm_files, &file->node);
	soft_unlock(file->dev);
	*ret = file;
	return 0;

err_dev:
	soft_dev_put(file->dev);
err_file:
	free(file);
	return err;
}

/* Destroys all ids of the file, as the kernel does. */
void soft_cm_close(struct soft_cm_file *file)
{
	struct soft_dev *dev = file->dev;
	struct list *n;

	soft_lock(dev);
again:
	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->file == file) {
			soft_cm_id_free(id);
			goto again;
		}
	}
	while (!list_empty(&file->events)) {
		struct list *ev = file->events.next;

		list_del(ev);
		free(list_entry(ev, struct soft_cm_event, node));
	}
	list_del(&file->node);
	soft_unlock(dev);
	close(file->fd);
	soft_dev_put(dev);
	free(file);
}

int soft_cm_create_id(struct soft_cm_file *file,
		      const struct rdma_ucm_create_id *cmd,
		      struct rdma_ucm_create_id_resp *resp)
{
	bool ud = cmd->ps == RDMA_PS_UDP || cmd->ps == RDMA_PS_IPOIB;
	struct soft_cm_id *id;

	if (geteuid() != file->dev->uid)
		return -EACCES;
	if (cmd->ps != RDMA_PS_TCP && cmd->ps != RDMA_PS_IB && !ud)
		return -EOPNOTSUPP;
	soft_lock(file->dev);
	id = soft_refused(file->dev, SOFT_OBJ_ID) ? NULL :
	     soft_cm_id_new(file);
	if (id) {
		id->uid = cmd->uid;
		id->ps = cmd->ps;
		id->qp_type = ud ? IBV_QPT_UD : cmd->qp_type;
		resp->id = id->handle;
	}
	soft_unlock(file->dev);
	return id ? 0 : -ENOMEM;
}

int soft_cm_destroy_id(struct soft_cm_file *file,
		       const struct rdma_ucm_destroy_id *cmd,
		       struct rdma_ucm_destroy_id_resp *resp)
{
	struct soft_cm_id *id;
	int ret = -EINVAL;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (id) {
		resp->events_reported = id->events_reported;
		soft_cm_id_free(id);
		ret = 0;
	}
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_migrate_id(struct soft_cm_file *from, struct soft_cm_file *to,
		       const struct rdma_ucm_migrate_id *cmd,
		       struct rdma_ucm_migrate_resp *resp)
{
	struct soft_cm_id *id;
	struct list *n, *t;
	int ret = -EINVAL;

	soft_lock(from->dev);
	id = from->dev == to->dev ? soft_cm_id_of(from, cmd->id) : NULL;
	if (!id)
		goto out;
	ret = 0;
	resp->events_reported = id->events_reported;
	if (from == to)
		goto out;
	id->file = to;
	list_for_each_safe(n, t, &from->events) {
		struct soft_cm_event *ev = list_entry(n, struct soft_cm_event,
						      node);
		struct soft_cm_id *child;

		if (ev->owner != id->handle)
			continue;
		child = ev->child ? soft_cm_find(from->dev, ev->child) : NULL;
		if (child)
			child->file = to;
		list_del(n);
		soft_cm_uncount(from);
		soft_cm_event_post(id, ev);
	}
out:
	soft_unlock(from->dev);
	return ret;
}

int soft_cm_set_option(struct soft_cm_file *file,
		       const struct rdma_ucm_set_option *cmd,
		       const void *optval)
{
	struct soft_cm_id *id;
	int ret = 0, value = 0;

	if (cmd->level != RDMA_OPTION_ID)
		return -ENOSYS;
	if (cmd->optlen == sizeof(value))
		memcpy(&value, optval, sizeof(value));
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id) {
		ret = -EINVAL;
		goto out;
	}
	switch (cmd->optname) {
	case RDMA_OPTION_ID_TOS:
		ret = cmd->optlen == 1 ? 0 : -EINVAL;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (cmd->optlen != sizeof(value))
			ret = -EINVAL;
		else if (cmd->optname == RDMA_OPTION_ID_AFONLY)
			id->afonly = value;
		break;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (cmd->optlen == 1)
			id->ack_timeout = *(const uint8_t *)optval;
		else
			ret = -EINVAL;
		break;
	default:
		ret = -ENOSYS;
	}
out:
	soft_unlock(file->dev);
	return ret;
}

static bool has_peer(const struct soft_cm_id *id)
{
	return !soft_cm_is_ud(id) &&
	       (id->state == SOFT_CM_REQ_RCVD ||
		id->state == SOFT_CM_REP_RCVD ||
		id->state == SOFT_CM_REP_SENT ||
		id->state == SOFT_CM_CONNECTED);
}

/*
 * Returns true if the id is on the device without a connection: datagram, or
 * bound.
 */
static bool is_apart(const struct soft_cm_id *id)
{
	return soft_cm_on_device(id) &&
	       (soft_cm_is_ud(id) || id->state == SOFT_CM_BOUND);
}

/* Linux: cma_ib_init_qp_attr(). Remote access comes later. */
static void init_apart(const struct soft_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = 1;
	if (soft_cm_is_ud(id)) {
		a->qp_attr_mask |= IBV_QP_QKEY;
		a->qkey = soft_cm_qkey(id);
	} else {
		a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	}
}

/*
 * Linux: rdma_init_qp_attr() and iw_cm_init_qp_attr(). The connection manager
 * brings the queue pair to RTS, so INIT and RTR have access flags only.
 */
static int init_iwarp(const struct soft_cm_id *id, struct ib_uverbs_qp_attr *a)
{
	bool begun = id->state >= SOFT_CM_LOOKUP && id->state < SOFT_CM_OVER;

	if (!soft_cm_on_device(id))
		return -EINVAL;
	switch (a->qp_state) {
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		if (id->state == SOFT_CM_OVER)
			return -EINVAL;
		a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
		if (begun)
			a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_READ;
		break;
	case IBV_QPS_RTS:
		if (!begun)
			return -EINVAL;
		a->qp_attr_mask = 0;
		break;
	default:
		return -EINVAL;
	}
	a->port_num = 1;
	a->qp_attr_mask |= IBV_QP_PORT;
	return 0;
}

/* Linux: ib_cm_init_qp_attr(), drivers/infiniband/core/cm.c. */
int soft_cm_init_qp_attr(struct soft_cm_file *file,
			 const struct rdma_ucm_init_qp_attr *cmd,
			 struct ib_uverbs_qp_attr *a)
{
	struct soft_cm_id *id;
	int ret = 0;

	memset(a, 0, sizeof(*a));
	a->qp_state = cmd->qp_state;
	a->qp_attr_mask = IBV_QP_STATE;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (id && file->dev->iwarp) {
		ret = init_iwarp(id, a);
		goto out;
	}
	if (id && cmd->qp_state == IBV_QPS_INIT && is_apart(id)) {
		init_apart(id, a);
		goto out;
	}
	if (!id || id->state < SOFT_CM_ADDR || id->state == SOFT_CM_LISTEN ||
	    (cmd->qp_state != IBV_QPS_INIT && !has_peer(id)) ||
	    (id->listener && id->state != SOFT_CM_REQ_RCVD)) {
		ret = -EINVAL;
		goto out;
	}
	switch (cmd->qp_state) {
	case IBV_QPS_INIT:
		a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
				   IBV_QP_PORT;
		a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (id->responder_resources)
			a->qp_access_flags |= IBV_ACCESS_REMOTE_READ |
					      IBV_ACCESS_REMOTE_ATOMIC;
		a->port_num = 1;
		break;
	case IBV_QPS_RTR:
		a->qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER;
		soft_cm_ah(id, &a->ah_attr);
		a->path_mtu = id->far ? id->far->mtu : IBV_MTU_4096;
		a->dest_qp_num = id->peer_qpn;
		/*
		 * a MAD tells where its receiver begins to send, and a message
		 * of shared memory where its sender does
		 */
		a->rq_psn = id->far ? id->psn : id->peer_psn;
		a->max_dest_rd_atomic = id->responder_resources;
		break;
	case IBV_QPS_RTS:
		a->qp_attr_mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC;
		a->sq_psn = id->far ? id->peer_psn : id->psn;
		a->timeout = id->ack_timeout ? id->ack_timeout :
			     TIMEOUT_DEFAULT;
		a->retry_cnt = id->retry_count;
		a->rnr_retry = id->rnr_retry_count;
		a->max_rd_atomic = id->initiator_depth;
		break;
	default:
		ret = -EINVAL;
	}
out:
	soft_unlock(file->dev);
	return ret;
}
