/* SPDX-License-Identifier: BSD-2-Clause */
/* The libuv adapter: one poll handle on a copy of the context's descriptor. */
#include <rdmamsg/uv.h>

#include <stdlib.h>

#include "loop/adapter.h"

struct rdmamsg_uv {
	uv_poll_t poll;		/* first: the callbacks get its address */
	struct rdmamsg *ctx;
	int fd;
};

/* The handle outlives rdmamsg_uv_stop() in a callback: the loop closes it later. */
static void readable(uv_poll_t *poll, int status, int events)
{
	if (adapter_process(((struct rdmamsg_uv *)poll)->ctx))
		uv_poll_stop(poll);
}

static void closed(uv_handle_t *handle)
{
	free(handle);
}

int rdmamsg_uv_start(uv_loop_t *loop, struct rdmamsg *ctx,
		     struct rdmamsg_uv **ret)
{
	struct rdmamsg_uv *uv;
	int fd, err;

	if (!loop || !ret)
		return -EINVAL;
	fd = adapter_fd(ctx);
	if (fd < 0)
		return fd;
	err = -ENOMEM;
	uv = calloc(1, sizeof(*uv));
	if (!uv)
		goto err_fd;
	uv->ctx = ctx;
	uv->fd = fd;
	err = uv_poll_init(loop, &uv->poll, fd);
	if (err)
		goto err_uv;
	/* fails for a handle that is closing only */
	(void)uv_poll_start(&uv->poll, UV_READABLE, readable);
	*ret = uv;
	return 0;

err_uv:
	free(uv);
err_fd:
	close(fd);
	return err;
}

void rdmamsg_uv_stop(struct rdmamsg_uv *uv)
{
	if (!uv)
		return;
	uv_close((uv_handle_t *)&uv->poll, closed);
	close(uv->fd);
}

uv_handle_t *rdmamsg_uv_handle(struct rdmamsg_uv *uv)
{
	return uv ? (uv_handle_t *)&uv->poll : NULL;
}
