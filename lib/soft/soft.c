/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects the layers: sets the tables of calls that lower layers make upward,
 * and has the calls that open the device.
 */
#include "soft/soft.h"

#include <pthread.h>

#include "base/util.h"
#include "soft/cm/id.h"
#include "soft/cma/cma.h"
#include "soft/control/control.h"
#include "soft/engine/apm.h"
#include "soft/engine/dc.h"
#include "soft/engine/engine.h"
#include "soft/engine/linger.h"
#include "soft/engine/offer.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"
#include "soft/fabric/upward.h"
#include "soft/net/net.h"
#include "soft/transport/far.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/upward.h"

static void wire_down(struct soft_dev *dev, struct soft_wire *w)
{
	soft_req_wires_down(dev, w);
	soft_dct_wire_down(dev, w);
	soft_linger_wire_down(dev, w);
	soft_cm_wire_down(dev, w);
}

static void ports(struct soft_dev *dev, const struct soft_faults *were)
{
	soft_async_ports(dev, were);
	soft_apm_ports(dev, were);
	soft_cm_iwarp_ports(dev);
	soft_linger_ports(dev);
	if (dev->faulty)
		soft_offers_end(dev);
}

/* Packets first: they bring work for queue pairs. */
static bool progress(struct soft_dev *dev)
{
	bool any;

	if (likely(!dev->net))
		return soft_progress(dev);
	any = soft_net_receive(dev);
	any |= soft_progress(dev);
	/* others wait for the answers while more arrives */
	soft_net_flush(dev);
	return any;
}

static void packet(struct soft_dev *dev, const struct soft_path *back,
		   const struct packet *p)
{
	const uint32_t node = p->dst >> SOFT_QPN_BITS;

	if (p->flags & PACKET_F_DETH && p->dst == SOFT_QPN_CM)
		soft_cm_packet(dev, back, p);
	else if (node == dev->node || p->dst == SOFT_QPN_MCAST)
		soft_far_packet(dev, back, p);
	else
		(void)soft_net_forward(dev, node, back, p);
}

static void far_group(struct soft_dev *dev, const uint8_t mgid[16], bool join)
{
	soft_cm_port_taken(dev, soft_far_group(dev, mgid, join));
}

static void net_close(struct soft_dev *dev)
{
	soft_timer_stop(&dev->port_free);
	soft_cm_seeks_end(dev);
	soft_net_close(dev);
}

static const struct soft_fabric_upward fabric_up = {
	.progress = progress,
	.woken = soft_push_woken,
	.overrun = soft_cq_overruns,
	.wire_down = wire_down,
	.message = soft_cm_message,
	.on_control = soft_ctl_asked,
	.ports = ports,
	.forked = soft_ctx_forked,
	.net_packet = packet,
	.net_forwarded = soft_net_forwarded,
	.net_room = soft_far_room,
	.net_refused = soft_cm_refused,
	.net_watch = soft_net_watch,
	.net_flush = soft_net_flush,
	.net_close = net_close,
};

static const struct soft_verbs_upward verbs_up = {
	.progress = progress,
	.push = soft_req_push,
	.answer = soft_resp_push,
	.timer = soft_req_timer,
	.migrate = soft_apm_set,
	.hang_up = soft_cm_iwarp_qp_over,
	.dc_over = soft_dc_over,
	.far_up = soft_far_up,
	.far_down = soft_far_down,
	.far_push = soft_far_push,
	.far_answer = soft_far_answer,
	.far_route = soft_far_route,
	.far_look = soft_far_look,
	.far_datagram = soft_far_datagram,
	.far_group = far_group,
};

static void set_tables(void)
{
	soft_fabric_up = &fabric_up;
	soft_verbs_up = &verbs_up;
}

static void connect_layers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, set_tables);
}

struct ibv_context *soft_open_device(struct ibv_device *device)
{
	connect_layers();
	return soft_ctx_open(device);
}

__be64 soft_get_device_guid(struct ibv_device *device)
{
	connect_layers();
	return soft_ctx_guid();
}

struct rdma_event_channel *soft_cma_create_event_channel(void)
{
	connect_layers();
	return soft_cma_channel_new();
}

int soft_far_error(void)
{
	return soft_dev_far_error();
}

int soft_open(struct soft_dev **ret)
{
	connect_layers();
	return soft_dev_get(ret);
}
