/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-perf: the declarations that its files share. */
#ifndef RDMAMSG_SAMPLES_PERF_H
#define RDMAMSG_SAMPLES_PERF_H

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <rdmamsg/fast.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "rows.h"

#define PERF_PORT	"7471"
#define PERF_SIZES_MAX	64
#define PERF_STEPS_MAX	16384	/* sizes of --steps */
#define PERF_STEP	16	/* bytes */
#define PERF_CPU_MAX	1023	/* of cpu_set_t */
#define PERF_COUNT_MAX	100000000u
#define PERF_RATE_MAX	10000000u
#define PERF_SUBSCRIBERS_MAX	64
#define PERF_GROUP	"239.255.74.71"	/* administratively scoped */
#define PERF_GROUP_LEAST	16	/* bytes of a message of group-lat */

enum perf_test {
	PERF_LAT, PERF_RATE, PERF_BW,
	/* one-sided tests */
	PERF_WRITE_LAT, PERF_READ_LAT, PERF_ATOMIC_LAT, PERF_WRITE_BW,
	PERF_READ_BW,
	PERF_TESTS,
	PERF_GROUP_LAT = PERF_TESTS,	/* has no server */
};

struct perf_options {
	enum { CMD_SERVER, CMD_TEST, CMD_TUNE, CMD_CONNS,
	       CMD_PLOT, CMD_COMPARE, CMD_GROUP } command;
	enum perf_test test;
	const char *host;
	const char *port;
	const char *device;
	uint32_t sizes[PERF_SIZES_MAX];
	int size_count;		/* 0: sizes of the test */
	struct {
		uint32_t from, to;	/* bytes */
		uint32_t step;		/* 0: without --steps */
	} steps;
	uint32_t count;		/* 0: depends on the size */
	bool poll, event;	/* neither: the default of each side */
	bool once;
	bool check;
	bool json;
	bool cold;		/* no warm-up, and a new connection for each size */
	uint32_t pause_ms;	/* after the warm-up; 0: none */
	bool hist;		/* show how latencies are distributed */
	const char *plot;	/* draw into this file; NULL: do not */
	char **files;		/* plot: results of --json */
	int file_count;
	int cpus[2];		/* compare; equal: the first two */
	const char *only;	/* compare: these rivals; NULL: all */
	bool srq;		/* receives are shared */
	bool guard;		/* RDMAMSG_EP_GUARD */
	bool crc;		/* RDMAMSG_EP_CRC */
	bool failover;		/* go on over another connection */
	const char *other;	/* to this host, too */
	/* group-lat */
	const char *group;	/* its address */
	uint32_t rate;		/* messages/s; 0: the default */
	uint32_t seconds;	/* 0: the default */
	uint32_t subscribers;
	double drop;		/* percent of the datagrams */
	bool no_repair, unordered;
};

/* Returns 0, or an exit status + 1. */
int perf_options(struct perf_options *o, int argc, char **argv);
int perf_server(const struct perf_options *o);
int perf_client(const struct perf_options *o);
int perf_tune(const struct perf_options *o);
int perf_conns(const struct perf_options *o);
int perf_compare(const struct perf_options *o);
int perf_group(const struct perf_options *o);

extern const char *const perf_test_names[];
/*
 * Options of every context: no limit but the system's on registered memory, and
 * the key file that perf_options() has read.
 */
extern struct rdmamsg_options perf_context;

/* ---- stopping (main.c) ------------------------------------------------ */

extern volatile sig_atomic_t perf_stopped;	/* 0, SIGINT or SIGTERM */
/* Lets SIGINT and SIGTERM set perf_stopped. */
void perf_catch_signals(void);
/* Sets the context that a signal wakes, and catches signals. */
void perf_wake_on_signal(struct rdmamsg *ctx);
void perf_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints the reason of a connection's end, and a remedy. */
#define PERF_WHY_MAX	320
const char *perf_why(const struct rdmamsg_reason *why, char buf[PERF_WHY_MAX]);

/* ---- time (report.c) -------------------------------------------------- */

/* Returns the cheapest clock's time, in units of its own. */
static inline uint64_t perf_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
#endif
}

void perf_clock_start(void);
/*
 * Returns the length of a tick. More time since perf_clock_start() is better.
 */
double perf_usec_per_tick(void);

/* ---- results (report.c) ----------------------------------------------- */

struct perf_result {
	enum perf_test test;
	uint32_t size;
	uint32_t count;
	double seconds;
	double usec_avg, usec_p50, usec_p99, usec_p999;
	uint64_t errors;
	uint64_t copied;	/* bytes copied at both ends */
	uint32_t warmup;	/* messages before, which no figure includes */
	bool cold;		/* the first messages of a connection */
	uint32_t pause_ms;	/* the first after such a pause; or 0 */
	bool moving;		/* twice as many messages change the figure */
	unsigned int points;
	struct perf_point point[PERF_POINTS];
	const char *device;
	bool event;		/* the client sleeps */
	bool server_event;	/* the server sleeps as well */
	const char *more;	/* further members for --json; NULL: none */
};

/* Sorts the samples. 'scale' converts them to microseconds. */
void perf_percentiles(struct perf_result *r, uint64_t *samples, size_t count,
		      double scale);
/* Returns the smallest sample that is not below 'part' of all, of at least one. */
double perf_rank(const uint64_t *sorted, size_t count, double part);
/* Returns true if b is a, as far as three digits show. */
bool perf_same_digits(double a, double b);
void perf_report(const struct perf_result *r, bool json);
/* Fills in the points of the samples, in the order of time. */
void perf_over_time(struct perf_result *r, const uint64_t *samples,
		    size_t count, double scale);
/* Returns what --json prints of a result and perf_row_parse() reads. */
void perf_row_of(const struct perf_result *r, struct perf_row *ret);
/* Prints a histogram (hist.c). The samples are sorted. */
void perf_hist(const uint64_t *sorted, size_t count, double scale);
/*
 * Shows progress on standard error, if that is a terminal. Total 0 clears the
 * line.
 */
void perf_progress(const char *what, uint32_t size, uint64_t done,
		   uint64_t total);

/* ---- --failover (gap.c) ------------------------------------------------ */

struct rdmamsg_path_event;

struct perf_gap {
	bool on;
	uint64_t last;		/* ticks; 0: no run yet */
	uint64_t longest;	/* ticks */
	uint64_t loss;		/* ticks: the longest with another connection */
	uint32_t loss_down_ms;	/* of it, without a connection */
	bool resumed;		/* since 'last' */
	uint32_t down_ms;	/* without a connection, since 'last' */
	uint32_t resumes;
};

void perf_gap_path(struct perf_gap *g, const struct rdmamsg_path_event *ev);
void perf_gap_end(struct perf_gap *g, uint64_t ticks);
void perf_gap_report(const struct perf_gap *g, bool json);

/* Without traffic before the first run, there is no gap yet. */
static inline void perf_gap_begin(struct perf_gap *g)
{
	if (g->on && !g->last)
		g->last = perf_ticks();
}

/* Something has arrived. */
static inline void perf_gap_mark(struct perf_gap *g)
{
	uint64_t now;

	if (!g->on)
		return;
	now = perf_ticks();
	if (g->last && (g->resumed || now - g->last > g->longest))
		perf_gap_end(g, now - g->last);
	g->last = now;
}

/* ---- the pattern (pattern.c) ------------------------------------------ */

/*
 * Message n is the 'size' bytes at an offset that depends on n. The sender
 * fills no memory, and a misplaced byte or message does not match.
 */
#define PERF_OFFSETS	251
static inline uint32_t perf_offset(uint32_t n)
{
	return n % PERF_OFFSETS;
}

/*
 * Makes room for messages of 'size'. The same bytes are also where an earlier
 * call has returned them. Returns NULL without memory.
 */
const uint8_t *perf_pattern(size_t size);
/* Returns true if this is message 'number', for which there is room. */
bool perf_matches(const struct rdmamsg_msg *msg, uint32_t number,
		  uint32_t size);

/* ---- what client and server say to each other -------------------------- */

#define PERF_MAGIC	0x46524550u	/* "PERF" */
#define PERF_VERSION	5
#define PERF_STRING_(x)	#x
#define PERF_STRING(x)	PERF_STRING_(x)
/* The server sends this name when it accepts or rejects a client. */
#define PERF_NAME	"rdmamsg-perf " PERF_STRING(PERF_VERSION)
#define PERF_REJECT	"this is " PERF_NAME
_Static_assert(sizeof(PERF_REJECT) - 1 <= RDMAMSG_HELLO_DATA_MAX,
	       "fits into the reject");

enum perf_flags {
	PERF_POLLS = 1u << 0, /* the client polls, and the server should, too */
	PERF_CHECK = 1u << 1,	/* verify the contents */
	PERF_COPY = 1u << 2,	/* copy answers: tune compares both */
	PERF_SLEEPS = 1u << 3,	/* in READY: the server waits for events */
	PERF_GUARD = 1u << 4,	/* both ends: RDMAMSG_EP_GUARD */
	PERF_PIECES = 1u << 5,	/* both ends: pieces_max is PERF_PIECES_MAX */
	PERF_FAILOVER = 1u << 6,	/* both ends: other connections */
	PERF_CRC = 1u << 7,	/* both ends: RDMAMSG_EP_CRC */
};

/* Returns the flags of an endpoint. */
static inline uint32_t perf_ep_flags(uint32_t perf_flags)
{
	return (perf_flags & PERF_GUARD ? RDMAMSG_EP_GUARD : 0) |
	       (perf_flags & PERF_CRC ? RDMAMSG_EP_CRC : 0);
}

/* The private data of the connection request. All fields are little-endian. */
#define PERF_PIECES_MAX	(256u << 10)

struct perf_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t flags;
	uint32_t client;	/* the same in all connections of a client */
	uint32_t connections;	/* connections that the client will make */
	uint32_t inline_max;	/* for both ends, as in the options */
	uint32_t eager_max;
	uint32_t recv_depth;
};
_Static_assert(sizeof(struct perf_hello) <= RDMAMSG_HELLO_DATA_MAX,
	       "fits into the connection request");

/*
 * The tag of a data message: its number, as far as the short form of a message
 * carries a tag (rdmamsg-proto(7)).
 */
static inline uint32_t perf_tag_of(uint32_t number)
{
	return number & UINT16_MAX;
}

/* Tags of other messages. */
enum perf_tag {
	PERF_START = 1u << 31,	/* client: a run begins */
	PERF_READY,		/* server: the run may begin */
	PERF_REPORT,		/* server: all messages have arrived */
	PERF_MEMORY, /* client: asks for memory figures; server: answers */
};

struct perf_start {
	uint32_t test;
	uint32_t size;
	uint32_t count;
	uint32_t room;		/* one-sided: the largest size */
	struct rdmamsg_key key;	/* one-sided: the client's memory */
};

struct perf_ready {
	uint32_t error;		/* errno */
	uint32_t flags;
	struct rdmamsg_key key;	/* one-sided: the server's memory */
};

/* Bytes that the sending side has, for all its connections. */
struct perf_memory {
	uint64_t connections;
	uint64_t registered;
	uint64_t structs;	/* the library's structs */
	uint64_t resident; /* growth of the process since it began to serve */
};

struct perf_count {
	uint64_t errors;	/* messages */
	uint64_t copied;	/* bytes */
};

/* ---- many connections (conns.c) --------------------------------------- */

/* Returns NULL after printing an error. */
struct rdmamsg_srq *perf_srq(struct rdmamsg *ctx, uint32_t conns);
/* Fills in the memory of the context. perf_memory_ep() adds an endpoint. */
void perf_memory(struct rdmamsg *ctx, const struct rdmamsg_srq *srq,
		 struct perf_memory *m);
void perf_memory_ep(const struct rdmamsg_ep *ep, struct perf_memory *m);

/* ---- one-sided tests (region.c) --------------------------------------- */

/* 'in' is the memory that the peer reaches, 'out' the local buffer. */
struct perf_region {
	uint8_t *in, *out;
	size_t room;
	struct rdmamsg_region *region;	/* of both */
	struct rdmamsg_key own, peer;
};

static inline bool perf_one_sided(uint32_t test)
{
	return test >= PERF_WRITE_LAT;
}

/*
 * Creates or zeroes the region. Returns -EINVAL if the existing one is smaller.
 */
int perf_region_open(struct perf_region *m, struct rdmamsg_ep *ep, size_t room);
/* Call this function after the endpoint has closed. */
void perf_region_close(struct perf_region *m);
/*
 * Starts write number n of write-lat, whose last byte is n. perf_region_has()
 * returns true if write number n of the peer has arrived.
 */
int perf_region_write(struct perf_region *m, struct rdmamsg_ep *ep,
		      uint32_t size, uint32_t n);
static inline bool perf_region_has(const struct perf_region *m, uint32_t size,
				   uint32_t n)
{
	return *(volatile uint8_t *)&m->in[size - 1] == (uint8_t)n;
}

/* ---- a client's connection (link.c) ----------------------------------- */

struct perf_link {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	const uint8_t *pattern;
	uint32_t inline_max;
	char device[80];		/* and how the peer is reached */
	bool event;
	bool server_event;	/* of the last run */
	bool check;
	bool quiet;		/* the caller shows the progress */
	bool running;
	int error; /* set after printing an error: the link has ended */
	char why[PERF_WHY_MAX];	/* reason if connecting failed */

	/* the run */
	enum perf_test test;
	uint32_t size;
	uint32_t count;
	uint32_t room;		/* of the largest size */
	uint32_t window;	/* bw: messages in flight */
	uint32_t every;		/* every so-many-th message is timed */
	uint64_t *samples;	/* ticks */

	/* the progress */
	uint32_t sent;
	uint32_t answered;
	uint32_t flying;	/* timed messages in flight */
	bool ready;
	bool reported;
	struct perf_region mem;	/* one-sided */
	struct perf_gap gap;
	uint64_t begin, end;	/* ticks */
	uint64_t errors;	/* of both ends */
	uint64_t copied;
};

/*
 * Connects. *l is zero except ctx. 'hello' is in host byte order. Returns -1
 * after printing an error.
 */
int perf_link_open(struct perf_link *l, const struct perf_options *o,
		   const struct perf_hello *hello);
/*
 * Delivers the rest and closes. l->ep may be NULL. Returns -1 after printing an
 * error.
 */
int perf_link_close(struct perf_link *l);
/* Runs one measurement. Returns -1 after printing an error or an interrupt. */
int perf_link_run(struct perf_link *l);
/*
 * Prints an error and returns false unless the peer is a server of this
 * version.
 */
bool perf_link_known(const struct rdmamsg_ep *ep, const struct perf_options *o);
/*
 * Call this function after a failed send. Prints an error unless on_closed
 * will.
 */
void perf_link_fail(struct perf_link *l, int error);

/* Waits or polls once. Returns false after an error or an interrupt. */
static inline bool perf_link_turn(struct perf_link *l)
{
	if (l->event)
		(void)rdmamsg_wait(l->ctx, -1);
	else
		(void)rdmamsg_fast_poll(l->ctx);
	return !l->error && !perf_stopped;
}

/* Shows how far the run is. */
static inline void perf_link_progress(const struct perf_link *l)
{
	if (!l->quiet)
		perf_progress(perf_test_names[l->test], l->size, l->sent,
			      l->count);
}

void perf_lat(struct perf_link *l);
/* onesided.c: a whole run */
void perf_onesided_more(struct perf_link *l);	/* in callbacks */
void perf_onesided(struct perf_link *l);
/* stream.c: sends as many messages as may be in flight, again and again */
void perf_stream(struct perf_link *l);

#endif
