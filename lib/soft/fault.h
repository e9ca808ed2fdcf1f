/* SPDX-License-Identifier: BSD-2-Clause */
/* What is broken on purpose, and which of it shows. */
#ifndef SOFT_FAULT_H
#define SOFT_FAULT_H

struct soft_dev;
struct soft_msg;

/* Shares of work requests are told in millionths. */
#define SOFT_SHARE_ALL	1000000u
#define SOFT_DELAY_MAX	10000000u	/* us */

/*
 * How a node is broken: fault.c, soft_ctl.h. Everybody can write it: whoever
 * uses it takes a copy, and brings that into its bounds.
 */
struct soft_faults {
	uint32_t port[SOFT_PORTS_MAX];	/* enum soft_port */
	uint32_t drop, delay;		/* shares of work requests */
	uint32_t duplicate, reorder;	/* of those without acknowledgement */
	uint32_t delay_us;
	uint32_t seed;
};

/* What all nodes of a fabric share: only hints, each checked on reading. */
#define SOFT_FABRIC_MAGIC	0x534f4654u
#define SOFT_FABRIC_VERSION	3
struct soft_fabric {
	uint32_t magic, version;
	struct soft_faults fresh;	/* what a new node begins with */
	struct soft_faults node[SOFT_NODES];
	_Atomic uint64_t guid[SOFT_NODES];
	/* multicast groups with members: see mcast.c */
	_Atomic uint32_t mcast_epoch;
	_Atomic uint32_t groups[SOFT_NODES];	/* slots to look at */
	struct {
		_Atomic uint64_t word[2];
	} mgid[SOFT_NODES][SOFT_GROUPS];
};

/* What programs are told of a port in this state. */
static inline bool soft_port_seems_up(uint32_t state)
{
	return state == SOFT_PORT_UP || state == SOFT_PORT_BLACK_HOLE;
}

/* Whether work requests pass through a port. L */
bool soft_port_carries(const struct soft_dev *dev, uint8_t port);
/* 0, ENOMEM for the one that is to be refused, EIO when the device is gone. */
int soft_may_create(struct ibv_context *verbs, enum soft_object what);
bool soft_refused(struct soft_dev *dev, enum soft_object what);	/* L */
/* Takes over what the fabric says of this node; events tell of ports. L */
void soft_faults_take(struct soft_dev *dev);
/* Of soft_ctl.h's side: one question, one answer. 0, or the wire is cut. L */
int soft_ctl_asked(struct soft_dev *dev, int fd, const struct soft_msg *msg,
		   size_t len);
void soft_remove(struct soft_dev *dev);					/* L */
void soft_readd(struct soft_dev *dev);					/* L */

#endif
