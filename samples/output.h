/* SPDX-License-Identifier: BSD-2-Clause */
/* Standard output that cannot be written is a failure, for --help as well. */
#ifndef RDMAMSG_SAMPLES_OUTPUT_H
#define RDMAMSG_SAMPLES_OUTPUT_H

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int output_failed;

/* Returns a name as texts show it: one that is empty as ''. */
static inline const char *shown_name(const char *name)
{
	return *name ? name : "''";
}

static inline void output_end(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return;
	warn("standard output");
	_exit(output_failed);
}

/* Checks the output at the end of the program, and then exits with 'failed'. */
static inline void output_check(int failed)
{
	output_failed = failed;
	(void)atexit(output_end);
}

#endif
