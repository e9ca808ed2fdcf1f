/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's connection over rdmamsg, and requests by message. */
#include "client.h"

#include <rdmamsg/endpoint.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS	600000	/* while no server listens there */
#define ANSWER_MS	20000
#define CLOSE_MS	5000

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct kv *kv = rdmamsg_ep_user(ep);

	kv->done = true;
	kv->status = status;
}

void kv_rdma_open(struct kv *kv)
{
	kv->landing = aligned_alloc(64, (sizeof(*kv->landing) + 63) & ~63ul);
	if (!kv->landing)
		errx(1, "no memory");
	if (rdmamsg_open(&kv->ctx, NULL) ||
	    rdmamsg_region_create(kv->ctx, kv->landing, sizeof(*kv->landing),
				  RDMAMSG_ACCESS_LOCAL_WRITE, &kv->region))
		errx(1, "%s", rdmamsg_error());
}

static bool right_keys(const struct kv *kv)
{
	struct rdmamsg_key_attr table = { .size = sizeof(table) };
	struct rdmamsg_key_attr counters = { .size = sizeof(counters) };

	return !rdmamsg_key_query(&kv->table, &table) &&
	       !rdmamsg_key_query(&kv->counters, &counters) &&
	       table.len == sizeof(struct kv_table) &&
	       counters.len == KV_COUNTERS * sizeof(struct kv_counter);
}

/* The server's greeting is checked like all that comes from outside. */
static int take_hello(struct kv *kv)
{
	size_t len;
	const void *data = rdmamsg_ep_peer_data(kv->ep, &len);
	struct kv_hello *hello = &kv->hello;

	if (!data || len != sizeof(*hello))
		return -EPROTO;
	memcpy(hello, data, len);
	if (hello->magic != KV_MAGIC || hello->slots != KV_SLOTS ||
	    hello->counters != KV_COUNTERS ||
	    !memchr(hello->group, '\0', sizeof(hello->group)))
		return -EPROTO;
	return rdmamsg_key_import(hello->table_key, sizeof(hello->table_key),
				  &kv->table) ||
	       rdmamsg_key_import(hello->counter_key,
				  sizeof(hello->counter_key),
				  &kv->counters) ||
	       !right_keys(kv) ? -EPROTO : 0;
}

int kv_rdma_connect(struct kv *kv)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_complete = on_complete,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .user = kv,
		.flags = RDMAMSG_EP_RETRY, .timeout_ms = CONNECT_MS,
		.max_msg_size = KV_ITEM_MAX,
	};

	if (kv->ep)
		rdmamsg_ep_close_wait(kv->ep, CLOSE_MS);
	kv->ep = NULL;
	if (rdmamsg_connect_wait(kv->ctx, kv->host, kv->port, &opts, -1,
				 &kv->ep))
		errx(1, "%s", rdmamsg_error());
	if (take_hello(kv))
		errx(1, "no kv-server of this version listens on port %s",
		     kv->port);
	kv->counter[0] = '\0';	/* another server has other places */
	return rdmamsg_region_register(kv->region, kv->ep);
}

void kv_rdma_close(struct kv *kv)
{
	rdmamsg_ep_close_wait(kv->ep, CLOSE_MS);
	rdmamsg_close(kv->ctx);
	free(kv->landing);
}

static int failed(struct kv *kv, int error)
{
	snprintf(kv->reason, sizeof(kv->reason), "%s",
		 rdmamsg_ep_reason(kv->ep)->text);
	return error;
}

int kv_rdma_ask(struct kv *kv, const void *bytes, size_t len,
		struct kv_item *ret)
{
	struct rdmamsg_msg *msg;
	int err = rdmamsg_send(kv->ep, bytes, len, 0, NULL);

	if (!err)
		err = rdmamsg_recv_wait(kv->ep, ANSWER_MS, &msg);
	if (err)
		return failed(kv, err);
	len = rdmamsg_msg_len(msg);
	if (len <= sizeof(kv->bytes))
		memcpy(kv->bytes, rdmamsg_msg_data(msg), len);
	rdmamsg_msg_free(msg);
	if (len <= sizeof(kv->bytes) &&
	    kv_parse(kv->bytes, len, ret) == (long)len)
		return 0;
	strcpy(kv->reason, "the server's answer is malformed");
	return -EPROTO;
}
