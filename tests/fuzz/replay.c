/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: runs a fuzz target on the files and directories given, in
 * place of libFuzzer, so that any compiler can replay the corpus.
 *
 * To look for new input, with clang: tests/fuzz/fuzz.sh 60, or make fuzz.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* nftw */
#endif
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int files;

/* Memory of exactly the file's size: the sanitizer sees a read past it. */
static uint8_t *slurp(FILE *f, size_t len)
{
	uint8_t *p = malloc(len);

	if (p && fread(p, 1, len, f) == len)
		return p;
	free(p);
	return NULL;
}

static int replay(const char *path, const struct stat *st, int type,
		  struct FTW *ftw)
{
	uint8_t *data;
	FILE *f;

	if (type == FTW_D)
		return 0;
	/* Print the name first, so that the log of a crash ends with it. */
	fprintf(stderr, "%s\n", path);
	f = type == FTW_F ? fopen(path, "rb") : NULL;
	data = f ? slurp(f, st->st_size) : NULL;
	if (f)
		fclose(f);
	if (!data) {
		fprintf(stderr, "cannot read it\n");
		return 1;
	}
	(void)LLVMFuzzerTestOneInput(data, st->st_size);
	free(data);
	files++;
	return 0;
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		int err = nftw(argv[i], replay, 16, 0);

		if (err < 0)
			perror(argv[i]);
		if (err)
			return 1;
	}
	if (!files) {
		fprintf(stderr, "usage: %s FILE|DIRECTORY ...\n", argv[0]);
		return 1;
	}
	fprintf(stderr, "%u files\n", files);
	return 0;
}
