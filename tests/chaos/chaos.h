/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chaos: processes exchange messages over connections while processes, ports,
 * devices and calls fail. Everything that happens follows from one seed.
 *
 *	main.c		options, rounds, totals
 *	scenario.c	table of the mixes
 *	plan.c		the life of a connection and its messages, from the seed
 *	content.c	bytes of a message: made and checked
 *	journal.c	shared memory that survives a killed process
 *	parent.c	starts, kills, stops and ends processes
 *	harm.c		schedule of the faults of a round
 *	judge.c		compares the journals of both ends
 *	watch.c		rules for both ends while they work
 *	part.c		one side of a round, on one of two hosts
 *	worker.c	a process: context, listener, loop
 *	worker_end.c	its beginning and its end
 *	conn.c		an endpoint: from connecting to on_closed
 *	send.c		messages out
 *	late.c		messages with a timeout
 *	receive.c	messages in
 *	onesided.c	writes, reads and atomics
 *	inject.c	failing calls of a process
 */
#ifndef CHAOS_H
#define CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define SLOTS		8	/* processes at a time */
#define LIVES		64	/* lives of a process in a round */

/* ---- random numbers --------------------------------------------------- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c15ull);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

struct rng {
	uint64_t seed, n;
};

static inline uint32_t rng_below(struct rng *r, uint32_t end)
{
	return end ? (uint32_t)(mix(r->seed, r->n++) >> 16) % end : 0;
}

static inline bool rng_chance(struct rng *r, uint32_t permille)
{
	return rng_below(r, 1000) < permille;
}

/* ---- scenario.c ------------------------------------------------------- */

enum sizes { SIZES_MIXED, SIZES_SMALL, SIZES_LARGE };

enum harm {
	HARM_KILL = 1u << 0,		/* SIGKILL, and a new process */
	HARM_STOP = 1u << 1,		/* SIGSTOP, SIGCONT */
	HARM_PORT = 1u << 2,		/* down, and up again */
	HARM_SILENT = 1u << 3,		/* black hole */
	HARM_DEVICE = 1u << 4,		/* removed, and added again */
	HARM_LOSS = 1u << 5,		/* drops and delays (soft HCA) */
	HARM_INJECT = 1u << 6,		/* a call of the process fails */
	HARM_FILES = 1u << 7,		/* RLIMIT_NOFILE is small */
};
#define HARMS	8	/* kinds of faults that are counted */
/* A connection survives these faults, which end before dead_after_ms. */
#define HARM_PASSES	(HARM_STOP | HARM_PORT | HARM_SILENT | HARM_LOSS)

struct scenario {
	const char *name, *what;
	uint8_t servers, clients;	/* processes */
	uint8_t conns;			/* connections of a client at a time */
	enum sizes sizes;
	uint32_t count;			/* messages each way, at most */
	uint32_t max_registered;	/* KB; 0: default */
	uint32_t max_lent;		/* KB of a peer; 0: default */
	uint32_t recv_depth, send_depth, send_queue;	/* 0: any */
	uint32_t srq_depth;		/* 0: no shared receive queue */
	uint32_t pool;			/* KB of each pool; 0: none */
	/* of 1000 messages, or of 1000 turns of the loop */
	uint16_t hold, refuse, supply, onesided, pause;
	uint16_t scatter;		/* of what 'supply' has chosen */
	uint16_t timeout;		/* of 1000 messages: have a timeout */
	uint16_t early, abort;		/* of 1000 ends of connections */
	uint32_t harm, every_ms;	/* mean time between two of them */
	bool tight;			/* limits may refuse connections */
	bool oob; /* connections use the built-in exchange */
	bool failover;	/* connections survive the loss of their device */
};

extern const struct scenario scenarios[];
extern const uint32_t scenario_count;
/* Returns the index of the scenario, or -1 if there is none. */
int scenario_find(const char *name);
/* iWARP has no atomics, and connects through the connection manager only. */
bool is_iwarp(void);
/* Soft-RoCE of the kernel, in the test machine. */
bool is_soft_roce(void);

/* ---- board and journal ------------------------------------------------ */

/* The parent writes the board, and all processes of a round read it. */
struct board {
	uint64_t seed;
	uint32_t scenario;
	uint32_t max_size;		/* bytes of a message */
	char address[64];		/* of the servers */
	char own[64];			/* of this host */
	_Atomic uint32_t port[SLOTS];	/* of servers; 0: not yet */
	_Atomic uint32_t finish;	/* processes close everything and end */
	_Atomic uint32_t late_ms;	/* sum of the parent's late turns */
	_Atomic uint32_t stopped_ms[SLOTS];
};

/* States of a message at its sender and at its receiver. */
enum tx_state {
	TX_NONE, TX_TRYING, TX_ACCEPTED, TX_PENDING,	/* no cookie, cookie */
	TX_OK, TX_CANCELED, TX_FAILED,
	TX_OVERDUE,		/* RDMAMSG_OVERDUE, on_late follows */
	TX_TIMED_OUT,		/* taken back: never arrives */
};
enum rx_state {
	RX_NONE, RX_OFFERED, RX_REFUSED, RX_RECEIVED,
	RX_SKIPPED,		/* later messages have arrived */
};

/* An endpoint, recorded by its process. */
struct record {
	uint32_t id;
	uint8_t side;			/* 0: connected, 1: accepted */
	uint8_t target;			/* side 0: slot of the server */
	uint8_t connected, closed;	/* number of callbacks */
	uint8_t close_called, abort_called;
	uint8_t who, cause;
	int32_t error;
	uint64_t began, connected_at, ending_at, closed_at;	/* ms */
	uint32_t max_send;		/* agreed max_send */
	uint32_t room;			/* length of each of the two arrays */
	uint32_t sent;			/* messages accepted */
	uint32_t in_memory;		/* 1 + number of the last TX_OK */
	uint32_t next;			/* number of the next due message */
	uint64_t bytes_sent, bytes_received;
	uint32_t rma_accepted, rma_ok, rma_refused;
	uint32_t atomics_accepted, atomics_ok, atomics_in_doubt;
	uint32_t imms_accepted, imms_received;
	uint64_t word;			/* counted by the peer's atomics */
	bool word_known;
	uint64_t arrays;		/* offset of tx, then rx */
	char why[192];
};

#define RECORDS		4096
#define JOURNAL_SIZE	((size_t)512 << 20)	/* sparse */

struct journal {
	uint32_t slot, life, scenario, max_size;
	uint64_t seed;
	int32_t pid;
	uint32_t harmed;		/* enum harm, set by the parent */
	uint32_t killed;		/* by the parent */
	uint32_t kernel;		/* the device is the kernel's */
	uint64_t finish; /* ms: when the end was asked for; 0: never */
	uint32_t ended; /* the process has made its final checks */
	uint32_t injected;		/* failed calls */
	uint32_t starved;		/* turns with no free descriptor */
	uint64_t refused;		/* sends with -EAGAIN */
	uint64_t timed_out, overdue;	/* messages */
	uint32_t violations, lost, doubled;
	char violation[512];		/* the first violation */
	uint32_t records;
	uint64_t used;			/* bytes of arrays */
	struct record record[RECORDS];
	uint8_t arrays[];
};

uint64_t now_ms(void);
/*
 * Returns the descriptor of new shared memory, which children inherit, or -1.
 */
int share_new(size_t size);
/* Maps the shared memory. Returns NULL without memory. */
void *share(int fd, size_t size);
struct record *journal_add(struct journal *j, uint32_t room);
uint8_t *record_tx(struct journal *j, const struct record *r);
uint8_t *record_rx(struct journal *j, const struct record *r);
/* Writes the used part of a journal to a file, or reads one. */
bool journal_save(const struct journal *j, const char *dir);
struct journal *journal_load(const char *path);
/* Notes that a rule is broken. The journal keeps the first text. */
void violation(struct journal *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- plan.c ----------------------------------------------------------- */

enum how_ends {
	ENDS_ALL, /* closes after all messages, sent and received */
	ENDS_SENT,		/* closes after its last send */
	ENDS_EARLY,		/* closes after end_at messages */
	ENDS_ABORT,		/* aborts after end_at messages */
};

struct plan {
	uint64_t seed;			/* of this connection */
	const struct scenario *sc;
	uint32_t max_size;
	struct plan_side {
		uint32_t count;		/* messages to send */
		enum how_ends ends;
		uint32_t end_at; /* the connection ends after so many sends */
		uint32_t recv_depth, send_depth, send_queue, eager_max, flags;
		uint32_t max_send;	/* agreed max_send, once connected */
	} side[2];
	bool onesided;
};

#define TIMEOUT_MS	20000	/* to connect */
#define CLOSE_MS	60000
#define DEAD_MS		20000
#define DEAD_OOB_MS	5000	/* an aborted peer sends no notice */
#define DEAD_LANE_MS	3000	/* with failover another lane follows */
#define DOWN_MS		8000	/* a fault is over by then, see harm.c */
#define SLACK_MS	30000	/* a busy host */
/*
 * A sender waits so long for on_writable after the receiver has released
 * everything: the library notices a dead peer after up to 1.25 times DEAD_MS.
 */
#define STALL_MS	(DEAD_MS * 5 / 4 + SLACK_MS)

struct plan plan_of(const struct board *b, uint32_t id);
uint32_t plan_size(const struct plan *p, int side, uint32_t n);
uint32_t plan_tag(const struct plan *p, int side, uint32_t n);
/* Returns the timeout of message n in ms, or 0. The last one has none. */
uint32_t plan_timeout(const struct plan *p, int side, uint32_t n);
/* Returns the random number of message n for decision 'what'. */
uint32_t plan_draw(const struct plan *p, int side, uint32_t n, uint32_t what);

/* ---- content.c -------------------------------------------------------- */

/* The stamp is in front of each message that has room for it. */
struct stamp {
	uint32_t magic, id;
	uint32_t number, size;
	uint32_t writes_posted;		/* writes posted before this message */
	uint32_t writes_seen;		/* verified writes of the peer */
	uint32_t side, pad;
};

void content_init(void);
/* Fills buf with the bytes of message n, beginning at offset 'from'. */
void content_fill(const struct plan *p, int side, uint32_t n, uint8_t *dst,
		  size_t from, size_t len);
/* Returns the offset of the first wrong byte, or len. */
size_t content_check(const struct plan *p, int side, uint32_t n,
		     const uint8_t *src, size_t from, size_t len);

/* ---- parent.c, harm.c ------------------------------------------------- */

struct totals {
	uint64_t rounds, connections, messages, bytes, rmas;
	uint64_t harms[HARMS];
	uint64_t timed_out, overdue;	/* messages */
	uint64_t lost, doubled, violations;
};

struct round {
	struct board *board;
	int board_fd;
	const struct scenario *sc;
	char dir[256];			/* logs */
	uint32_t first_slot, end_slot;	/* of this parent's processes */
	uint32_t load_ms;
	struct rng rng;
	struct totals *totals;
	struct process {
		int pid;		/* 0: none */
		uint32_t life;		/* lives so far */
		bool stopped;
		uint64_t stopped_at, start_at;
	} process[SLOTS];
	struct journal *journal[SLOTS][LIVES];
	uint32_t violations;
	char violation[512];
	uint64_t blamed[SLOTS];		/* a bit for each life */
	uint64_t connections, messages;
	bool until_told;		/* a signal ends the load */
};

extern volatile int interrupted;

/* Loads the processes, harms them, and waits for their end. */
void round_work(struct round *r);
void round_violation(struct round *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The end of this process's log is printed if the round fails. */
void round_blame(struct round *r, const struct journal *j);
void process_start(struct round *r, uint32_t slot);
void process_kill(struct round *r, uint32_t slot);

void harm_start(struct round *r);
void harm_step(struct round *r); /* begins and ends the faults that are due */
void harm_end(struct round *r);		/* ends all faults */

/* ---- judge.c ---------------------------------------------------------- */

void judge(struct round *r);
/*
 * Finds the journal and the record of the other end. Returns NULL if there is
 * none.
 */
struct journal *judge_peer(struct round *r, const struct record *a,
			   const struct record **ret);
/* Returns the number after the last message that was received or refused. */
uint32_t judge_behind(struct journal *j, const struct record *r);

/* ---- watch.c ---------------------------------------------------------- */

void watch(struct round *r);

/* ---- part.c ----------------------------------------------------------- */

/* Runs the servers or the clients of a round. The journals go to 'dir'. */
int part_run(struct round *r, const char *part, char *ports, const char *dir);
/* Judges the journals in these folders together. */
int part_judge(struct totals *totals, char **dirs);

/* ---- worker.c --------------------------------------------------------- */

int worker_main(int argc, char **argv);

#endif
