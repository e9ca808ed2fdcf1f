/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-copy: files over RDMA, whole or not at all.
 *
 *	client				server
 *	BEGIN size mode name	->	checks the name, makes a temporary file
 *	DATA bytes ...		->	writes and hashes
 *	END sha256		->	compares, fsync, rename
 *				<-	RESULT, once for each BEGIN
 *
 * A client that cannot go on sends CANCEL instead of END. A RESULT that comes
 * before END tells of a failure: the server ignores what follows until the
 * next BEGIN.
 */
#ifndef RDMAMSG_SAMPLES_COPY_H
#define RDMAMSG_SAMPLES_COPY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_PORT	"7471"
#define COPY_HELLO	"rdmamsg-copy 1"	/* both sides say it */
#define COPY_CHUNK	(1u << 20)		/* bytes in a DATA message */
#define COPY_WINDOW	8			/* of them in flight */
#define COPY_SHA_LEN	32
#define COPY_TEXT_MAX	255
#define COPY_SILENCE_MS	60000			/* of the other program */

/* The tags of the messages. */
enum copy_tag {
	COPY_BEGIN = 1,
	COPY_DATA,
	COPY_END,
	COPY_CANCEL,
	COPY_RESULT,
};

/* ---- what the messages hold (wire.c) ---------------------------------- */

struct copy_begin {
	uint64_t size;
	uint32_t mode;
	char name[NAME_MAX + 1];
};

struct copy_result {
	uint32_t failed;
	char text[COPY_TEXT_MAX + 1];
};

#define COPY_BEGIN_MAX	(12 + NAME_MAX)
#define COPY_RESULT_MAX	(4 + COPY_TEXT_MAX)

/* Return the length. */
size_t copy_begin_encode(const struct copy_begin *b, uint8_t *buf);
size_t copy_result_encode(const struct copy_result *r, uint8_t *buf);
/* -EPROTO: no such message. -EINVAL, -ENAMETOOLONG: not a name to accept. */
int copy_begin_decode(struct copy_begin *b, const uint8_t *buf, size_t len);
int copy_result_decode(struct copy_result *r, const uint8_t *buf, size_t len);
/* Replaces what a terminal would obey, in place. */
void copy_printable(char *text);

/* ---- SHA-256 (digest.c) ----------------------------------------------- */

struct copy_digest;

struct copy_digest *copy_digest_new(void);
void copy_digest_free(struct copy_digest *d);
int copy_digest_add(struct copy_digest *d, const void *data, size_t len);
int copy_digest_end(struct copy_digest *d, uint8_t sha[COPY_SHA_LEN]);

/* ---- files at the server (store.c) ------------------------------------ */

/* A file that has no name of its own yet. */
struct copy_file;

/* Opens a directory and removes what killed servers have left in it. */
int copy_store_open(const char *path);

int copy_file_new(int dir, const struct copy_begin *b, struct copy_file **ret);
int copy_file_write(struct copy_file *f, const void *data, size_t len);
/* -EMSGSIZE: not all of it is there. -EBADMSG: another SHA-256. */
int copy_file_verify(struct copy_file *f, const uint8_t sha[COPY_SHA_LEN]);
/* To the disk, then under its name. Slow. */
int copy_file_commit(struct copy_file *f);
/* Removes it unless it was committed. NULL is fine. */
void copy_file_free(struct copy_file *f);
const char *copy_file_name(const struct copy_file *f);
uint64_t copy_file_size(const struct copy_file *f);

/* ---- the two programs ------------------------------------------------- */

/* Return an exit status. */
int copy_server(const char *dir, const char *host, const char *port);
int copy_client(char **files, int count, const char *host, const char *port);

#endif
