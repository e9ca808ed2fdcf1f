/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node is one process on a fabric. It owns its number by holding a name. A
 * new node gets the fabric's shared memory from another node. There is no
 * daemon, and nothing remains when the last node ends.
 */
#include "soft/fabric/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "soft/fabric/dev.h"
#include "soft/fabric/groups.h"
#include "soft/fabric/memfd.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/names.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/thread.h"

/* of 1 ms each: a slow machine stops for seconds the process that has the lock */
#define LOCK_TRIES	30000
#define ANSWER_MS	300
#define CROWDED_MS	10000		/* in all, while backlogs are full */
#define SOON_MS		20		/* before it asks the next node, too */
#define AT_ONCE		32
#define BACKLOG		1024
#define FOREIGN		8	/* of the last nodes, whose owner is looked at */

static int take_lock(struct soft_dev *dev)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	int fd = -EADDRINUSE;

	for (int i = 0; i < LOCK_TRIES && fd == -EADDRINUSE; i++) {
		/* listen, because a listening socket shows its owner */
		fd = soft_name_listen(dev, 1, "lock");
		if (fd != -EADDRINUSE)
			break;
		if (!i && soft_name_foreign(dev, "lock"))
			return -EPERM;
		(void)nanosleep(&ms, NULL);
	}
	return fd == -EADDRINUSE ? -EBUSY : fd;
}

static int map_fabric(struct soft_dev *dev, int fd)
{
	void *at;

	if (!soft_memfd_check(fd, sizeof(*dev->fabric)))
		return -EPROTO;
	at = mmap(NULL, sizeof(*dev->fabric), PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	dev->fabric = at;
	dev->fabric_fd = fd;
	return 0;
}

static int create_fabric(struct soft_dev *dev)
{
	int fd = soft_memfd_create("soft-fabric", sizeof(*dev->fabric)), ret;

	if (fd < 0)
		return fd;
	ret = map_fabric(dev, fd);
	if (ret) {
		close(fd);
		return ret;
	}
	dev->fabric->magic = SOFT_FABRIC_MAGIC;
	dev->fabric->version = SOFT_FABRIC_VERSION;
	return 0;
}

/*
 * Asks a node for the memory. Returns the socket of the answer, -EAGAIN if its
 * backlog stays full for so many ms, or -errno.
 */
static int ask_node(const struct soft_dev *dev, uint32_t node, int patience)
{
	const struct soft_msg msg = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_FABRIC_ASK,
		.node = dev->node,
	};
	const struct timespec ms = { .tv_nsec = 1000000 };
	int fd = -EAGAIN, ret;

	/* every user of the host can fill the backlog */
	for (int i = 0; i <= patience && fd == -EAGAIN; i++) {
		fd = soft_name_connect(dev, "node/%u", node);
		if (fd == -EAGAIN && i < patience)
			(void)nanosleep(&ms, NULL);
	}
	if (fd < 0)
		return fd;
	ret = soft_msg_send(fd, &msg, sizeof(msg), NULL, 0);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

/* Maps the memory that a node has sent. Returns 0 or -errno. */
static int take_answer(struct soft_dev *dev, int fd)
{
	int fds[2] = { -1, -1 }, ret = -EPROTO;
	struct soft_msg msg;

	if (soft_msg_recv(fd, &msg, sizeof(msg), fds, 2) == sizeof(msg) &&
	    msg.type == SOFT_MSG_FABRIC && fds[0] >= 0)
		ret = map_fabric(dev, fds[0]);
	if (!ret && (dev->fabric->magic != SOFT_FABRIC_MAGIC ||
		     dev->fabric->version != SOFT_FABRIC_VERSION)) {
		(void)munmap(dev->fabric, sizeof(*dev->fabric));
		dev->fabric = NULL;
		ret = -EPROTO;
	}
	if (ret && fds[0] >= 0)
		close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	return ret;
}

/* Returns 0 when one of the asked nodes has sent the memory. */
static int take_answers(struct soft_dev *dev, struct pollfd *asked, nfds_t n,
			int ms)
{
	int ret = -ETIMEDOUT;

	while (ret && poll(asked, n, ms) > 0)
		for (nfds_t i = 0; ret && i < n; i++) {
			if (!asked[i].revents)
				continue;
			ret = take_answer(dev, asked[i].fd);
			close(asked[i].fd);
			asked[i].fd = -1;
		}
	return ret;
}

static void forget(struct pollfd *asked, nfds_t n)
{
	while (n--)
		if (asked[n].fd >= 0)
			close(asked[n].fd);
}

/*
 * Returns 0 when a node has sent the memory, -EAGAIN if none has and one could
 * not be asked, because its backlog is full, or -errno. After SOON_MS it asks
 * the next node, too, because this node holds the fabric's lock and others wait
 * for the lock.
 */
static int ask_nodes(struct soft_dev *dev)
{
	struct pollfd asked[AT_ONCE];
	bool crowded = false;
	int ret = -ETIMEDOUT;
	nfds_t n = 0;

	for (uint32_t node = 0; ret && node < SOFT_NODES; node++) {
		int fd = node == dev->node ? -ECONNREFUSED :
			 ask_node(dev, node, crowded ? 0 : ANSWER_MS);

		if (fd == -EMFILE || fd == -ENFILE || fd == -EACCES) {
			/* this node might have the memory */
			forget(asked, n);
			return fd;
		}
		crowded |= fd == -EAGAIN;
		if (fd < 0)
			continue;
		asked[n++] = (struct pollfd){ fd, POLLIN, 0 };
		ret = take_answers(dev, asked, n, n < AT_ONCE ? SOON_MS :
				   ANSWER_MS);
		if (ret && n == AT_ONCE) {
			forget(asked, n);
			n = 0;
		}
	}
	if (ret && n)
		ret = take_answers(dev, asked, n, ANSWER_MS);
	forget(asked, n);
	return ret && crowded ? -EAGAIN : ret;
}

/*
 * A stopped node does not answer. If all nodes are stopped, creates new memory.
 * This loses injected faults, and keeps members of multicast groups apart. So a
 * node counts as stopped only if it was asked: if this process lacks what that
 * takes, or others fill the backlog of the node, the fabric is not joined.
 */
static int find_fabric(struct soft_dev *dev)
{
	const uint64_t end = soft_now() + CROWDED_MS * 1000000ull;
	int ret;

	do
		ret = ask_nodes(dev);
	while (ret == -EAGAIN && soft_now() < end);
	switch (ret) {
	case 0: case -EMFILE: case -ENFILE: case -EACCES:
		return ret;
	case -EAGAIN:
		return -ETIMEDOUT;
	default:
		return create_fabric(dev);
	}
}

static int claim_number(struct soft_dev *dev)
{
	bool foreign = false;
	int fd;

	for (uint32_t n = 0; n < SOFT_NODES; n++) {
		fd = soft_name_listen(dev, BACKLOG, "node/%u", n);
		if (fd == -EADDRINUSE) {
			foreign |= n >= SOFT_NODES - FOREIGN &&
				   soft_name_foreign(dev, "node/%u", n);
			continue;
		}
		if (fd < 0)
			return fd;
		dev->node = n;
		dev->listener.fd = fd;
		return 0;
	}
	return foreign ? -EPERM : -EUSERS;
}

int soft_fabric_name(struct soft_dev *dev, const char *name)
{
	if (!name)
		name = getenv("RDMAMSG_SOFT_FABRIC");
	if (!name || !*name)
		name = SOFT_FABRIC_USUAL;
	if (strlen(name) > 32 || strchr(name, '/'))
		return -EINVAL;
	snprintf(dev->fabric_name, sizeof(dev->fabric_name), "%s", name);
	dev->uid = geteuid();
	return 0;
}

/*
 * All processes of a fabric have the same device GUID, as with hardware.
 * librdmacm remembers the GUID, and looks for it after fork() and after closing
 * the device. The GUID is FNV-1a of user and fabric name, locally administered.
 */
static uint64_t device_guid(const struct soft_dev *dev)
{
	uint64_t h = 14695981039346656037u ^ dev->uid;

	for (const char *c = dev->fabric_name; *c; c++)
		h = (h ^ (uint8_t)*c) * 1099511628211u;
	return (h & 0x00ffffffffffffffull) | 0x0200000000000000ull;
}

int soft_node_open(struct soft_dev *dev)
{
	int lock, ret = soft_fabric_name(dev, NULL);

	if (ret)
		return ret;
	dev->device_guid = device_guid(dev);
	lock = take_lock(dev);
	if (lock < 0)
		return lock;
	ret = claim_number(dev);
	if (!ret)
		ret = find_fabric(dev);
	close(lock);
	if (ret) {
		soft_node_close(dev);
		return ret;
	}
	dev->fabric->node[dev->node] = dev->fabric->fresh;
	dev->absent = dev->fabric->fresh_absent;
	dev->fabric->attrs[dev->node] = dev->fabric->fresh_attrs;
	soft_faults_take(dev);
	/* locally administered, never 0; port p has GUID guid + p */
	(void)!getrandom(&dev->guid, sizeof(dev->guid), GRND_NONBLOCK);
	dev->guid = (dev->guid & 0x00ffffffffff0000ull) |
		    0x0200000000000000ull |
		    ((uint64_t)dev->node * SOFT_GUID_STEP);
	dev->fabric->guid[dev->node] = dev->guid;
	dev->count = dev->fabric->counts[dev->node].of;
	dev->fabric->counts[dev->node].place = 0;
	soft_groups_clear(dev);
	return 0;
}

void soft_node_close(struct soft_dev *dev)
{
	if (dev->fabric) {
		if (dev->listener.fd >= 0 && dev->guid)
			soft_groups_clear(dev);
		(void)munmap(dev->fabric, sizeof(*dev->fabric));
		close(dev->fabric_fd);
	}
	if (dev->listener.fd >= 0)
		close(dev->listener.fd);
	dev->fabric = NULL;
	dev->count = NULL;
	dev->listener.fd = -1;
}
