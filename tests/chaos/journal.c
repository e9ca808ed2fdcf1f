/* SPDX-License-Identifier: BSD-2-Clause */
/* The journal of a process lies in memory that its parent maps as well. */
#include "chaos.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int share_new(size_t size)
{
	int fd = memfd_create("chaos", 0);

	if (fd >= 0 && !ftruncate(fd, (off_t)size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void *share(int fd, size_t size)
{
	void *p = __real_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Returns NULL if the journal is full. */
struct record *journal_add(struct journal *j, uint32_t room)
{
	struct record *r = &j->record[j->records];

	if (j->records == RECORDS ||
	    sizeof(*j) + j->used + 2ull * room > JOURNAL_SIZE)
		return NULL;
	r->room = room;
	r->arrays = j->used;
	r->began = now_ms();
	j->used += 2ull * room;
	j->records++;
	return r;
}

uint8_t *record_tx(struct journal *j, const struct record *r)
{
	return j->arrays + r->arrays;
}

uint8_t *record_rx(struct journal *j, const struct record *r)
{
	return j->arrays + r->arrays + r->room;
}

bool journal_save(const struct journal *j, const char *dir)
{
	size_t size = sizeof(*j) + j->used;
	char path[512];
	bool good;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u-%u.journal", dir, j->slot, j->life);
	f = fopen(path, "w");
	if (!f)
		return false;
	good = fwrite(j, size, 1, f) == 1;
	return !fclose(f) && good;
}

struct journal *journal_load(const char *path)
{
	struct journal *j = calloc(1, JOURNAL_SIZE);
	FILE *f = fopen(path, "r");

	if (!j || !f || !fread(j, 1, JOURNAL_SIZE, f)) {
		free(j);
		j = NULL;
	}
	if (f)
		(void)fclose(f);
	return j;
}

void violation(struct journal *j, const char *fmt, ...)
{
	char text[sizeof(j->violation)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%llu VIOLATION %s\n", (unsigned long long)now_ms(),
		text);
	if (!j->violations++)
		snprintf(j->violation, sizeof(j->violation), "%s", text);
}
