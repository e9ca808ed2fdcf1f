/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: only attached queue pairs receive. */
#include "device.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define GRH		40u
#define JOIN_MS		30000	/* far beyond what the subnet manager takes */
#define ADDRESS		0xef4d0304	/* 239.77.3.4 */

static union ibv_gid group;
static uint16_t mlid;
static struct ibv_ah *ah;
static int member_fd;			/* open until the process ends */

static bool is_infiniband(void)
{
	return port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static void group__of_the_network_CAN_BE_JOINED(void)
{
	if (is_infiniband() && !own_address(0).sin_addr.s_addr)
		skip_rest("the port has no address of IPoIB to join a group by");
}

static int undo_channel(void *ch)
{
	v->destroy_event_channel(ch);
	return 0;
}

static int undo_id(void *id)
{
	return v->destroy_id(id);
}

/*
 * The subnet manager chooses the LID. One that was made up may belong to a group
 * that is in use.
 */
static void join_infiniband(void)
{
	struct rdma_event_channel *ch = v->create_event_channel();
	struct sockaddr_in at = own_address(0), to = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(ADDRESS),
	};
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&to,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	keep(ch, undo_channel);
	check_call(v->create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	keep(id, undo_id);
	check_call(v->bind_addr(id, (struct sockaddr *)&at), 0);
	check_call(v->join_multicast(id, &attr, NULL), 0);
	check(readable(ch->fd, JOIN_MS));
	check_call(v->get_cm_event(ch, &event), 0);
	check_is(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	group = event->param.ud.ah_attr.grh.dgid;
	mlid = event->param.ud.ah_attr.dlid;
	check_call(v->ack_cm_event(event), 0);
}

/*
 * On RoCE v2, the GID of a group maps an IP address, as the sender's GID does.
 */
static void choose_group(void)
{
	struct ip_mreqn member;

	if (is_infiniband()) {
		join_infiniband();
	} else {
		group = (union ibv_gid){ .raw = {
			[10] = 0xff, 0xff, 239, 77, 3, 4,
		} };
		/*
		 * the host joins the group, as rdma_join_multicast() makes it
		 * do
		 */
		memset(&member, 0, sizeof(member));
		memcpy(&member.imr_multiaddr, group.raw + 12, 4);
		memcpy(&member.imr_address, gid.raw + 12, 4);
		member_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		(void)setsockopt(member_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP,
				 &member, sizeof(member));
	}
}

static int undo_attach(void *qp)
{
	return v->detach_mcast(qp, &group, mlid);
}

static void attach(struct ibv_qp *qp)
{
	check_call(v->attach_mcast(qp, &group, mlid), 0);
	keep(qp, undo_attach);
}

static int undo_ah(void *address)
{
	return v->destroy_ah(address);
}

static void ends_ud(void)
{
	struct ibv_ah_attr attr;

	how.type = IBV_QPT_UD;
	pair();
	choose_group();
	address(&attr, &group);
	if (mlid)
		attr.dlid = mlid;
	ah = v->create_ah(pd, &attr);
	keep(ah, undo_ah);
	fill(0, 1);
}

static void send_one(uint64_t id)
{
	struct request r = request(IBV_WR_SEND, id, 100);

	r.wr.wr.ud.ah = ah;
	r.wr.wr.ud.remote_qpn = 0xffffff;
	r.wr.wr.ud.remote_qkey = QKEY;
	post(0, &r);
	(void)sent(0, id, IBV_WC_SUCCESS);
}

static void arrived(int i, uint64_t id, uint32_t offset)
{
	struct ibv_wc wc = received(i, id, IBV_WC_SUCCESS);

	check_is(wc.byte_len, GRH + 100);
	check_is(wc.src_qp, end[0].qp->qp_num);
	check(wc.wc_flags & IBV_WC_GRH);
	check(!memcmp(end[0].mem, end[i].mem + offset + GRH, 100));
}

static void group__attached_RECEIVES(void)
{
	ends_ud();
	attach(end[1].qp);
	receive(1, 2, 0, 200);
	send_one(1);
	arrived(1, 2, 0);
	quiet();
}

static void group__nobody_attached_LOST(void)
{
	ends_ud();
	receive(1, 2, 0, 200);
	send_one(1);
	quiet();
}

static void group__who_sends_is_attached_RECEIVES_TOO(void)
{
	ends_ud();
	attach(end[0].qp);
	attach(end[1].qp);
	receive(0, 2, 4096, 200);
	receive(1, 3, 0, 200);
	send_one(1);
	arrived(0, 2, 4096);
	arrived(1, 3, 0);
	quiet();
}

static void group__attached_twice_ONE_COPY(void)
{
	ends_ud();
	attach(end[1].qp);
	check_call(v->attach_mcast(end[1].qp, &group, mlid), 0);
	receive(1, 2, 0, 200);
	receive(1, 3, 0, 200);
	send_one(1);
	arrived(1, 2, 0);
	quiet();
}

static void group__detached_LOST(void)
{
	ends_ud();
	check_call(v->attach_mcast(end[1].qp, &group, mlid), 0);
	check_call(v->detach_mcast(end[1].qp, &group, mlid), 0);
	receive(1, 2, 0, 200);
	send_one(1);
	quiet();
	check_call(v->detach_mcast(end[1].qp, &group, mlid), EINVAL);
}

static void group__another_qkey_LOST(void)
{
	struct request r;

	ends_ud();
	attach(end[1].qp);
	receive(1, 2, 0, 200);
	r = request(IBV_WR_SEND, 1, 100);
	r.wr.wr.ud.ah = ah;
	r.wr.wr.ud.remote_qpn = 0xffffff;
	r.wr.wr.ud.remote_qkey = QKEY + 1;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
}

static void attach__of_a_connection_REFUSED(void)
{
	choose_group();
	pair();
	check_call(v->attach_mcast(end[0].qp, &group, mlid), EINVAL);
}

static void destroy_qp__attached_EBUSY(void)
{
	ends_ud();
	attach(end[1].qp);
	check_call(v->destroy_qp(end[1].qp), EBUSY);
}

static int undo_qp(void *qp)
{
	return v->destroy_qp(qp);
}

/* The sender's queue pair does not receive its datagram; other members do. */
static void group__loopback_blocked_NOT_TO_ITSELF(void)
{
	struct ibv_qp_init_attr_ex attr;

	ends_ud();
	attr = (struct ibv_qp_init_attr_ex){
		.send_cq = end[0].scq, .recv_cq = end[0].rcq,
		.qp_type = IBV_QPT_UD, .cap = how.cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	errno = 0;
	end[0].qp = ibv_create_qp_ex(ctx, &attr);
	if (!end[0].qp)
		fail(__FILE__, __LINE__, "blocking loopback: %s",
		     strerror(errno));
	keep(end[0].qp, undo_qp);
	walk(end[0].qp, 0);
	attach(end[0].qp);
	attach(end[1].qp);
	receive(0, 2, 4096, 200);
	receive(1, 3, 0, 200);
	send_one(1);
	arrived(1, 3, 0);
	quiet();
}

const struct device_case mcast_cases[] = {
	GATE(group__of_the_network_CAN_BE_JOINED),
	CASE(group__attached_RECEIVES),
	CASE(group__nobody_attached_LOST),
	CASE(group__who_sends_is_attached_RECEIVES_TOO),
	CASE(group__attached_twice_ONE_COPY),
	CASE(group__detached_LOST),
	CASE(group__another_qkey_LOST),
	CASE(attach__of_a_connection_REFUSED),
	CASE(destroy_qp__attached_EBUSY),
	CASE(group__loopback_blocked_NOT_TO_ITSELF),
	{ .name = NULL },
};
