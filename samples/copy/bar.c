/* SPDX-License-Identifier: BSD-2-Clause */
#include "bar.h"
#include "copy.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS	100
#define TEXT		62	/* columns beside the bar */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int bar_width(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_col <= TEXT)
		return 10;
	return w.ws_col - TEXT < 50 ? w.ws_col - TEXT : 50;
}

static void draw(struct bar *b)
{
	static const char full[] =
		"##################################################";
	double part = b->total ? (double)b->done / (double)b->total : 1;
	int width = bar_width(), cells = (int)(part * width);

	b->drawn = now_ms();
	b->shown = true;
	printf("\r%-31.31s ", b->name);
	if (b->total == COPY_SIZE_UNKNOWN)
		printf("%*.1f MB ", width + 4, (double)b->done / 1e6);
	else
		printf("[%.*s%*s] %3d%% ", cells, full, width - cells, "",
		       (int)(part * 100));
	printf("%9.1f MB/s ",
	       (double)b->done / 1000 / (double)(b->drawn - b->start + 1));
	fflush(stdout);
}

static bool is_due(const struct bar *b)
{
	return now_ms() - b->drawn >= EVERY_MS;
}

void bar_start(struct bar *b, const char *path, uint64_t total)
{
	const char *slash = strrchr(path, '/');

	snprintf(b->name, sizeof(b->name), "%s", slash ? slash + 1 : path);
	(void)copy_printable(b->name);
	b->total = total;
	b->done = 0;
	b->start = now_ms();
	b->on = isatty(STDOUT_FILENO);
	if (b->on && (!b->within || is_due(b)))
		draw(b);
}

void bar_add(struct bar *b, uint64_t bytes)
{
	b->done += bytes;
	if (b->on && is_due(b))
		draw(b);
}

void bar_end(struct bar *b)
{
	if (b->on && (!b->within || is_due(b)))
		draw(b);
	if (!b->within)
		bar_clear(b);
	b->on = false;
}

void bar_clear(struct bar *b)
{
	if (!b->shown)
		return;
	putchar('\n');
	fflush(stdout);
	b->shown = false;
}
