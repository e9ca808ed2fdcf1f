/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files in the server's directory. A file is written under a temporary name,
 * locked, and renamed when it is complete, verified and on the disk. A
 * temporary file that nobody has locked is one of a server that was killed.
 */
#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TMP_PREFIX	".rdmamsg-copy-"
#define TMP_DIGITS	16
#define TMP_LEN		(sizeof(TMP_PREFIX) - 1 + TMP_DIGITS)

struct copy_file {
	int dir, fd;
	struct copy_begin is;
	uint64_t written;
	struct copy_digest *digest;
	char tmp[TMP_LEN + 1];		/* "" once it has its name */
};

/* ---- what killed servers leave ---------------------------------------- */

static bool is_tmp(const char *name)
{
	size_t skip = sizeof(TMP_PREFIX) - 1;

	return !strncmp(name, TMP_PREFIX, skip) && strlen(name) == TMP_LEN &&
	       strspn(name + skip, "0123456789abcdef") == TMP_DIGITS;
}

static void remove_stale(int dir, const char *name)
{
	int fd = openat(dir, name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB) && !unlinkat(dir, name, 0))
		fprintf(stderr, "rdmamsg-copy: removed %s, which a killed "
			"server has left\n", name);
	close(fd);
}

int copy_store_open(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	DIR *list;

	if (dir < 0)
		return -errno;
	list = opendir(path);
	if (!list) {
		int err = -errno;

		close(dir);
		return err;
	}
	while ((entry = readdir(list)))
		if (is_tmp(entry->d_name))
			remove_stale(dir, entry->d_name);
	closedir(list);
	return dir;
}

/* ---- one file --------------------------------------------------------- */

static int tmp_name(struct copy_file *f)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(f->tmp, sizeof(f->tmp), TMP_PREFIX "%016llx",
		 (unsigned long long)number);
	return 0;
}

/* Another server that starts just now may be faster with the lock. */
static int tmp_open(struct copy_file *f)
{
	int ret;

	for (int tries = 0; tries < 8; tries++) {
		struct stat st;

		ret = tmp_name(f);
		if (ret)
			return ret;
		f->fd = openat(f->dir, f->tmp, O_WRONLY | O_CREAT | O_EXCL |
			       O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->fd < 0)
			return -errno;
		if (!flock(f->fd, LOCK_EX | LOCK_NB) && !fstat(f->fd, &st) &&
		    st.st_nlink)
			return 0;
		close(f->fd);
	}
	f->fd = -1;
	return -EBUSY;
}

int copy_file_new(int dir, const struct copy_begin *b, struct copy_file **ret)
{
	struct copy_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->dir = dir;
	f->is = *b;
	f->digest = copy_digest_new();
	if (!f->digest) {
		err = -ENOMEM;
		goto err_file;
	}
	err = tmp_open(f);
	if (err)
		goto err_digest;
	*ret = f;
	return 0;

err_digest:
	copy_digest_free(f->digest);
err_file:
	free(f);
	return err;
}

int copy_file_write(struct copy_file *f, const void *data, size_t len)
{
	const char *p = data, *end = p + len;

	if (len > f->is.size - f->written)
		return -EMSGSIZE;
	while (p < end) {
		ssize_t n = write(f->fd, p, (size_t)(end - p));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		p += n;
	}
	f->written += len;
	return copy_digest_add(f->digest, data, len);
}

int copy_file_verify(struct copy_file *f, const uint8_t sha[COPY_SHA_LEN])
{
	uint8_t ours[COPY_SHA_LEN];
	int ret = copy_digest_end(f->digest, ours);

	if (ret)
		return ret;
	if (f->written != f->is.size)
		return -EMSGSIZE;
	return memcmp(ours, sha, sizeof(ours)) ? -EBADMSG : 0;
}

int copy_file_commit(struct copy_file *f)
{
	if (fchmod(f->fd, (mode_t)f->is.mode) || fsync(f->fd))
		return -errno;
	if (renameat(f->dir, f->tmp, f->dir, f->is.name))
		return -errno;
	f->tmp[0] = '\0';
	/* a file system that cannot do this has no need of it */
	return fsync(f->dir) && errno != EINVAL ? -errno : 0;
}

void copy_file_free(struct copy_file *f)
{
	if (!f)
		return;
	if (f->tmp[0] && unlinkat(f->dir, f->tmp, 0))
		fprintf(stderr, "rdmamsg-copy: %s cannot be removed: %m\n",
			f->tmp);
	close(f->fd);
	copy_digest_free(f->digest);
	free(f);
}

const char *copy_file_name(const struct copy_file *f)
{
	return f->is.name;
}

uint64_t copy_file_size(const struct copy_file *f)
{
	return f->is.size;
}
