/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destroys event channels while another thread calls for them, as rping does at its
 * end. librdmacm passes its commands by write(), and so does the thread, because
 * librdmacm frees what it would need. In Linux a call that has begun goes on with
 * the file.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

/* <rdma/rdma_cma.h> and <rdma/rdma_user_cm.h> define the same names */
struct rdma_event_channel {
	int fd;
};
struct rdma_event_channel *rdma_create_event_channel(void);
void rdma_destroy_event_channel(struct rdma_event_channel *ch);

#define ROUNDS	20000
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
	if (!status)
		printf("%u channels destroyed\n", ROUNDS);
	return status;
}
