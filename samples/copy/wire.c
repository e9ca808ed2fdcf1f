/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages, little-endian. What is decoded comes from strangers. */
#include "copy.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

/* One component, which is neither hidden nor special. */
static int name_check(const char *name, size_t len)
{
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (!len || name[0] == '.' || memchr(name, '/', len) ||
	    memchr(name, '\0', len))
		return -EINVAL;
	return 0;
}

size_t copy_begin_encode(const struct copy_begin *b, uint8_t *buf)
{
	size_t len = strlen(b->name);

	put32(buf, (uint32_t)b->size);
	put32(buf + 4, (uint32_t)(b->size >> 32));
	put32(buf + 8, b->mode);
	memcpy(buf + 12, b->name, len);
	return 12 + len;
}

int copy_begin_decode(struct copy_begin *b, const uint8_t *buf, size_t len)
{
	int ret;

	if (len < 12)
		return -EPROTO;
	b->size = get32(buf) | (uint64_t)get32(buf + 4) << 32;
	b->mode = get32(buf + 8) & 0777;
	buf += 12;
	len -= 12;
	ret = name_check((const char *)buf, len);
	if (ret)
		return ret;
	if (b->size > INT64_MAX)
		return -EFBIG;
	memcpy(b->name, buf, len);
	b->name[len] = '\0';
	return 0;
}

size_t copy_result_encode(const struct copy_result *r, uint8_t *buf)
{
	size_t len = strlen(r->text);

	put32(buf, r->failed);
	memcpy(buf + 4, r->text, len);
	return 4 + len;
}

int copy_result_decode(struct copy_result *r, const uint8_t *buf, size_t len)
{
	if (len < 4 || len > COPY_RESULT_MAX)
		return -EPROTO;
	r->failed = get32(buf);
	memcpy(r->text, buf + 4, len - 4);
	r->text[len - 4] = '\0';
	copy_printable(r->text);
	return 0;
}

void copy_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}
