/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners that use the CM. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/loop.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "cm/connect.h"

#include "cm/rdma/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

/* The callback may close the listener. */
static void on_event(struct rdmamsg *ctx, struct cm_owner *owner,
		     const struct cm_event *ev)
{
	struct rdmamsg_listener *l =
		list_entry(owner, struct rdmamsg_listener, owner);

	switch (ev->type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		rdmamsg__request_cm(l, ev);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		log_warn("listener %p: its device was removed", (void *)l);
		l->dead = true;
		/* free the useless id, because the kernel waits for it */
		for (int i = 0; i < TABLES; i++) {
			if (l->ids[i].id != ev->id)
				continue;
			l->ids[i].id = NULL;
			rdmamsg__cm_id_free(ev->v, ev->id);
		}
		rdmamsg__tell(&ctx->loop, l->opts.on_failed, l, -ENODEV);
		break;
	default:
		break;
	}
}

static int start(const struct rdmamsg_listener *l, const struct verbs_api *v,
		 struct rdma_cm_id *id, struct sockaddr *addr)
{
	int ret = rdmamsg__v_bind_addr(v, id, addr);

	if (!ret)
		ret = rdmamsg__v_listen(v, id, (int)l->opts.backlog);
	return ret ? rdmamsg__cm_fail(l->ctx, ret, "listening") : 0;
}

static int listen_through(struct rdmamsg_listener *l,
			  const struct verbs_api *v, struct addrinfo *ai)
{
	struct listen_id *li = &l->ids[rdmamsg__is_soft(v)];
	struct rdma_cm_id *id;
	int ret;

	l->owner.event = on_event;
	ret = rdmamsg__cm_id_new(l->ctx, v, &l->owner, RDMA_PS_TCP, &id);
	if (ret)
		return ret;
	ret = start(l, v, id, ai->ai_addr);
	if (ret) {
		rdmamsg__cm_id_free(v, id);
		return ret;
	}
	li->v = v;
	li->id = id;
	l->port = ntohs(v->get_src_port(id));
	/*
	 * A second table listens on the same port. sin6_port has the same
	 * offset.
	 */
	((struct sockaddr_in *)ai->ai_addr)->sin_port = htons(l->port);
	return 0;
}

int rdmamsg__cm_listen(struct rdmamsg_listener *l, struct addrinfo *ai)
{
	const struct verbs_api *v =
		rdmamsg__choose_table(rdmamsg__asked(l->opts.device));
	int ret;

	if (v)
		return listen_through(l, v, ai);
	ret = rdmamsg__try(rdmamsg__device_any(rdmamsg__verbs) ?:
			   listen_through(l, rdmamsg__verbs, ai));
	if (rdmamsg__choose_soft_listens(ai->ai_addr, ret))
		return listen_through(l, &rdmamsg__verbs_soft, ai);
	return rdmamsg__fail_again(ret);
}

void rdmamsg__cm_unlisten(struct rdmamsg_listener *l)
{
	for (int i = 0; i < TABLES; i++) {
		if (l->ids[i].id)
			rdmamsg__cm_id_free(l->ids[i].v, l->ids[i].id);
		l->ids[i].id = NULL;
	}
}

const char *rdmamsg__cm_over(const struct rdmamsg_listener *l)
{
	if (!l->ids[1].id)
		return "the RDMA devices";
	return l->ids[0].id ? "the RDMA devices and the soft HCA" :
	       "the soft HCA";
}

int rdmamsg_listen(struct rdmamsg *ctx, const char *host, const char *service,
		   const struct rdmamsg_listen_options *opts,
		   struct rdmamsg_listener **ret)
{
	return rdmamsg__listen(ctx, &rdmamsg__by_cm, host, service, opts,
			       ret);
}
