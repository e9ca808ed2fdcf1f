/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of lib/soft/net that are alike for net.c and bottleneck.c. */
#include "netsim.h"

#include "soft/fabric/dev.h"
#include "soft/net/net.h"

struct soft_path sim_way;
uint8_t sim_room[PACKET_MAX + 4];

int __wrap_soft_net_open(struct soft_dev *dev);
void __wrap_soft_net_close(struct soft_dev *dev);
int __wrap_soft_net_route(struct soft_path *ret);
void __wrap_soft_net_flush(struct soft_dev *dev);
void __wrap_soft_net_watch(struct soft_dev *dev, bool by_thread);

int __wrap_soft_net_open(struct soft_dev *dev)
{
	/* only lib/soft/net looks into it */
	dev->net = (struct soft_net *)sim_room;
	return 0;
}

void __wrap_soft_net_close(struct soft_dev *dev)
{
	dev->net = NULL;
}

int __wrap_soft_net_route(struct soft_path *ret)
{
	ret->mtu = 1500;
	sim_way = *ret;
	return 0;
}

void __wrap_soft_net_flush(struct soft_dev *dev)
{
}

void __wrap_soft_net_watch(struct soft_dev *dev, bool by_thread)
{
}
