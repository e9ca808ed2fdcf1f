/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors, log, environment, memory of objects. */
#ifndef RDMAMSG_LIB_BASE_H
#define RDMAMSG_LIB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#include "base/util.h"

/* Keeps the text for rdmamsg_error(), logs it at debug, returns err. */
int rdmamsg__fail(int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 2, 3)));
/*
 * Inside a try rdmamsg__fail() keeps its text apart, and rdmamsg_error() stays
 * as it is: the call can do without what it tries. Tries nest. No callback of
 * the program runs inside one, because the failures of its calls count.
 */
void rdmamsg__try_begin(void);
void rdmamsg__try_end(void);
#define rdmamsg__try(expr) \
	({ \
		__typeof__(expr) ret_; \
\
		rdmamsg__try_begin(); \
		ret_ = (expr); \
		rdmamsg__try_end(); \
		ret_; \
	})
/* After a try: if err is negative, its text is the text of the call. */
int rdmamsg__fail_again(int err);
/* The text of the last rdmamsg__fail(), in a try or not. */
const char *rdmamsg__text(void);
/* The same for failed verbs: adds what to do about EACCES, ENOMEM, ... */
int rdmamsg__fail_verbs(int err, const char *what);
int rdmamsg__fail_soft(int err);	/* opening the soft HCA */
/*
 * -EACCES if that is why opening a device node failed with err: the libraries
 * below try one way after the other and report the last one's error.
 */
int rdmamsg__node_error(int err, const char *node);
const char *rdmamsg__wc_text(int status);
const char *rdmamsg__event_text(int type);

extern _Atomic int rdmamsg__log_level;
void rdmamsg__log(enum rdmamsg_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#define log_at(level, ...) \
	do { \
		if (unlikely(rdmamsg__log_level >= (level))) \
			rdmamsg__log(level, __VA_ARGS__); \
	} while (0)
#define log_error(...)	log_at(RDMAMSG_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	log_at(RDMAMSG_LOG_WARN, __VA_ARGS__)
#define log_info(...)	log_at(RDMAMSG_LOG_INFO, __VA_ARGS__)
#define log_debug(...)	log_at(RDMAMSG_LOG_DEBUG, __VA_ARGS__)

/* Reads the environment once per process. */
void rdmamsg__env_init(void);
bool rdmamsg__env_log(void);		/* RDMAMSG_LOG was set */
const char *rdmamsg__env_device(void);	/* RDMAMSG_DEVICE or NULL */

/*
 * Zeroed memory that is zero again in a forked child: a context or endpoint
 * there is recognised by its missing owner, and the inlines refuse by
 * themselves.
 */
void *rdmamsg__object_new(size_t size);
void rdmamsg__object_free(void *obj, size_t size);

void rdmamsg__fork_mark(void);	/* RDMA is used from here on */
int rdmamsg__fork_check(void);	/* -ECHILD in a child made after that */

/* Copies an options struct of the caller's size into ours. -EINVAL. */
int rdmamsg__opts_copy(void *dst, size_t dst_size, const void *src,
		       const char *name);
/* A field of an options struct, a uint32_t. */
struct range {
	const char *name;
	size_t offset;
	uint32_t def, none, lowest, highest;
};
#define RANGE_OF(type, field, def, none, lowest, highest) \
	{ #field, offsetof(type, field), (def), (none), (lowest), (highest) }
/* Puts in defaults. -EINVAL out of range. */
int rdmamsg__set_ranges(void *opts, const struct range *ranges, size_t n);
/* Fills the caller's struct as far as it is long. -EINVAL. */
int rdmamsg__give(void *dst, const void *src, size_t src_size);
uint64_t rdmamsg__now_ms(void);
uint64_t rdmamsg__now_ns(void);
bool rdmamsg__addr_is_any(const struct sockaddr *addr);
bool rdmamsg__addr_is_loopback(const struct sockaddr *addr);
/* Address and port, in buf. */
const char *rdmamsg__addr_text(const struct sockaddr_storage *sa, char *buf,
			       size_t size);

#endif
