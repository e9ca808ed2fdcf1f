/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams and multicast groups, tried with one queue pair of type UD. */
#include "base/base.h"
#include "device/loopback.h"
#include "device/trial.h"
#include "device/verbs_call.h"
#include "wire/proto.h"

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define QKEY		0x1ee7u
#define LEN		64u	/* bytes of a datagram */
#define MLID		0xc000u	/* lowest multicast LID, on InfiniBand */

/* A group of link-local scope that the application chooses. */
static const union ibv_gid group = {
	.raw = { 0xff, 0x12, [12] = 0x72, 0x64, 0x6d, 0x61 },
};

static int create(struct trial *t, uint32_t flags, struct ibv_qp **ret)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = t->cq, .recv_cq = t->cq, .qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = t->d.pd, .create_flags = flags,
	};
	int err;

	/* some devices lack the extended call */
	err = flags ?
	      rdmamsg__v_create_qp_ex(t->d.v, t->d.verbs, &attr, ret) :
	      rdmamsg__v_create_qp(t->d.v, t->d.pd,
				   (struct ibv_qp_init_attr *)&attr, ret);
	return err ? rdmamsg__refused(err, flags ? "creating a queue pair with "
				      "BLOCK_SELF_MCAST_LB" :
				      "creating a queue pair of type UD") : 0;
}

static int to_init(struct trial *t, struct ibv_qp *qp, uint8_t port,
		   uint16_t pkey_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port,
		.pkey_index = pkey_index, .qkey = QKEY,
	};
	int err = rdmamsg__v_modify_qp(t->d.v, qp, &attr, IBV_QP_STATE |
				       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_QKEY);

	return err ? rdmamsg__refused(err, "moving a queue pair of type UD to "
				      "INIT") : 0;
}

/* ---- datagrams -------------------------------------------------------- */

static int to_rts(struct trial *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int err = rdmamsg__v_modify_qp(t->d.v, qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = rdmamsg__v_modify_qp(t->d.v, qp, &attr, IBV_QP_STATE |
					   IBV_QP_SQ_PSN);
	return err ? rdmamsg__refused(err, "moving a queue pair of type UD to "
				      "RTS") : 0;
}

static int send_to_self(struct trial *t, struct ibv_qp *qp,
			const struct oob *path)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mem, .length = LEN, .lkey = t->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { .remote_qpn = qp->qp_num, .remote_qkey = QKEY },
	};
	struct ibv_ah_attr attr;
	struct ibv_wc wc;
	int err;

	rdmamsg__loopback_address(path, &attr);
	err = rdmamsg__v_create_ah(t->d.v, t->d.pd, &attr, &wr.wr.ud.ah);
	if (err)
		return rdmamsg__refused(err, "creating an address handle");
	/* completions of the pair would be mistaken for those of this one */
	rdmamsg__pair_drop(t);
	err = rdmamsg__trial_send(t, qp, qp, &wr, &wc);
	rdmamsg__pair_drop(t);
	(void)rdmamsg__v_destroy_ah(t->d.v, wr.wr.ud.ah);
	return err;
}

static int use(struct trial *t, struct ibv_qp *qp, const struct oob *path)
{
	int err = to_init(t, qp, path->port, path->pkey_index);

	if (!err)
		err = to_rts(t, qp);
	return err ? err : send_to_self(t, qp, path);
}

int rdmamsg__try_ud(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp *qp;
	struct oob path;
	bool no_path;
	int err = create(t, 0, &qp);

	if (err)
		return err;
	/* if the device does not deliver, do not wait once more */
	no_path = rdmamsg__pair_get(t) && t->pair.no_path;
	if (!no_path)
		err = rdmamsg__loopback_path(&t->d, 0, &path);
	if (!no_path && !err)
		err = use(t, qp, &path);
	(void)rdmamsg__v_destroy_qp(t->d.v, qp);
	if (no_path)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_NATIVE, 0, "a "
					    "queue pair was created; not used: "
					    "%s", t->pair.text);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
					    "a datagram arrived");
}

/* ---- multicast -------------------------------------------------------- */

static int attach(struct trial *t, struct ibv_qp *qp)
{
	struct ibv_port_attr port;
	const uint8_t number = 1;
	uint16_t lid = 0;
	int err = rdmamsg__v_query_port(t->d.v, t->d.verbs, number, &port);

	if (err)
		return rdmamsg__refused(err, "attributes of the port");
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lid = MLID;
	err = to_init(t, qp, number, 0);
	if (err)
		return err;
	err = rdmamsg__v_attach_mcast(t->d.v, qp, &group, lid);
	if (err)
		return rdmamsg__refused(err, "attaching a queue pair to a "
					"multicast group");
	err = rdmamsg__v_detach_mcast(t->d.v, qp, &group, lid);
	return err ? rdmamsg__refused(err, "detaching a queue pair from a "
				      "multicast group") : 0;
}

int rdmamsg__try_multicast(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp *qp;
	int err = create(t, 0, &qp);

	if (err)
		return err;
	err = attach(t, qp);
	(void)rdmamsg__v_destroy_qp(t->d.v, qp);
	if (err)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_ABSENT, 0, "%s; if "
					"\"ud\" is there, groups can join "
					"unicast:ADDRESS:PORT instead",
					rdmamsg__text());
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE,
				(uint64_t)t->d.attr.max_mcast_grp, "a queue "
				"pair was attached to a group; the device "
				"reports %d groups", t->d.attr.max_mcast_grp);
}

/* lib/group/receive.c drops own datagrams, unless the program wants them. */
int rdmamsg__try_block_loopback(struct trial *t,
				struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_qp *qp;
	int err = create(t, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, &qp);

	if (err)
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "groups "
					"drop own datagrams; %s",
					rdmamsg__text());
	(void)rdmamsg__v_destroy_qp(t->d.v, qp);
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "a queue pair was "
				"created with BLOCK_SELF_MCAST_LB");
}
