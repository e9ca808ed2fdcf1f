/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: UCX by a driver of its own, for which its headers are needed when
 * rdmamsg is built. The library is loaded if it is installed. All messages
 * arrive in one buffer, as in ucx_perftest. The enum rival_kind of a large
 * message is its tag, because a part of the next one may be in the buffer when
 * it is complete. The tag of small ones is 0, because exact tags match faster.
 */
#include "config.h"
#include "rival.h"

#ifdef HAVE_UCX
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define RING		32u	/* receives of a stream that are posted */
#define LARGE		4096u	/* from here on, parts of two may arrive at a time */
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

struct ucx {
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_request_param_t send, recv;
	uint8_t *buf;
	size_t size;
	enum rival_kind kinds[RING];	/* of messages that have arrived */
	unsigned int arrived, taken, posted;
	unsigned int depth;	/* receives that are posted */
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
	struct ucx *u = arg;

	u->failed |= status != UCS_OK || info->length != u->size;
	u->kinds[u->arrived++ % RING] =
		(enum rival_kind)(u->size < LARGE ? u->buf[0] :
						    info->sender_tag);
	ucp.request_free(request);
}

static int ucx_send(void *conn, const uint8_t *msg, size_t size, bool more)
{
	struct ucx *u = conn;
	ucs_status_ptr_t request = ucp.send(u->ep, msg, size,
					    size < LARGE ? 0 : msg[0],
					    &u->send);

	if (UCS_PTR_IS_ERR(request))
		return -1;
	u->flying += request != NULL;
	while (u->flying >= (more ? WINDOW : 1))
		(void)ucp.progress(u->worker);
	return u->failed ? -1 : 0;
}

static int post(struct ucx *u)
{
	ucs_status_ptr_t request = ucp.recv(u->worker, u->buf, u->size, 0,
					    u->size < LARGE ? EXACT_TAG :
							      ANY_TAG,
					    &u->recv);

	if (UCS_PTR_IS_ERR(request))
		return -1;
	u->posted++;
	return 0;
}

/* Posts receives here, and not after a message, so that its echo goes first. */
static enum rival_kind ucx_recv(void *conn, size_t size)
{
	struct ucx *u = conn;

	(void)size;
	while (u->posted - u->taken < u->depth)
		if (post(u))
			return RIVAL_STOP;
	while (u->taken == u->arrived)
		(void)ucp.progress(u->worker);
	return u->failed ? RIVAL_STOP : u->kinds[u->taken++ % RING];
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

/* Returns NULL on failure. The end of the process closes all. */
static void *open_ucx(const struct rival_run *run, bool server)
{
	struct ucx *u = calloc(1, sizeof(*u));
	int fd = rival_meet(run, server);

	if (!u || fd < 0)
		return NULL;
	u->size = run->size;
	u->buf = malloc(u->size);
	/* one receive is faster than a ring for messages back and forth */
	u->depth = run->figure == RIVAL_USEC ? 1 : RING;
	u->send = (ucp_request_param_t){
		.op_attr_mask = OP_ATTRS | UCP_OP_ATTR_FLAG_MULTI_SEND,
		.cb.send = on_sent, .user_data = u,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	u->recv = (ucp_request_param_t){
		.op_attr_mask = OP_ATTRS | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = on_received, .user_data = u,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	if (!u->buf || make_worker(u) || make_ep(u, fd))
		return NULL;
	return u;
}

static const struct rival_ops ops = {
	.send = ucx_send, .recv = ucx_recv, .open = open_ucx,
};

const struct rival rival_ucx[] = {
	{ .name = "UCX",
	  .flags = "ucp_tag_send_nbx, 32 receives posted, 1 for latency",
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
