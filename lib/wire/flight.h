/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer that keeps the rules can have in flight: rdmamsg-proto(7). */
#ifndef RDMAMSG_LIB_FLIGHT_H
#define RDMAMSG_LIB_FLIGHT_H

/* Receives kept beyond the credits, so that control messages find one. */
#define RNDV_MAX	16	/* rendezvous announced by us: one DONE each */
#define CREDIT_MAX	2	/* CREDIT messages the peer has not seen */
#define RX_LAZY		8	/* control messages whose receives may wait */
#define RX_LAZY_MAX	32	/* data messages: they have used up a credit */
#define RECV_RESERVE	(RNDV_MAX + CREDIT_MAX + RX_LAZY + 2 + \
			 4 /* PING PONG CLOSE SETUP */)
/* Send requests kept beyond those for data: control, keepalive. */
#define SEND_RESERVE	16

#endif
