/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "gather.h"
#include "info.h"

#include <err.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_MS	10	/* a backlog is full */

static void *grown(void *old, size_t size)
{
	void *p = realloc(old, size);

	if (!p)
		err(FAILED, "memory");
	return p;
}

void append(struct text *t, const char *s, size_t len)
{
	if (t->len + len + 1 > t->room) {
		t->room = 2 * (t->len + len + 1);
		t->buf = grown(t->buf, t->room);
	}
	memcpy(t->buf + t->len, s, len);
	t->len += len;
	t->buf[t->len] = 0;
}

/* ---- finding ---------------------------------------------------------- */

static void add(struct sources *s, const char *path)
{
	struct text copy = { 0 };

	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->at[i].path, path))
			return;
	append(&copy, path, strlen(path));
	s->at = grown(s->at, (s->count + 1) * sizeof(*s->at));
	s->at[s->count++] = (struct source){
		.path = copy.buf, .fd = -1, .error = EAGAIN,
	};
}

/* Returns true if the text is a dot and a number. */
static bool is_number(const char *text)
{
	if (*text++ != '.' || !*text)
		return false;
	return strspn(text, "0123456789") == strlen(text);
}

/* Adds PATH.N of files. The pattern's own characters are quoted. */
static void find_files(struct sources *s, const char *path)
{
	struct text pattern = { 0 };
	glob_t found;

	for (const char *at = path; *at; at++) {
		if (strchr("*?[\\", *at))
			append(&pattern, "\\", 1);
		append(&pattern, at, 1);
	}
	append(&pattern, ".*", 2);
	if (!glob(pattern.buf, 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (is_number(found.gl_pathv[i] + strlen(path)))
				add(s, found.gl_pathv[i]);
	globfree(&found);
	free(pattern.buf);
}

/* Adds PATH.N of abstract addresses, the last word of a line in a table. */
static void find_abstract(struct sources *s, const char *path)
{
	FILE *table = fopen("/proc/net/unix", "re");
	char line[512];

	while (table && fgets(line, sizeof(line), table)) {
		char *name = strrchr(line, ' ');

		line[strcspn(line, "\n")] = 0;
		/* flags 00010000: it listens */
		if (name && strstr(line, " 00010000 ") &&
		    !strncmp(++name, path, strlen(path)) &&
		    is_number(name + strlen(path)))
			add(s, name);
	}
	if (table)
		fclose(table);
}

void sources_find(struct sources *s, const char *path)
{
	add(s, path);
	if (path[0] == '@')
		find_abstract(s, path);
	else
		find_files(s, path);
}

/* ---- reading ---------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void end(struct source *s, int error)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->error = error;
}

/* The error stays EAGAIN while the backlog is full. */
static void dial(struct source *s, const char *word)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const size_t len = strlen(s->path);
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (len >= sizeof(addr.sun_path)) {
		s->error = ENAMETOOLONG;
		return;
	}
	memcpy(addr.sun_path, s->path, len);
	if (s->path[0] == '@')
		addr.sun_path[0] = 0;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0) {
		s->error = errno;
		return;
	}
	if (connect(s->fd, (struct sockaddr *)&addr, (socklen_t)
		    (offsetof(struct sockaddr_un, sun_path) + len +
		     (s->path[0] != '@')))) {
		end(s, errno);
		return;
	}
	if (!getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		s->pid = peer.pid;
	(void)send(s->fd, word, strlen(word), MSG_NOSIGNAL);
}

/* Once in a turn, so that one that writes without end has no more time. */
static void take(struct source *s, size_t most)
{
	char buf[65536];
	ssize_t n = read(s->fd, buf, sizeof(buf));

	if (n > 0) {
		append(&s->text, buf, (size_t)n);
		if (most && s->text.len > most)
			end(s, EMSGSIZE);
		return;
	}
	if (n < 0 && errno == EAGAIN)
		return;
	/* a text ends with a whole line */
	if (n < 0 && !s->text.len)
		end(s, errno);
	else
		end(s, s->text.len && s->text.buf[s->text.len - 1] == '\n' ?
		    0 : ETIMEDOUT);
}

void sources_read(struct sources *s, const char *word, int patience_ms)
{
	struct pollfd *p = grown(NULL, (s->count + 1) * sizeof(*p));
	const int64_t until = now_ms() + patience_ms;
	bool waits = true;

	while (waits) {
		int64_t rest = until - now_ms();

		waits = false;
		for (size_t i = 0; i < s->count; i++) {
			struct source *src = &s->at[i];

			if (src->fd < 0 && src->error == EAGAIN) {
				dial(src, word);
				if (src->fd < 0 && src->error == EAGAIN &&
				    rest > AGAIN_MS)
					rest = AGAIN_MS;
			}
			p[i] = (struct pollfd){ src->fd, POLLIN, 0 };
			waits |= src->fd >= 0 || src->error == EAGAIN;
		}
		if (!waits || rest <= 0)
			break;
		(void)poll(p, s->count, (int)rest);
		for (size_t i = 0; i < s->count; i++)
			if (p[i].revents)
				take(&s->at[i], s->most);
	}
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].fd >= 0 || s->at[i].error == EAGAIN)
			end(&s->at[i], ETIMEDOUT);
	free(p);
}

void sources_free(struct sources *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->at[i].path);
		free(s->at[i].text.buf);
	}
	free(s->at);
	*s = (struct sources){ 0 };
}

/* ---- metrics ---------------------------------------------------------- */

static struct metric *metric(struct metrics *all, const char *name, size_t len)
{
	struct text copy = { 0 };
	struct metric *m = all->at;

	for (; m < all->at + all->count; m++)
		if (strlen(m->name) == len && !memcmp(m->name, name, len))
			return m;
	append(&copy, name, len);
	all->at = grown(all->at, (all->count + 1) * sizeof(*m));
	m = &all->at[all->count++];
	*m = (struct metric){ .name = copy.buf };
	return m;
}

/* NAME{LABEL,...} NUMBER becomes NAME{pid="N",LABEL,...} NUMBER. */
static void append_labelled(struct text *t, const char *line, size_t len,
			    pid_t pid)
{
	const char *brace = memchr(line, '{', len);
	char label[32];

	if (!brace) {
		append(t, line, len);
		return;
	}
	brace++;
	append(t, line, (size_t)(brace - line));
	append(t, label, (size_t)snprintf(label, sizeof(label), "pid=\"%d\",",
					  (int)pid));
	append(t, brace, len - (size_t)(brace - line));
}

void metrics_add(struct metrics *all, const struct source *s, bool label)
{
	const char *text = s->text.buf;

	for (const char *end; *text; text = end) {
		bool comment = *text == '#';
		/* after "# HELP " and "# TYPE " */
		const char *name = text + (comment ? strlen("# HELP ") : 0);
		struct metric *m;

		end = text + strcspn(text, "\n");
		end += *end == '\n';
		if (name >= end)
			continue;
		m = metric(all, name, strcspn(name, " {\n"));
		if (!comment && label)
			append_labelled(&m->samples, text,
					(size_t)(end - text), s->pid);
		else if (!comment)
			append(&m->samples, text, (size_t)(end - text));
		else if (!strstr(m->head.buf ? m->head.buf : "",
				 text[2] == 'H' ? "# HELP" : "# TYPE"))
			append(&m->head, text, (size_t)(end - text));
	}
}

void metrics_free(struct metrics *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->at[i].name);
		free(m->at[i].head.buf);
		free(m->at[i].samples.buf);
	}
	free(m->at);
	*m = (struct metrics){ 0 };
}
