/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soft/fabric/atomic.h"
#include "soft/fabric/node.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/upward.h"
#include "soft/fabric/vm.h"
#include "soft/fabric/wire.h"

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct soft_dev *the_device;

const struct soft_fabric_upward *soft_fabric_up;

/*
 * A forked child inherits the descriptors, but not the device's thread. Open
 * descriptors in the child would keep the parent alive for its peers. So the
 * child loses the device as if it were removed. The child can still close its
 * objects, and this changes nothing that the parent shares with other
 * processes. fork() holds both locks, so that the child finds consistent data.
 */
static void before_fork(void)
{
	(void)pthread_mutex_lock(&registry);
	if (the_device)
		soft_lock(the_device);
}

static void in_parent(void)
{
	if (the_device)
		(void)pthread_mutex_unlock(&the_device->lock);
	(void)pthread_mutex_unlock(&registry);
}

static void drop_wires(struct list *wires)
{
	while (!list_empty(wires)) {
		struct soft_wire *w = list_first(wires, struct soft_wire, node);

		soft_wire_mute(w);
		w->dead = true;
		list_del(&w->node);
	}
}

static void drop_descriptors(struct soft_dev *dev)
{
	for (int fd = 0; fd < dev->watch_room; fd++) {
		if (!dev->watch[fd])
			continue;
		dev->watch[fd]->fd = -1;
		dev->watch[fd] = NULL;
		close(fd);
	}
	close(dev->epfd);
	close(dev->fabric_fd);
	if (dev->near >= 0)
		close(dev->near);
	if (dev->spare >= 0)
		close(dev->spare);
	if (dev->probe >= 0)
		close(dev->probe);
	dev->epfd = dev->bell = dev->timerfd = dev->fabric_fd = -1;
	dev->near = dev->spare = dev->probe = -1;
}

static void in_child(void)
{
	struct soft_dev *dev = the_device;

	(void)pthread_mutex_unlock(&registry);
	if (!dev)
		return;
	the_device = NULL;
	dev->absent = true;
	soft_fabric_up->forked(dev);
	drop_wires(&dev->wires);
	drop_wires(&dev->handshakes);
	memset(dev->to, 0, sizeof(dev->to));
	/* a private copy, so that writes of the child stay in the child */
	(void)mmap(dev->fabric, sizeof(*dev->fabric), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_FIXED, dev->fabric_fd, 0);
	drop_descriptors(dev);
	(void)pthread_mutex_unlock(&dev->lock);
}

static void at_fork(void)
{
	(void)pthread_atfork(before_fork, in_parent, in_child);
}

static void dev_free(struct soft_dev *dev)
{
	free(dev->qps);
	soft_keys_fini(&dev->keys);
	rdmamsg__handles_free(&dev->srqs);
	rdmamsg__handles_free(&dev->cm_table);
	free(dev->watch);
	(void)pthread_mutex_destroy(&dev->lock);
	free(dev);
}

static struct soft_dev *dev_new(void)
{
	struct soft_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	(void)pthread_mutex_init(&dev->lock, NULL);
	list_init(&dev->wires);
	list_init(&dev->pending);
	list_init(&dev->lingering);
	list_init(&dev->fars);
	list_init(&dev->seeks);
	list_init(&dev->port_free.node);
	list_init(&dev->domains);
	list_init(&dev->targets);
	list_init(&dev->contexts);
	list_init(&dev->pds);
	list_init(&dev->cqs);
	list_init(&dev->wqs);
	list_init(&dev->flows);
	for (int i = 0; i < SOFT_CQ_BUCKETS; i++)
		list_init(&dev->cq_buckets[i]);
	list_init(&dev->cm_ids);
	list_init(&dev->cm_files);
	list_init(&dev->handshakes);
	for (int i = 0; i < SOFT_TIMER_LISTS; i++)
		list_init(&dev->timers[i]);
	list_init(&dev->rest.node);
	dev->listener.fd = dev->epfd = dev->bell = dev->timerfd = -1;
	dev->fabric_fd = dev->spare = dev->probe = dev->near = -1;
	list_init(&dev->cm_mcs);
	for (int i = 0; i < SOFT_GROUP_BUCKETS; i++)
		list_init(&dev->groups[i]);
	dev->qps = calloc(SOFT_QPS, sizeof(struct soft_qp *));
	if (!dev->qps || soft_keys_init(&dev->keys)) {
		dev_free(dev);
		return NULL;
	}
	return dev;
}

/* Reads RDMAMSG_SOFT_LAYOUTS. Returns 0 or -EINVAL. */
static int layout_options(struct soft_dev *dev)
{
	const char *how = getenv("RDMAMSG_SOFT_LAYOUTS");

	dev->no_layouts = how && !strcmp(how, "none");
	return !how || !*how || dev->no_layouts || !strcmp(how, "native") ? 0 :
	       -EINVAL;
}

/*
 * Reads a number from the environment, or writes 'otherwise' if the variable is
 * not set. Returns 0 or -EINVAL.
 */
static int number_option(const char *name, uint32_t otherwise, uint32_t least,
			 uint32_t most, uint32_t *ret)
{
	const char *text = getenv(name);
	unsigned long number = otherwise;
	char *end;

	if (text && *text) {
		number = strtoul(text, &end, 10);
		if (*end || number < least || number > most)
			return -EINVAL;
	}
	*ret = (uint32_t)number;
	return 0;
}

static int number_options(struct soft_dev *dev)
{
	int err = number_option("RDMAMSG_SOFT_PART", 1, 1, SOFT_PART_MAX,
				&dev->part);

	if (!err)
		err = number_option("RDMAMSG_SOFT_PATIENCE", SOFT_PATIENCE, 0,
				    SOFT_PATIENCE_MAX, &dev->patience);
	return err ? err : number_option("RDMAMSG_SOFT_ORDER", 1, 0, UINT32_MAX,
					 &dev->order);
}

/*
 * Reads RDMAMSG_SOFT_NET: with 1 other hosts are reached, with all so is this
 * host, for tests. Without it the default fabric reaches other hosts, because
 * the port of RoCE v2 belongs to one fabric of a user.
 */
static int net_options(struct soft_dev *dev)
{
	const char *how = getenv("RDMAMSG_SOFT_NET");
	const char *fabric = getenv("RDMAMSG_SOFT_FABRIC");
	const bool all = how && !strcmp(how, "all");

	dev->all_far = all && soft_is_roce(dev);
	dev->far_asked = all || (how && !strcmp(how, "1"));
	dev->far = soft_is_roce(dev) && (dev->far_asked ||
		   ((!how || !*how) && (!fabric || !*fabric ||
					!strcmp(fabric, SOFT_FABRIC_USUAL))));
	return !how || !*how || dev->far_asked || !strcmp(how, "0") ? 0 :
	       -EINVAL;
}

/* Reads the abilities that the device shall not have, as a list with commas. */
static int lack_options(struct soft_dev *dev)
{
	const char *lacks = getenv("RDMAMSG_SOFT_LACKS");

	while (lacks && *lacks) {
		const size_t len = strcspn(lacks, ",");

		if (len == 7 && !strncmp(lacks, "windows", len))
			dev->no_windows = true;
		else if (len == 8 && !strncmp(lacks, "resizing", len))
			dev->no_resizing = true;
		else
			return -EINVAL;
		lacks += len + (lacks[len] == ',');
	}
	return 0;
}

static int dev_open(struct soft_dev **ret)
{
	struct soft_dev *dev = dev_new();
	int err;

	if (!dev)
		return -ENOMEM;
	err = soft_addr_options(dev);
	if (!err)
		err = net_options(dev);
	soft_gids_read(dev);
	if (!err)
		err = soft_vm_options(dev);
	if (!err)
		err = soft_atomic_options(dev);
	if (!err)
		err = layout_options(dev);
	if (!err)
		err = lack_options(dev);
	if (!err)
		err = number_options(dev);
	if (!err)
		err = soft_node_open(dev);
	if (err)
		goto err_dev;
	err = soft_thread_start(dev);
	if (err)
		goto err_node;
	*ret = dev;
	return 0;

err_node:
	soft_node_close(dev);
err_dev:
	dev_free(dev);
	return err;
}

int soft_dev_get(struct soft_dev **ret)
{
	int err = 0;

	(void)pthread_once(&fork_once, at_fork);
	(void)pthread_mutex_lock(&registry);
	if (!the_device)
		err = dev_open(&the_device);
	if (!err) {
		the_device->refs++;
		*ret = the_device;
	}
	(void)pthread_mutex_unlock(&registry);
	return err;
}

bool soft_dev_absent(void)
{
	bool absent = false;

	(void)pthread_mutex_lock(&registry);
	if (the_device) {
		soft_lock(the_device);
		absent = the_device->absent;
		soft_unlock(the_device);
	}
	(void)pthread_mutex_unlock(&registry);
	return absent;
}

int soft_dev_far_error(void)
{
	int err = 0;

	(void)pthread_mutex_lock(&registry);
	if (the_device) {
		soft_lock(the_device);
		err = the_device->net ? 0 : the_device->far_error;
		soft_unlock(the_device);
	}
	(void)pthread_mutex_unlock(&registry);
	return err;
}

void soft_dev_put(struct soft_dev *dev)
{
	(void)pthread_mutex_lock(&registry);
	if (--dev->refs || dev != the_device) {
		(void)pthread_mutex_unlock(&registry);
		return;
	}
	the_device = NULL;
	soft_thread_stop(dev);
	soft_fabric_up->net_close(dev);
	soft_wires_close(dev);
	soft_node_close(dev);
	dev_free(dev);
	(void)pthread_mutex_unlock(&registry);
}

void soft_unlock(struct soft_dev *dev)
{
	if (dev->bells_due) {
		/* each may cause the other */
		while (unlikely(dev->woken || dev->overrun)) {
			if (dev->overrun)
				soft_fabric_up->overrun(dev);
			if (dev->woken)
				soft_fabric_up->woken(dev);
		}
		soft_bells(dev);
		if (unlikely(dev->net))
			soft_fabric_up->net_flush(dev);
	}
	(void)pthread_mutex_unlock(&dev->lock);
}
