/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: UCX by a driver of its own, for which its headers are needed when
 * rdmamsg is built. The library is loaded if it is installed. The enum rival_kind
 * of a large message is its tag, because all of them arrive in one buffer. The
 * tag of small ones is 0, because exact tags match faster.
 */
#include "config.h"
#include "rival.h"

#ifdef HAVE_UCX
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define RING		32u	/* receives that are posted */
#define LARGE		65536u
#define ANY_TAG		((ucp_tag_t)0)
#define EXACT_TAG	(~(ucp_tag_t)0)
#define WINDOW		32u	/* unfinished sends, as of ucx_perftest */
#define OP_ATTRS	(UCP_OP_ATTR_FIELD_CALLBACK | \
			 UCP_OP_ATTR_FIELD_USER_DATA | \
			 UCP_OP_ATTR_FIELD_MEMORY_TYPE)

static struct {
	__typeof__(ucp_init_version) *init;
	__typeof__(ucp_worker_create) *worker_create;
	__typeof__(ucp_worker_get_address) *get_address;
	__typeof__(ucp_worker_progress) *progress;
	__typeof__(ucp_ep_create) *ep_create;
	__typeof__(ucp_tag_send_nbx) *send;
	__typeof__(ucp_tag_recv_nbx) *recv;
	__typeof__(ucp_request_free) *request_free;
} ucp;

struct slot {
	ucp_request_param_t param;
	uint8_t *buf;
	ucp_tag_recv_info_t info;
	bool done, failed;
};

struct ucx {
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_request_param_t param;	/* of a send */
	struct slot ring[RING];
	unsigned int next;	/* the slot of the next message */
	unsigned int flying;	/* unfinished sends */
	bool failed;
};

static bool load(void)
{
	const struct rival_symbol symbols[] = {
		{ "ucp_init_version", &ucp.init },
		{ "ucp_worker_create", &ucp.worker_create },
		{ "ucp_worker_get_address", &ucp.get_address },
		{ "ucp_worker_progress", &ucp.progress },
		{ "ucp_ep_create", &ucp.ep_create },
		{ "ucp_tag_send_nbx", &ucp.send },
		{ "ucp_tag_recv_nbx", &ucp.recv },
		{ "ucp_request_free", &ucp.request_free },
		{ NULL, NULL },
	};

	return rival_load("libucp.so.0", symbols);
}

/* ---- messages --------------------------------------------------------- */

static void on_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx *u = arg;

	u->flying--;
	u->failed |= status != UCS_OK;
	ucp.request_free(request);
}

static void on_received(void *request, ucs_status_t status,
			const ucp_tag_recv_info_t *info, void *arg)
{
	struct slot *s = arg;

	s->info = *info;
	s->failed = status != UCS_OK;
	s->done = true;
	ucp.request_free(request);
}

static int ucx_send(void *conn, const uint8_t *msg, size_t size, bool more)
{
	struct ucx *u = conn;
	ucs_status_ptr_t request = ucp.send(u->ep, msg, size,
					    size < LARGE ? 0 : msg[0],
					    &u->param);

	if (UCS_PTR_IS_ERR(request))
		return -1;
	u->flying += request != NULL;
	while (u->flying >= (more ? WINDOW : 1))
		(void)ucp.progress(u->worker);
	return u->failed ? -1 : 0;
}

static int post(struct ucx *u, struct slot *s, size_t size)
{
	ucs_status_ptr_t request;

	s->done = false;
	request = ucp.recv(u->worker, s->buf, size, 0,
			   size < LARGE ? EXACT_TAG : ANY_TAG, &s->param);
	if (UCS_PTR_IS_ERR(request))
		return -1;
	s->done |= !request;
	return 0;
}

static enum rival_kind ucx_recv(void *conn, size_t size)
{
	struct ucx *u = conn;
	struct slot *s = &u->ring[u->next];
	enum rival_kind kind;

	while (!s->done)
		(void)ucp.progress(u->worker);
	kind = s->failed || s->info.length != size ? RIVAL_STOP :
	       (enum rival_kind)(size < LARGE ? s->buf[0] :
					       s->info.sender_tag);
	if (post(u, s, size))
		return RIVAL_STOP;
	u->next = (u->next + 1) % RING;
	return kind;
}

/* ---- connections ------------------------------------------------------ */

static int make_worker(struct ucx *u)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES |
			      UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_TAG, .estimated_num_eps = 1,
	};
	const ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_context_h ctx;

	return ucp.init(UCP_API_MAJOR, UCP_API_MINOR, &params, NULL, &ctx) ==
		       UCS_OK &&
	       ucp.worker_create(ctx, &worker, &u->worker) == UCS_OK ? 0 : -1;
}

static int make_ep(struct ucx *u, int fd)
{
	uint8_t peer[RIVAL_ADDRESS_MAX];
	const ucp_ep_params_t ep = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)peer,
	};
	ucp_address_t *own;
	size_t len, n;

	return ucp.get_address(u->worker, &own, &len) == UCS_OK &&
	       !rival_swap(fd, own, len, peer, &n) &&
	       ucp.ep_create(u->worker, &ep, &u->ep) == UCS_OK ? 0 : -1;
}

/* All receives of large messages have one buffer, as in ucx_perftest. */
static int fill_ring(struct ucx *u, size_t size)
{
	size_t step = size < LARGE ? size : 0;
	uint8_t *buf = malloc(size + RING * step);

	for (unsigned int i = 0; i < RING; i++) {
		struct slot *s = &u->ring[i];

		s->param = (ucp_request_param_t){
			.op_attr_mask = OP_ATTRS | UCP_OP_ATTR_FIELD_RECV_INFO,
			.cb.recv = on_received, .user_data = s,
			.memory_type = UCS_MEMORY_TYPE_HOST,
			.recv_info.tag_info = &s->info,
		};
		s->buf = buf + i * step;
		if (!buf || post(u, s, size))
			return -1;
	}
	return 0;
}

/* Returns NULL on failure. The end of the process closes all. */
static void *open_ucx(const struct rival_run *run, bool server)
{
	struct ucx *u = calloc(1, sizeof(*u));
	int fd = rival_meet(run, server);

	if (!u)
		return NULL;
	u->param = (ucp_request_param_t){
		.op_attr_mask = OP_ATTRS | UCP_OP_ATTR_FLAG_MULTI_SEND,
		.cb.send = on_sent, .user_data = u,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	if (fd < 0 || make_worker(u) || make_ep(u, fd) ||
	    fill_ring(u, run->size))
		return NULL;
	return u;
}

static const struct rival_ops ops = {
	.send = ucx_send, .recv = ucx_recv, .open = open_ucx,
};

const struct rival rival_ucx[] = {
	{ .name = "UCX",
	  .flags = "ucp_tag_send_nbx, 32 receives posted",
	  .variable = "UCX_TLS", .value = "posix,cma,self",
	  .figures = { true, true, true }, .listens = true, .ops = &ops, .load = load,
	  .there = rival_loads, .serve = rival_server, .client = rival_client },
	{ .name = NULL },
};
#else
const struct rival rival_ucx[] = {
	{ .name = "UCX",
	  .absent = "has no driver: built without its headers, libucx-dev" },
	{ .name = NULL },
};
#endif
