/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that a conforming peer can have in flight, see rdmamsg-proto(7). */
#ifndef RDMAMSG_LIB_FLIGHT_H
#define RDMAMSG_LIB_FLIGHT_H

/* Receives beyond the credits, so that control messages find a receive. */
#define RNDV_MAX	16	/* messages we announced; one DONE each */
#define CREDIT_MAX	2	/* CREDIT messages unseen by the peer */
#define RX_LAZY		8	/* control messages per repost */
#define RX_LAZY_MAX	32	/* data messages, which have used credits */
#define RECV_RESERVE	(RNDV_MAX + CREDIT_MAX + RX_LAZY + 2 + \
			 4 /* PING PONG CLOSE SETUP */)
/* Send requests beyond those for data: control messages, keepalives. */
#define SEND_RESERVE	16

#endif
