/* SPDX-License-Identifier: BSD-2-Clause */
/* Abilities that are tried by creating an object. */
#include "base/base.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define TSO_HEADER	64	/* bytes: Ethernet, IP and TCP */

static struct ibv_qp_init_attr_ex qp_attr(const struct trial *t,
					  enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = t->cq, .recv_cq = t->cq, .qp_type = type,
		.cap = {
			.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = t->d.pd,
	};
}

static int create_plain(struct trial *t, enum ibv_qp_type type,
			struct ibv_qp **ret)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = t->cq, .recv_cq = t->cq, .qp_type = type,
		.cap = {
			.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	return rdmamsg__v_create_qp(t->d.v, t->d.pd, &attr, ret);
}

static void destroy(struct trial *t, struct ibv_qp *qp)
{
	(void)rdmamsg__v_destroy_qp(t->d.v, qp);
}

/* Returns 0 if the device creates such a queue pair. */
static int try_qp_ex(struct trial *t, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int err = rdmamsg__v_create_qp_ex(t->d.v, t->d.verbs, attr, &qp);

	if (!err)
		destroy(t, qp);
	return err;
}

/* ---- types of queues -------------------------------------------------- */

int rdmamsg__try_srq(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 1, .max_sge = 1 },
	};
	struct ibv_srq *srq;
	int err = rdmamsg__v_create_srq(t->d.v, t->d.pd, &attr, &srq);

	if (err)
		return rdmamsg__refused(err, "creating a shared receive queue");
	(void)rdmamsg__v_destroy_srq(t->d.v, srq);
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE,
				(uint64_t)t->d.attr.max_srq_wr, "a queue was "
				"created; the device reports %d receives of "
				"one queue", t->d.attr.max_srq_wr);
}

int rdmamsg__try_uc(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp *qp;
	int err = create_plain(t, IBV_QPT_UC, &qp);

	if (err)
		return rdmamsg__refused(err, "creating a queue pair of type "
					"UC");
	destroy(t, qp);
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
				"a queue pair was created");
}

int rdmamsg__try_raw_packet(struct trial *t,
			    struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp *qp;
	int err = create_plain(t, IBV_QPT_RAW_PACKET, &qp);

	if (err)
		return rdmamsg__refused(err, err == -EPERM ? "creating a queue "
					"pair of type RAW_PACKET without "
					"CAP_NET_RAW" : "creating a queue pair "
					"of type RAW_PACKET");
	destroy(t, qp);
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
				"a queue pair was created");
}

int rdmamsg__try_xrc(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	int err = rdmamsg__v_open_xrcd(t->d.verbs, &init, &attr.xrcd);

	if (err)
		return rdmamsg__refused(err, "opening an XRC domain");
	err = try_qp_ex(t, &attr);
	(void)rdmamsg__v_close_xrcd(attr.xrcd);
	if (err)
		return rdmamsg__refused(err, "creating a queue pair of type "
					"XRC_RECV");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "a domain was "
				"opened, and a queue pair created in it");
}

int rdmamsg__try_send_ops(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(t, IBV_QPT_RC);
	struct ibv_qp *qp;
	bool has;
	int err;

	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	err = rdmamsg__v_create_qp_ex(t->d.v, t->d.verbs, &attr, &qp);
	if (err)
		return rdmamsg__refused(err, "creating a queue pair for "
					"ibv_wr_start()");
	has = t->d.v->qp_to_qp_ex(qp);
	destroy(t, qp);
	if (!has)
		return rdmamsg__fail(-EIO, "a queue pair was created without "
				     "the calls that were asked for");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
				"a queue pair was created for ibv_wr_start()");
}

/* Without it the library creates queues for more at once: cq.c. */
int rdmamsg__try_cq_resize(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_cq *cq;
	int err = rdmamsg__v_create_cq(t->d.v, t->d.verbs, 16, NULL, NULL, 0,
				       &cq);

	if (err)
		return rdmamsg__refused(err, "creating a completion queue");
	err = rdmamsg__v_resize_cq(t->d.v, cq, 64);
	(void)rdmamsg__v_destroy_cq(t->d.v, cq);
	if (!err)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
					"a completion queue was resized");
	(void)rdmamsg__refused(err, "resizing a completion queue");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "%s; the library "
				"creates large or further queues instead",
				rdmamsg__text());
}

/* ---- raw packets ------------------------------------------------------ */

static int create_wq(struct trial *t, struct ibv_wq **ret)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
		.pd = t->d.pd, .cq = t->cq,
	};
	struct ibv_wq_attr ready = {
		.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY,
	};
	int err = rdmamsg__v_create_wq(t->d.verbs, &attr, ret);

	if (err)
		return rdmamsg__refused(err, "creating a work queue");
	err = rdmamsg__v_modify_wq(*ret, &ready);
	if (!err)
		return 0;
	(void)rdmamsg__v_destroy_wq(*ret);
	return rdmamsg__refused(err, "making a work queue ready");
}

int rdmamsg__try_rss(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	const uint32_t size = t->ex.rss_caps.max_rwq_indirection_table_size;
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table_init_attr attr = { .ind_tbl = &wq };
	int err = create_wq(t, &wq);

	if (err)
		return err;
	err = rdmamsg__v_create_rwq_ind_table(t->d.verbs, &attr, &table);
	if (!err)
		(void)rdmamsg__v_destroy_rwq_ind_table(table);
	(void)rdmamsg__v_destroy_wq(wq);
	if (err)
		return rdmamsg__refused(err, "creating an indirection table");
	if (!t->ex.rss_caps.supported_qpts)
		return rdmamsg__fail(-EOPNOTSUPP, "an indirection table was "
				     "created, but the device reports no type "
				     "of queue pair for it (rss_caps)");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, size, "an indirection "
				"table was created; the device reports %u "
				"queues of one table", size);
}

static int try_tso(struct trial *t, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(t, type);

	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.max_tso_header = TSO_HEADER;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
	return try_qp_ex(t, &attr);
}

int rdmamsg__try_tso(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	const char *type = "RAW_PACKET";
	int err = try_tso(t, IBV_QPT_RAW_PACKET);

	if (err && !try_tso(t, IBV_QPT_UD)) {
		type = "UD";
		err = 0;
	}
	if (err)
		return rdmamsg__refused(err, "creating a queue pair with "
					"max_tso_header");
	if (!t->ex.tso_caps.max_tso)
		return rdmamsg__fail(-EOPNOTSUPP, "a queue pair was created "
				     "with max_tso_header, but the device "
				     "reports no size (tso_caps)");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE,
				t->ex.tso_caps.max_tso, "a queue pair of type "
				"%s was created with max_tso_header; the "
				"device reports %u bytes of one send", type,
				t->ex.tso_caps.max_tso);
}
