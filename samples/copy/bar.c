/* SPDX-License-Identifier: BSD-2-Clause */
#include "bar.h"
#include "copy.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS	100
#define TEXT		62	/* columns beside the bar itself */

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
	printf("\r%-31.31s [%.*s%*s] %3d%% %9.1f MB/s ", b->name, cells, full,
	       width - cells, "", (int)(part * 100), (double)b->done / 1000 /
	       (double)(b->drawn - b->start + 1));
	fflush(stdout);
}

void bar_start(struct bar *b, const char *name, uint64_t total)
{
	snprintf(b->name, sizeof(b->name), "%s", name);
	copy_printable(b->name);
	b->total = total;
	b->done = 0;
	b->start = now_ms();
	b->on = isatty(STDOUT_FILENO);
	if (b->on)
		draw(b);
}

void bar_add(struct bar *b, uint64_t bytes)
{
	b->done += bytes;
	if (b->on && now_ms() - b->drawn >= EVERY_MS)
		draw(b);
}

void bar_end(struct bar *b)
{
	if (!b->on)
		return;
	draw(b);
	putchar('\n');
	b->on = false;
}

void bar_clear(struct bar *b)
{
	if (!b->on)
		return;
	putchar('\n');
	fflush(stdout);
}
