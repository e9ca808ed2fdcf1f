/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-copy: files over RDMA, whole or not at all.
 *
 *	client				server
 *	BEGIN FILE path ...	->	checks the path, makes a temporary file
 *	DATA bytes ...		->	writes and hashes
 *	END sha256		->	compares, fsync, rename
 *				<-	RESULT
 *	BEGIN DIR path ...	->	makes the directory, or finds it
 *				<-	RESULT
 *	BEGIN DIR_END path ...	->	sets its mode and time: it is complete
 *				<-	RESULT
 *
 * A client that cannot go on sends CANCEL instead of END. A RESULT that comes
 * before END tells of a failure: the server ignores what follows until the
 * next BEGIN. A peer of another version is refused when connecting.
 */
#ifndef RDMAMSG_SAMPLES_COPY_H
#define RDMAMSG_SAMPLES_COPY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define COPY_PORT	"7471"
#define COPY_NAME	"rdmamsg-copy "
#define COPY_VERSION	"2"
#define COPY_HELLO	COPY_NAME COPY_VERSION	/* both sides send it */
#define COPY_REFUSAL	"this is " COPY_HELLO	/* to other versions */
#define COPY_CHUNK	(1u << 20)		/* bytes in a DATA message */
#define COPY_WINDOW	8			/* DATA messages in flight */
#define COPY_SHA_LEN	32
#define COPY_PATH_MAX	(PATH_MAX - 1)
#define COPY_TEXT_MAX	255
#define COPY_SILENCE_MS	60000 /* longest silence of the peer */
#define COPY_DOWN_MS	60000 /* longest time without a connection */

/* The tags of the messages. */
enum copy_tag {
	COPY_BEGIN = 1,
	COPY_DATA,
	COPY_END,
	COPY_CANCEL,
	COPY_RESULT,
};

/* ---- what the messages hold (wire.c) ---------------------------------- */

enum copy_kind { COPY_FILE, COPY_DIR, COPY_DIR_END, COPY_KINDS };

#define COPY_SIZE_UNKNOWN	UINT64_MAX	/* data continues until END */

struct copy_begin {
	enum copy_kind kind;
	uint64_t size;			/* of a file */
	uint32_t mode;			/* permissions */
	struct timespec mtime;
	char path[COPY_PATH_MAX + 1];	/* below the server's directory */
};

struct copy_result {
	uint32_t failed;
	char text[COPY_TEXT_MAX + 1];
};

#define COPY_BEGIN_FIXED	28
#define COPY_BEGIN_MAX		(COPY_BEGIN_FIXED + COPY_PATH_MAX)
#define COPY_RESULT_MAX		(4 + COPY_TEXT_MAX)

/* Return the length. */
size_t copy_begin_encode(const struct copy_begin *b, uint8_t *buf);
size_t copy_result_encode(const struct copy_result *r, uint8_t *buf);
/*
 * Returns -EPROTO if there is no such message, -EINVAL or -ENAMETOOLONG if the
 * path is refused.
 */
int copy_begin_decode(struct copy_begin *b, const uint8_t *buf, size_t len);
int copy_result_decode(struct copy_result *r, const uint8_t *buf, size_t len);
/* Replaces control characters in place. Returns text. */
char *copy_printable(char *text);

/* ---- SHA-256 (digest.c) ----------------------------------------------- */

struct copy_digest;

struct copy_digest *copy_digest_new(void);
void copy_digest_free(struct copy_digest *d);
int copy_digest_add(struct copy_digest *d, const void *data, size_t len);
int copy_digest_end(struct copy_digest *d, uint8_t sha[COPY_SHA_LEN]);

/* ---- files at the server (store.c) ------------------------------------ */

/* A file without its final name, or a complete directory. */
struct copy_file;

/* Opens a writable directory. Removes temporary files of killed servers. */
int copy_store_open(const char *path);

/* These calls follow no symbolic link: -ENOTDIR if the path has one. */
int copy_file_new(int dir, const struct copy_begin *b, struct copy_file **ret);
int copy_dir_make(int dir, const struct copy_begin *b);
int copy_file_write(struct copy_file *f, const void *data, size_t len);
/* Returns -EMSGSIZE if bytes are missing, -EBADMSG if the SHA-256 differs. */
int copy_file_verify(struct copy_file *f, const uint8_t sha[COPY_SHA_LEN]);
/* Forces the file to the disk, then gives it its name. Slow. */
int copy_file_commit(struct copy_file *f);
/* Removes the file unless it was committed. f may be NULL. */
void copy_file_free(struct copy_file *f);
uint64_t copy_file_size(const struct copy_file *f);

/* ---- the two programs ------------------------------------------------- */

struct copy_job {
	const char *host, *port;
	const char *key_file;	/* NULL: no key */
	char **files;
	int count;
	const char *name;	/* NULL: the name of the file */
	const char *other;	/* address for failover; NULL: no failover */
	bool recursive;
};

/* Return an exit status. */
int copy_server(const char *dir, const char *host, const char *port,
		const char *key_file);
int copy_client(const struct copy_job *job);

#endif
