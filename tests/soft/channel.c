/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destroys event channels while another thread calls for them, as rping does at its
 * end. librdmacm passes its commands by write(), and so does the thread, because
 * librdmacm frees what it would need. In Linux a call that has begun goes on with
 * the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

/* <rdma/rdma_cma.h> and <rdma/rdma_user_cm.h> define the same names */
struct rdma_event_channel {
	int fd;
};
struct rdma_event_channel *rdma_create_event_channel(void);
void rdma_destroy_event_channel(struct rdma_event_channel *ch);

#define ROUNDS	10000
#define CANCELLED 1000
#define FORKED	20
#define NO_ID	0xffffffffu

static _Atomic int channel = -1;
static _Atomic unsigned int asked;
static atomic_bool over;

static void *ask(void *arg)
{
	const struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_disconnect body;
	} cmd = {
		{ RDMA_USER_CM_CMD_DISCONNECT, sizeof(cmd.body), 0 },
		{ NO_ID },
	};

	(void)arg;
	while (!over) {
		int fd = channel;

		if (fd >= 0 && write(fd, &cmd, sizeof(cmd)) < 0 &&
		    errno == EINVAL)
			asked++;
	}
	return NULL;
}

static int round_of_one(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	unsigned int before = asked;

	if (!ch) {
		perror("rdma_create_event_channel");
		return 1;
	}
	channel = ch->fd;
	while (asked == before)
		;
	rdma_destroy_event_channel(ch);
	channel = -1;
	return 0;
}

/* Asks for an event, and waits. */
static void *get_event(void *arg)
{
	struct rdma_ucm_event_resp resp;
	const struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_get_event body;
	} cmd = {
		{ RDMA_USER_CM_CMD_GET_EVENT, sizeof(cmd.body), sizeof(resp) },
		{ (uintptr_t)&resp },
	};

	(void)!write(*(int *)arg, &cmd, sizeof(cmd));
	return NULL;
}

/* The descriptor is closed although the waiting thread was cancelled. */
static int cancel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t thread;
	int fd;

	if (!ch)
		return 1;
	fd = ch->fd;
	if (pthread_create(&thread, NULL, get_event, &fd))
		return 1;
	sched_yield();
	(void)pthread_cancel(thread);
	(void)pthread_join(thread, NULL);
	rdma_destroy_event_channel(ch);
	if (fcntl(fd, F_GETFD) < 0)
		return 0;
	fprintf(stderr, "descriptor %d is open\n", fd);
	return 1;
}

/*
 * A child has its parent's descriptor and not its parent's calls: its own channel
 * of that number is closed at once.
 */
static int child(int fd)
{
	struct rdma_event_channel *ch;

	(void)close(fd);
	ch = rdma_create_event_channel();
	if (!ch || ch->fd != fd) {
		fprintf(stderr, "child: no channel of descriptor %d\n", fd);
		return 1;
	}
	rdma_destroy_event_channel(ch);
	if (fcntl(fd, F_GETFD) < 0)
		return 0;
	fprintf(stderr, "child: descriptor %d is open\n", fd);
	return 1;
}

/* Forks while a thread waits for an event. */
static int fork_waiting(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t thread;
	int fd, status = 1;
	pid_t pid;

	if (!ch)
		return 1;
	fd = ch->fd;
	if (pthread_create(&thread, NULL, get_event, &fd))
		return 1;
	/* in most of the rounds the thread has begun to wait */
	for (int i = 0; i < 100; i++)
		sched_yield();
	pid = fork();
	if (!pid)
		_exit(child(fd));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = 1;
	(void)pthread_cancel(thread);
	(void)pthread_join(thread, NULL);
	rdma_destroy_event_channel(ch);
	return status;
}

int main(void)
{
	pthread_t thread;
	int status = 0;

	if (pthread_create(&thread, NULL, ask, NULL))
		return 1;
	for (unsigned int i = 0; i < ROUNDS && !status; i++)
		status = round_of_one();
	over = true;
	(void)pthread_join(thread, NULL);
	for (unsigned int i = 0; i < CANCELLED && !status; i++)
		status = cancel();
	for (unsigned int i = 0; i < FORKED && !status; i++)
		status = fork_waiting();
	if (!status)
		printf("%u channels destroyed\n", ROUNDS);
	return status != 0;
}
