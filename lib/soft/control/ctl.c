/* SPDX-License-Identifier: BSD-2-Clause */
/* soft_ctl.h: sends one order at a time to the socket of a node. */
#include "soft/control/soft_ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soft/control/control.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/names.h"
#include "soft/fabric/node.h"

#define ANSWER_MS	5000
#define CONNECT_TRIES	500		/* 10 ms each, if the backlog is full */

struct soft_ctl {
	struct soft_dev name;		/* only uid and fabric_name are used */
};

static int call(struct soft_ctl *ctl, uint32_t node)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	int fd = -EAGAIN;

	if (node >= SOFT_NODES)
		return -EINVAL;
	for (int i = 0; i < CONNECT_TRIES && fd == -EAGAIN; i++) {
		fd = soft_name_connect(&ctl->name, "node/%u", node);
		if (fd == -EAGAIN)
			(void)nanosleep(&pause, NULL);
	}
	return fd == -ECONNREFUSED ? -ENOENT : fd;
}

/* Returns 0 if there is a node, which may be stopped, else -ENOENT. */
static int look(struct soft_ctl *ctl)
{
	int fd = -ENOENT;

	for (uint32_t i = 0; i < SOFT_NODES && fd == -ENOENT; i++)
		fd = call(ctl, i);
	if (fd >= 0)
		close(fd);
	return fd < 0 && fd != -EAGAIN ? fd : 0;
}

int soft_ctl_open(const char *fabric, struct soft_ctl **ret)
{
	struct soft_ctl *ctl = calloc(1, sizeof(*ctl));
	int err;

	if (!ctl)
		return -ENOMEM;
	err = soft_fabric_name(&ctl->name, fabric);
	if (!err)
		err = look(ctl);
	if (err) {
		free(ctl);
		return err;
	}
	*ret = ctl;
	return 0;
}

void soft_ctl_close(struct soft_ctl *ctl)
{
	free(ctl);
}

static int ask(struct soft_ctl *ctl, uint32_t node, struct soft_ctl_msg *m)
{
	struct pollfd p = { .events = POLLIN };
	int fds[1], ret, got;

	m->hdr = (struct soft_msg){
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_CTL,
		.node = UINT32_MAX,
	};
	p.fd = call(ctl, node);
	if (p.fd < 0)
		return p.fd;
	ret = soft_msg_send(p.fd, m, sizeof(*m), NULL, 0);
	if (ret)
		goto out;
	ret = -ETIMEDOUT;
	if (poll(&p, 1, ANSWER_MS) != 1)
		goto out;
	got = soft_msg_recv(p.fd, m, sizeof(*m), fds, 1);
	if (fds[0] >= 0)
		close(fds[0]);
	if (got == 0 || got == -ECONNRESET)
		ret = -ENOENT;		/* the node has just ended */
	else if (got != sizeof(*m) || m->hdr.magic != SOFT_MSG_MAGIC ||
		 m->hdr.type != SOFT_MSG_CTL_DONE || m->result > 0)
		ret = -EPROTO;
	else
		ret = m->result;
out:
	close(p.fd);
	return ret;
}

/* Orders one node, or all. Returns the first error, after trying all. */
static int tell(struct soft_ctl *ctl, uint32_t node,
		const struct soft_ctl_msg *order)
{
	struct soft_ctl_msg m = *order;
	int ret = 0, err, reached = 0;

	if (node != SOFT_CTL_ALL)
		return ask(ctl, node, &m);
	for (uint32_t i = 0; i < SOFT_NODES; i++) {
		m = *order;
		m.fresh = 1;
		err = ask(ctl, i, &m);
		if (err == -ENOENT)
			continue;
		reached++;
		if (err && !ret)
			ret = err;
	}
	return reached ? ret : -ENOENT;
}

int soft_ctl_next(struct soft_ctl *ctl, uint32_t *node,
		  struct soft_ctl_node *ret)
{
	for (uint32_t i = *node; i < SOFT_NODES; i++) {
		struct soft_ctl_msg m = { .op = SOFT_CTL_NODE };
		int err = ask(ctl, i, &m);

		if (err == -ENOENT)
			continue;
		*node = i + 1;
		if (!err)
			*ret = m.node;
		return err;
	}
	return -ENOENT;
}

int soft_ctl_qps(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		 struct soft_ctl_qp *qps, int max)
{
	int n = 0;

	while (n < max && *index < SOFT_QPS) {
		struct soft_ctl_msg m = {
			.op = SOFT_CTL_QPS, .arg = { *index },
		};
		int err = ask(ctl, node, &m);

		if (err)
			return err;
		if (m.arg[1] > SOFT_CTL_PAGE || m.arg[0] <= *index)
			return -EPROTO;
		for (uint32_t i = 0; i < m.arg[1] && n < max; i++) {
			/* index must grow, or this loop would not end */
			if ((m.qps[i].qpn & (SOFT_QPS - 1)) < *index)
				return -EPROTO;
			qps[n++] = m.qps[i];
			*index = (m.qps[i].qpn & (SOFT_QPS - 1)) + 1;
		}
		if (n < max)
			*index = m.arg[0];
	}
	return n;
}

int soft_ctl_groups(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		    struct soft_ctl_group *groups, int max)
{
	int n = 0;

	while (max - n >= SOFT_CTL_PAGE && *index < SOFT_GROUPS) {
		struct soft_ctl_msg m = {
			.op = SOFT_CTL_GROUPS, .arg = { *index },
		};
		int err = ask(ctl, node, &m);

		if (err)
			return err;
		if (m.arg[1] > SOFT_CTL_PAGE || m.arg[0] <= *index)
			return -EPROTO;
		memcpy(groups + n, m.groups, m.arg[1] * sizeof(*groups));
		n += (int)m.arg[1];
		*index = m.arg[0];
	}
	return n;
}

int soft_ctl_objects(struct soft_ctl *ctl, uint32_t node,
		     enum soft_ctl_kind kind, uint32_t *next,
		     struct soft_ctl_object *objects, int max)
{
	int n = 0;

	while (*next && max - n >= SOFT_CTL_OBJECT_PAGE) {
		struct soft_ctl_msg m = {
			.op = SOFT_CTL_OBJECTS, .arg = { *next, kind },
		};
		int err = ask(ctl, node, &m);

		if (err)
			return err;
		/* only a full page has one behind it, with larger numbers */
		if (m.arg[1] > SOFT_CTL_OBJECT_PAGE ||
		    (m.arg[0] && (m.arg[1] < SOFT_CTL_OBJECT_PAGE ||
				  m.arg[0] <= *next)))
			return -EPROTO;
		memcpy(objects + n, m.objects, m.arg[1] * sizeof(*objects));
		n += (int)m.arg[1];
		*next = m.arg[0];
	}
	return n;
}

int soft_ctl_port(struct soft_ctl *ctl, uint32_t node, uint8_t port,
		  enum soft_port state)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_PORT, .arg = { port, state } });
}

int soft_ctl_faults(struct soft_ctl *ctl, uint32_t node,
		    const struct soft_ctl_faults *faults)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_FAULTS, .faults = *faults });
}

int soft_ctl_refuse(struct soft_ctl *ctl, uint32_t node, enum soft_object what,
		    uint32_t nth)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_REFUSE, .arg = { what, nth } });
}

int soft_ctl_remove(struct soft_ctl *ctl, uint32_t node)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_REMOVE });
}

int soft_ctl_add(struct soft_ctl *ctl, uint32_t node)
{
	return tell(ctl, node, &(struct soft_ctl_msg){ .op = SOFT_CTL_ADD });
}

int soft_ctl_set(struct soft_ctl *ctl, uint32_t node, enum soft_attr what,
		 uint8_t port, uint64_t value)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_SET, .arg = { what, port },
			.value = value });
}

int soft_ctl_event(struct soft_ctl *ctl, uint32_t node,
		   enum ibv_event_type type, uint32_t element)
{
	return tell(ctl, node, &(struct soft_ctl_msg){
			.op = SOFT_CTL_EVENT, .arg = { type, element } });
}
