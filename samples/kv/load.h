/* SPDX-License-Identifier: BSD-2-Clause */
/* kv-load: what one way of asking has measured, and its picture. */
#ifndef KV_LOAD_H
#define KV_LOAD_H

#include <stddef.h>
#include <stdint.h>

struct way {
	const char *name;
	uint32_t *ns;		/* of each request, sorted */
	size_t count;
	double per_second;	/* of all clients together */
};

/* The latency below which 'part' of the requests are, in us. */
double load_percentile(const struct way *w, double part);
/* Exits if the name of the picture is not one that can be drawn. */
void load_plot_check(const char *file);
/* Draws latency over percentile into a .svg or .png file. Exits on failure. */
void load_plot(const char *file, const struct way *ways, size_t count);

#endif
