/* SPDX-License-Identifier: BSD-2-Clause */
/* The picture of kv-load, by gnuplot. */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "load.h"

static const double parts[] = {
	0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1,
};

#define NR_PARTS	(sizeof(parts) / sizeof(*parts))

static const char *terminal(const char *file)
{
	const char *dot = strrchr(file, '.');

	/* gnuplot reads the name in a script */
	if (strpbrk(file, "'\\\n"))
		errx(2, "--plot takes no name with a quote or a backslash");
	if (dot && !strcmp(dot, ".svg"))
		return "svg size 720,480 background 'white'";
	if (dot && !strcmp(dot, ".png"))
		return "png size 720,480";
	errx(2, "--plot takes FILE.svg or FILE.png, not '%s'", file);
}

void load_plot_check(const char *file)
{
	(void)terminal(file);
}

static void data(FILE *to, const struct way *ways, size_t count)
{
	fprintf(to, "$data << END\n");
	for (size_t i = 0; i < NR_PARTS; i++) {
		fprintf(to, "%g", parts[i] * 100);
		for (size_t w = 0; w < count; w++)
			fprintf(to, " %g", load_percentile(&ways[w], parts[i]));
		fprintf(to, "\n");
	}
	fprintf(to, "END\n");
}

static void script(FILE *to, const char *file, const struct way *ways,
		   size_t count)
{
	data(to, ways, count);
	fprintf(to, "set terminal %s\nset output '%s'\n", terminal(file), file);
	fprintf(to, "set title 'kv-load'\nset logscale y\nset grid\n"
		"set xlabel 'percentile'\nset ylabel 'latency, us'\n"
		"set key top left\nplot ");
	for (size_t w = 0; w < count; w++)
		fprintf(to, "%s$data using 0:%zu:xtic(1) with linespoints "
			"title '%s'", w ? ", " : "", w + 2, ways[w].name);
	fprintf(to, "\n");
}

void load_plot(const char *file, const struct way *ways, size_t count)
{
	FILE *to = popen("gnuplot", "w");

	if (!to)
		err(1, "gnuplot");
	script(to, file, ways, count);
	if (pclose(to))
		errx(1, "%s: gnuplot failed; is it installed?", file);
}
