/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: device list, contexts, attributes of device and ports. */
#include "soft/verbs/ctx.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/util.h"
#include "soft/fabric/denied.h"
#include "soft/fabric/gid.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/flow.h"
#include "soft/verbs/upward.h"
#include "soft/verbs/wq.h"

const struct soft_verbs_upward *soft_verbs_up;

const char soft_device_name[] = "soft0";

/* rdma-core has a verbs_device here, and programs read beyond ibv_device. */
static struct {
	struct ibv_device ibv;
	const void *ops;
	uint64_t rest[16];
} the_ibv_device = {
	.ibv = {
		.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB,
		.name = "soft0", .dev_name = "uverbs-soft0",
		.dev_path = "/sys/class/infiniband_verbs/uverbs-soft0",
		.ibdev_path = "/sys/class/infiniband/soft0",
	},
};

/*
 * Programs read the transport before they open the device. Other threads may
 * read it meanwhile, so it is written only if it changes.
 */
static void set_transport(void)
{
	struct ibv_device *d = &the_ibv_device.ibv;
	const int transport = soft_asks_iwarp() ? IBV_TRANSPORT_IWARP :
						  IBV_TRANSPORT_IB;

	if ((int)__atomic_load_n(&d->transport_type, __ATOMIC_RELAXED) ==
	    transport)
		return;
	__atomic_store_n(&d->node_type, transport == IBV_TRANSPORT_IWARP ?
			 IBV_NODE_RNIC : IBV_NODE_CA, __ATOMIC_RELAXED);
	__atomic_store_n(&d->transport_type, transport, __ATOMIC_RELAXED);
}

struct ibv_device **soft_get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	int n = 0;

	if (!list)
		return NULL;
	set_transport();
	if (!soft_dev_absent())
		list[n++] = &the_ibv_device.ibv;
	if (num)
		*num = n;
	return list;
}

void soft_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *soft_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 soft_ctx_guid(void)
{
	struct soft_dev *dev;
	__be64 guid;

	if (soft_dev_get(&dev))
		return 0;
	guid = htobe64(dev->device_guid);
	soft_dev_put(dev);
	return guid;
}

/* ---- contexts --------------------------------------------------------- */

static int vctx_query_port(struct ibv_context *verbs, uint8_t port,
			   struct ibv_port_attr *attr, size_t len)
{
	struct ibv_port_attr full;
	int ret = soft_query_port(verbs, port, &full);

	if (!ret)
		memcpy(attr, &full, min(len, sizeof(full)));
	return ret;
}

struct ibv_context *soft_ctx_open(struct ibv_device *device)
{
	struct soft_ctx *ctx = calloc(1, sizeof(*ctx));
	struct ibv_context *c;
	int err;

	if (!ctx)
		return NULL;
	err = soft_dev_get(&ctx->dev);
	if (err) {
		err = -err;
		goto err_ctx;
	}
	soft_lock(ctx->dev);
	if (ctx->dev->absent)
		err = ENODEV;
	else if (soft_refused(ctx->dev, SOFT_OBJ_CONTEXT))
		err = ENOMEM;
	soft_unlock(ctx->dev);
	if (err)
		goto err_dev;
	list_init(&ctx->async);
	ctx->v.sz = sizeof(ctx->v);
	ctx->v.query_port = vctx_query_port;
	ctx->v.query_device_ex = soft_query_device_ex;
	ctx->v.create_cq_ex = soft_create_cq_ex;
	ctx->v.create_qp_ex = soft_create_qp_ex;
	ctx->v.open_qp = soft_open_qp;
	ctx->v.create_srq_ex = soft_create_srq_ex;
	ctx->v.create_wq = soft_create_wq;
	ctx->v.modify_wq = soft_modify_wq;
	ctx->v.destroy_wq = soft_destroy_wq;
	ctx->v.create_rwq_ind_table = soft_create_rwq_ind_table;
	ctx->v.destroy_rwq_ind_table = soft_destroy_rwq_ind_table;
	ctx->v.ibv_create_flow = soft_create_flow;
	ctx->v.ibv_destroy_flow = soft_destroy_flow;
	ctx->v.get_srq_num = soft_get_srq_num;
	ctx->v.open_xrcd = soft_open_xrcd;
	ctx->v.close_xrcd = soft_close_xrcd;
	ctx->v.alloc_td = soft_alloc_td;
	ctx->v.dealloc_td = soft_dealloc_td;
	ctx->v.alloc_parent_domain = soft_alloc_parent_domain;
	ctx->v.query_rt_values = soft_query_rt_values;
	/* the inline functions return EOPNOTSUPP for a NULL operation */
	c = &ctx->v.context;
	c->device = device;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->num_comp_vectors = 1;
	c->ops.post_send = soft_post_send;
	c->ops.post_recv = soft_post_recv;
	c->ops.poll_cq = soft_poll_cq;
	c->ops.req_notify_cq = soft_req_notify_cq;
	c->ops.post_srq_recv = soft_post_srq_recv;
	c->ops.alloc_mw = soft_alloc_mw;
	c->ops.bind_mw = soft_bind_mw;
	c->ops.dealloc_mw = soft_dealloc_mw;
	(void)pthread_mutex_init(&c->mutex, NULL);
	c->cmd_fd = fd_high(eventfd(0, EFD_CLOEXEC));
	c->async_fd = fd_high(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (c->cmd_fd < 0 || c->async_fd < 0) {
		err = -soft_denied(-errno);
		goto err_fds;
	}
	soft_lock(ctx->dev);
	ctx->num = ++ctx->dev->object_last;
	list_add_tail(&ctx->dev->contexts, &ctx->node);
	soft_unlock(ctx->dev);
	return c;

err_fds:
	if (c->cmd_fd >= 0)
		close(c->cmd_fd);
	if (c->async_fd >= 0)
		close(c->async_fd);
err_dev:
	soft_dev_put(ctx->dev);
err_ctx:
	free(ctx);
	errno = err;
	return NULL;
}

int soft_close_device(struct ibv_context *verbs)
{
	struct soft_ctx *ctx = soft_ctx(verbs);

	soft_lock(ctx->dev);
	list_del(&ctx->node);
	while (!list_empty(&ctx->async)) {
		struct soft_async *a = list_first(&ctx->async,
						  struct soft_async, node);

		list_del(&a->node);
		free(a);
	}
	soft_unlock(ctx->dev);
	close(verbs->cmd_fd);
	close(verbs->async_fd);
	(void)pthread_mutex_destroy(&verbs->mutex);
	soft_dev_put(ctx->dev);
	free(ctx);
	return 0;
}

void soft_ctx_forked(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->contexts)
		list_entry(n, struct soft_ctx, node)->removed = true;
}

int soft_may_create(struct ibv_context *verbs, enum soft_object what)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	int err = 0;

	soft_lock(dev);
	if (soft_ctx(verbs)->removed)
		err = EIO;
	else if (soft_refused(dev, what))
		err = ENOMEM;
	soft_unlock(dev);
	return err;
}

/* ---- attributes ------------------------------------------------------- */

/*
 * iWARP lacks these: Linux, siw_query_device() and c4iw_query_device(), and no
 * P_Keys in siw_query_port() and c4iw_query_port().
 */
static void take_from_iwarp(struct ibv_device_attr *attr)
{
	attr->device_cap_flags &= ~(unsigned int)(IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_AUTO_PATH_MIG |
				    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC);
	attr->max_sge_rd = 1;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	attr->max_pkeys = 0;
	attr->max_ah = 0;
	attr->max_mcast_grp = attr->max_mcast_qp_attach = 0;
	attr->max_total_mcast_qp_attach = 0;
}

static void take_what_lacks(const struct soft_dev *dev,
			    struct ibv_device_attr *attr)
{
	if (dev->no_resizing)
		attr->device_cap_flags &= ~(unsigned int)IBV_DEVICE_SRQ_RESIZE;
	if (!dev->no_windows)
		return;
	attr->device_cap_flags &= ~(unsigned int)(IBV_DEVICE_MEM_WINDOW |
						  IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	attr->max_mw = 0;
}

int soft_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	const struct soft_dev *dev = soft_dev_of(verbs);

	if (soft_ctx(verbs)->removed)
		return EIO;
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.0");
	attr->node_guid = attr->sys_image_guid = htobe64(dev->device_guid);
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = ~4095ull;
	attr->vendor_id = SOFT_VENDOR_ID;
	attr->vendor_part_id = dev->part;
	attr->max_qp = SOFT_QPS - 2;
	attr->max_qp_wr = SOFT_MAX_WR;
	attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN |
				 IBV_DEVICE_AUTO_PATH_MIG |
				 IBV_DEVICE_SYS_IMAGE_GUID |
				 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
				 IBV_DEVICE_MEM_WINDOW |
				 IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_MEM_MGT_EXTENSIONS |
				 IBV_DEVICE_PORT_ACTIVE_EVENT;
	attr->max_sge = attr->max_sge_rd = SOFT_MAX_SGE;
	attr->max_cq = 1 << 16;
	attr->max_cqe = SOFT_MAX_CQE;
	attr->max_mr = SOFT_MAX_MR;
	attr->max_mw = SOFT_MAX_MR;
	attr->max_srq = SOFT_MAX_SRQ - 1;
	attr->max_srq_wr = SOFT_MAX_WR;
	attr->max_srq_sge = SOFT_MAX_SGE;
	attr->max_pd = 1 << 16;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = SOFT_MAX_RD;
	attr->max_res_rd_atom = SOFT_MAX_RD * attr->max_qp;
	/* IBV_ATOMIC_GLOB is true as well, but UCX before 1.16 ignores it */
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_pkeys = 1;
	attr->max_ah = 1 << 20;
	attr->max_mcast_grp = SOFT_GROUPS;
	attr->max_mcast_qp_attach = SOFT_QPS;
	attr->max_total_mcast_qp_attach = SOFT_GROUPS * SOFT_QPS;
	attr->phys_port_cnt = (uint8_t)dev->ports;
	if (soft_is_roce(dev))
		attr->device_cap_flags |= IBV_DEVICE_RAW_IP_CSUM;
	if (dev->iwarp)
		take_from_iwarp(attr);
	take_what_lacks(dev, attr);
	return 0;
}

/* Raw Ethernet is for Ethernet. No RNIC of Linux has queue pairs for it. */
static void add_ethernet(struct ibv_device_attr_ex *a)
{
	a->rss_caps = (struct ibv_rss_caps) {
		.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = SOFT_QPS,
		.max_rwq_indirection_table_size = SOFT_MAX_TABLE,
		.rx_hash_fields_mask = SOFT_RSS_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	a->max_wq_type_rq = SOFT_QPS;
	a->tso_caps = (struct ibv_tso_caps) {
		.max_tso = SOFT_MAX_TSO,
		.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
	};
	a->raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
			     IBV_RAW_PACKET_CAP_SCATTER_FCS |
			     IBV_RAW_PACKET_CAP_IP_CSUM;
	a->device_cap_flags_ex |= IBV_DEVICE_RAW_SCATTER_FCS;
}

/* A field that stays 0 means that the device lacks the feature. */
int soft_query_device_ex(struct ibv_context *verbs,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex full;
	int ret;

	if (input && input->comp_mask)
		return EINVAL;
	if (size < sizeof(full.orig_attr))
		return EINVAL;
	memset(&full, 0, sizeof(full));
	ret = soft_query_device(verbs, &full.orig_attr);
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	/* time stamps are nanoseconds: soft_now() */
	if (!soft_dev_of(verbs)->iwarp) {
		full.completion_timestamp_mask = UINT64_MAX;
		full.hca_core_clock = 1000000;	/* kHz */
	}
	if (soft_is_roce(soft_dev_of(verbs)))
		add_ethernet(&full);
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	memset(attr, 0, size);
	memcpy(attr, &full, min(size, sizeof(full)));
	return ret;
}

/* As on mlx5, tv_nsec has the whole clock, of the width of a time stamp. */
int soft_query_rt_values(struct ibv_context *verbs,
			 struct ibv_values_ex *values)
{
	if (soft_ctx(verbs)->removed)
		return EIO;
	if (soft_dev_of(verbs)->iwarp)
		return EOPNOTSUPP;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (values->comp_mask) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)soft_now();
	}
	return 0;
}

int soft_query_port(struct ibv_context *verbs, uint8_t port,
		    struct ibv_port_attr *attr)
{
	return soft_ctx(verbs)->removed ? EIO :
	       soft_port_attr(soft_dev_of(verbs), port, attr);
}

int soft_port_attr(struct soft_dev *dev, uint8_t port,
		   struct ibv_port_attr *attr)
{
	enum soft_port state;
	int mtu;

	if (!port || port > dev->ports)
		return EINVAL;
	soft_lock(dev);
	state = soft_port_state(dev, port);
	soft_gids_read(dev);
	mtu = soft_gids_mtu(dev);
	soft_unlock(dev);
	memset(attr, 0, sizeof(*attr));
	attr->state = state == SOFT_PORT_DOWN ? IBV_PORT_DOWN :
		      state == SOFT_PORT_ARMED ? IBV_PORT_ARMED :
		      IBV_PORT_ACTIVE;
	attr->phys_state = state == SOFT_PORT_DOWN ? 3 /* disabled */ :
			   5 /* link up */;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = (enum ibv_mtu)mtu;
	attr->gid_tbl_len = soft_gids(dev);
	attr->pkey_tbl_len = dev->iwarp ? 0 : 1;
	attr->max_msg_sz = SOFT_MAX_MSG;
	attr->link_layer = dev->link_layer;
	attr->active_width = 2;		/* 4x */
	attr->active_speed = 32;	/* EDR */
	attr->max_vl_num = 1;
	attr->port_cap_flags = IBV_PORT_CM_SUP;
	attr->subnet_timeout = 18;
	if (soft_is_ib(dev)) {
		attr->lid = soft_lid(dev, dev->node, port);
		attr->sm_lid = soft_sm_lid(dev, port);
	} else if (soft_is_roce(dev)) {
		attr->flags = IBV_QPF_GRH_REQUIRED;
	}
	return 0;
}
