/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files in the server's directory and below. A file is written under a
 * temporary name in that directory, locked, and renamed when it is complete,
 * verified and on the disk. A temporary file without a lock belongs to a server
 * that was killed.
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
#define BLOCK		4096u	/* the smallest hole */
#define TMP_LEN		(sizeof(TMP_PREFIX) - 1 + TMP_DIGITS)

struct copy_file {
	int dir;			/* the server's */
	int parent;			/* directory of the final name */
	int fd;
	struct copy_begin is;
	const char *name;		/* the last component of is.path */
	uint64_t written;
	struct copy_digest *digest;
	char tmp[TMP_LEN + 1]; /* "" once the file has its final name */
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

static void remove_all_stale(DIR *list)
{
	struct dirent *entry;

	while ((entry = readdir(list)))
		if (is_tmp(entry->d_name))
			remove_stale(dirfd(list), entry->d_name);
}

int copy_store_open(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;
	DIR *list;

	if (dir < 0)
		return -errno;
	list = opendir(path);
	if (!list || faccessat(dir, ".", W_OK | X_OK, AT_EACCESS)) {
		err = -errno;
		if (list)
			closedir(list);
		close(dir);
		return err;
	}
	remove_all_stale(list);
	closedir(list);
	return dir;
}

/* ---- paths ------------------------------------------------------------ */

/* Opens a directory, but not through a symbolic link: -ENOTDIR. */
static int dir_open(int at, const char *name)
{
	int fd = openat(at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 ? fd : errno == ELOOP ? -ENOTDIR : -errno;
}

/* Opens the directory above path, one component after the other. */
static int parent_open(int dir, const char *path, const char **name)
{
	int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	const char *slash;

	if (at < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		char component[NAME_MAX + 1];
		int next;

		snprintf(component, sizeof(component), "%.*s",
			 (int)(slash - path), path);
		next = dir_open(at, component);
		close(at);
		if (next < 0)
			return next;
		at = next;
	}
	*name = path;
	return at;
}

int copy_dir_make(int dir, const struct copy_begin *b)
{
	const char *name;
	struct stat st;
	int parent = parent_open(dir, b->path, &name), fd;

	if (parent < 0)
		return parent;
	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		fd = -errno;
	else
		fd = dir_open(parent, name);
	close(parent);
	if (fd < 0)
		return fd;
	/* an existing directory may lack the owner's permissions */
	if (!fstat(fd, &st) && (st.st_mode & 0700) != 0700)
		(void)!fchmod(fd, (st.st_mode & 07777) | 0700);
	close(fd);
	return 0;
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

/* Opens and locks the file. A server that starts now may lock it first. */
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

static int file_open(struct copy_file *f)
{
	if (f->is.kind == COPY_FILE)
		return tmp_open(f);
	f->fd = dir_open(f->parent, f->name);
	return f->fd < 0 ? f->fd : 0;
}

int copy_file_new(int dir, const struct copy_begin *b, struct copy_file **ret)
{
	struct copy_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->dir = dir;
	f->is = *b;
	f->parent = err = parent_open(dir, f->is.path, &f->name);
	if (err < 0)
		goto err_file;
	f->digest = copy_digest_new();
	if (!f->digest) {
		err = -ENOMEM;
		goto err_parent;
	}
	err = file_open(f);
	if (err)
		goto err_digest;
	*ret = f;
	return 0;

err_digest:
	copy_digest_free(f->digest);
err_parent:
	close(f->parent);
err_file:
	free(f);
	return err;
}

/* Returns true if a whole block of the file begins here and is all zeros. */
static bool is_hole(const char *p, size_t len, uint64_t at)
{
	return !(at % BLOCK) && len >= BLOCK && !*p &&
	       !memcmp(p, p + 1, BLOCK - 1);
}

/*
 * Returns the bytes up to the next change between holes and data, where the
 * file's block ends that 'at' is in.
 */
static size_t part(const char *p, size_t len, uint64_t at, bool hole)
{
	size_t n = BLOCK - at % BLOCK;

	while (n < len && is_hole(p + n, len - n, at + n) == hole)
		n += BLOCK;
	return n < len ? n : len;
}

/* A hole makes the file longer, but takes no space. */
static int write_part(int fd, const char *p, size_t len, uint64_t at, bool hole)
{
	if (hole)
		return ftruncate(fd, (off_t)(at + len)) ? -errno : 0;
	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* A file with holes keeps them, because zeros are not written. */
int copy_file_write(struct copy_file *f, const void *data, size_t len)
{
	size_t n;
	int err;

	if (f->is.size != COPY_SIZE_UNKNOWN && len > f->is.size - f->written)
		return -EMSGSIZE;
	for (size_t done = 0; done < len; done += n) {
		const char *p = (const char *)data + done;
		uint64_t at = f->written + done;
		bool hole = is_hole(p, len - done, at);

		n = part(p, len - done, at, hole);
		err = write_part(f->fd, p, n, at, hole);
		if (err)
			return err;
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
	if (f->is.size != COPY_SIZE_UNKNOWN && f->written != f->is.size)
		return -EMSGSIZE;
	return memcmp(ours, sha, sizeof(ours)) ? -EBADMSG : 0;
}

/*
 * Forces a directory to the disk. A file system that cannot do so needs no
 * call.
 */
static int sync_dir(int fd)
{
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

static int attributes(const struct copy_file *f, mode_t more)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT }, f->is.mtime,
	};

	return fchmod(f->fd, (mode_t)f->is.mode | more) ? -1 :
	       futimens(f->fd, times);
}

/* Sets mode and time. The set-group-ID bit keeps the server's value. */
static int dir_commit(const struct copy_file *f)
{
	struct stat st;
	int err;

	if (fstat(f->fd, &st) || attributes(f, st.st_mode & 07000))
		return -errno;
	err = sync_dir(f->fd);
	return err ? err : sync_dir(f->parent);
}

int copy_file_commit(struct copy_file *f)
{
	if (f->is.kind != COPY_FILE)
		return dir_commit(f);
	if (attributes(f, 0) || fsync(f->fd) || renameat(f->dir, f->tmp, f->parent, f->name))
		return -errno;
	f->tmp[0] = '\0';
	return sync_dir(f->parent);
}

void copy_file_free(struct copy_file *f)
{
	if (!f)
		return;
	if (f->tmp[0] && unlinkat(f->dir, f->tmp, 0))
		fprintf(stderr, "rdmamsg-copy: %s cannot be removed: %m\n",
			f->tmp);
	close(f->fd);
	close(f->parent);
	copy_digest_free(f->digest);
	free(f);
}

uint64_t copy_file_size(const struct copy_file *f)
{
	return f->written;
}
