/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chains: lists of steps over endpoints, which the library runs without
 * callbacks of the program in between (cross-channel, CORE-Direct). And teams:
 * barrier, broadcast and all-reduce over a group of endpoints, as chains.
 *
 * From the first step or team with it, an endpoint belongs to chains until its
 * end. Its messages are for steps that receive, and on_message is not called.
 * So give it no on_message from the start: then the library keeps messages that
 * come before the first step. The program can still send on an endpoint of a
 * chain, but not on an endpoint of a team. The messages of a chain are ordinary
 * ones: the peer can receive them with a chain or with on_message.
 *
 * All calls are made in the context's thread.
 */
#ifndef RDMAMSG_CHAIN_H
#define RDMAMSG_CHAIN_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_chain;
struct rdmamsg_team;

#define RDMAMSG_CHAIN_QUEUES	64u	/* of a chain */
#define RDMAMSG_CHAIN_STEPS	65536u	/* of a chain */
#define RDMAMSG_TEAM_MAX	4096u	/* members */

/* How a chain, or the operations of a team, run. See rdmamsg_chain(7). */
enum rdmamsg_chain_path {
	RDMAMSG_CHAIN_AUTO,		/* in this version: the loop */
	RDMAMSG_CHAIN_LOOP,
	/*
	 * Cross-channel requests of the devices, if both sides of an endpoint
	 * have them, for all steps of the chain; else the loop, with the same
	 * results. Both sides ask for it, or none.
	 */
	RDMAMSG_CHAIN_NATIVE,
};

/* ---- chains ----------------------------------------------------------- */

/* How a run of a chain has ended. */
struct rdmamsg_chain_end {
	size_t size;
	int status;			/* 0: all steps are done; or -errno */
	uint32_t step;			/* that failed, or RDMAMSG_NONE */
	char text[256];			/* the failure; "" if status is 0 */
};

struct rdmamsg_chain_handlers {
	size_t size;

	/*
	 * The run has ended. The chain can be posted again, changed or
	 * destroyed, here too. The call comes once for each
	 * rdmamsg_chain_post(), unless the chain is destroyed before. May come
	 * after on_closed of the endpoint that ended the run.
	 */
	void (*on_done)(struct rdmamsg_chain *chain,
			const struct rdmamsg_chain_end *end);
};

struct rdmamsg_chain_options {
	size_t size;
	void *user;
	const struct rdmamsg_chain_handlers *handlers;
	uint32_t timeout_ms;		/* of a run; RDMAMSG_NONE */
	uint32_t path;			/* enum rdmamsg_chain_path */
};

/*
 * Writes a chain without steps to *ret. rdmamsg_close() destroys chains and
 * teams that are left. -ENOMEM.
 */
int rdmamsg_chain_create(struct rdmamsg *ctx,
			 const struct rdmamsg_chain_options *opts,
			 struct rdmamsg_chain **ret);
/* Destroys the chain. Ends a run without on_done. chain may be NULL. */
void rdmamsg_chain_destroy(struct rdmamsg_chain *chain);
void *rdmamsg_chain_user(const struct rdmamsg_chain *chain);
/*
 * Returns RDMAMSG_CHAIN_NATIVE or RDMAMSG_CHAIN_LOOP, as runs go.
 * RDMAMSG_CHAIN_AUTO: the first run with an endpoint or a new step finds out.
 */
uint32_t rdmamsg_chain_path(const struct rdmamsg_chain *chain);

/*
 * The five calls below append a step to a queue of the chain, 0 to 63. The
 * steps of a queue run in order, each after the one before is done. Queues run
 * side by side. The calls return the number of the step, which counts from 0 in
 * the order of the calls. The chain borrows the memory of a step for each run.
 *
 * Within a chain, only one queue sends on an endpoint, and only one receives
 * from it. -EINVAL, -EBUSY: the chain runs; -ENOSPC: 65536 steps; -ENOMEM;
 * with an endpoint also -ENOTCONN, -ESHUTDOWN.
 */

struct rdmamsg_op;

/*
 * Does an operation on the endpoint, in this version of kind RDMAMSG_OP_SEND: a
 * message from at most one entry without a region, with 'tag'. Copies the
 * struct and the entry. The step is done when the memory may change again, not
 * when the peer has the message. There is no cookie. -EINVAL: a field is not 0
 * that is not used here, which rdmamsg_error() names; -EOPNOTSUPP: another
 * kind, or several entries.
 */
int rdmamsg_chain_add(struct rdmamsg_chain *chain, uint32_t queue,
		      struct rdmamsg_ep *ep, const struct rdmamsg_op *op);
/*
 * Receives the next message of the endpoint. If its length or tag differ, the
 * run ends with -EPROTO.
 */
int rdmamsg_chain_recv(struct rdmamsg_chain *chain, uint32_t queue,
		       struct rdmamsg_ep *ep, void *buf, size_t len,
		       uint32_t tag);
/* Waits until n steps of queue 'other' are done in this run. */
int rdmamsg_chain_wait(struct rdmamsg_chain *chain, uint32_t queue,
		       uint32_t other, uint32_t n);
/*
 * Enables the first n steps of queue 'other'; 0: all. A queue that a step of
 * the chain enables is managed: a run holds its steps until they are enabled.
 */
int rdmamsg_chain_enable(struct rdmamsg_chain *chain, uint32_t queue,
			 uint32_t other, uint32_t n);

enum rdmamsg_calc_op {
	RDMAMSG_CALC_ADD,		/* integers modulo 2^64 */
	RDMAMSG_CALC_AND,		/* of the bits, for each type */
	RDMAMSG_CALC_OR,
	RDMAMSG_CALC_XOR,
	/* of doubles: -0 is below +0, and the first NaN is the result */
	RDMAMSG_CALC_MIN,
	RDMAMSG_CALC_MAX,
};

enum rdmamsg_calc_type {		/* 64 bits, in the host's order */
	RDMAMSG_CALC_INT,		/* signed */
	RDMAMSG_CALC_UINT,
	RDMAMSG_CALC_DOUBLE,
};

/* dst[i] = a[i] op b[i] for count elements. dst may be a or b. */
int rdmamsg_chain_calc(struct rdmamsg_chain *chain, uint32_t queue,
		       enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		       void *dst, const void *a, const void *b, size_t count);

/*
 * Starts a run. Refuses an order that cannot end, such as a cycle, before any
 * step starts, with a text that names the steps: -EDEADLK. Does not call
 * on_done itself. -EBUSY: this chain or another of the same endpoint runs;
 * -EMSGSIZE: a message is larger than the peer takes, or than this side does;
 * -ENOTCONN, -ESHUTDOWN: an endpoint has ended.
 */
int rdmamsg_chain_post(struct rdmamsg_chain *chain);
/*
 * Ends a run with -ECANCELED. on_done follows. The messages of steps that have
 * not received go to later runs. If the chain asks for native runs, and both
 * sides can, its endpoints end instead. No effect if the chain does not run.
 */
void rdmamsg_chain_cancel(struct rdmamsg_chain *chain);
/*
 * Posts the chain and drives the context until the run has ended. Returns its
 * status. After timeout_ms cancels the run and returns -ETIMEDOUT; < 0: waits
 * without limit. -EDEADLK in a callback, too.
 */
int rdmamsg_chain_run(struct rdmamsg_chain *chain, int timeout_ms);

/* ---- teams ------------------------------------------------------------ */

struct rdmamsg_team_handlers {
	size_t size;

	/*
	 * An operation has ended, once for each that was accepted, unless the
	 * team is destroyed before. status: 0, -ECANCELED after
	 * rdmamsg_team_abort(), or the error of rdmamsg_team_reason(). The
	 * handler may start the next operation, or destroy the team.
	 */
	void (*on_done)(struct rdmamsg_team *team, void *cookie, int status);
};

struct rdmamsg_team_options {
	size_t size;
	void *user;
	const struct rdmamsg_team_handlers *handlers;
	uint32_t path;			/* enum rdmamsg_chain_path */
	/* rdmamsg_team_connect(): of the endpoints that it makes */
	const struct rdmamsg_ep_options *ep;
	uint32_t timeout_ms;		/* until all are connected; 60000 */
};

/* Why a team has failed. */
struct rdmamsg_team_failure {
	size_t size;
	uint32_t rank;			/* of the member that has failed */
	uint32_t told_by;		/* rank; own: this member has seen it */
	int error;			/* negative errno; 0: has not failed */
	enum rdmamsg_who who;		/* as told_by has seen it */
	enum rdmamsg_cause cause;
	char text[192];
};

/*
 * Makes a team of 'size' members, ranks 0 to size - 1, whose own rank is
 * 'rank'. eps[i] is the connected endpoint to member i; eps[rank] is not read.
 * Each member is connected to each other one. Members have the same byte order.
 * An endpoint is in one team at a time. -EINVAL: an argument is wrong, or an
 * endpoint has on_message. -ENOTCONN, -ESHUTDOWN, -ENOMEM; -EBUSY: an endpoint
 * is in a team, or a chain with it runs.
 */
int rdmamsg_team_create(struct rdmamsg *ctx,
			const struct rdmamsg_team_options *opts,
			struct rdmamsg_ep *const *eps, uint32_t size,
			uint32_t rank, struct rdmamsg_team **ret);
/*
 * Makes a team and its endpoints. addresses[i] is "HOST:PORT" or "[HOST]:PORT",
 * where member i listens; all members have the same list, and may start in any
 * order. Connecting is the team's first operation: on_done ends it, with a
 * cookie of NULL, and rdmamsg_team_wait() waits for it. rdmamsg_team_reason()
 * names the member that is missing, is of another team or is no member. The
 * endpoints belong to the team. The library borrows what 'ep' points to until
 * on_done. It sets handlers, user, hello_data and setup_data (-EINVAL). Errors
 * of rdmamsg_listen() and rdmamsg_connect() come at once.
 */
int rdmamsg_team_connect(struct rdmamsg *ctx,
			 const struct rdmamsg_team_options *opts,
			 const char *const *addresses, uint32_t size,
			 uint32_t rank, struct rdmamsg_team **ret);
/*
 * Destroys the team without on_done. Leaves the endpoints of
 * rdmamsg_team_create() open, and begins to close those of
 * rdmamsg_team_connect(). If an operation runs, it fails at the other members.
 * team may be NULL.
 */
void rdmamsg_team_destroy(struct rdmamsg_team *team);
void *rdmamsg_team_user(const struct rdmamsg_team *team);
/*
 * Returns RDMAMSG_CHAIN_NATIVE or RDMAMSG_CHAIN_LOOP, as the operations run.
 * RDMAMSG_CHAIN_AUTO: the first operation finds out.
 */
uint32_t rdmamsg_team_path(const struct rdmamsg_team *team);

/*
 * Operations. All members call the same ones in the same order, with the same
 * arguments except buffers. One operation at a time: -EBUSY. The call starts
 * the operation, and on_done with the cookie ends it. The library borrows the
 * memory until then. If a member dies or leaves in an operation, the operation
 * fails at all members, and so does the team: calls return the error of
 * rdmamsg_team_reason() from then on. -EMSGSIZE: too large for a member or for
 * this side; -ENOMEM: no memory, and nothing was started.
 */

/* Ends after all members have begun. */
int rdmamsg_team_barrier(struct rdmamsg_team *team, void *cookie);
/* Copies len bytes at buf of member 'root' to buf of all others. */
int rdmamsg_team_broadcast(struct rdmamsg_team *team, void *buf, size_t len,
			   uint32_t root, void *cookie);
/*
 * Combines in[i] of all members to out[i], for count elements. All members have
 * the same bits in 'out'. in may be out.
 */
int rdmamsg_team_allreduce(struct rdmamsg_team *team, enum rdmamsg_calc_op op,
			   enum rdmamsg_calc_type type, const void *in,
			   void *out, size_t count, void *cookie);
/*
 * Drives the context until no operation runs. Returns the status of the last
 * one. -ETIMEDOUT: the operation goes on; timeout_ms < 0: waits without limit.
 * -EDEADLK in a callback.
 */
int rdmamsg_team_wait(struct rdmamsg_team *team, int timeout_ms);
/*
 * Fails the team at all members. The operation of this member ends with
 * -ECANCELED. Has no effect if the team has failed.
 */
void rdmamsg_team_abort(struct rdmamsg_team *team);
/* Valid as long as the team, never NULL. */
const struct rdmamsg_team_failure *
rdmamsg_team_reason(const struct rdmamsg_team *team);

#ifdef __cplusplus
}
#endif

#endif
