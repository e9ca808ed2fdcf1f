/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: opened once per process, whatever number of contexts use them;
 * one of those reads the async events and passes them on.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_MS	5000	/* an unused device is closed after this */

/* rdma_rxe's vendor id, drivers/infiniband/sw/rxe/rxe.h in Linux */
#define RXE_VENDOR_ID	0xffffffu
/* and the soft HCA's, lib/soft/priv.h: it may be below libibverbs as well */
#define SOFT_VENDOR_ID	0x50f7cau
#define SOFT_NAME	"soft0"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list devices = { &devices, &devices };

const char *rdmamsg__kind_name(enum device_kind kind)
{
	static const char *const names[] = {
		[KIND_SOFT_ROCE] = "soft-roce", [KIND_ROCE] = "roce",
		[KIND_IB] = "infiniband", [KIND_IWARP] = "iwarp",
		[KIND_SOFT] = "soft",
	};

	return names[kind];
}

static enum device_kind kind_of(const struct verbs_api *v,
				struct ibv_context *verbs,
				const struct ibv_device_attr *attr)
{
	struct ibv_port_attr port;

	if (attr->vendor_id == RXE_VENDOR_ID)
		return KIND_SOFT_ROCE;
	if (attr->vendor_id == SOFT_VENDOR_ID)
		return KIND_SOFT;
	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return KIND_IWARP;
	if (!v->query_port(verbs, 1, &port) &&
	    port.link_layer == IBV_LINK_LAYER_ETHERNET)
		return KIND_ROCE;
	return KIND_IB;
}

/* The two libraries below disagree on how "nothing here" looks. */
static int list_devices(const struct verbs_api *v, struct ibv_device ***ret,
			int *ret_n)
{
	int err, n = 0;

	errno = 0;
	*ret = v->get_device_list(&n);
	if (!*ret) {
		err = rdmamsg__verbs_null();
		if (err == -EACCES || err == -EPERM)
			return rdmamsg__fail_verbs(err, "RDMA devices");
		return rdmamsg__fail(-ENODEV, "no RDMA in this kernel: load the "
				     "driver of the card, or 'modprobe "
				     "rdma_rxe' and 'rdma link add rxe0 type "
				     "rxe netdev NAME'; within this host "
				     "RDMAMSG_DEVICE=soft needs neither");
	}
	if (!n) {
		v->free_device_list(*ret);
		return rdmamsg__fail(-ENODEV, "no RDMA device: give an Ethernet "
				     "card one with 'rdma link add rxe0 type "
				     "rxe netdev NAME'; within this host "
				     "RDMAMSG_DEVICE=soft needs none");
	}
	*ret_n = n;
	return 0;
}

static int open_device(const struct verbs_api *v, struct ibv_device *device,
		       struct ibv_context **ret)
{
	errno = 0;
	*ret = v->open_device(device);
	if (*ret)
		return 0;
	if (v == &rdmamsg__verbs_soft)
		return rdmamsg__fail_soft(rdmamsg__verbs_null());
	return rdmamsg__fail_verbs(rdmamsg__node_error(rdmamsg__verbs_null(),
						       device->dev_name),
				   "opening the RDMA device");
}

static int open_by_name(const struct verbs_api *v, const char *name,
			struct ibv_context **ret)
{
	struct ibv_device **list;
	int n, err = list_devices(v, &list, &n);
	int i = 0;

	if (err == -ENODEV)
		return rdmamsg__fail(err, "no RDMA device is named %s, there is "
				     "none at all: RDMAMSG_DEVICE=soft stays "
				     "within this host and needs none", name);
	if (err)
		return err;
	while (i < n && strcmp(v->get_device_name(list[i]), name))
		i++;
	if (i == n)
		err = rdmamsg__fail(-ENODEV, "no RDMA device is named %s: "
				    "rdmamsg_devices(3) and 'rdma link' list "
				    "them", name);
	else
		err = open_device(v, list[i], ret);
	v->free_device_list(list);
	return err;
}

static int device_open(const struct verbs_api *v, const char *name,
		       struct rdmamsg_device **ret_d)
{
	struct rdmamsg_device *d = calloc(1, sizeof(*d));
	int ret, flags;

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	rdmamsg__fork_mark();
	ret = open_by_name(v, name, &d->verbs);
	if (ret)
		goto err_d;
	ret = rdmamsg__verbs_ret(v->query_device(d->verbs, &d->attr));
	if (ret) {
		rdmamsg__fail_verbs(ret, "querying the RDMA device");
		goto err_verbs;
	}
	errno = 0;
	d->pd = v->alloc_pd(d->verbs);
	if (!d->pd) {
		ret = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "protection domain");
		goto err_verbs;
	}
	flags = fcntl(d->verbs->async_fd, F_GETFL);
	(void)fcntl(d->verbs->async_fd, F_SETFL, flags | O_NONBLOCK);
	d->v = v;
	d->kind = kind_of(v, d->verbs, &d->attr);
	snprintf(d->name, sizeof(d->name), "%s", name);
	list_init(&d->ports);
	list_add_tail(&devices, &d->node);
	log_info("device %s opened (%s)", d->name, rdmamsg__kind_name(d->kind));
	*ret_d = d;
	return 0;

err_verbs:
	(void)v->close_device(d->verbs);
err_d:
	free(d);
	return ret;
}

static void device_put(struct rdmamsg_device *d)
{
	const struct verbs_api *v = d->v;
	bool gone = d->gone;

	if (--d->refs)
		return;
	if (v->dealloc_pd(d->pd))
		log_error("device %s: its protection domain is still in use",
			  d->name);
	(void)v->close_device(d->verbs);
	log_info("device %s closed", d->name);
	list_del(&d->node);
	free(d);
	if (gone) {
		/*
		 * librdmacm keeps a context of its own on a removed device
		 * until it next looks at the list, and the kernel waits for it.
		 */
		struct ibv_context **all = v->get_devices(NULL);

		if (all)
			v->free_devices(all);
	}
}

static int device_get(const struct verbs_api *v, const char *name,
		      struct rdmamsg_device **ret)
{
	struct list *n;
	int err;

	list_for_each(n, &devices) {
		struct rdmamsg_device *d = list_entry(n, struct rdmamsg_device,
						      node);

		if (!d->gone && d->v == v && !strcmp(d->name, name)) {
			d->refs++;
			*ret = d;
			return 0;
		}
	}
	err = device_open(v, name, ret);
	if (!err)
		(*ret)->refs = 1;
	return err;
}

static void linger_over(struct timer *t)
{
	struct dev *dev = list_entry(t, struct dev, linger);

	dev->reap = true;
	rdmamsg__reap(dev->ctx);
}

static int dev_new(struct rdmamsg *ctx, const struct verbs_api *v,
		   const char *name, struct dev **ret_dev)
{
	struct dev *dev = calloc(1, sizeof(*dev));
	int ret, flags;

	if (!dev)
		return rdmamsg__fail(-ENOMEM, "no memory for a device");
	dev->ctx = ctx;
	list_init(&dev->cqs);
	list_init(&dev->recv_pools);
	list_init(&dev->send_pools);
	list_init(&dev->large);
	list_init(&dev->loose);
	list_init(&dev->starved);
	list_init(&dev->regions);
	list_init(&dev->srqs);
	rdmamsg__timer_init(&dev->linger, linger_over);
	ret = rdmamsg__timers_reserve(&ctx->timers, 1);
	if (ret) {
		rdmamsg__fail(ret, "no memory for a timer");
		goto err_dev;
	}
	pthread_mutex_lock(&devices_lock);
	ret = device_get(v, name, &dev->device);
	if (ret)
		goto err_lock;
	errno = 0;
	dev->channel = v->create_comp_channel(dev->device->verbs);
	if (!dev->channel) {
		ret = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "completion channel");
		goto err_device;
	}
	flags = fcntl(dev->channel->fd, F_GETFL);
	(void)fcntl(dev->channel->fd, F_SETFL, flags | O_NONBLOCK);
	ret = rdmamsg__watch(ctx, dev->channel->fd, dev);
	if (ret) {
		rdmamsg__fail(ret, "epoll: %s", strerror(-ret));
		goto err_channel;
	}
	if (!dev->device->async_reader &&
	    !rdmamsg__watch(ctx, dev->device->verbs->async_fd,
			    (char *)dev + 1))
		dev->device->async_reader = dev;
	list_add_tail(&dev->device->ports, &dev->port_node);
	pthread_mutex_unlock(&devices_lock);
	list_add_tail(&ctx->devs, &dev->node);
	*ret_dev = dev;
	return 0;

err_channel:
	(void)v->destroy_comp_channel(dev->channel);
err_device:
	device_put(dev->device);
err_lock:
	pthread_mutex_unlock(&devices_lock);
	rdmamsg__timers_release(&ctx->timers, 1);
err_dev:
	free(dev);
	return ret;
}

int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     const char *name, struct dev **ret)
{
	struct dev *dev = NULL;
	struct list *n;
	int err = 0;

	list_for_each(n, &ctx->devs) {
		dev = list_entry(n, struct dev, node);
		if (dev->device && !dev->device->gone &&
		    dev->device->v == v && !strcmp(dev->device->name, name))
			break;
		dev = NULL;
	}
	if (!dev)
		err = dev_new(ctx, v, name, &dev);
	if (err)
		return err;
	rdmamsg__timer_stop(&ctx->timers, &dev->linger);
	dev->reap = false;
	dev->eps++;
	*ret = dev;
	return 0;
}

void rdmamsg__dev_put(struct dev *dev)
{
	if (--dev->eps || dev->ctx->closing)
		return;
	if (dev->device->gone)
		linger_over(&dev->linger);
	else
		rdmamsg__timer_set(&dev->ctx->timers, &dev->linger, LINGER_MS);
}

/* The next context of the device takes over its async events. */
static void async_hand_over(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;
	struct list *n;

	if (d->async_reader != dev)
		return;
	rdmamsg__unwatch(dev->ctx, d->verbs->async_fd);
	d->async_reader = NULL;
	list_for_each(n, &d->ports) {
		struct dev *heir = list_entry(n, struct dev, port_node);

		if (!d->gone && !rdmamsg__watch(heir->ctx, d->verbs->async_fd,
						(char *)heir + 1)) {
			d->async_reader = heir;
			return;
		}
	}
}

static void dev_release(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;

	if (!d)
		return;
	pthread_mutex_lock(&devices_lock);
	list_del(&dev->port_node);
	async_hand_over(dev);
	rdmamsg__timer_stop(&dev->ctx->timers, &dev->linger);
	rdmamsg__timers_release(&dev->ctx->timers, 1);
	rdmamsg__unwatch(dev->ctx, dev->channel->fd);
	rdmamsg__srqs_dev_free(dev);
	rdmamsg__qpmap_free(&dev->qps);
	rdmamsg__cqs_free(dev);
	if (d->v->destroy_comp_channel(dev->channel))
		log_error("device %s: its completion channel is still in use",
			  d->name);
	rdmamsg__regions_dereg(dev);
	rdmamsg__larges_free(dev);
	rdmamsg__msgs_dereg(dev);
	rdmamsg__pools_dereg(&dev->recv_pools);
	rdmamsg__pools_dereg(&dev->send_pools);
	device_put(d);
	dev->device = NULL;
	pthread_mutex_unlock(&devices_lock);
}

static bool pools_used(const struct list *pools)
{
	struct list *n;

	list_for_each(n, pools)
		if (list_entry(n, struct pool, node)->used)
			return true;
	return false;
}

/* In the program's hands, or being sent through another device. */
static bool has_messages(const struct dev *dev)
{
	return dev->msgs_out || !list_empty(&dev->loose) ||
	       pools_used(&dev->recv_pools) || pools_used(&dev->send_pools);
}

void rdmamsg__dev_close(struct dev *dev)
{
	dev_release(dev);
	/* messages outlive the device, not the context */
	if (has_messages(dev) && !dev->ctx->closing)
		return;
	rdmamsg__msgs_free(dev);
	rdmamsg__pools_free(&dev->recv_pools);
	rdmamsg__pools_free(&dev->send_pools);
	list_del(&dev->node);
	free(dev);
}

void rdmamsg__devs_reap(struct rdmamsg *ctx)
{
	struct list *n, *t;

	ctx->reap = false;
	list_for_each_safe(n, t, &ctx->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		if (dev->eps)
			continue;
		if (dev->reap || !dev->device)
			rdmamsg__dev_close(dev);
	}
}

void rdmamsg__dev_removed(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;

	pthread_mutex_lock(&devices_lock);
	if (!d->gone)
		log_warn("device %s was removed", d->name);
	d->gone = true;
	pthread_mutex_unlock(&devices_lock);
	if (!dev->eps)
		linger_over(&dev->linger);
}

/* ---- async events ----------------------------------------------------- */

struct async_mail {
	struct mail mail;
	int type;
	uint32_t port;
	uint32_t ep_key;
	bool for_ep;
	const void *of;			/* ibv_cq or ibv_srq that it is about */
	bool rawqp;			/* of the program's: its own concern */
	char device[64];
};

static bool is_fatal(int type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_CQ_ERR ||
	       type == IBV_EVENT_DEVICE_FATAL;
}

static void async_fail_eps(struct rdmamsg *ctx, const struct async_mail *m)
{
	enum rdmamsg_who who = RDMAMSG_WHO_DEVICE;
	enum rdmamsg_cause cause = RDMAMSG_CAUSE_TRANSPORT;
	int error = -EIO;
	struct list *n, *t;

	switch (m->type) {
	case IBV_EVENT_QP_ACCESS_ERR:	/* the device refused its requests */
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		break;
	case IBV_EVENT_QP_REQ_ERR:
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_PROTOCOL;
		error = -EPROTO;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		cause = RDMAMSG_CAUSE_REMOVED;
		break;
	default:
		break;
	}
	list_for_each_safe(n, t, &ctx->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (!ep->dev || strcmp(ep->dev->device->name, m->device) ||
		    (m->for_ep && ep->key != m->ep_key))
			continue;
		rdmamsg__ep_reason(ep, who, cause, error,
				   "device %s reports: %s", m->device,
				   rdmamsg__event_text(m->type));
		rdmamsg__ep_kill(ep);
	}
}

static bool has_cq(const struct rdmamsg *ctx, const void *ibv)
{
	struct list *n, *m;

	list_for_each(n, &ctx->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs)
			if (list_entry(m, struct cq, node)->ibv == ibv)
				return true;
	return false;
}

/* Not of another context, or the program's own, on the same device. */
static bool is_ours(struct rdmamsg *ctx, const struct async_mail *m)
{
	if (!m->of)
		return true;
	return m->type == IBV_EVENT_CQ_ERR ? has_cq(ctx, m->of) :
	       rdmamsg__srq_event(ctx, m->of, m->type);
}

static void async_deliver(struct rdmamsg *ctx, struct mail *mail)
{
	struct async_mail *m = list_entry(mail, struct async_mail, mail);
	struct rdmamsg_event ev = {
		.size = sizeof(ev), .type = m->type,
		.name = rdmamsg__event_text(m->type), .device = m->device,
		.port = m->port,
	};

	if (m->for_ep)
		ev.ep = m->ep_key >> 8 < ctx->table_size ?
			ctx->table[m->ep_key >> 8] : NULL;
	if (ev.ep && ev.ep->key != m->ep_key)
		ev.ep = NULL;
	if (!is_ours(ctx, m)) {
		free(m);
		return;
	}
	if (m->type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		if (ev.ep)
			rdmamsg__ep_last_wqe(ev.ep);
	} else if ((!m->for_ep || ev.ep) && !ctx->closing) {
		log_info("device %s port %u: %s", m->device, m->port, ev.name);
		if (ctx->opts.on_event) {
			ctx->in_callback++;
			ctx->opts.on_event(ctx, &ev);
			ctx->in_callback--;
		}
	}
	if (is_fatal(m->type) && !m->rawqp)
		async_fail_eps(ctx, m);
	free(m);
}

/* Under devices_lock: no context of the device can go away meanwhile. */
static void async_post(struct rdmamsg *ctx, struct rdmamsg_device *d,
		       int type, uint32_t port, const struct rdmamsg_ep *ep,
		       const void *of, bool rawqp)
{
	struct async_mail *m = calloc(1, sizeof(*m));

	if (!m) {
		log_error("no memory for event '%s'", rdmamsg__event_text(type));
		return;
	}
	list_init(&m->mail.node);
	m->mail.fn = async_deliver;
	m->type = type;
	m->port = port;
	m->for_ep = ep;
	m->rawqp = rawqp;
	m->ep_key = ep ? ep->key : 0;
	m->of = of;
	snprintf(m->device, sizeof(m->device), "%s", d->name);
	rdmamsg__mail_post(ctx, &m->mail);
}

static void async_route(struct rdmamsg_device *d, struct ibv_async_event *ev)
{
	struct rdmamsg_qp *rawqp;
	const void *of = NULL;
	struct rdmamsg_ep *ep;
	struct list *n;

	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		/* ibv_destroy_qp() waits for our ack: the endpoint is there */
		rawqp = rdmamsg__rawqp_of(ev->element.qp);
		if (rawqp) {
			async_post(rawqp->ctx, d, ev->event_type, 0, NULL,
				   NULL, true);
			return;
		}
		ep = ev->element.qp->qp_context;
		async_post(ep->ctx, d, ev->event_type, 0, ep, NULL, false);
		return;
	/*
	 * A program may have made these for its own queue pairs: what their
	 * contexts point to is not known, so each of ours looks for itself.
	 */
	case IBV_EVENT_CQ_ERR:
		of = ev->element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		of = ev->element.srq;
		break;
	case IBV_EVENT_WQ_FATAL:
		return;		/* none of ours */
	default:
		break;
	}
	list_for_each(n, &d->ports)
		async_post(list_entry(n, struct dev, port_node)->ctx, d,
			   ev->event_type, of ? 0 :
			   (uint32_t)ev->element.port_num, NULL, of, false);
}

void rdmamsg__dev_async(struct dev *dev)
{
	struct ibv_async_event ev;
	struct rdmamsg_device *d;

	pthread_mutex_lock(&devices_lock);
	d = dev->device;
	while (d && d->async_reader == dev &&
	       !d->v->get_async_event(d->verbs, &ev)) {
		async_route(d, &ev);
		d->v->ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL) {
			/* nothing sensible can be read after this one */
			d->gone = true;
			rdmamsg__unwatch(dev->ctx, d->verbs->async_fd);
			d->async_reader = NULL;
		}
	}
	pthread_mutex_unlock(&devices_lock);
}

/* ---- what there is ---------------------------------------------------- */

static void info_fill(const struct verbs_api *v, struct ibv_context *verbs,
		      struct rdmamsg_device_info *info)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	if (v->query_device(verbs, &attr))
		return;
	snprintf(info->kind, sizeof(info->kind), "%s",
		 rdmamsg__kind_name(kind_of(v, verbs, &attr)));
	snprintf(info->firmware, sizeof(info->firmware), "%s", attr.fw_ver);
	info->node_guid = be64toh(attr.node_guid);
	info->ports = attr.phys_port_cnt;
	for (uint8_t p = 1; p <= attr.phys_port_cnt; p++)
		if (!v->query_port(verbs, p, &port))
			info->ports_active += port.state == IBV_PORT_ACTIVE;
	info->max_qp = (uint32_t)attr.max_qp;
	info->max_cq = (uint32_t)attr.max_cq;
	info->max_cqe = (uint32_t)attr.max_cqe;
	info->max_mr = (uint32_t)attr.max_mr;
	info->max_qp_wr = (uint32_t)attr.max_qp_wr;
	info->max_sge = (uint32_t)attr.max_sge;
	info->max_read_responder = (uint32_t)attr.max_qp_rd_atom;
	info->max_read_initiator = (uint32_t)attr.max_qp_init_rd_atom;
	info->max_mr_size = attr.max_mr_size;
}

/* The devices of one table; their number, or -errno. */
static int list_infos(const struct verbs_api *v, void *list, size_t size,
		      int room)
{
	struct ibv_device **devs;
	int n, err = list_devices(v, &devs, &n);

	if (err)
		return err;
	for (int i = 0; i < min(n, room); i++) {
		struct rdmamsg_device_info info = { .size = sizeof(info) };
		struct ibv_context *verbs;

		snprintf(info.name, sizeof(info.name), "%s",
			 v->get_device_name(devs[i]));
		err = open_device(v, devs[i], &verbs);
		if (err) {
			n = err;
			break;
		}
		info_fill(v, verbs, &info);
		(void)v->close_device(verbs);
		memcpy((char *)list + (size_t)i * size, &info,
		       min(size, sizeof(info)));
	}
	v->free_device_list(devs);
	return n;
}

int rdmamsg_devices(struct rdmamsg_device_info *list, size_t size, int room)
{
	int n, soft;

	rdmamsg__env_init();
	if (room < 0 || (room && (!list || size < sizeof(size))))
		return rdmamsg__fail(-EINVAL, "rdmamsg_devices: list or size");
	n = list_infos(rdmamsg__verbs, list, size, room);
	if (!rdmamsg__soft_possible() || (n < 0 && n != -ENODEV))
		return n;
	n = max(n, 0);
	room = max(room - n, 0);
	soft = list_infos(&rdmamsg__verbs_soft, room ? (char *)list +
			  (size_t)n * size : NULL, size, room);
	return soft < 0 ? soft : n + soft;
}

int rdmamsg__device_any(const struct verbs_api *v)
{
	struct ibv_device **list;
	int n, err = list_devices(v, &list, &n);

	if (!err)
		v->free_device_list(list);
	return err;
}

const struct verbs_api *rdmamsg__device_table(const char *asked)
{
	if (!rdmamsg__soft_possible() || (asked && !strcmp(asked, "hw")))
		return rdmamsg__verbs;
	if (!asked)
		return NULL;
	return !strcmp(asked, "soft") || !strcmp(asked, SOFT_NAME) ?
	       &rdmamsg__verbs_soft : rdmamsg__verbs;
}

/* A RoCE GID is an IP address: an IPv4 one in its mapped form. */
static bool gid_to_addr(const union ibv_gid *gid, int family,
			struct sockaddr_storage *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	bool v4 = !memcmp(gid->raw, mapped, sizeof(mapped));

	memset(ret, 0, sizeof(*ret));
	if (v4 && family != AF_INET6) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		return true;
	}
	if (v4 || family == AF_INET || !gid->global.interface_id ||
	    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw))
		return false;
	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, gid->raw, 16);
	return true;
}

int rdmamsg__device_check(const struct verbs_api *v, const char *name)
{
	struct ibv_context *verbs;
	int err = open_by_name(v, name, &verbs);

	if (!err)
		(void)v->close_device(verbs);
	return err;
}

int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret)
{
	struct ibv_device_attr attr;
	struct ibv_context *verbs;
	union ibv_gid gid;
	int err = open_by_name(v, name, &verbs);

	if (err)
		return err;
	err = -ENODEV;
	if (v->query_device(verbs, &attr))
		attr.phys_port_cnt = 0;
	for (uint8_t p = 1; err && p <= attr.phys_port_cnt; p++)
		for (int i = 0; err && i < 32; i++)
			if (!v->query_gid(verbs, p, i, &gid) &&
			    gid_to_addr(&gid, family, ret))
				err = 0;
	(void)v->close_device(verbs);
	if (err)
		rdmamsg__fail(err, "device %s has no %s address: give its "
			      "network interface one, or name a source address",
			      name, family == AF_INET6 ? "IPv6" : "IPv4");
	return err;
}
