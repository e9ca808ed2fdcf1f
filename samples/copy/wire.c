/* SPDX-License-Identifier: BSD-2-Clause */
/* Codecs of the messages, little-endian. Decoded bytes are untrusted. */
#include "copy.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define NSEC_PER_SEC	1000000000u

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static int component_check(const char *name, size_t len)
{
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (!len || (len == 1 && name[0] == '.') ||
	    (len == 2 && name[0] == '.' && name[1] == '.'))
		return -EINVAL;
	return 0;
}

/*
 * Checks that the path is relative, that its first component is not hidden, and
 * that each component leads down.
 */
static int path_check(const char *path, size_t len)
{
	const char *end = path + len;

	if (len > COPY_PATH_MAX)
		return -ENAMETOOLONG;
	if (!len || path[0] == '.' || memchr(path, '\0', len))
		return -EINVAL;
	for (;;) {
		const char *slash = memchr(path, '/', (size_t)(end - path));
		int ret = component_check(path, (size_t)((slash ? slash : end) -
							 path));

		if (ret || !slash)
			return ret;
		path = slash + 1;
	}
}

size_t copy_begin_encode(const struct copy_begin *b, uint8_t *buf)
{
	size_t len = strlen(b->path);

	put32(buf, b->kind);
	put32(buf + 4, b->mode);
	put64(buf + 8, b->size);
	put64(buf + 16, (uint64_t)b->mtime.tv_sec);
	put32(buf + 24, (uint32_t)b->mtime.tv_nsec);
	memcpy(buf + COPY_BEGIN_FIXED, b->path, len);
	return COPY_BEGIN_FIXED + len;
}

int copy_begin_decode(struct copy_begin *b, const uint8_t *buf, size_t len)
{
	const char *path = (const char *)buf + COPY_BEGIN_FIXED;
	uint32_t kind, nsec;
	int ret;

	if (len < COPY_BEGIN_FIXED)
		return -EPROTO;
	kind = get32(buf);
	nsec = get32(buf + 24);
	if (kind >= COPY_KINDS || nsec >= NSEC_PER_SEC)
		return -EPROTO;
	len -= COPY_BEGIN_FIXED;
	ret = path_check(path, len);
	if (ret)
		return ret;
	b->kind = (enum copy_kind)kind;
	b->mode = get32(buf + 4) & 0777;
	b->size = get64(buf + 8);
	if (b->size > INT64_MAX && b->size != COPY_SIZE_UNKNOWN)
		return -EFBIG;
	b->mtime.tv_sec = (time_t)get64(buf + 16);
	b->mtime.tv_nsec = (long)nsec;
	memcpy(b->path, path, len);
	b->path[len] = '\0';
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
	(void)copy_printable(r->text);
	return 0;
}

char *copy_printable(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return text;
}
