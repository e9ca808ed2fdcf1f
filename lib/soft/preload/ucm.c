/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rdma_cm device for an unmodified librdmacm. It replaces the calls that
 * open the device, and write(), with which librdmacm passes commands. Each
 * answer goes to the response pointer of its command, truncated to the length
 * in the header.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "soft/preload/preload.h"
#include "soft/cm/cm.h"

#define PAGE	1024
#define PAGES	1024
#define CMD_MAX	1024

/* ---- descriptors of the device ---------------------------------------- */

struct entry {
	_Atomic(struct soft_cm_file *) file;
	/* the last of these calls closes this one, like the last write() in Linux */
	_Atomic(struct soft_cm_file *) closing;
	_Atomic unsigned int calls;
	pid_t pid;			/* a forked child cannot use the ids */
};

/* Never freed, so that write() needs no lock. */
static _Atomic(struct entry *) pages[PAGES];

static struct entry *entry_of(int fd)
{
	struct entry *page;

	if (fd < 0 || fd >= PAGE * PAGES)
		return NULL;
	page = atomic_load_explicit(&pages[fd / PAGE], memory_order_acquire);
	return page ? &page[fd % PAGE] : NULL;
}

static struct entry *entry_make(int fd)
{
	struct entry *page, *none = NULL;

	if (fd >= PAGE * PAGES) {
		errno = EMFILE;
		return NULL;
	}
	if (!entry_of(fd)) {
		page = calloc(PAGE, sizeof(*page));
		if (!page)
			return NULL;
		if (!atomic_compare_exchange_strong(&pages[fd / PAGE], &none,
						    page))
			free(page);
	}
	return entry_of(fd);
}

/* Returns the file, which stays until leave(), or NULL. */
static struct soft_cm_file *enter(struct entry *e)
{
	atomic_fetch_add(&e->calls, 1);
	return atomic_load(&e->file);
}

/* A program may destroy a channel while another thread waits for its events. */
static void close_unused(struct entry *e)
{
	struct soft_cm_file *file =
		atomic_load(&e->calls) ? NULL : atomic_exchange(&e->closing, NULL);

	if (!file)
		return;
	soft_cm_close(file);
	preload_drop_channel();
}

static void leave(void *arg)
{
	struct entry *e = arg;

	atomic_fetch_sub(&e->calls, 1);
	close_unused(e);
}

/* A forked child has inherited the calls of its parent's threads. */
static void forget_parent(struct entry *e)
{
	if (e->pid == getpid())
		return;
	e->pid = getpid();
	atomic_store(&e->calls, 0);
	atomic_store(&e->closing, NULL);
}

/* Returns 0 or -errno. */
static int open_channel(struct rdma_event_channel *ch)
{
	struct soft_cm_file *file;
	struct entry *e;
	int err = soft_cm_open(&file);

	if (err)
		return err;
	e = entry_make(file->fd);
	if (!e) {
		err = -errno;
		soft_cm_close(file);
		return err;
	}
	ch->fd = file->fd;
	forget_parent(e);
	atomic_store_explicit(&e->file, file, memory_order_release);
	return 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *ch;
	int err;

	if (!preload_add_channel())
		return NULL;
	ch = malloc(sizeof(*ch));
	err = ch ? open_channel(ch) : -ENOMEM;
	if (!err)
		return ch;
	free(ch);
	preload_drop_channel();
	errno = -err;
	return NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	struct entry *e = entry_of(ch->fd);
	struct soft_cm_file *file = e ? atomic_exchange(&e->file, NULL) : NULL;

	if (file && e->pid == getpid()) {
		atomic_store(&e->closing, file);
		close_unused(e);
	} else {
		close(ch->fd);
	}
	free(ch);
}

/* ---- commands --------------------------------------------------------- */

union command {
	struct rdma_ucm_create_id create_id;
	struct rdma_ucm_destroy_id destroy_id;
	struct rdma_ucm_bind_ip bind_ip;
	struct rdma_ucm_bind bind;
	struct rdma_ucm_resolve_ip resolve_ip;
	struct rdma_ucm_resolve_addr resolve_addr;
	struct rdma_ucm_resolve_route resolve_route;
	struct rdma_ucm_query query;
	struct rdma_ucm_connect connect;
	struct rdma_ucm_listen listen;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_reject reject;
	struct rdma_ucm_disconnect disconnect;
	struct rdma_ucm_init_qp_attr init_qp_attr;
	struct rdma_ucm_get_event get_event;
	struct rdma_ucm_set_option set_option;
	struct rdma_ucm_notify notify;
	struct rdma_ucm_migrate_id migrate_id;
	struct rdma_ucm_join_ip_mcast join_ip_mcast;
	struct rdma_ucm_join_mcast join_mcast;
	struct soft_ucm_write_cm_event write_event;
	uint8_t bytes[CMD_MAX];		/* missing bytes read as zero */
};

union answer {
	struct rdma_ucm_create_id_resp create_id;
	struct rdma_ucm_destroy_id_resp destroy_id;
	struct rdma_ucm_query_addr_resp addr;
	struct rdma_ucm_query_route_resp route;
	struct rdma_ucm_query_path_resp path;
	struct ib_uverbs_qp_attr qp_attr;
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_migrate_resp migrate;
	uint8_t bytes[CMD_MAX];
};

static uint16_t ip_len(int family)
{
	return family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       family == AF_INET ? sizeof(struct sockaddr_in) : 0;
}

static int bind_ip(struct soft_cm_file *file, const struct rdma_ucm_bind_ip *c)
{
	struct rdma_ucm_bind cmd = {
		.id = c->id, .addr_size = ip_len(c->addr.sin6_family),
	};

	memcpy(&cmd.addr, &c->addr, sizeof(c->addr));
	return soft_cm_bind(file, &cmd);
}

static int resolve_ip(struct soft_cm_file *file,
		      const struct rdma_ucm_resolve_ip *c)
{
	struct rdma_ucm_resolve_addr cmd = {
		.id = c->id, .timeout_ms = c->timeout_ms,
		.src_size = ip_len(c->src_addr.sin6_family),
		.dst_size = ip_len(c->dst_addr.sin6_family),
	};

	memcpy(&cmd.src_addr, &c->src_addr, sizeof(c->src_addr));
	memcpy(&cmd.dst_addr, &c->dst_addr, sizeof(c->dst_addr));
	return soft_cm_resolve_addr(file, &cmd);
}

/*
 * Blocks if the descriptor is blocking. The count may include events that were
 * destroyed with their ids, so tries again until there is an event.
 */
static int get_event(struct soft_cm_file *file,
		     struct rdma_ucm_event_resp *resp)
{
	uint64_t one;
	int ret;

	do {
		if (read(file->fd, &one, sizeof(one)) != sizeof(one))
			return -errno;
		ret = soft_cm_get_event(file, resp);
	} while (ret == -EAGAIN);
	return ret;
}

/* The passive side replies with valid parameters; the active side confirms. */
static int do_accept(struct soft_cm_file *file,
		     const struct rdma_ucm_accept *cmd)
{
	return cmd->conn_param.valid ? soft_cm_accept(file, cmd) :
	       soft_cm_establish(file, cmd->id);
}

static int migrate_id(struct soft_cm_file *to,
		      const struct rdma_ucm_migrate_id *cmd,
		      struct rdma_ucm_migrate_resp *resp)
{
	struct entry *e = entry_of((int)cmd->fd);
	struct soft_cm_file *from = e ? enter(e) : NULL;
	int ret = from ? soft_cm_migrate_id(from, to, cmd, resp) : -EINVAL;

	if (e)
		leave(e);
	return ret;
}

/* Sets *len to the length of the answer. */
static int query(struct soft_cm_file *file, const struct rdma_ucm_query *cmd,
		 union answer *a, size_t room, size_t *len)
{
	int ret;

	switch (cmd->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		*len = sizeof(a->addr);
		return soft_cm_query_addr(file, cmd, &a->addr);
	case RDMA_USER_CM_QUERY_GID:
		*len = sizeof(a->addr);
		return soft_cm_query_gid(file, cmd, &a->addr);
	case RDMA_USER_CM_QUERY_PATH:
		ret = soft_cm_query_path(file, cmd, &a->path,
					 min(room, sizeof(*a)));
		*len = sizeof(a->path) +
		       (ret ? 0 : a->path.num_paths) *
		       sizeof(a->path.path_data[0]);
		return ret;
	default:
		return -ENOSYS;
	}
}

static int command(struct soft_cm_file *file, uint32_t cmd,
		   const union command *c, union answer *a, size_t room,
		   size_t *len)
{
	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		*len = sizeof(a->create_id);
		return soft_cm_create_id(file, &c->create_id, &a->create_id);
	case RDMA_USER_CM_CMD_DESTROY_ID:
		*len = sizeof(a->destroy_id);
		return soft_cm_destroy_id(file, &c->destroy_id, &a->destroy_id);
	case RDMA_USER_CM_CMD_BIND_IP:
		return bind_ip(file, &c->bind_ip);
	case RDMA_USER_CM_CMD_BIND:
		return soft_cm_bind(file, &c->bind);
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		return resolve_ip(file, &c->resolve_ip);
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		return soft_cm_resolve_addr(file, &c->resolve_addr);
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return soft_cm_resolve_route(file, &c->resolve_route);
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
		*len = sizeof(a->route);
		return soft_cm_query_route(file, c->query.id, &a->route);
	case RDMA_USER_CM_CMD_QUERY:
		return query(file, &c->query, a, room, len);
	case RDMA_USER_CM_CMD_CONNECT:
		return soft_cm_connect(file, &c->connect);
	case RDMA_USER_CM_CMD_LISTEN:
		return soft_cm_listen(file, &c->listen);
	case RDMA_USER_CM_CMD_ACCEPT:
		return do_accept(file, &c->accept);
	case RDMA_USER_CM_CMD_REJECT:
		return soft_cm_reject(file, &c->reject);
	case RDMA_USER_CM_CMD_DISCONNECT:
		return soft_cm_disconnect(file, &c->disconnect);
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		*len = sizeof(a->qp_attr);
		return soft_cm_init_qp_attr(file, &c->init_qp_attr,
					    &a->qp_attr);
	case RDMA_USER_CM_CMD_GET_EVENT:
		*len = sizeof(a->event);
		return get_event(file, &a->event);
	case RDMA_USER_CM_CMD_SET_OPTION:
		return soft_cm_set_option(file, &c->set_option,
			(const void *)(uintptr_t)c->set_option.optval);
	case RDMA_USER_CM_CMD_NOTIFY:
		return soft_cm_notify(file, &c->notify);
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		*len = sizeof(a->migrate);
		return migrate_id(file, &c->migrate_id, &a->migrate);
	case RDMA_USER_CM_CMD_GET_OPTION:
		return -ENOSYS;		/* as in Linux */
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		*len = sizeof(a->create_id);
		return soft_cm_join_ip_mcast(file, &c->join_ip_mcast,
					     &a->create_id);
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		*len = sizeof(a->create_id);
		return soft_cm_join_mcast(file, &c->join_mcast, &a->create_id);
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
		*len = sizeof(a->destroy_id);
		return soft_cm_leave_mcast(file, &c->destroy_id,
					   &a->destroy_id);
	case SOFT_UCM_CMD_WRITE_CM_EVENT:
		return soft_cm_write_event(file, &c->write_event);
	default:
		return -EOPNOTSUPP;
	}
}

/* Returns the response pointer of a command. */
static void *response(uint32_t cmd, const union command *c)
{
	uint64_t at;

	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		at = c->create_id.response;
		break;
	default:
		/* the first field of all other commands with a response */
		at = c->destroy_id.response;
	}
	return (void *)(uintptr_t)at;
}

/* A thread may be cancelled while it waits for an event. */
static int __attribute__((noinline))
call(struct entry *e, const struct rdma_ucm_cmd_hdr *hdr,
     const union command *c, union answer *a, size_t *len)
{
	struct soft_cm_file *file = enter(e);
	int ret;

	pthread_cleanup_push(leave, e);
	ret = file ? command(file, hdr->cmd, c, a, hdr->out, len) : -EBADF;
	pthread_cleanup_pop(1);
	return ret;
}

static ssize_t take(struct entry *e, const struct rdma_ucm_cmd_hdr *hdr,
		    const void *buf, size_t count)
{
	union command c;
	union answer a;
	size_t len = 0;
	int ret;

	memset(&c, 0, sizeof(c));
	memcpy(&c, (const char *)buf + sizeof(*hdr), min(hdr->in, sizeof(c)));
	memset(&a, 0, sizeof(a));
	ret = call(e, hdr, &c, &a, &len);
	if (ret) {
		errno = -ret;
		return -1;
	}
	/* older ABIs have shorter answers */
	if (len)
		memcpy(response(hdr->cmd, &c), &a, min(len, hdr->out));
	return (ssize_t)count;
}

ssize_t write(int fd, const void *buf, size_t count)
{
	static _Atomic(void *) next;
	struct entry *e = entry_of(fd);
	struct soft_cm_file *file = e ? atomic_load_explicit(&e->file,
					memory_order_acquire) : NULL;
	struct rdma_ucm_cmd_hdr hdr;
	void *real;

	if (unlikely(file) && count >= sizeof(hdr)) {
		memcpy(&hdr, buf, sizeof(hdr));
		/* the device itself writes 8 bytes to count events */
		if (hdr.in && hdr.in + sizeof(hdr) == count) {
			if (e->pid == getpid())
				return take(e, &hdr, buf, count);
			errno = EACCES;
			return -1;
		}
	}
	real = atomic_load_explicit(&next, memory_order_relaxed);
	if (unlikely(!real)) {
		real = dlsym(RTLD_NEXT, "write");
		if (!real)
			return syscall(SYS_write, fd, buf, count);
		atomic_store_explicit(&next, real, memory_order_relaxed);
	}
	return ((ssize_t (*)(int, const void *, size_t))real)(fd, buf, count);
}
