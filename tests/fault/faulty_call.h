/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the fault injector: failing and counting. */
#ifndef FAULTY_CALL_H
#define FAULTY_CALL_H

#include "faulty.h"

extern const int faulty_errors[];
extern const char faulty_hows[];
extern const char *const faulty_kinds[];
extern _Atomic long faulty_living[];

/* Counts a call. Returns true, with errno, if the call must fail. */
bool faulty_fails(enum faulty_call call);
bool faulty_delayed(void);

/* Returns from the call as from a failure. */
#define FAIL(call, as)	do { if (faulty_fails(call)) return (as); } while (0)
#define FAIL_N(call)	FAIL(FAULTY_##call, NULL)
#define FAIL_M(call)	FAIL(FAULTY_##call, -1)
#define FAIL_P(call)	FAIL(FAULTY_##call, faulty_errors[FAULTY_##call])

/* faulty_verbs.c: destroys the objects in limbo, before the next call. */
void faulty_limbo_add(enum faulty_kind kind, void *obj);
void faulty_limbo_empty(void);

#define UNMAKE(call, kind, obj, real) \
	do { \
		int ret_; \
		faulty_limbo_empty(); \
		if (faulty_fails(FAULTY_##call)) { \
			faulty_limbo_add((kind), (obj)); \
			errno = faulty_errors[FAULTY_##call]; \
			return faulty_hows[FAULTY_##call] == 'M' ? -1 : errno; \
		} \
		ret_ = (real); \
		faulty_living[kind] -= !ret_; \
		return ret_; \
	} while (0)

#define MAKE(call, kind, type, real) \
	do { \
		type *obj_; \
		faulty_limbo_empty(); \
		FAIL_N(call); \
		obj_ = (real); \
		faulty_living[kind] += !!obj_; \
		return obj_; \
	} while (0)

/* faulty_data.c: replaces the ops that the inlines of a device call. */
void faulty_patch(struct ibv_context *verbs);
extern struct ibv_context_ops faulty_ops;	/* the driver's own ops */
/* The same for an extended queue pair. ex may be NULL. */
void faulty_patch_ex(struct ibv_qp_ex *ex);

#endif
