/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers of the scenarios. A new scenario is a line in the table of its area.
 */
#ifndef RDMAMSG_TESTS_FAULT_NTH_H
#define RDMAMSG_TESTS_FAULT_NTH_H

#include <rdmamsg/diag.h>

#define BODY_MS		30000	/* longest wait for a report */
#define SHORTAGE_MS	3000	/* length of a shortage of memory */
#define ITEMS		16
#define LARGEST		(1200 * 1000)
#define SCATTERED	65536u	/* of a message in the layout */

enum { SERVER, CLIENT, OTHER, CTXS };

struct item {
	enum { NOT_SENT, REFUSED, ACCEPTED, DONE } state;
	int status;
	bool received;
	bool overdue;		/* on_late follows */
};

struct end {
	const char *name;
	struct rdmamsg_ep *ep;		/* NULL: none, or closed */
	const struct rdmamsg_ep *last;	/* the one that closed */
	bool connected;
	int closed;			/* number of on_closed calls */
	struct rdmamsg_reason why;
	struct item items[ITEMS];	/* sent by this end */
	uint32_t next;			/* next tag due from the other end */
	struct end *peer;
	bool writable;
	bool expected_end; /* the scenario wants the end to close */
};

/* The state before the first fault. */
enum level { NOTHING, OPEN, LISTENING, CONNECTED };

struct scenario {
	const char *name;
	enum level before;
	void (*body)(void);
	bool moving;
	bool exporting;
	bool joint;
	bool oob;
	bool shared;
	bool own_cq;
	bool narrow;		/* send queues of one message */
	bool guarded;
	bool keyed;
	bool by_name;
	bool patient;		/* RDMAMSG_EP_RETRY */
	bool failover;		/* on InfiniBand; runs in another process */
	bool lanes;		/* other connections, struct rdmamsg_failover */
	bool native;		/* few devices have it */
	bool named;		/* takes long: runs only by name */
	const char *calls;	/* only these fail; the others did elsewhere */
	const char *stats;	/* RDMAMSG_STATS; runs in another process */
};

/* a scenario without a name ends each table */
extern const struct scenario connect_scenarios[], message_scenarios[],
	memory_scenarios[], event_scenarios[], oob_scenarios[],
	group_scenarios[], chain_scenarios[], dc_scenarios[];

/* nth_ends.c */
extern struct end ends[2];
extern struct rdmamsg *ctxs[CTXS];
extern struct rdmamsg_listener *listener;
extern const char *address;
extern bool sound;			/* no call fails now */
extern bool moving;			/* requests go to another context */
extern bool exporting;			/* requests get a key */
extern bool joint;			/* another context shares the port */
extern bool shared;			/* all contexts share receives */
extern bool own_cq; /* RDMAMSG_EP_OWN_CQ */
extern bool narrow;			/* both ends, short send queues */
extern bool guarded;			/* both ends, RDMAMSG_EP_GUARD */
extern bool keyed;			/* all contexts have the same key */
extern bool oob;			/* without the CM */
extern const char *host;		/* the name of that address */
extern bool by_name;			/* connect to the name */
extern bool patient;			/* the client, RDMAMSG_EP_RETRY */
extern bool failover;			/* both ends */
extern bool lanes;			/* both ends */
extern int reported;			/* errors that the library reported */
extern int events;			/* calls of on_event */
extern char failure[512];		/* of this run; "": none */
extern char what[128];			/* the run, for the alarm */
extern uint8_t pattern[LARGEST + 256];
extern struct rdmamsg_msg *kept;	/* a message not freed at once */
extern bool keeping;
extern struct rdmamsg_layout *scattered; /* the server receives in it */
extern struct rdmamsg_pd *domain;	/* of the client, or NULL */
extern struct rdmamsg_pool *inbound;	/* the server receives in it, or NULL */

void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int told(int ret); /* counts an error of a call as reported */
void on_log(void *arg, enum rdmamsg_log_level level, const char *line);
void log_start(void);
void texts_start(void);	/* checks rdmamsg_error() from here on */
void log_print(void);
void on_alarm(int sig);
void turn(int ms);
bool drive(bool (*done)(void), int ms);
/* of a send whose cookie is its item */
void on_late(struct rdmamsg_ep *ep, void *cookie, int status);
void open_ctx(int i);
void open_all(void);
void close_ctx(int i);
void start_listening(void);
void forget_ends(void);
bool is_closed(void);
bool no_endpoints(void);
void start_connecting(void);
void do_connect(void);

/* nth_connect.c */
void do_open(void);
void do_listen(void);

/* nth_events.c */
extern bool migrated;			/* in this run */

/* nth_messages.c */
bool writable_or_closed(void);
bool is_exchanged(void);
void send_items(struct end *e, uint32_t first, uint32_t last);
void outlast_shortage(void);
void do_exchange(void);
void do_close(void);
void do_abort(void);
void do_teardown(void);
void do_keep(void);

#endif
