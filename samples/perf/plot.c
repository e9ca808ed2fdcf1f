/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plot and --plot: latency over size, rate and bandwidth over size, latency over
 * time. gnuplot draws pictures from a script on its standard input. Its standard
 * output is the file. The script's only strings are in single quotes, in which
 * gnuplot substitutes nothing.
 */
#include "perf.h"
#include "plot.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX	16
#define ROWS_MAX	1024
#define LINE_BYTES	((size_t)1 << 16)
#define BAR		48	/* columns */
#define STEP		1.189207115	/* the fourth root of two */
#define TIMES_MAX	8	/* curves of latency over time */
#define TIMES_TEXT	2	/* as text, which is long */

struct plot_set {
	size_t count;
	struct perf_row *rows;
	unsigned int *file;	/* of each row */
	const char *names[FILES_MAX];
};

static struct plot_set set;
static bool compact;

/* ---- the rows --------------------------------------------------------- */

static int add(const struct perf_row *r, unsigned int file)
{
	if (!set.rows) {
		set.rows = calloc(ROWS_MAX, sizeof(*set.rows));
		set.file = calloc(ROWS_MAX, sizeof(*set.file));
	}
	if (!set.rows || !set.file || set.count == ROWS_MAX) {
		perf_complain("no memory for more than %zu results", set.count);
		return -1;
	}
	set.file[set.count] = file;
	set.rows[set.count++] = *r;
	return 0;
}

void perf_plot_add(const struct perf_row *r)
{
	set.names[0] = "rdmamsg-perf";
	(void)add(r, 0);
}

/* Reads a line of at most LINE_BYTES. Returns its length, or -1 at the end. */
static ssize_t read_line(FILE *f, char *line)
{
	size_t n = 0;
	int c;

	while ((c = getc(f)) != EOF && c != '\n')
		if (n < LINE_BYTES)
			line[n++] = (char)c;
	return c == EOF && !n ? -1 : (ssize_t)n;
}

static int read_lines(FILE *f, const char *name, unsigned int file, char *line)
{
	size_t before = set.count;
	struct perf_row r;
	ssize_t n;

	for (unsigned int i = 1; (n = read_line(f, line)) >= 0; i++) {
		int ret = perf_row_parse(line, (size_t)n, &r);

		if (ret < 0) {
			perf_complain("%s: line %u is no object of rdmamsg-perf "
				      "--json", name, i);
			return -1;
		}
		if (ret && add(&r, file))
			return -1;
	}
	if (!ferror(f) && set.count > before)
		return 0;
	perf_complain(ferror(f) ? "%s: %m" : "%s: no results of rdmamsg-perf "
		      "--json", name);
	return -1;
}

static int read_file(const char *name, unsigned int file)
{
	FILE *f = fopen(name, "re");
	char *line = f ? malloc(LINE_BYTES) : NULL;
	int ret = -1;

	if (line)
		ret = read_lines(f, name, file, line);
	else
		perf_complain("%s: %m", name);
	set.names[file] = name;
	free(line);
	if (f)
		fclose(f);
	return ret;
}

/* ---- names ------------------------------------------------------------ */

/* Returns true if a row begins another curve: the test, its file or its mode. */
static bool begins(size_t i)
{
	const struct perf_row *a = &set.rows[i], *b;

	if (!i || set.file[i] != set.file[i - 1])
		return true;
	b = &set.rows[i - 1];
	return strcmp(a->test, b->test) || strcmp(a->mode, b->mode) ||
	       strcmp(a->device, b->device) || a->cold != b->cold ||
	       a->size <= b->size;
}

/* Returns the row behind the curve that begins at i. */
static size_t end_of(size_t i)
{
	do
		i++;
	while (i < set.count && !begins(i));
	return i;
}

/* Prints a name without what ends a quoted string or a line. */
static void put_name(FILE *f, const char *s)
{
	for (; *s; s++)
		fputc(*s == '\'' || *s < ' ' || *s == 0x7f ? '_' : *s, f);
}

static void put_curve(FILE *f, size_t i)
{
	const struct perf_row *r = &set.rows[i];

	put_name(f, set.names[set.file[i]]);
	fprintf(f, ": %s, %s, %s%s", r->test, r->device, r->mode,
		r->cold ? ", cold" : "");
}

/* ---- as text ---------------------------------------------------------- */

/* Prints a bar whose length is the value's logarithm, from the least value. */
static void bar(const char *name, double value, double least)
{
	int n = 1;

	/* four columns are a factor of two */
	for (double at = least; at * STEP <= value && n < BAR; at *= STEP)
		n++;
	printf(" %12.*f %-6s ", value < 1 ? 3 : 2, value, name);
	while (n--)
		putchar('#');
	putchar('\n');
}

static void text_curve(size_t i, size_t end)
{
	double least = set.rows[i].p50;

	put_curve(stdout, i);
	puts(": microseconds over bytes; a longer bar is a logarithm");
	for (size_t k = i; k < end; k++)
		least = set.rows[k].p50 < least ? set.rows[k].p50 : least;
	for (; i < end; i++) {
		const struct perf_row *r = &set.rows[i];

		printf("%10.0f bytes %12.0f messages/s %12.2f MB/s\n", r->size,
		       r->msg_per_s, r->mb_per_s);
		bar("p50", r->p50, least);
		bar("p99", r->p99, least);
		bar("p99.9", r->p999, least);
	}
}

static void text_time(size_t i)
{
	const struct perf_row *r = &set.rows[i];

	put_curve(stdout, i);
	printf(", %.0f bytes: microseconds over time, from %.4f to %.4f s\n",
	       r->size, r->point[0].seconds, r->point[r->points - 1].seconds);
	for (unsigned int k = 0; k < r->points; k++) {
		printf("%10.4f s", r->point[k].seconds);
		bar("p50", r->point[k].p50, r->p50);
	}
}

static void text_times(void)
{
	size_t n = 0;

	for (size_t i = 0; i < set.count; i++)
		if (set.rows[i].points > 1 && n++ < TIMES_TEXT)
			text_time(i);
	if (n > TIMES_TEXT)
		printf("left out: %zu of %zu curves over time\n",
		       n - TIMES_TEXT, n);
}

static int text(void)
{
	for (size_t i = 0; i < set.count; i = end_of(i)) {
		if (i)
			putchar('\n');
		text_curve(i, end_of(i));
	}
	if (!compact)
		text_times();
	return 0;
}

/* ---- gnuplot's script ------------------------------------------------- */

/* A logarithm has no place for 0. */
static double positive(double value, double least)
{
	return value > least ? value : least;
}

static void put_data(FILE *f, size_t i, size_t end)
{
	fprintf(f, "$curve%zu << EOD\n", i);
	for (; i < end; i++) {
		const struct perf_row *r = &set.rows[i];

		fprintf(f, "%.9g %.9g %.9g %.9g %.9g %.9g\n",
			positive(r->size, 1), positive(r->p50, 1e-3),
			positive(r->p99, 1e-3), positive(r->p999, 1e-3),
			positive(r->msg_per_s, 1e-3),
			positive(r->mb_per_s, 1e-3));
	}
	fputs("EOD\n", f);
}

static void put_times(FILE *f, size_t i)
{
	const struct perf_row *r = &set.rows[i];

	fprintf(f, "$time%zu << EOD\n", i);
	for (unsigned int k = 0; k < r->points; k++)
		fprintf(f, "%.9g %.9g %.9g\n",
			positive(r->point[k].seconds, 1e-6),
			positive(r->point[k].p50, 1e-3),
			positive(r->point[k].worst, 1e-3));
	fputs("EOD\n", f);
}

/*
 * Adds a curve of the columns 1 and 'column' to a plot command. All that belongs
 * to curve i has the colour of number 'color', and 'dash' tells it apart.
 */
static void put_plot(FILE *f, size_t i, int column, const char *what,
		     const char *axes, int color, int dash)
{
	/* a point takes 100 bytes, but a line needs two */
	fprintf(f, "%s $curve%zu using 1:%d %s with %s lc %d dt %d title '",
		color > 1 || dash > 1 ? "," : "plot", i, column, axes,
		compact && end_of(i) > i + 1 ? "lines" : "linespoints", color,
		dash);
	put_curve(f, i);
	fprintf(f, "%s'", what);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcmp(s + n - m, end);
}

/* Returns true for the curves that a compact picture has in its first plot. */
static bool is_latency(size_t i)
{
	const char *test = set.rows[i].test;

	return !ends_with(test, "bw") && strcmp(test, "bw") &&
	       strcmp(test, "rate");
}

/* Returns the number of such curves, or of the others. */
static size_t curves(bool latency)
{
	size_t n = 0;

	for (size_t i = 0; i < set.count; i = end_of(i))
		n += is_latency(i) == latency;
	return n;
}

static void put_latency(FILE *f)
{
	static const char *const names[] = { ", p50", ", p99", ", p99.9" };
	int color = 1;

	fputs("set logscale xy\nset xlabel 'bytes'\n"
	      "set ylabel 'microseconds'\nset title 'latency'\n", f);
	for (size_t i = 0; i < set.count; i = end_of(i)) {
		if (compact && !is_latency(i))
			continue;
		for (int k = 0; k < 3; k++)
			put_plot(f, i, 2 + k, names[k], "", color, 1 + k);
		color++;
	}
	fputc('\n', f);
}

static void put_bandwidth(FILE *f)
{
	int color = 1;

	fputs("set logscale xy\nset xlabel 'bytes'\nset ylabel 'MB/s'\n"
	      "set title 'bandwidth'\n", f);
	for (size_t i = 0; i < set.count; i = end_of(i))
		if (!is_latency(i))
			put_plot(f, i, 6, "", "", color++, 1);
	fputc('\n', f);
}

static void put_rates(FILE *f)
{
	int color = 1;

	fputs("set y2label 'MB/s'\nset logscale y2\nset y2tics\n"
	      "set ytics nomirror\nset ylabel 'messages/s'\n"
	      "set title 'rate and bandwidth'\n", f);
	for (size_t i = 0; i < set.count; i = end_of(i), color++) {
		put_plot(f, i, 5, ", messages/s", "axes x1y1", color, 1);
		put_plot(f, i, 6, ", MB/s", "axes x1y2", color, 2);
	}
	fputs("\nunset y2label\nunset y2tics\nset ytics mirror\n", f);
}

/* Returns the number of curves over time. */
static size_t times(void)
{
	size_t n = 0;

	for (size_t i = 0; i < set.count; i++)
		n += set.rows[i].points > 1;
	return n > TIMES_MAX ? TIMES_MAX : n;
}

/* The longest latencies are points in the colour of their median's line. */
static void put_over_time(FILE *f)
{
	int n = 0;

	fputs("set xlabel 'seconds'\n"
	      "set ylabel 'microseconds'\n"
	      "set title 'latency over time, median and worst'\n", f);
	for (size_t i = 0; i < set.count && n < TIMES_MAX; i++) {
		if (set.rows[i].points < 2)
			continue;
		n++;
		fprintf(f, "%s $time%zu using 1:2 with lines lc %d title '",
			n > 1 ? "," : "plot", i, n);
		put_curve(f, i);
		fprintf(f, ", %.0f bytes', $time%zu using 1:3 with points "
			"pt 1 ps 0.5 lc %d notitle", set.rows[i].size, i, n);
	}
	fputc('\n', f);
}

static void put_terminal(FILE *f, bool svg, int width, int height)
{
	fprintf(f, "set encoding utf8\nset terminal %s size %d,%d noenhanced\n",
		svg ? "svg dynamic background 'white'" : "pngcairo", width,
		height);
	fputs("set grid\nset key outside below maxcols 2\n", f);
}

/* One row: latencies of tests of latency, bandwidths of the others. */
static void compact_script(FILE *f, bool svg)
{
	bool latency = curves(true), bandwidth = curves(false);
	int plots = latency + bandwidth;

	put_terminal(f, svg, plots * 480, 420);
	for (size_t i = 0; i < set.count; i = end_of(i))
		put_data(f, i, end_of(i));
	/* a mark of an axis takes 500 bytes */
	fprintf(f, "unset grid\nset border 3\nset tics nomirror\n"
		"unset mxtics\nunset mytics\nset xtics 1,64\nset autoscale xfix\n"
		"set multiplot layout 1,%d\n", plots);
	if (latency)
		put_latency(f);
	if (bandwidth)
		put_bandwidth(f);
	fputs("unset multiplot\n", f);
}

static void script(FILE *f, bool svg)
{
	int plots = times() ? 3 : 2;

	if (compact) {
		compact_script(f, svg);
		return;
	}
	put_terminal(f, svg, 1000, plots * 500);
	for (size_t i = 0; i < set.count; i = end_of(i))
		put_data(f, i, end_of(i));
	for (size_t i = 0; i < set.count; i++)
		if (set.rows[i].points > 1)
			put_times(f, i);
	fprintf(f, "set multiplot layout %d,1\n", plots);
	put_latency(f);
	put_rates(f);
	if (plots == 3)
		put_over_time(f);
	fputs("unset multiplot\n", f);
}

/* ---- gnuplot ---------------------------------------------------------- */

#define NO_GNUPLOT	127

/* Starts gnuplot: the script, the picture, the messages. */
static pid_t start(int in, int out, int err)
{
	pid_t child = fork();

	if (child)
		return child;
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		_exit(1);
	execlp("gnuplot", "gnuplot", "-d", "-", (char *)NULL);
	_exit(NO_GNUPLOT);
}

/* Returns a status of waitpid(2), or -1 with errno. */
static int run(FILE *in, int out, FILE *err)
{
	pid_t child = start(fileno(in), out, fileno(err));
	int status;

	if (child < 0)
		return -1;
	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR)
			return -1;
	return status;
}

/*
 * Prints what gnuplot has said of a failure. Of a success it says much, as that
 * a single size makes a narrow plot.
 */
static void blame(const char *to, FILE *err)
{
	char line[200];

	perf_complain("%s: gnuplot failed", to);
	for (rewind(err); fgets(line, sizeof(line), err);)
		fputs(line, stderr);
}

/* Draws into an open file. Returns an exit status. */
static int draw(const char *to, FILE *in, int out, FILE *err)
{
	int status;

	script(in, ends_with(to, ".svg"));
	if (fflush(in) || fseek(in, 0, SEEK_SET)) {
		perf_complain("gnuplot's script: %m");
		return 1;
	}
	status = run(in, out, err);
	if (status == -1) {
		perf_complain("gnuplot: %m");
	} else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_GNUPLOT) {
		perf_complain("%s is not drawn, because gnuplot is not "
			      "installed; this is the text", to);
		(void)text();
	} else if (status) {
		blame(to, err);
	}
	return status ? 1 : 0;
}

void perf_plot_compact(void)
{
	compact = true;
}

bool perf_plot_can(const char *to)
{
	return !strcmp(to, "-") || ends_with(to, ".svg") ||
	       ends_with(to, ".png");
}

int perf_plot(const char *to)
{
	FILE *in, *err;
	int out, ret = 1;

	if (!set.count || !strcmp(to, "-"))
		return text();
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out < 0) {
		perf_complain("%s: %m", to);
		return 1;
	}
	in = tmpfile();
	err = tmpfile();
	if (in && err)
		ret = draw(to, in, out, err);
	else
		perf_complain("a temporary file: %m");
	if (in)
		fclose(in);
	if (err)
		fclose(err);
	if (close(out)) {
		perf_complain("%s: %m", to);
		ret = 1;
	}
	if (ret)
		unlink(to);
	return ret;
}

int perf_plot_files(char **files, int count, const char *to)
{
	int ret = count > FILES_MAX ? 1 : 0;

	if (ret)
		perf_complain("at most %d files", FILES_MAX);
	for (int i = 0; i < count && !ret; i++)
		ret = read_file(files[i], (unsigned int)i) ? 1 : 0;
	return ret ? ret : perf_plot(to);
}
