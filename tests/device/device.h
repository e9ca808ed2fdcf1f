/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The behaviour of verbs, as a list of cases for any device. run.c runs each
 * case in a process of its own. A case ends with the first check that fails.
 * differences.c can quote the text of that check. The installed program
 * rdmamsg-conform(1) has the same cases, without those that need a private
 * header or the control of the soft HCA.
 */
#ifndef TESTS_DEVICE_DEVICE_H
#define TESTS_DEVICE_DEVICE_H

#include "../qp_walk.h"
#ifdef CONFORM_INSTALLED	/* samples/rdmamsg-conform */
#include "../../samples/conform/verbs.h"
#else
#include "device/verbs_api.h"
#endif

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct device_case {
	const char *name;
	void (*run)(void);
	bool gate;		/* may skip the cases behind it in its list */
};
#define CASE(fn) { #fn, fn, false }
#define GATE(fn) { #fn, fn, true }
#define SKIPPED	77		/* exit status of skip_rest() */

extern const struct device_case apm_cases[], attr_cases[], busy_cases[],
	calc_cases[], cm_cases[], cq_cases[], cross_cases[], dc_cases[],
	dc_error_cases[], dc_op_cases[], dc_raw_cases[], dc_stream_cases[],
	domain_cases[], error_cases[], iwarp_cases[], masked_cases[],
	masked_raw_cases[], mcast_cases[], mr_cases[], mw_cases[], op_cases[],
	order_cases[], srq_cases[], state_cases[], ud_cases[],
	umr_atomic_cases[], umr_cases[], umr_use_cases[];

/* A version of Linux, so that later is greater. */
#define LINUX(major, minor)	((major) << 16 | (minor))

/*
 * Known differences. A NULL name ends the list. A case that differs in one way
 * up to a kernel and in another from it on has two entries, as has one that
 * differs in one way or the other. An entry for "iwarp"
 * is true for the soft HCA as iWARP, and for every other device of iWARP that has
 * no entry of its own for the case. OVER_PACKETS has a list of its own.
 */
struct difference {
	const char *name;	/* name of the case */
	const char *device;	/* start of the device's name, or "iwarp" */
	/* part of the failing check's text, or "signal N", or NONE */
	const char *does;
	const char *why;	/* a line of source, or a reason */
	bool sometimes;		/* the case may pass as well */
	int first, last;	/* kernels: LINUX(), or 0 for all */
	bool crashes;		/* the kernel: the case does not run */
};
/* The case passes here, unlike on others of its kind. */
#define NONE	NULL
extern const struct difference differences[];
/* The soft HCA that reaches its own process by packets, as another host. */
#define OVER_PACKETS	"soft over packets"
extern const struct difference packet_differences[];

/*
 * The texts of waits that end in vain. A case whose written difference is one
 * of them waits for a shorter time where that text can arise.
 */
#define NO_COMPLETION	"no completion"
#define NO_EVENT	"no event: "
#define NOT_READABLE	"not so: readable("
#define NOT_PACKETS	"through shared memory"
#define NOT_REACHED	"transport retry counter exceeded, not "
#define NOT_ARMED	"the paths do not become armed"
extern const char *written_texts;	/* of the case that runs, or "" */
extern int bound_ms;			/* for completions that must arrive */
/* Returns the time to wait for what 'text' reports if it does not arrive. */
int bound(int ms, const char *text);

/* ---- checks ----------------------------------------------------------- */

void fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void check_is_at(const char *file, int line, const char *what, long long is,
		 long long want);
/* Ends a gate: the device cannot do what the rest of the list is about. */
void skip_rest(const char *why) __attribute__((noreturn));

#define check(cond) \
	do { \
		if (!(cond)) \
			fail(__FILE__, __LINE__, "not so: %s", #cond); \
	} while (0)
#define check_is(is, want) \
	check_is_at(__FILE__, __LINE__, #is, (long long)(is), (long long)(want))
/* Checks the result of a call, as 0 or an errno in every convention. */
#define check_call(call, want) \
	check_is_at(__FILE__, __LINE__, #call, \
		    (errno = 0, -rdmamsg__verbs_ret(call)), (want))
/* Checks that a constructor returns NULL with this errno. */
#define check_null(call, want) \
	check_is_at(__FILE__, __LINE__, #call, \
		    (errno = 0, (call) ? 0 : errno), (want))

/* ---- abilities that a device may lack ---------------------------------- */

#define CROSS_CHANNEL	"cross-channel requests"
#define DC		"DC"
#define DC_STREAMS	"streams of DC"
#define INDIRECT_KEYS	"indirect keys"
#define MASKED_ATOMICS	"masked atomics"
#define PATH_MIGRATION	"path migration"
#define RAW_REQUESTS	"raw requests"

/*
 * Returns whether the device reports the ability. Fails the case if it reports
 * none, and is known to have it.
 */
bool has(const char *ability, bool reported);
/*
 * Returns the sizes of the masked atomics of the device, as bits, and whether
 * each word of an answer is in the other byte order. 0: none.
 */
uint32_t masked_sizes(bool *ret_swapped);

/* ---- the device, and two queue pairs on it ---------------------------- */

#define MEM	(1u << 20)
#define QKEY	0x11111111u
#define REMOTE	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

extern const struct verbs_api *v;
extern struct ibv_context *ctx;
extern struct ibv_pd *pd;
extern uint8_t port_num;		/* 1, unless the user names another */
extern struct ibv_port_attr port;	/* its attributes */
extern union ibv_gid gid;		/* the GID at gid_index */
extern int gid_index;

/* End 0 posts requests, and end 1 is their target. */
struct end {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct ibv_qp_cap cap;
};
extern struct end end[2];

/* Options of the ends. A case may change them before it creates the ends. */
struct how {
	enum ibv_qp_type type;
	int mr_access;
	unsigned int qp_access;
	int cqe;
	struct ibv_qp_cap cap;
	struct ibv_srq *srq;		/* used by end 1 */
	struct ibv_comp_channel *channel;
	bool sig_all;
	bool last_down;			/* end 1 stays in RESET */
	uint8_t timeout, retry_cnt, rnr_retry, rnr_timer, depth;
};
extern struct how how;

void device_open(const char *name);
void device_close(void);		/* frees all kept objects */

/* Calls undo(object) at the end, or earlier in drop(). undo() returns 0. */
void keep(void *object, int (*undo)(void *object));
void drop(void *object);

struct ibv_cq *new_cq(int cqe, struct ibv_comp_channel *channel);
struct ibv_comp_channel *new_channel(void);
struct ibv_mr *new_mr(struct ibv_pd *of, void *addr, size_t len, int access);
struct ibv_pd *new_pd(void);
struct ibv_srq *new_srq(uint32_t wr);
struct ibv_mw *new_mw(enum ibv_mw_type type);
struct ibv_ah *new_ah(const union ibv_gid *to);
struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_cq *cq,
		      struct ibv_srq *srq);
void *new_mem(size_t len);		/* page aligned and zeroed */

void address(struct ibv_ah_attr *attr, const union ibv_gid *to);
struct ibv_qp_attr step_attr(enum ibv_qp_state to, uint32_t peer);
void step(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer);
void walk(struct ibv_qp *qp, uint32_t peer);
void enter(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state state_of(struct ibv_qp *qp);
void check_state_at(const char *file, int line, const char *what,
		    struct ibv_qp *qp, enum ibv_qp_state want);
/*
 * Checks the state, unless the device tells none: query__state_AS_SET is the
 * case for that.
 */
#define check_state(qp, want) \
	check_state_at(__FILE__, __LINE__, #qp, qp, want)
/*
 * Returns an address of the device. On the soft HCA, every address of this host
 * is one.
 */
struct sockaddr_in own_address(uint16_t at);
/* Returns true for an iWARP device, on which the CM connects queue pairs. */
bool is_iwarp(void);
void ends(void);			/* creates both ends */
/* creates both ends, and connects them */
void pair(void);

/* ---- work ------------------------------------------------------------- */

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[4];
};

/* Returns a signalled request from the memory of end 0 to that of end 1. */
struct request request(enum ibv_wr_opcode op, uint64_t id, uint32_t len);
void aim(struct request *r, uint64_t addr, uint32_t rkey);
int try_post(int i, struct request *r);		/* 0 or an errno */
#define post(i, r) check_call(try_post(i, r), 0)
void receive(int i, uint64_t id, uint32_t offset, uint32_t len);

struct ibv_wc next_wc(struct ibv_cq *cq);
void wc_is(const char *file, int line, const struct ibv_wc *wc, uint64_t id,
	   enum ibv_wc_status status);
#define expect(cq, id, status) __extension__ ({ \
		struct ibv_wc wc_ = next_wc(cq); \
		wc_is(__FILE__, __LINE__, &wc_, id, status); \
		wc_; \
	})
#define sent(i, id, status) expect(end[i].scq, id, status)
#define received(i, id, status) expect(end[i].rcq, id, status)
/* Checks that neither end has another completion. */
void quiet(void);

/* Waits for the device's next event, which must have this type. */
struct ibv_async_event expect_event(enum ibv_event_type type);
bool readable(int fd, int ms);
int64_t now_ms(void);

void fill(int i, uint32_t seed);
void clear(int i);
/* from the start of both ends' memory */
void same(uint32_t len);

#endif
