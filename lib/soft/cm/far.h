/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids whose peer is on another host: their messages are MADs, which a network
 * may lose. A request, a reply and a disconnect are sent again until they are
 * answered; every answer is given again to a duplicate. All L.
 */
#ifndef SOFT_CM_FAR_H
#define SOFT_CM_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/cm/id.h"
#include "soft/net/net.h"

struct soft_cm_far {
	struct soft_path path;
	uint8_t mtu;			/* enum ibv_mtu */
	uint64_t tid;
	struct soft_cm_msg last;	/* to be sent again; type 0: none */
	uint64_t wait, until;		/* ns: between two; of the last one */
};

/*
 * The address is not of this host. Finds the way there, and makes the id one
 * with a far peer. Returns 0 or -errno.
 */
int soft_cm_far_resolve(struct soft_cm_id *id);
/* A group reaches other hosts: id->src becomes an address of a network. */
void soft_cm_far_group(struct soft_cm_id *id);
/* Sends the request of an id that has a way. */
void soft_cm_far_connect(struct soft_cm_id *id);
int soft_cm_far_send(struct soft_cm_id *id, const struct soft_cm_msg *m);
/*
 * The id's timer has expired. Returns true if the message went out again, and
 * the id goes on waiting.
 */
bool soft_cm_far_again(struct soft_cm_id *id);
void soft_cm_far_free(struct soft_cm_id *id);
/*
 * A listener needs the socket for requests from other hosts. Returns 0, or
 * -errno if the program asks for them, -EADDRNOTAVAIL if the port is taken.
 */
int soft_cm_far_listen(const struct soft_cm_id *id);
/* Returns true if a listener there hears requests from other hosts. */
bool soft_cm_far_listens(const struct soft_cm_id *id);

/* ---- seek.c ------------------------------------------------------------ */

/*
 * Looks for another process that listens, which gets the request then. Returns
 * false if there is none.
 */
bool soft_cm_seek(struct soft_dev *dev, const struct soft_path *back,
		  const struct packet *p, const struct soft_cm_msg *m);

/* ---- between far.c and recv.c ------------------------------------------ */

/* The sender of a message: a node of the fabric, or another host. */
struct soft_cm_from {
	struct soft_wire *wire;		/* or NULL */
	const struct soft_path *path;	/* or NULL */
	uint64_t tid;
	uint8_t mtu;
	bool ud;
};

/* Answers a message that no id takes. */
void soft_cm_far_answer(struct soft_dev *dev, const struct soft_cm_from *from,
			const struct soft_cm_msg *m);
/*
 * Makes a new id of a request one with a far peer. Returns 0, -ENOMEM, or
 * -EMSGSIZE if the way back is not wide enough.
 */
int soft_cm_far_take(struct soft_cm_id *id, const struct soft_cm_from *from);
/* Returns the id that a far peer's message is for, or NULL. */
struct soft_cm_id *soft_cm_far_id(struct soft_dev *dev,
				  const struct soft_cm_from *from,
				  const struct soft_msg *m);
/*
 * The peer's way is narrower, if that is the reason. Asks again with a smaller
 * MTU and returns true.
 */
bool soft_cm_far_smaller(struct soft_cm_id *id, uint8_t reason);
void soft_cm_take(struct soft_dev *dev, const struct soft_cm_from *from,
		  const struct soft_cm_msg *m);

#endif
