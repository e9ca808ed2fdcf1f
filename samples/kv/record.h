/* SPDX-License-Identifier: BSD-2-Clause */
/* A record in the log's file: an item behind its sum. */
#ifndef KV_RECORD_H
#define KV_RECORD_H

#include "wire.h"

#define RECORD_MAX	(sizeof(uint64_t) + KV_ITEM_MAX)

/* Writes a record to 'to', RECORD_MAX bytes, and returns its bytes. */
size_t record_build(void *to, const struct kv_item *item);
/* The bytes of the record at 'from', or 0: it is cut off or has changed. */
size_t record_parse(const void *from, size_t len, struct kv_item *ret);

#endif
