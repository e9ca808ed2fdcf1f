/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libibumad that open a port for management datagrams, for the
 * ports of the soft HCA with link layer InfiniBand. mad.c answers at once, so
 * an answer waits for the program before the call that sends has ended. Calls
 * that only look at memory or at /sys stay with libibumad.
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/ib_user_mad.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/util.h"
#include "soft/fabric/gid.h"
#include "soft/preload/mad.h"
#include "soft/preload/preload.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"

#define ANSWERS	64			/* of a port that wait */
#define AGENTS	32

/* struct umad_reg_attr */
struct reg_attr {
	uint8_t mgmt_class, mgmt_class_version;
	uint32_t flags;
	uint64_t method_mask[2];
	uint32_t oui;
	uint8_t rmpp_version;
};

int umad_open_port(const char *ca, int port);
int umad_close_port(int fd);
int umad_register(int fd, int mgmt_class, int version, uint8_t rmpp,
		  long method_mask[]);
int umad_register_oui(int fd, int mgmt_class, uint8_t rmpp, uint8_t oui[3],
		      long method_mask[]);
int umad_register2(int fd, struct reg_attr *attr, uint32_t *id);
int umad_unregister(int fd, int id);
int umad_send(int fd, int id, void *umad, int length, int timeout_ms,
	      int retries);
int umad_recv(int fd, void *umad, int *length, int timeout_ms);
int umad_poll(int fd, int timeout_ms);

struct answer {
	struct list node;
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD_SIZE];
};

struct port {
	struct list node;
	int fd;				/* eventfd: counts the answers */
	uint8_t number;
	uint32_t agents;		/* a bit for each */
	struct list answers;
	int waiting;			/* length of answers */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list ports = { &ports, &ports };

/* The caller locks. */
static struct port *port_of(int fd)
{
	struct list *n;

	list_for_each(n, &ports)
		if (list_entry(n, struct port, node)->fd == fd)
			return list_entry(n, struct port, node);
	return NULL;
}

static struct port *hold(int fd)
{
	struct port *p;

	(void)pthread_mutex_lock(&lock);
	p = port_of(fd);
	if (!p)
		(void)pthread_mutex_unlock(&lock);
	return p;
}

static void release(void)
{
	(void)pthread_mutex_unlock(&lock);
}

/* ---- ports ------------------------------------------------------------ */

/* Returns the port, the first active one if none is named, or -errno. */
static int find_port(const char *ca, int port)
{
	struct ibv_port_attr attr;
	struct soft_dev *dev;
	int ret = -ENODEV, err;

	if ((ca && strcmp(ca, soft_device_name)) || soft_dev_absent())
		return -ENODEV;
	err = preload_open_kept(&dev);
	if (err)
		return err;
	if (soft_is_ib(dev) && port >= 0 && port <= dev->ports)
		ret = port ? port : 1;
	for (int i = 1; ret > 0 && !port && i <= dev->ports; i++)
		if (!soft_port_attr(dev, (uint8_t)i, &attr) &&
		    attr.state == IBV_PORT_ACTIVE) {
			ret = i;
			break;
		}
	soft_dev_put(dev);
	return ret;
}

int umad_open_port(const char *ca, int port)
{
	int number = find_port(ca, port);
	struct port *p;

	if (number < 0)
		return number;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->fd = fd_high(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK |
				EFD_CLOEXEC));
	if (p->fd < 0) {
		free(p);
		return -EIO;
	}
	p->number = (uint8_t)number;
	list_init(&p->answers);
	(void)pthread_mutex_lock(&lock);
	list_add_tail(&ports, &p->node);
	release();
	return p->fd;
}

static void drop_first(struct port *p)
{
	struct answer *a = list_first(&p->answers, struct answer, node);

	list_del(&a->node);
	free(a);
	p->waiting--;
}

int umad_close_port(int fd)
{
	struct port *p = hold(fd);

	if (!p)
		return -EINVAL;
	list_del(&p->node);
	release();
	while (!list_empty(&p->answers))
		drop_first(p);
	close(p->fd);
	free(p);
	return 0;
}

/* ---- agents ----------------------------------------------------------- */

int umad_register(int fd, int mgmt_class, int version, uint8_t rmpp,
		  long method_mask[])
{
	struct port *p = hold(fd);
	int id = 0;

	if (!p)
		return -EINVAL;
	while (id < AGENTS && p->agents >> id & 1)
		id++;
	if (id < AGENTS)
		p->agents |= 1u << id;
	release();
	return id < AGENTS ? id : -ENOMEM;
}

int umad_register_oui(int fd, int mgmt_class, uint8_t rmpp, uint8_t oui[3],
		      long method_mask[])
{
	return umad_register(fd, mgmt_class, 1, rmpp, method_mask);
}

/* Returns 0 or an errno, unlike its fellows. */
int umad_register2(int fd, struct reg_attr *attr, uint32_t *id)
{
	int ret;

	if (!attr || !id)
		return EINVAL;
	ret = umad_register(fd, attr->mgmt_class, attr->mgmt_class_version,
			    attr->rmpp_version, NULL);
	if (ret < 0)
		return -ret;
	*id = (uint32_t)ret;
	return 0;
}

int umad_unregister(int fd, int id)
{
	struct port *p = hold(fd);
	bool known;

	if (!p)
		return -EINVAL;
	known = id >= 0 && id < AGENTS && p->agents >> id & 1;
	if (known)
		p->agents &= ~(1u << id);
	release();
	return known ? 0 : -EINVAL;
}

/* ---- datagrams -------------------------------------------------------- */

/*
 * Returns the length of the header in front of a MAD. libibumad has an older
 * one without P_Key index, which it uses until its own umad_open_port() has
 * found that the kernel has the newer one.
 */
static size_t header_size(void)
{
	int (*real)(void);
	int n;

	*(void **)&real = dlsym(RTLD_DEFAULT, "umad_size");
	n = real ? real() : 0;
	return n == offsetof(struct ib_user_mad_hdr, pkey_index) ? (size_t)n :
	       sizeof(struct ib_user_mad_hdr);
}

/* Answers a request. Nobody answers: the status is ETIMEDOUT, as in Linux. */
static void make(struct answer *a)
{
	const uint16_t lid = be16toh(a->hdr.lid);
	struct soft_dev *dev;
	bool answered = false;

	if (!preload_open_kept(&dev)) {
		answered = preload_mad(dev, lid, a->mad);
		soft_dev_put(dev);
	}
	a->hdr.status = answered ? 0 : ETIMEDOUT;
	a->hdr.length = (uint32_t)header_size() + MAD_SIZE;
}

/* Returns 0 or an errno. */
static int enqueue(int fd, struct answer *a)
{
	struct port *p = hold(fd);
	int err = 0;

	if (!p)
		return EINVAL;
	if (a->hdr.id >= AGENTS || !(p->agents >> a->hdr.id & 1))
		err = EINVAL;
	else if (p->waiting == ANSWERS)
		err = ENOMEM;
	else if (write(p->fd, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
		err = errno;
	if (!err) {
		list_add_tail(&p->answers, &a->node);
		p->waiting++;
	}
	release();
	return err;
}

int umad_send(int fd, int id, void *umad, int length, int timeout_ms,
	      int retries)
{
	struct answer *a;
	int err = 0;

	errno = 0;
	a = length < 0 ? NULL : calloc(1, sizeof(*a));
	if (!a) {
		errno = length < 0 ? EINVAL : ENOMEM;
		return -EIO;
	}
	memcpy(&a->hdr, umad, header_size());
	memcpy(a->mad, (uint8_t *)umad + header_size(),
	       min((size_t)length, sizeof(a->mad)));
	a->hdr.id = (uint32_t)id;
	make(a);
	/* a program that does not wait hears of no timeout */
	if (a->hdr.status && !timeout_ms)
		free(a);
	else
		err = enqueue(fd, a);
	if (!err)
		return 0;
	free(a);
	errno = err;
	return -EIO;
}

int umad_poll(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	return n == 1 ? 0 : n ? -EIO : -ETIMEDOUT;
}

int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	int ret = timeout_ms ? umad_poll(fd, timeout_ms) : 0;
	struct port *p;
	struct answer *a;
	uint64_t one;

	if (!umad || !length)
		ret = -EINVAL;
	p = ret ? NULL : hold(fd);
	if (!ret && !p)
		ret = -EINVAL;
	if (ret) {
		errno = -ret;
		return ret;
	}
	if (list_empty(&p->answers)) {
		release();
		errno = EWOULDBLOCK;
		return -EWOULDBLOCK;
	}
	(void)!read(p->fd, &one, sizeof(one));
	a = list_first(&p->answers, struct answer, node);
	ret = (int)a->hdr.id;
	memcpy(umad, &a->hdr, header_size());
	*length = (int)min((size_t)max(*length, 0), sizeof(a->mad));
	memcpy((uint8_t *)umad + header_size(), a->mad, (size_t)*length);
	drop_first(p);
	release();
	return ret;
}
