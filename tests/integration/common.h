/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers of the integration tests: contexts driven with plain poll(2), ends
 * of connections that record their callbacks, and messages whose content
 * follows from their tag.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_COMMON_H
#define RDMAMSG_TESTS_INTEGRATION_COMMON_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include "../fds.h"
#include "../tuning.h"

#define WAIT_MS		120000	/* far beyond the time of any step */
#define TEST_SECONDS	300	/* then a test prints its state and ends */
#define PATTERN_MAX	((size_t)17 << 20)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* ---- contexts --------------------------------------------------------- */

/*
 * Opens a context or fails the test. The end of the test closes the context
 * unless test_close() was called.
 */
struct rdmamsg *test_open(const struct rdmamsg_options *opts);
void test_close(struct rdmamsg *ctx);
/* Waits a little for any of the contexts and lets them work. */
void test_pump(int timeout_ms);
/* Returns true if no context has anything to do. */
bool test_idle(void);
/*
 * Lets time pass (clock.h), and all threads do what is due then. A device of the
 * kernel has a clock of its own, so there the time is real.
 */
void test_pass(uint32_t ms);
/* Lets one context work as long as it has something to do. */
void test_drive(struct rdmamsg *ctx);

#define WAIT_FOR(condition) \
	do { \
		uint64_t began_ = now_ms(); \
		while (!(condition)) { \
			if (now_ms() > began_ + WAIT_MS) \
				fail_msg("%s:%d: waited in vain for %s", \
					 __FILE__, __LINE__, #condition); \
			test_pump(100); \
			check_notes(); \
		} \
		test_waited(now_ms() - began_, #condition); \
	} while (0)

/* Repeats 'step' until the condition holds. */
#define UNTIL_BY(step, condition) \
	do { \
		uint64_t end_ = now_ms() + WAIT_MS; \
		while (!(condition)) { \
			if (now_ms() > end_) \
				fail_msg("%s:%d: waited in vain for %s", \
					 __FILE__, __LINE__, #condition); \
			step; \
			check_notes(); \
		} \
	} while (0)

/* As WAIT_FOR(), for what a time-out brings. */
#define WAIT_PASSING(condition)	UNTIL_BY(test_pass(50), condition)

/*
 * Returns a dead_after_ms for tests that wait for it by WAIT_PASSING(): more than
 * a slow machine stops a process. A device of the kernel needs no process to
 * acknowledge, and its time is real, so there it is short.
 */
uint32_t test_dead_after_ms(void);

/* Notes the time and the condition of a wait. A slow test prints its longest. */
void test_waited(uint64_t ms, const char *condition);

uint64_t now_ms(void);
/* Records a failure in a callback. check_notes() fails the test later. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void check_notes(void);
/* Error lines of the library's log are notes too, unless a test makes them. */
extern bool errors_are_fine;
/* A change of rdmamsg_error() by a successful call is a note too. */
extern bool texts_are_fine;
/* Checks that the call gave this error, and that its text has this word. */
void assert_error(int ret, int error, const char *word);

/* ---- messages --------------------------------------------------------- */

const uint8_t *pattern(uint32_t tag);	/* PATTERN_MAX bytes */
/* Returns the size of message n in a mix that uses every path. */
size_t mixed_size(uint32_t n);

struct cookie {
	struct cookie *next;
	unsigned int count;
	int status;
};

/* ---- ends of connections ---------------------------------------------- */

struct end {
	const char *name;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;		/* NULL when there is none */
	struct end *peer;
	struct rdmamsg_ep_options opts;
	struct rdmamsg_ep_tuning tuning;	/* opts.tuning */
	struct rdmamsg_ep_handlers on;

	unsigned int connected, closed, writable, stalled, resumed, incoming;
	size_t received;
	struct rdmamsg_reason why;
	uint8_t why_data[RDMAMSG_HELLO_DATA_MAX];

	/* messages that are to arrive here, in order */
	struct expected {
		size_t len;
		uint32_t tag;
	} *expected;
	size_t expected_count, expected_room;
	bool expect_nothing; /* the end does not check what arrives */

	bool keep;			/* keeps messages until end_release() */
	struct rdmamsg_msg **kept;
	size_t kept_count, kept_room;

	struct cookie *cookies;
	size_t sent, sent_ok, sent_failed;

	/* called after the end has noted the event */
	void (*then_connected)(struct end *e);
	void (*then_message)(struct end *e, struct rdmamsg_msg *msg);
	void (*then_sent)(struct end *e);
	void (*then_writable)(struct end *e);
	void (*then_closed)(struct end *e);
	void *arg;
};

void end_init(struct end *e, const char *name, struct rdmamsg *ctx);
void end_fini(struct end *e);

enum how { HOW_SEND, HOW_SENDV, HOW_MSG, HOW_COUNT };

/* Sends a message of the pattern and has the peer expect it. */
int end_send(struct end *e, enum how how, size_t len, uint32_t tag);
int end_sendv(struct end *e, int segments, size_t len, uint32_t tag);
/* Sends, and pumps until the send is accepted. Other errors fail the test. */
void end_send_all(struct end *e, enum how how, size_t len, uint32_t tag);
void end_expect(struct end *e, size_t len, uint32_t tag);
struct cookie *end_cookie(struct end *e);
/* Frees kept messages: the first, the last, or every one. */
void end_release(struct end *e);
struct rdmamsg_stats end_stats(const struct end *e);
struct rdmamsg_ep_attr end_info(const struct end *e);
/* Checks that each cookie came back exactly once. */
void end_check_cookies(const struct end *e);
/*
 * Returns true if the reason is that of a killed peer. The kernel may free a
 * peer's memory before its connection: reads of it fail. siw tells the end of a
 * connection as that of a request, too (Linux 6.1, siw_qp_tx.c,
 * siw_qp_sq_process()).
 */
bool end_tells_death(const struct rdmamsg_reason *why);

/* A server and a client in one process, each with a context of its own. */
struct pair {
	struct rdmamsg_listener *listener;
	char port[8];
	struct end s, c;
};

void pair_init(struct pair *p, const struct rdmamsg_options *opts);
void pair_listen(struct pair *p);
void pair_connect(struct pair *p);
/* Accepts as the server of the pair that is the listener's user. */
void pair_on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req);
void pair_open(struct pair *p);		/* all three */
/* Closes gracefully from the client and checks that all has arrived. */
void pair_close(struct pair *p);
/* Checks that both ends closed gracefully, and all messages arrived. */
void pair_check_graceful(const struct pair *p);
/*
 * Returns true if so many keepalives have gone each way. On iWARP they are PINGs,
 * and a side that hears them sends none.
 */
bool pair_keeps_alive(const struct pair *p, uint64_t times);
void pair_fini(struct pair *p);

const char *test_addr(void);
const char *test_addr6(void);
const char *test_name(void);	/* name of these addresses */
const char *test_device(void);	/* device with these addresses */
const char *test_kind(void);	/* kind of that device */
bool test_on_soft(void);	/* the device is the soft HCA */
bool test_over_packets(void);	/* and reaches itself over the network */
int test_unknown_device(void);	/* the error for a name that no device has */
const char *listener_service(struct rdmamsg_listener *l, char buf[static 8]);

/* ---- processes -------------------------------------------------------- */

struct child {
	pid_t pid;
	int to, from;		/* the child's input and output */
};

/* A role for the child program, see test_main(). */
struct role {
	const char *name;
	int (*fn)(int argc, char **argv);	/* returns the exit status */
};

/*
 * Starts this program again in one of its roles, with pipes as its standard
 * input and output. A forked child of a process that uses RDMA cannot use it.
 */
void child_start(struct child *c, const char *role, const char *arg);
/* Reads a line from the child, without newline. Pumps meanwhile. */
void child_line(struct child *c, char *buf, size_t size);
void child_say(struct child *c, const char *line);
/* Returns the child's wait status. Pumps meanwhile. */
int child_wait(struct child *c);
/* In the child: sends a line to the parent. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns a count of `rdma resource show`: "qp", "cq", "mr" or "pd". */
int rdma_count(const char *what);

/* ---- main ------------------------------------------------------------- */

#define TEST(fn) \
	{ #fn, fn, test_setup, test_teardown, NULL }

int test_setup(void **state);
int test_teardown(void **state);
/* Ends the program with 77 unless there is a device and an address. */
void need_rdma(void);
/* Says why and skips this test. */
void skip_because(const char *why);
/* Returns true if the device is iWARP. */
bool test_iwarp(void);
/* Returns true if the name of the device is that of the kernel's siw. */
bool test_on_siw(void);
struct cookie;
struct end;
/*
 * The peer has refused this write. On iWARP it may have completed before, and
 * then the end of the connection does not tell why.
 */
void check_refused(const struct end *e, const struct cookie *c);
/* Skips a test of a feature that iWARP lacks, or ends the program. */
void skip_on_iwarp(const char *why);
void end_on_iwarp(const char *why);
#define NO_OOB	"iWARP connects through the connection manager only"
#define NO_GROUPS "iWARP has no datagrams"
#define NO_ATOMICS "iWARP has no atomics"
#define NO_RNR	"iWARP ends a connection whose message finds no receive"
/*
 * Runs the tests, or those whose name matches the first argument, or as a
 * child the role that it was started for.
 */
#define test_main(tests, roles, argc, argv) \
	(test_is_child(argc, argv) ? test_child(roles, argc, argv) : \
	 (need_rdma(), cmocka_set_test_filter((argv)[1]), \
	  cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0))
bool test_is_child(int argc, char **argv);
int test_child(const struct role *roles, int argc, char **argv);

#endif
