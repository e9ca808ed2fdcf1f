/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts of peers. The context keeps their descriptions. The program has a key
 * with the number of a description, which works in this context only:
 *
 *  0 u8 version (255)  1 u8 access  2 u16 0  4 u32 number  8 u64 layout
 *  16 u64 serial number  24 u64 length
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "memory/layout.h"
#include "memory/layout_build.h"
#include "memory/memory.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/rdmamsg.h>

#define LOCAL_VERSION	255
#define IMPORTS_MAX	(1u << 20)

struct local_key {
	uint8_t version;
	uint8_t access;
	uint16_t zero;
	uint32_t number;
	uint64_t layout;
	uint64_t serial;
	uint64_t len;
};

_Static_assert(sizeof(struct local_key) == sizeof(struct rdmamsg_key), "a key");

struct layout_import {
	struct layout desc;
	uint32_t busy;			/* operations */
	struct local_key key;
};

bool rdmamsg__layout_key(const struct rdmamsg_key *key, struct proto_key *ret)
{
	struct local_key k;

	if (key->bytes[0] != LOCAL_VERSION)
		return false;
	memcpy(&k, key->bytes, sizeof(k));
	*ret = (struct proto_key){
		.access = k.access, .region = k.layout, .len = k.len,
	};
	return true;
}

bool rdmamsg__layout_find(const struct rdmamsg *ctx,
			  const struct rdmamsg_key *key,
			  struct layout_import **ret, struct proto_key *plain)
{
	struct layout_import *i;
	struct local_key k;

	if (!key || key->bytes[0] != LOCAL_VERSION)
		return false;
	memcpy(&k, key->bytes, sizeof(k));
	i = rdmamsg__handle_of(&ctx->memory->imports, k.number);
	if (!i || memcmp(&i->key, &k, sizeof(k)))
		return false;
	*ret = i;
	return rdmamsg__layout_key(key, plain);
}

void rdmamsg__layout_hold(struct layout_import *i)
{
	i->busy++;
}

void rdmamsg__layout_rele(struct layout_import *i)
{
	i->busy--;
}

uint64_t rdmamsg__layout_far(const struct layout_import *i, uint64_t at,
			     uint64_t *ret_addr, uint32_t *ret_rkey)
{
	const struct layout_source *source;
	struct layout_run run;

	rdmamsg__layout_at(&i->desc, at, &run);
	source = &i->desc.source[run.source];
	*ret_addr = source->addr + run.offset;
	*ret_rkey = source->rkey;
	return run.len;
}

int rdmamsg__layout_operand(const struct layout_import *i, uint64_t offset,
			    uint32_t bytes, struct proto_key *key)
{
	uint64_t addr;

	if (rdmamsg__layout_far(i, offset, &addr, &key->rkey) < bytes)
		return rdmamsg__fail(-EINVAL, "offset %llu of layout %llu: the "
				     "%u bytes are in several blocks, and an "
				     "atomic operation needs them in one",
				     (unsigned long long)offset,
				     (unsigned long long)key->region, bytes);
	key->addr = addr - offset;
	return 0;
}

bool rdmamsg__layout_has_word(const struct layout_import *i, uint64_t at,
			      uint64_t word, uint32_t rkey)
{
	uint64_t addr;
	uint32_t its;

	return rdmamsg__layout_far(i, at, &addr, &its) >= sizeof(word) &&
	       addr == word && its == rkey;
}

static int refuse(const char *why)
{
	return rdmamsg__fail(-EPROTO, "rdmamsg_layout_import: %s", why);
}

/* Allocates and fills in the import, without a number. */
static int take(const void *buf, size_t len, struct layout_import **ret)
{
	struct layout head = { 0 };
	struct layout_import *i;
	uint64_t bytes;
	const char *wrong = NULL;
	uint32_t part;

	if (rdmamsg__layout_head(&head, buf, len, &bytes))
		return refuse("these bytes are no key of a layout");
	i = calloc(1, sizeof(*i) + rdmamsg__layout_room(&head));
	if (!i)
		return rdmamsg__fail(-ENOMEM, "no memory for a layout");
	i->desc = head;
	rdmamsg__layout_place(&i->desc, i + 1);
	if (rdmamsg__layout_decode(&i->desc, buf, len))
		wrong = "the key of a layout has wrong bytes";
	if (!wrong)
		wrong = rdmamsg__layout_check(&i->desc, &part);
	if (!wrong && bytes != i->desc.len)
		wrong = "the key of a layout has a wrong length";
	if (wrong) {
		free(i);
		return refuse(wrong);
	}
	*ret = i;
	return 0;
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_layout_import(struct rdmamsg *ctx, const void *buf, size_t len,
			  struct rdmamsg_key *ret)
{
	struct layout_import *i = NULL;
	uint32_t number;
	struct proto_key plain;
	int err = rdmamsg__ctx_check(ctx);

	if (!err && (!buf || !ret))
		err = rdmamsg__fail(-EINVAL, "rdmamsg_layout_import: %s is "
				    "NULL", buf ? "ret" : "buf");
	if (!err && !rdmamsg__key_decode(&plain, buf, len)) {
		memcpy(ret->bytes, buf, sizeof(ret->bytes));
		return 0;
	}
	if (!err)
		err = take(buf, len, &i);
	if (err)
		return err;
	err = rdmamsg__handle_give(&ctx->memory->imports, i, 1, IMPORTS_MAX,
				   &number);
	if (err) {
		free(i);
		return rdmamsg__fail(err, err == -EMFILE ? "rdmamsg_layout_"
				     "import: %u keys are imported already: "
				     "rdmamsg_layout_forget()" : "no memory "
				     "for a layout (%u imported at most)",
				     IMPORTS_MAX);
	}
	i->key = (struct local_key){
		.version = LOCAL_VERSION, .access = i->desc.access,
		.number = number, .layout = i->desc.id,
		.serial = ++ctx->memory->import_serial, .len = i->desc.len,
	};
	memcpy(ret->bytes, &i->key, sizeof(i->key));
	return 0;
}

int rdmamsg_layout_forget(struct rdmamsg *ctx, const struct rdmamsg_key *key)
{
	struct layout_import *i;
	struct proto_key plain;
	int err = rdmamsg__ctx_check(ctx);

	if (err || (key && !rdmamsg__key_decode(&plain, key->bytes,
						PROTO_KEY_LEN)))
		return err;
	if (!rdmamsg__layout_find(ctx, key, &i, &plain))
		return rdmamsg__fail(-EINVAL, "rdmamsg_layout_forget: the key "
				     "is not that of a layout imported into "
				     "this context, or forgotten");
	if (i->busy) {
		ctx->memory->ask(ctx);
		return rdmamsg__fail(-EBUSY, "%u operations use the layout of "
				     "the peer: wait for on_complete", i->busy);
	}
	rdmamsg__handle_take(&ctx->memory->imports, i, i->key.number);
	free(i);
	return 0;
}

void rdmamsg__imports_free(struct rdmamsg *ctx)
{
	for (uint32_t n = 0; n < ctx->memory->imports.size; n++)
		free(ctx->memory->imports.at[n]);
	rdmamsg__handles_free(&ctx->memory->imports);
}
