/* SPDX-License-Identifier: BSD-2-Clause */
/* Another process with the other end of a connection, for unit tests. */
#ifndef TESTS_UNIT_SOFT_OTHER_H
#define TESTS_UNIT_SOFT_OTHER_H

#include "pair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct other {
	pid_t pid;
	int fd;				/* a byte is a word between us */
	uint32_t rkey;			/* of its memory */
	uint64_t addr;
};

struct other_hello {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static inline bool say(int fd)
{
	return write(fd, "", 1) == 1;
}

static inline bool hear(int fd)
{
	char word;

	return read(fd, &word, 1) == 1;
}

static void (*before_walk)(void);	/* in both processes, or NULL */

/* Connects one end: i is the index into qp[], mem[] and mr[]. */
static inline struct other_hello connect_end(int i, int fd)
{
	struct ibv_qp_init_attr a = {
		.cap = { 64, 64, 4, 4, 64 }, .qp_type = IBV_QPT_RC,
	};
	struct other_hello ours, theirs;

	/* it has the lower node: whoever looks at all meets it first */
	if (!i)
		assert_int_equal(read(fd, &theirs, sizeof(theirs)),
				 sizeof(theirs));
	assert_int_equal(open_device(NULL), 0);
	a.send_cq = a.recv_cq = cq;
	qp[i] = soft_create_qp(pd, &a);
	assert_non_null(qp[i]);
	ours = (struct other_hello){
		qp[i]->qp_num, mr[i]->rkey, (uintptr_t)mem[i],
	};
	assert_int_equal(write(fd, &ours, sizeof(ours)), sizeof(ours));
	if (i)
		assert_int_equal(read(fd, &theirs, sizeof(theirs)),
				 sizeof(theirs));
	if (before_walk)
		before_walk();
	walk(qp[i], theirs.qpn);
	assert_true(say(fd) && hear(fd));
	return theirs;
}

/*
 * Starts the other process. The process has qp[1], calls fn() and exits with
 * its result. An alarm ends the process after a minute.
 */
static inline struct other start_other(int (*fn)(int fd))
{
	struct other_hello theirs;
	struct other o;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	o.pid = fork();
	assert_true(o.pid >= 0);
	if (!o.pid) {
		close(fd[0]);
		(void)alarm(300);
		/* what fails there is not for the other tests to go on */
		(void)setenv("CMOCKA_TEST_ABORT", "1", 1);
		(void)connect_end(1, fd[1]);
		_exit(fn(fd[1]));
	}
	close(fd[1]);
	o.fd = fd[0];
	theirs = connect_end(0, o.fd);
	o.rkey = theirs.rkey;
	o.addr = theirs.addr;
	return o;
}

/* Waits until the other process ends, with status 'want'. */
static inline void end_other(const struct other *o, int want)
{
	int status;

	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, want);
	close(o->fd);
	assert_int_equal(soft_destroy_qp(qp[0]), 0);
	assert_int_equal(close_device(NULL), 0);
}

#endif
