/* SPDX-License-Identifier: BSD-2-Clause */
/* compare: the declarations that rivals share. */
#ifndef RDMAMSG_SAMPLES_PERF_RIVAL_H
#define RDMAMSG_SAMPLES_PERF_RIVAL_H

#include "perf.h"

#include <sys/types.h>

enum rival_figure {
	RIVAL_USEC,		/* half of a round trip of a small message */
	RIVAL_RATE,		/* small messages in a second, one way */
	RIVAL_BW,		/* bytes of large messages in a second, one way */
	RIVAL_FIGURES,
};

struct rival_ops;

struct rival_result {
	double value;		/* of the figure */
	uint64_t warmup;	/* messages before, which it does not include */
};

/* A measurement by two processes. */
struct rival_run {
	const struct perf_options *o;
	const struct rival *rival;
	enum rival_figure figure;
	uint32_t size;
	unsigned int number;	/* another one in each run */
	int listener;		/* 'listens': its socket */
	uint16_t port;		/* 'listens', 'says_port' and 'wants_port' */
};

struct rival {
	const char *name, *flags;
	/* An environment variable, and its value unless the user has set it. */
	const char *variable, *value;
	bool figures[RIVAL_FIGURES];	/* that it has */
	bool event;		/* rdmamsg and TCP: both sides sleep */
	bool listens;		/* the parent makes a listening socket */
	bool says_port;		/* the server prints its port */
	bool wants_port;	/* the parent looks for a free port */
	/* another program, of the rival that is listed before it */
	bool tool;
	const struct rival_ops *ops;	/* of rival_server(), rival_client() */
	bool (*load)(void);	/* its library; NULL: it needs none */
	const char *absent;	/* why it cannot run; NULL: ask there() */
	/* Returns true if it is installed. NULL: it is. */
	bool (*there)(const struct rival *r);
	/*
	 * Run in the children and return an exit status. The client sets the
	 * figure. The parent ends the server by SIGTERM.
	 */
	int (*serve)(const struct rival_run *run);
	int (*client)(const struct rival_run *run, struct rival_result *ret);
};

/* Ends with an entry without a name. */
extern const struct rival rival_rdmamsg[], rival_tcp[], rival_zmq[],
	rival_ucx[], rival_ucx_tool[], rival_fabric[], rival_fabric_tool[],
	rival_line[];

/*
 * A connection of one of the drivers. A message has 'size' bytes, the first of
 * which is of enum rival_kind.
 */
enum rival_kind {
	RIVAL_STOP,		/* no message: the peer is gone */
	RIVAL_ECHO,		/* the server sends it back */
	RIVAL_ONE_WAY,		/* the server reads it */
};

struct rival_ops {
	/* 'more': another message follows at once. Returns 0 or -1. */
	int (*send)(void *conn, const uint8_t *msg, size_t size, bool more);
	/* Returns the kind of the next message. */
	enum rival_kind (*recv)(void *conn, size_t size);
	/*
	 * Returns a connection, which the end of the process closes, or NULL.
	 * The library is loaded.
	 */
	void *(*open)(const struct rival_run *run, bool server);
};

/* rival.c: for the members of struct rival: serve, client and there. */
int rival_server(const struct rival_run *run);
int rival_client(const struct rival_run *run, struct rival_result *ret);
/* Loads the library in a child, because it may keep state of its process. */
bool rival_loads(const struct rival *r);

/* rival.c: loads the symbols, which end with a NULL name. */
struct rival_symbol {
	const char *name;
	void *to;		/* a pointer to a function */
};
bool rival_load(const char *library, const struct rival_symbol *symbols);

/* drive.c: both sides of a measurement, over any connection. */
int rival_serve(const struct rival_ops *ops, void *conn, size_t size);
int rival_drive(const struct rival_ops *ops, void *conn,
		const struct rival_run *run, struct rival_result *ret);

/* compare.c: binds this process to a processor, or does nothing. */
void rival_pin(int cpu);
/* compare.c: lets this process end with its parent. */
void rival_child(pid_t parent);
/* compare.c: waits for the end of a child. Returns 0 or -1. */
int rival_reap(pid_t child, int *ret_status);

/* meet.c: connects both sides. Returns a socket, or -1. */
int rival_meet(const struct rival_run *run, bool server);
/* meet.c: sends the own address and receives the peer's. Returns 0 or -1. */
#define RIVAL_ADDRESS_MAX	4096
int rival_swap(int fd, const void *own, size_t size,
	       uint8_t ret[RIVAL_ADDRESS_MAX], size_t *ret_size);

static inline double rival_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#endif
