/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the options of a queue pair: by its type, which no device changes
 * (-EINVAL), and by the capabilities that the device reports (-EOPNOTSUPP). A
 * device may still refuse to create the queue pair.
 */
#include "base/base.h"
#include "device/cq.h"
#include "lane/create_flags.h"
#include "qp/rawqp.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/verbs.h>

#define RANGE(...)	RANGE_OF(struct rdmamsg_qp_options, __VA_ARGS__)

static const struct range ranges[] = {
	RANGE(max_send, 128, 0, 0, 1u << 20),
	RANGE(max_recv, 128, 0, 0, 1u << 20),
	RANGE(max_send_sge, 1, 0, 0, 1024),
	RANGE(max_recv_sge, 1, 0, 0, 1024),
	RANGE(max_inline, 0, 0, 0, 65536),
	RANGE(qkey, 0x11111111, 0, 0, UINT32_MAX),
	RANGE(source_qpn, 0, 0, 0, 0xffffff),
	RANGE(max_tso_header, 0, 0, 0, 0xffff),
	RANGE(ack_timeout, 14, 0, 0, 31),
	RANGE(retry_count, 7, 0, 0, 7),
	RANGE(rnr_retry_count, 7, 0, 0, 7),
	RANGE(min_rnr_timer, 12, 0, 0, 31),
	RANGE(responder_resources, 16, 0, 0, 255),
	RANGE(initiator_depth, 16, 0, 0, 255),
	RANGE(comp_vector, VECTOR_ANY, RDMAMSG_NONE, 0, VECTOR_ANY),
};

int rdmamsg__rawqp_ranges(struct rdmamsg_qp_options *o,
			  const struct rdmamsg_qp_handlers *on)
{
	const uint32_t known = RDMAMSG_QP_SIGNAL_ALL | RDMAMSG_QP_TWO_CQS |
			       RDMAMSG_QP_SOLICITED |
			       RDMAMSG_QP_IGNORE_OVERRUN |
			       RDMAMSG_QP_CROSS_CHANNEL;
	const uint32_t access = IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	if (o->flags & ~known)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: unknown bits",
				     o->flags);
	if (o->flags & RDMAMSG_QP_SOLICITED && !on->on_completion)
		return rdmamsg__fail(-EINVAL, "RDMAMSG_QP_SOLICITED without "
				     "on_completion: nothing is told");
	if (o->access & ~access)
		return rdmamsg__fail(-EINVAL, "access 0x%x: unknown bits",
				     o->access);
	if (!o->type)
		o->type = IBV_QPT_RC;
	return rdmamsg__set_ranges(o, ranges,
				   sizeof(ranges) / sizeof(ranges[0]));
}

/* ---- types ------------------------------------------------------------ */

static int check_type(const struct rdmamsg_qp_options *o,
		      const struct ibv_device_attr_ex *a, const char *device)
{
	unsigned int type = o->type;

	if (type == IBV_QPT_DRIVER)
		return rdmamsg__fail(-EOPNOTSUPP, "type DRIVER: needs a call "
				     "of the vendor (of mlx5: rdmamsg_dc(7))");
	if (type >= 32 || !(QP_TYPE(type) & QP_TYPES))
		return rdmamsg__fail(-EINVAL, "type %u: unknown", type);
	if ((type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV) &&
	    !(a->orig_attr.device_cap_flags & IBV_DEVICE_XRC))
		return rdmamsg__fail(-EOPNOTSUPP, "type %s: device %s has no "
				     "XRC (IBV_DEVICE_XRC)",
				     rdmamsg__qp_type_name(type), device);
	if (o->srq && !(QP_TYPE(type) & QP_RECEIVES))
		return rdmamsg__fail(-EINVAL, "srq: type %s receives nothing "
				     "by itself", rdmamsg__qp_type_name(type));
	if (o->xrcd && type != IBV_QPT_XRC_RECV)
		return rdmamsg__fail(-EINVAL, "xrcd: for type XRC_RECV, this "
				     "is %s", rdmamsg__qp_type_name(type));
	return 0;
}

/* ---- create flags ----------------------------------------------------- */

static int check_create_flags(const struct rdmamsg_qp_options *o,
			      const struct ibv_device_attr_ex *a,
			      const char *device)
{
	int ret = rdmamsg__create_flags_check(o->create_flags, o->type, a,
					      device);

	if (!ret && o->source_qpn &&
	    !(o->create_flags & IBV_QP_CREATE_SOURCE_QPN))
		return rdmamsg__fail(-EINVAL, "source_qpn: needs create flag "
				     "SOURCE_QPN");
	return ret;
}

/* ---- send operations -------------------------------------------------- */

static const struct {
	uint64_t op;
	const char *name;
	uint32_t types;
} ops[] = {
	{ IBV_QP_EX_WITH_RDMA_WRITE, "RDMA_WRITE",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) },
	{ IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, "RDMA_WRITE_WITH_IMM",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) },
	{ IBV_QP_EX_WITH_SEND, "SEND", QP_RELIABLE | QP_RECEIVES },
	{ IBV_QP_EX_WITH_SEND_WITH_IMM, "SEND_WITH_IMM",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) | QP_TYPE(IBV_QPT_UD) },
	{ IBV_QP_EX_WITH_RDMA_READ, "RDMA_READ", QP_RELIABLE },
	{ IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, "ATOMIC_CMP_AND_SWP",
	  QP_RELIABLE },
	{ IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "ATOMIC_FETCH_AND_ADD",
	  QP_RELIABLE },
	{ IBV_QP_EX_WITH_LOCAL_INV, "LOCAL_INV",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) },
	{ IBV_QP_EX_WITH_BIND_MW, "BIND_MW",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) },
	{ IBV_QP_EX_WITH_SEND_WITH_INV, "SEND_WITH_INV",
	  QP_RELIABLE | QP_TYPE(IBV_QPT_UC) },
	{ IBV_QP_EX_WITH_TSO, "TSO",
	  QP_TYPE(IBV_QPT_UD) | QP_TYPE(IBV_QPT_RAW_PACKET) },
};

static int check_tso(const struct rdmamsg_qp_options *o,
		     const struct ibv_device_attr_ex *a, const char *device)
{
	bool wanted = o->max_tso_header || o->send_ops & IBV_QP_EX_WITH_TSO;

	if (!wanted)
		return 0;
	if (!o->max_tso_header || !(o->send_ops & IBV_QP_EX_WITH_TSO))
		return rdmamsg__fail(-EINVAL, "max_tso_header and the send "
				     "operation TSO go together");
	if (!a->tso_caps.max_tso ||
	    !(a->tso_caps.supported_qpts & QP_TYPE(o->type)))
		return rdmamsg__fail(-EOPNOTSUPP, "max_tso_header: device %s "
				     "cannot do that for type %s (tso_caps)",
				     device, rdmamsg__qp_type_name(o->type));
	return 0;
}

static int check_ops(const struct rdmamsg_qp_options *o)
{
	uint64_t left = o->send_ops;

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (!(left & ops[i].op))
			continue;
		left &= ~ops[i].op;
		if (!(QP_TYPE(o->type) & ops[i].types))
			return rdmamsg__fail(-EINVAL, "send operation %s: not "
					     "for type %s", ops[i].name,
					     rdmamsg__qp_type_name(o->type));
	}
	if (left)
		return rdmamsg__fail(-EINVAL, "send_ops 0x%llx: unknown bits",
				     (unsigned long long)left);
	return 0;
}

/* ---- receive side scaling --------------------------------------------- */

#define L3_L4	((uint64_t)0x1ff)	/* every field but INNER */
#define INNER	((uint64_t)IBV_RX_HASH_INNER)

static int check_rss(const struct rdmamsg_qp_options *o,
		     const struct rdmamsg_rss *rss,
		     const struct ibv_device_attr_ex *a, const char *device)
{
	const struct ibv_rss_caps *caps = &a->rss_caps;

	if (!o->rss)
		return 0;
	if (o->srq || o->send_ops)
		return rdmamsg__fail(-EINVAL, "rss: goes without srq, and has "
				     "no send side");
	if (!rss->queues || rss->queues & (rss->queues - 1))
		return rdmamsg__fail(-EINVAL, "rss queues %u: must be a power "
				     "of two", rss->queues);
	if (!rss->key_len != !rss->key)
		return rdmamsg__fail(-EINVAL, "rss key and key_len: both or "
				     "none");
	if (rss->fields & ~(L3_L4 | INNER))
		return rdmamsg__fail(-EINVAL, "rss fields 0x%llx: unknown bits",
				     (unsigned long long)rss->fields);
	if (rss->fields & INNER && !(rss->fields & L3_L4))
		return rdmamsg__fail(-EINVAL, "rss field INNER: says of which "
				     "header the others are, of which there is "
				     "none");
	if (!(caps->supported_qpts & QP_TYPE(o->type)))
		return rdmamsg__fail(-EOPNOTSUPP, "rss: device %s cannot do "
				     "that for type %s (rss_caps)", device,
				     rdmamsg__qp_type_name(o->type));
	if (rss->queues > caps->max_rwq_indirection_table_size)
		return rdmamsg__fail(-EINVAL, "rss queues %u: device %s allows "
				     "%u", rss->queues, device,
				     caps->max_rwq_indirection_table_size);
	if (!rss->function || rss->function & ~caps->rx_hash_function)
		return rdmamsg__fail(-EOPNOTSUPP, "rss function 0x%x: device "
				     "%s has 0x%x", rss->function, device,
				     caps->rx_hash_function);
	if (rss->fields & ~caps->rx_hash_fields_mask)
		return rdmamsg__fail(-EOPNOTSUPP, "rss fields 0x%llx: device "
				     "%s has 0x%llx",
				     (unsigned long long)rss->fields, device,
				     (unsigned long long)
				     caps->rx_hash_fields_mask);
	return 0;
}

/* ---- all -------------------------------------------------------------- */

static int check_limits(const struct rdmamsg_qp_options *o,
			const struct ibv_device_attr *a, const char *device)
{
	const struct {
		const char *name;
		uint32_t value, limit;
	} limits[] = {
		{ "max_send", o->max_send, (uint32_t)a->max_qp_wr },
		{ "max_recv", o->srq ? 0 : o->max_recv,
		  (uint32_t)a->max_qp_wr },
		{ "max_send_sge", o->max_send_sge, (uint32_t)a->max_sge },
		{ "max_recv_sge", o->srq ? 0 : o->max_recv_sge,
		  (uint32_t)a->max_sge },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i].value > limits[i].limit)
			return rdmamsg__fail(-EINVAL, "%s %u: device %s allows "
					     "%u", limits[i].name,
					     limits[i].value, device,
					     limits[i].limit);
	return 0;
}

int rdmamsg__rawqp_check(const struct rdmamsg_qp_options *o,
			 const struct rdmamsg_rss *rss,
			 const struct ibv_device_attr_ex *a,
			 const char *device)
{
	int ret = check_type(o, a, device);

	if (!ret)
		ret = check_create_flags(o, a, device);
	if (!ret)
		ret = check_ops(o);
	if (!ret)
		ret = check_tso(o, a, device);
	if (!ret)
		ret = check_rss(o, rss, a, device);
	return ret ? ret : check_limits(o, &a->orig_attr, device);
}
