/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of a sample with operands and no option but -h. */
#ifndef RDMAMSG_SAMPLES_USAGE_H
#define RDMAMSG_SAMPLES_USAGE_H

#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exits for -h and --help, an unknown option, or a wrong number of operands. */
static inline void usage(int argc, char **argv, const char *text, int least,
			 int most)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
		printf("Usage: %s\n", text);
		exit(0);
	}
	if (word[0] == '-' && word[1])
		errx(2, "unknown option '%s'; see --help", word);
	if (argc - 1 < least || argc - 1 > most)
		errx(2, "Usage: %s", text);
}

#endif
