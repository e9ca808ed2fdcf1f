/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors, log, environment, memory of objects, options, the clock. */
#ifndef RDMAMSG_LIB_BASE_H
#define RDMAMSG_LIB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/diag.h>

#include "base/util.h"

/* Sets the text of rdmamsg_error(), and logs the text at debug. */
void rdmamsg__fail_text(int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 2, 3)));
/* The same, and returns err: a macro, so that the compiler sees which value. */
#define rdmamsg__fail(err, ...) \
	({ \
		const int err_ = (err); \
\
		rdmamsg__fail_text(err_, __VA_ARGS__); \
		err_; \
	})
/*
 * In a try, rdmamsg__fail() does not change the text of rdmamsg_error(),
 * because the call can succeed without what it tries. Tries nest. No callback
 * of the program may run in a try, because errors of the program's calls must
 * reach rdmamsg_error().
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
/*
 * After a try: if err is negative, makes its text the text of rdmamsg_error().
 */
int rdmamsg__fail_again(int err);
/* Returns the text of the last rdmamsg__fail(), in a try or not. */
const char *rdmamsg__text(void);
/* Like rdmamsg__fail(), for verbs: adds what to do about EACCES, ENOMEM, ... */
void rdmamsg__fail_verbs_text(int err, const char *what);
static inline int rdmamsg__fail_verbs(int err, const char *what)
{
	rdmamsg__fail_verbs_text(err, what);
	return err;
}
/*
 * The same for registering the program's memory: -EFAULT names the first page
 * that does not permit the access.
 */
int rdmamsg__fail_memory(int err, const char *what, const void *mem, size_t len,
			 bool write);
/* Why a thread could not be made. */
const char *rdmamsg__thread_text(int err);
int rdmamsg__fail_soft(int err);	/* the soft HCA cannot be opened */
const char *rdmamsg__wc_text(int status);
const char *rdmamsg__event_text(int type);

extern _Atomic int rdmamsg__log_level;
void rdmamsg__log(enum rdmamsg_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Lines on standard error are objects of JSON from now on. */
void rdmamsg__log_json(void);
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
bool rdmamsg__env_log(void);		/* RDMAMSG_LOG is set */
const char *rdmamsg__env_device(void);	/* RDMAMSG_DEVICE or NULL */
const char *rdmamsg__env_stats(void);	/* RDMAMSG_STATS or NULL */
const char *rdmamsg__env_topics(void);	/* RDMAMSG_TOPICS or NULL */

/*
 * Returns zeroed memory, which a forked child sees as zero again. So the child
 * finds a context or endpoint without its magic or owner, and the inlines
 * refuse it.
 */
void *rdmamsg__object_new(size_t size);
void rdmamsg__object_free(void *obj, size_t size);

void rdmamsg__fork_mark(void);	/* RDMA is used from now on */
int rdmamsg__fork_check(void);	/* -ECHILD if forked after that */

/* Copies the caller's options struct of any size into dst. -EINVAL. */
int rdmamsg__opts_copy(void *dst, size_t dst_size, const void *src,
		       const char *name);
/* A uint32_t field of an options struct. */
struct range {
	const char *name;
	size_t offset;
	uint32_t def, none, lowest, highest;
};
#define RANGE_OF(type, field, def, none, lowest, highest) \
	{ #field, offsetof(type, field), (def), (none), (lowest), (highest) }
/* Sets defaults. -EINVAL if a field is out of range. */
int rdmamsg__set_ranges(void *opts, const struct range *ranges, size_t n);
/*
 * The reverse: rdmamsg__set_ranges() makes the same fields of the result. A
 * field that is 0 was RDMAMSG_NONE, unless 0 is its default.
 */
void rdmamsg__unset_ranges(void *opts, const struct range *ranges, size_t n);
/* Copies src to the caller's struct, up to the size of that struct. -EINVAL. */
int rdmamsg__give(void *dst, const void *src, size_t src_size);
uint64_t rdmamsg__now_ms(void);
/* Some ms less, at a fraction of the cost. */
uint64_t rdmamsg__about_ms(void);
uint64_t rdmamsg__now_us(void);
uint64_t rdmamsg__now_ns(void);
bool rdmamsg__addr_is_any(const struct sockaddr *addr);
bool rdmamsg__addr_is_loopback(const struct sockaddr *addr);
/*
 * Returns false if no socket of this host can have the address, whatever its
 * port.
 */
bool rdmamsg__addr_is_local(const struct sockaddr *addr);
/* Writes address and port to buf. */
const char *rdmamsg__addr_text(const struct sockaddr *sa, char *buf,
			       size_t size);

#endif
