/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: rdmamsg and its rivals in turns, each between a server on one
 * processor and a client on another one. Every measurement has new processes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* for the affinity of processes */
#endif
#include "rival.h"

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIVALS_MAX	16
#define ROUNDS_MAX	101
#define ROUNDS		3
#define SMALL		64u
#define LARGE		(1u << 20)
#define PATIENCE_S	120	/* for a measurement */
#define LOOK_MS		200	/* between looks for an interrupt */
#define BEHIND		5	/* percent that a tool may be better */

struct entry {
	const struct rival *rival;
	double figures[RIVAL_FIGURES][ROUNDS_MAX];
	unsigned int count[RIVAL_FIGURES];
	uint64_t warmup[RIVAL_FIGURES];	/* messages of the last round */
};

struct compare {
	const struct perf_options *o;
	struct entry *entries;
	unsigned int count, rounds, runs;
	uint32_t size[RIVAL_FIGURES];
	double before, after;	/* us of a cache line */
};

static const char *const figure_names[] = { "latency", "rate", "bandwidth" };

/* ---- a measurement ---------------------------------------------------- */

void rival_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perf_complain("processor %d: %m", cpu);
}

void rival_child(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* it may have ended before, and then no signal comes */
	if (getppid() != parent)
		_exit(1);
}

int rival_reap(pid_t child, int *ret_status)
{
	pid_t done;

	while ((done = waitpid(child, ret_status, 0)) < 0 && errno == EINTR)
		;
	return done == child ? 0 : -1;
}

/* Forks a child whose standard output is 'out'. */
static pid_t start(int cpu, int out)
{
	const pid_t parent = getpid();
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child)
		return child;
	rival_child(parent);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(1);
	rival_pin(cpu);
	return 0;
}

/*
 * Reads what a child prints until a line ends or all is said. Returns the
 * length, or -1 if nothing comes or after an interrupt.
 */
static ssize_t read_line(int fd, char *buf, size_t size)
{
	double end = rival_now() + PATIENCE_S;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	while (!perf_stopped && rival_now() < end && n < size - 1) {
		ssize_t got;

		if (poll(&p, 1, LOOK_MS) != 1)
			continue;
		got = read(fd, buf + n, 1);
		if (got <= 0 || buf[n] == '\n')
			break;
		n++;
	}
	buf[n] = 0;
	return n && !perf_stopped ? (ssize_t)n : -1;
}

/* Ends and reaps a child. Returns its status. */
static int end(pid_t child, int sig)
{
	int status = -1;

	if (child <= 0)
		return -1;
	kill(child, sig);
	(void)rival_reap(child, &status);
	return status;
}

/* Makes a socket on a free port of the loopback device. */
static int listen_anywhere(uint16_t *port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		perf_complain("a socket: %m");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(a.sin_port);
	return fd;
}

static void be_server(const struct rival_run *run)
{
	int status = run->rival->serve(run);

	fflush(stdout);
	_exit(status);
}

static void be_client(const struct rival_run *run, int out)
{
	struct rival_result r = { 0 };
	int status = run->rival->client(run, &r);

	if (!status)
		dprintf(out, "%.9g %llu\n", r.value,
			(unsigned long long)r.warmup);
	_exit(status);
}

/* Starts both processes. Returns what the client prints, or -1. */
static int both(struct rival_run *run, const int pipes[2][2], pid_t child[2],
		struct rival_result *ret)
{
	char line[256], *rest;

	child[0] = start(run->o->cpus[0], pipes[0][1]);
	if (!child[0]) {
		close(pipes[1][1]);	/* so that the end of the client is seen */
		be_server(run);
	}
	if (child[0] < 0)
		return -1;
	if (run->rival->says_port &&
	    (read_line(pipes[0][0], line, sizeof(line)) < 0 ||
	     sscanf(line, "listening on port %hu", &run->port) != 1))
		return -1;
	child[1] = start(run->o->cpus[1], pipes[1][1]);
	if (!child[1])
		be_client(run, pipes[1][1]);
	if (child[1] < 0)
		return -1;
	close(pipes[1][1]);
	if (read_line(pipes[1][0], line, sizeof(line)) < 0)
		return -1;
	ret->value = strtod(line, &rest);
	ret->warmup = strtoull(rest, NULL, 10);
	return ret->value > 0 ? 0 : -1;
}

static int measure_with(struct rival_run *run, struct rival_result *ret)
{
	int pipes[2][2] = { { -1, -1 }, { -1, -1 } }, status = -1;
	pid_t child[2] = { 0, 0 };

	if (!pipe(pipes[0]) && !pipe(pipes[1]))
		status = both(run, pipes, child, ret);
	(void)end(child[1], status ? SIGKILL : SIGCONT);
	(void)end(child[0], SIGTERM);
	for (int i = 0; i < 3; i++)
		close(pipes[i / 2][i % 2]);
	if (status && child[1] <= 0)
		close(pipes[1][1]);
	return status;
}

/* Returns -1 if there is no figure. */
static int measure(struct compare *c, const struct rival *r,
		   enum rival_figure figure, struct rival_result *ret)
{
	struct rival_run run = {
		.o = c->o, .rival = r, .figure = figure,
		.size = c->size[figure], .number = c->runs++, .listener = -1,
	};
	int status;

	if (r->listens || r->wants_port)
		run.listener = listen_anywhere(&run.port);
	if (r->wants_port && run.listener >= 0) {
		close(run.listener);
		run.listener = -1;
	}
	status = measure_with(&run, ret);
	if (run.listener >= 0)
		close(run.listener);
	return status;
}

/* ---- rounds ----------------------------------------------------------- */

static void progress(const struct compare *c, unsigned int round,
		     const char *who, const char *what)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (who)
		fprintf(stderr, "\rround %u of %u: %s, %s\033[K", round + 1,
			c->rounds, who, what);
	else
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

static void turn(struct compare *c, struct entry *e, unsigned int round)
{
	for (int i = 0; i < RIVAL_FIGURES && !perf_stopped; i++) {
		struct rival_result r;

		if (!e->rival->figures[i])
			continue;
		progress(c, round, e->rival->name, figure_names[i]);
		if (measure(c, e->rival, (enum rival_figure)i, &r)) {
			if (!perf_stopped)
				perf_complain("%s: no %s in round %u",
					      e->rival->name, figure_names[i],
					      round + 1);
			continue;
		}
		e->figures[i][e->count[i]++] = r.value;
		e->warmup[i] = r.warmup;
	}
}

/* The first of a round is the last of the next one. */
static void rounds(struct compare *c)
{
	for (unsigned int i = 0; i < c->rounds; i++)
		for (unsigned int k = 0; k < c->count && !perf_stopped; k++)
			turn(c, &c->entries[i % 2 ? c->count - 1 - k : k], i);
	progress(c, 0, NULL, NULL);
}

static double distance(struct compare *c)
{
	struct rival_result r;

	if (perf_stopped || !rival_line->there(rival_line) ||
	    measure(c, rival_line, RIVAL_USEC, &r))
		return 0;
	return r.value;
}

/* ---- the table -------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Returns the median, or 0 without a figure. */
static double median(struct entry *e, enum rival_figure figure)
{
	unsigned int n = e->count[figure];

	if (!n)
		return 0;
	qsort(e->figures[figure], n, sizeof(double), ascending);
	return e->figures[figure][n / 2];
}

static void column(double value, int width, int digits)
{
	if (value > 0)
		printf(" %*.*f", width, digits, value);
	else
		printf(" %*s", width, "-");
}

/* Prints the flags, with the variable as the rival sees it. */
static void flags(const struct rival *r, bool quoted)
{
	const char *value = r->variable ? getenv(r->variable) : NULL;

	fputs(r->flags, stdout);
	if (!value)
		return;
	printf("; %s=", r->variable);
	for (; *value; value++) {
		if (quoted && (*value == '"' || *value == '\\'))
			putchar('\\');
		putchar((unsigned char)*value < ' ' ? '?' : *value);
	}
}

/* Returns the messages of the last round that no figure includes. */
static unsigned long long warmup(const struct entry *e)
{
	unsigned long long n = 0;

	for (int i = 0; i < RIVAL_FIGURES; i++)
		n += e->warmup[i];
	return n;
}

static void table(const struct compare *c)
{
	printf("between processors %d and %d, medians of %u round%s; a cache "
	       "line takes %.1f ns before and %.1f ns after\n"
	       "%-20s %8u B %10u B %9u B\n%-20s %10s %12s %11s %9s  %s\n",
	       c->o->cpus[0], c->o->cpus[1], c->rounds,
	       c->rounds == 1 ? "" : "s", c->before * 1e3, c->after * 1e3, "",
	       c->size[0], c->size[1], c->size[2], "", "us", "messages/s",
	       "GB/s", "left out", "flags");
	for (unsigned int i = 0; i < c->count; i++) {
		struct entry *e = &c->entries[i];

		printf("%-20s", e->rival->name);
		column(median(e, RIVAL_USEC), 10, 3);
		column(median(e, RIVAL_RATE), 12, 0);
		column(median(e, RIVAL_BW) / 1e9, 11, 3);
		printf(" %9llu  ", warmup(e));
		flags(e->rival, false);
		putchar('\n');
	}
}

static void json(const struct compare *c)
{
	for (unsigned int i = 0; i < c->count; i++) {
		struct entry *e = &c->entries[i];

		printf("{\"rival\": \"%s\", \"flags\": \"", e->rival->name);
		flags(e->rival, true);
		printf("\", \"tool\": %s, \"rounds\": %u, \"size\": %u, "
		       "\"large\": %u, \"usec\": %.3f, \"msg_per_s\": %.1f, "
		       "\"gb_per_s\": %.3f, \"warmup\": %llu, "
		       "\"line_before_ns\": %.1f, "
		       "\"line_after_ns\": %.1f}\n",
		       e->rival->tool ? "true" : "false", c->rounds,
		       c->size[0], c->size[2], median(e, RIVAL_USEC),
		       median(e, RIVAL_RATE), median(e, RIVAL_BW) / 1e9,
		       warmup(e), c->before * 1e3, c->after * 1e3);
	}
}

/*
 * Returns by how many percent the tool's figure is better than the driver's, or
 * 0 if one of them has none.
 */
static double better(struct entry *tool, struct entry *driver,
		     enum rival_figure figure)
{
	double a = median(tool, figure), b = median(driver, figure);

	if (a <= 0 || b <= 0)
		return 0;
	return figure == RIVAL_USEC ? (b / a - 1) * 100 : (a / b - 1) * 100;
}

/* Names a figure of a driver that does not show its library at its best. */
static void tell_behind(const struct compare *c, const char *driver,
			enum rival_figure figure, double percent)
{
	static const char text[] = "%s: the %s of its tool is %.0f %% better "
				   "than the driver's";
	const char *what = figure_names[figure];

	if (c->o->json) {
		perf_complain(text, driver, what, percent);
		return;
	}
	printf(text, driver, what, percent);
	putchar('\n');
}

/* Compares a tool with the entry before it, if that is its driver. */
static void behind(const struct compare *c, struct entry *tool)
{
	struct entry *driver = tool - 1;
	const char *name = driver->rival->name;

	if (!tool->rival->tool || driver->rival->tool ||
	    strncmp(tool->rival->name, name, strlen(name)))
		return;
	for (int i = 0; i < RIVAL_FIGURES; i++) {
		enum rival_figure k = (enum rival_figure)i;
		double percent = better(tool, driver, k);

		if (percent > BEHIND)
			tell_behind(c, name, k, percent);
	}
}

/* ---- the rivals ------------------------------------------------------- */

/* Returns true if a word of the list begins the name, or there is no list. */
static bool chosen(const char *list, const char *name)
{
	while (list && *list) {
		size_t n = strcspn(list, ",");

		if (n && !strncasecmp(list, name, n))
			return true;
		list += n + (list[n] == ',');
	}
	return !list;
}

/* Adds a rival, or says why not. */
static void add(struct compare *c, const struct rival *r)
{
	if (r->absent)
		perf_complain("%s %s", r->name, r->absent);
	else if (r->there && !r->there(r))
		perf_complain("%s is not installed", r->name);
	else
		c->entries[c->count++].rival = r;
	if (r->variable)
		setenv(r->variable, r->value, 0);
}

/* Returns 0 if a rival was chosen. */
static int gather(struct compare *c)
{
	static const struct rival *const all[] = {
		rival_rdmamsg, rival_tcp, rival_zmq, rival_ucx, rival_ucx_tool,
		rival_fabric, rival_fabric_tool,
	};
	int ret = -1;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct rival *r = all[i]; r->name; r++) {
			if (!chosen(c->o->only, r->name))
				continue;
			add(c, r);
			ret = 0;
		}
	return ret;
}

/* Takes the first two processors of this process unless there are others. */
static int processors(struct perf_options *o)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_ZERO(&set);
	if (o->cpus[0] != o->cpus[1]) {
		for (int i = 0; i < 2; i++)
			if (!CPU_ISSET((size_t)o->cpus[i], &set)) {
				perf_complain("--cpus: this process may not "
					      "use processor %d", o->cpus[i]);
				return -1;
			}
		return 0;
	}
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			o->cpus[n++] = i;
	if (n == 2)
		return 0;
	perf_complain("compare needs two processors");
	return -1;
}

static int compare(struct compare *c)
{
	unsigned int figures = 0;

	if (gather(c)) {
		perf_complain("--only %s: no such rival", c->o->only);
		return 1;
	}
	if (!c->count)
		return 1;
	c->before = distance(c);
	rounds(c);
	c->after = distance(c);
	if (perf_stopped) {
		perf_complain("interrupted");
		return 1;
	}
	if (c->o->json)
		json(c);
	else
		table(c);
	for (unsigned int i = 1; i < c->count; i++)
		behind(c, &c->entries[i]);
	for (unsigned int i = 0; i < c->count; i++)
		for (int k = 0; k < RIVAL_FIGURES; k++)
			figures += c->entries[i].rival->figures[k] &&
				   c->entries[i].count[k] < c->rounds;
	return figures ? 1 : 0;
}

int perf_compare(const struct perf_options *opts)
{
	struct perf_options o = *opts;
	struct compare c = {
		.o = &o, .rounds = o.count ? o.count : ROUNDS,
		.size = { SMALL, SMALL, LARGE },
	};
	int ret;

	if (o.size_count)
		c.size[RIVAL_USEC] = c.size[RIVAL_RATE] = o.sizes[0];
	if (o.size_count > 1)
		c.size[RIVAL_BW] = o.sizes[1];
	if (!o.host)
		o.host = "127.0.0.1";
	if (c.rounds > ROUNDS_MAX) {
		perf_complain("at most %d rounds", ROUNDS_MAX);
		return 1;
	}
	if (processors(&o))
		return 1;
	c.entries = calloc(RIVALS_MAX, sizeof(*c.entries));
	if (!c.entries) {
		perf_complain("no memory");
		return 1;
	}
	perf_catch_signals();
	ret = compare(&c);
	free(c.entries);
	return ret;
}
