/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys as bytes: checks the keys of peers, and reads keys. */
#include "base/base.h"
#include "memory/layout.h"
#include "wire/layout.h"
#include "wire/proto.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

int rdmamsg_key_import(const void *buf, size_t len, struct rdmamsg_key *ret)
{
	struct proto_key key;

	if (!buf || !ret)
		return rdmamsg__fail(-EINVAL, "rdmamsg_key_import: %s is NULL",
				     buf ? "ret" : "buf");
	if (rdmamsg__key_decode(&key, buf, len))
		return rdmamsg__fail(-EPROTO, "these %zu bytes are %s", len,
				     len >= PROTO_LAYOUT_LEN &&
				     *(const uint8_t *)buf ==
				     PROTO_LAYOUT_VERSION ? "perhaps the key "
				     "of a layout: rdmamsg_layout_import()" :
				     "no key");
	memcpy(ret->bytes, buf, sizeof(ret->bytes));
	return 0;
}

int rdmamsg_key_query(const struct rdmamsg_key *key,
		     struct rdmamsg_key_attr *attr)
{
	struct rdmamsg_key_attr i = { .size = sizeof(i) };
	struct proto_key k;

	if (!key)
		return rdmamsg__fail(-EINVAL, "rdmamsg_key_query: key is NULL");
	if (!rdmamsg__layout_key(key, &k) &&
	    rdmamsg__key_decode(&k, key->bytes, sizeof(key->bytes)))
		return rdmamsg__fail(-EPROTO, "these bytes are no key");
	i.region = k.region;
	i.len = k.len;
	i.access = k.access;
	return rdmamsg__give(attr, &i, sizeof(i));
}
