/* SPDX-License-Identifier: BSD-2-Clause */
/* A progress bar on standard output, if that is a terminal. */
#ifndef RDMAMSG_SAMPLES_BAR_H
#define RDMAMSG_SAMPLES_BAR_H

#include <stdbool.h>
#include <stdint.h>

struct bar {
	char name[32];
	uint64_t total, done;
	uint64_t start, drawn;		/* ms */
	bool within;			/* files of a tree share a line */
	bool on, shown;
};

/* Starts the bar. total may be COPY_SIZE_UNKNOWN. */
void bar_start(struct bar *b, const char *path, uint64_t total);
void bar_add(struct bar *b, uint64_t bytes);
void bar_end(struct bar *b);
/* Ends the bar's line before other output. */
void bar_clear(struct bar *b);

#endif
