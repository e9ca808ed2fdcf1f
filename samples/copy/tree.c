/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources on the command line: files, standard input, whole directories. Only
 * symbolic links on the command line are followed.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdin(const char *file)
{
	return !strcmp(file, "-");
}

/* ---- names ------------------------------------------------------------ */

/*
 * Finds the name at the server: the last component of the path, or of the real
 * path for "." and the like. Returns false if there is none, as for "/".
 */
static bool own_name(const char *file, char name[COPY_PATH_MAX + 1])
{
	size_t len = strlen(file);
	const char *last;
	char *real;
	bool ok;

	while (len && file[len - 1] == '/')
		len--;
	for (last = file + len; last > file && last[-1] != '/'; last--)
		;
	len -= (size_t)(last - file);
	if (len > NAME_MAX)
		return false;
	snprintf(name, COPY_PATH_MAX + 1, "%.*s", (int)len, last);
	if (*name && strcmp(name, ".") && strcmp(name, ".."))
		return true;
	real = realpath(file, NULL);
	ok = real && strcmp(real, "/") && own_name(real, name);
	free(real);
	return ok;
}

static bool name_of(const struct client *c, const char *file,
		    char name[COPY_PATH_MAX + 1])
{
	if (!c->job->name)
		return own_name(file, name);
	return snprintf(name, COPY_PATH_MAX + 1, "%s", c->job->name) <=
	       NAME_MAX;
}

/* ---- checks before connecting ----------------------------------------- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Returns true if an earlier argument has the name, and would be replaced. */
static bool is_taken(const char *name)
{
	static void *taken;		/* a tree of names, never freed */
	char *own = strdup(name), **found;

	found = own ? tsearch(own, &taken, compare) : NULL;
	if (found && *found == own)
		return false;
	free(own);
	return found;
}

bool tree_check(struct client *c, const char *file)
{
	char name[COPY_PATH_MAX + 1];
	const char *text = NULL;
	struct stat st;

	if (is_stdin(file))
		return true;
	if (stat(file, &st))
		text = strerror(errno);
	else if (S_ISDIR(st.st_mode) && !c->job->recursive)
		text = "a directory: -r copies it with all that is in it";
	else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		text = "not a regular file";
	else if (!name_of(c, file, name))
		text = "it has no name that the server can take: give it one "
		       "with --name";
	else if (is_taken(name))
		text = "another argument has the same name and would be "
		       "replaced at the server";
	if (text)
		(void)client_complain(c, file, text);
	return !text;
}

/* ---- files ------------------------------------------------------------ */

static void take_attributes(struct source *s, const struct stat *st)
{
	s->begin.mode = st->st_mode & 0777;
	s->begin.mtime = st->st_mtim;
}

/* Standard input has neither size nor time. */
static void make_attributes(struct source *s)
{
	mode_t mask = umask(0);

	(void)umask(mask);
	s->begin.mode = 0666 & ~mask;
	(void)clock_gettime(CLOCK_REALTIME, &s->begin.mtime);
	s->begin.size = COPY_SIZE_UNKNOWN;
}

static int file_open(struct client *c, struct source *s, int flags)
{
	struct stat st;

	/* O_NONBLOCK: open() of a FIFO waits for its writer */
	s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
	if (s->fd < 0)
		return client_complain(c, s->path, strerror(errno));
	if (!fstat(s->fd, &st) && S_ISREG(st.st_mode)) {
		s->begin.size = (uint64_t)st.st_size;
		take_attributes(s, &st);
		return 0;
	}
	close(s->fd);
	return client_complain(c, s->path, "not a regular file");
}

/* Sends the contents of s->fd. */
static int file_send(struct client *c, struct source *s)
{
	int failed;

	s->digest = copy_digest_new();
	if (!s->digest)
		return client_complain(c, s->path, strerror(ENOMEM));
	bar_start(&c->bar, s->path, s->begin.size);
	failed = client_send(c, s);
	if (!failed)
		bar_end(&c->bar);
	copy_digest_free(s->digest);
	return failed;
}

static int path_send(struct client *c, struct source *s, int flags)
{
	int failed = file_open(c, s, flags);

	if (failed)
		return failed;
	failed = file_send(c, s);
	close(s->fd);
	return failed;
}

/* ---- directories ------------------------------------------------------ */

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int dir_send(struct client *c, struct source *s, FTSENT *e,
		    enum copy_kind kind)
{
	s->begin.kind = kind;
	take_attributes(s, e->fts_statp);
	return client_send(c, s);
}

/* If the server cannot make a directory, skip it with its contents. */
static int dir_begin(struct client *c, struct source *s, FTS *fts, FTSENT *e)
{
	int failed = dir_send(c, s, e, COPY_DIR);

	if (failed) {
		(void)fts_set(fts, e, FTS_SKIP);
		e->fts_number = 1;
	}
	return failed;
}

static int link_skip(struct client *c, FTSENT *e)
{
	char to[256], text[320];
	ssize_t n = readlink(e->fts_path, to, sizeof(to) - 1);

	to[n < 0 ? 0 : n] = '\0';
	snprintf(text, sizeof(text), "not copied: a symbolic link to '%s'",
		 copy_printable(to));
	return client_complain(c, e->fts_path, text);
}

static int entry_send(struct client *c, struct source *s, FTS *fts, FTSENT *e)
{
	switch (e->fts_info) {
	case FTS_D:
		return dir_begin(c, s, fts, e);
	case FTS_DP:
		return e->fts_number ? 0 : dir_send(c, s, e, COPY_DIR_END);
	case FTS_F:
		s->begin.kind = COPY_FILE;
		return path_send(c, s, O_NOFOLLOW);
	case FTS_SL:
	case FTS_SLNONE:
		return link_skip(c, e);
	case FTS_DNR:
		(void)client_complain(c, s->path, strerror(e->fts_errno));
		return 1 + dir_send(c, s, e, COPY_DIR_END);
	case FTS_ERR:
	case FTS_NS:
		return client_complain(c, s->path, strerror(e->fts_errno));
	default:
		return client_complain(c, s->path, "not a regular file");
	}
}

/* Makes the path at the server: the argument's name, and the path below it. */
static int entry(struct client *c, FTS *fts, FTSENT *e, const char *name,
		 const char *dir)
{
	struct source s = { .path = e->fts_path };
	size_t skip = strcmp(dir, "/") ? strlen(dir) : 0;
	int n = snprintf(s.begin.path, sizeof(s.begin.path), "%s%s", name,
			 e->fts_level ? e->fts_path + skip : "");

	if (n >= (int)sizeof(s.begin.path))
		return client_complain(c, s.path, strerror(ENAMETOOLONG));
	return entry_send(c, &s, fts, e);
}

static int dir_walk(struct client *c, char *dir, const char *name)
{
	char *const paths[] = { dir, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR,
			    by_name);
	int failed = 0;
	FTSENT *e;

	if (!fts)
		return client_complain(c, dir, strerror(errno));
	c->bar.within = true;
	while (errno = 0, client_connected(c) && (e = fts_read(fts)))
		failed += entry(c, fts, e, name, dir);
	if (errno)
		failed += client_complain(c, dir, strerror(errno));
	fts_close(fts);
	c->bar.within = false;
	bar_clear(&c->bar);
	return failed;
}

/* If a directory's name ends in a slash, fts(3) adds a second one. */
static int tree_walk(struct client *c, const char *file, const char *name)
{
	char *dir = strdup(file);
	int failed;

	if (!dir)
		return client_complain(c, file, strerror(ENOMEM));
	for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--)
		dir[n - 1] = '\0';
	failed = dir_walk(c, dir, name);
	free(dir);
	return failed;
}

int tree_send(struct client *c, const char *file)
{
	struct source s = { .path = file, .fd = STDIN_FILENO };
	struct stat st;

	(void)name_of(c, file, s.begin.path);
	if (is_stdin(file)) {
		s.path = "standard input";
		make_attributes(&s);
		return file_send(c, &s);
	}
	if (!stat(file, &st) && S_ISDIR(st.st_mode))
		return tree_walk(c, file, s.begin.path);
	return path_send(c, &s, 0);
}
