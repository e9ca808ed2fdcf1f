/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-info: the sockets of RDMAMSG_STATS, and what programs say there. All
 * texts become one: the samples of a metric stand together.
 */
#ifndef RDMAMSG_SAMPLES_INFO_GATHER_H
#define RDMAMSG_SAMPLES_INFO_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A text that grows. */
struct text {
	char *buf;
	size_t len, room;
};

/* A context of a program. */
struct source {
	char *path;
	int fd;				/* -1: not connected */
	int error;			/* 0: the text is there; else errno */
	pid_t pid;			/* of the program; 0: unknown */
	struct text text;
};

struct sources {
	struct source *at;
	size_t count;
	size_t most;			/* bytes of a text; 0: any number */
};

struct metric {
	char *name;
	struct text head, samples;
};

struct metrics {
	struct metric *at;
	size_t count;
};

/* gather.c. A failure for lack of memory ends the program. */
void append(struct text *t, const char *s, size_t len);
/* Adds PATH, and PATH.N of the other contexts that are there. */
void sources_find(struct sources *s, const char *path);
/*
 * Asks all at the same time with a word, which ends with a line feed. Each then
 * has its text or an error. EMSGSIZE: it says too much.
 */
void sources_read(struct sources *s, const char *word, int patience_ms);
void sources_free(struct sources *s);
/* Adds the lines of a text, with a label of the process if it is wanted. */
void metrics_add(struct metrics *m, const struct source *s, bool label);
void metrics_free(struct metrics *m);

#endif
