/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and answers, whichever way they go. */
#include "client.h"

#include <errno.h>
#include <string.h>

void kv_open(struct kv *kv, bool tcp, const char *host, const char *port)
{
	*kv = (struct kv){ .tcp = tcp, .host = host, .port = port, .fd = -1 };
	if (!tcp)
		kv_rdma_open(kv);
	kv_connect(kv);
}

void kv_connect(struct kv *kv)
{
	while (kv->tcp ? kv_tcp_connect(kv) : kv_rdma_connect(kv))
		;
}

void kv_close(struct kv *kv)
{
	if (kv->tcp)
		kv_tcp_close(kv);
	else
		kv_rdma_close(kv);
}

static int check(struct kv *kv, const struct kv_item *answer)
{
	if (answer->head.id == kv->id)
		return 0;
	strcpy(kv->reason, "the server has answered another request");
	return -EPROTO;
}

int kv_ask(struct kv *kv, int kind, const char *key, const void *value,
	   size_t len, uint64_t number, struct kv_item *ret)
{
	static char bytes[KV_ITEM_MAX];
	const struct kv_item item = { {
		.magic = KV_MAGIC, .kind = (uint16_t)kind, .id = ++kv->id,
		.key_len = (uint16_t)strlen(key), .value_len = (uint32_t)len,
		.number = number,
	}, key, value };
	int err;

	if (strlen(key) > KV_KEY_MAX || len > KV_VALUE_MAX)
		return -EMSGSIZE;
	len = kv_build(bytes, &item);
	err = kv->tcp ? kv_tcp_ask(kv, bytes, len, ret) :
			kv_rdma_ask(kv, bytes, len, ret);
	return err ? err : check(kv, ret);
}
