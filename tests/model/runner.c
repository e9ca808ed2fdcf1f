/* SPDX-License-Identifier: BSD-2-Clause */
#include "runner.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

bool sim_traces;
static const struct runner *runner;
static uint64_t seed;

/* The options that repeat the schedule. */
static void print_seed(void)
{
	fprintf(stderr, "%s: seed %llu%s: ", runner->name,
		(unsigned long long)seed,
		runner->loose && *runner->loose ? ", --loose" : "");
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_seed();
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	_exit(1);
}

void sim_print(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%12.3f us ", (double)sim_now / 1e3);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
}

static void on_signal(int sig)
{
	signal(sig, SIG_DFL);
	print_seed();
	fprintf(stderr, "signal %d\n", sig);
	raise(sig);
}

/* A worker's progress and sums, for its parent. */
struct worker {
	pid_t pid;
	uint64_t next, end;
	uint64_t totals[RUNNER_TOTALS];
};

static uint32_t totals_count(void)
{
	uint32_t n = 0;

	while (runner->words[n])
		n++;
	return n;
}

static void start(struct worker *w)
{
	const size_t size = totals_count() * sizeof(*w->totals);

	w->pid = fork();
	if (w->pid < 0) {
		perror("fork");
		exit(2);
	}
	if (w->pid)
		return;
	if (runner->begin)
		runner->begin();
	while (w->next < w->end) {
		seed = w->next++;
		runner->run(seed);
		memcpy(w->totals, runner->totals, size);
	}
	_exit(0);
}

/* Returns true if the job has failed. */
static bool await(struct worker *w, uint64_t sum[RUNNER_TOTALS])
{
	int status;

	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	for (uint32_t i = 0; i < RUNNER_TOTALS; i++)
		sum[i] += w->totals[i];
	memset(w->totals, 0, sizeof(w->totals));
	return status;
}

/* Returns the number of failures. */
static unsigned int run_all(uint64_t from, uint64_t n, unsigned int jobs,
			    bool keep_going)
{
	struct worker *w = mmap(NULL, jobs * sizeof(*w), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t sum[RUNNER_TOTALS] = { 0 };
	unsigned int failures = 0;

	for (unsigned int i = 0; i < jobs; i++) {
		w[i].next = from + n * i / jobs;
		w[i].end = from + n * (i + 1) / jobs;
		start(&w[i]);
	}
	for (unsigned int i = 0; i < jobs; i++)
		while (await(&w[i], sum)) {
			failures++;
			if (!keep_going || w[i].next == w[i].end)
				break;
			start(&w[i]);
		}
	printf("%llu schedules, ", (unsigned long long)n);
	for (uint32_t i = 0; runner->words[i]; i++)
		printf("%llu %s, ", (unsigned long long)sum[i],
		       runner->words[i]);
	printf("%u failures\n", failures);
	return failures;
}

static int repeat(void)
{
	sim_traces = true;
	if (runner->begin)
		runner->begin();
	runner->run(seed);
	return 0;
}

int runner_main(const struct runner *r, int argc, char **argv)
{
	static const struct option options[] = {
		{ "schedules", required_argument, NULL, 'n' },
		{ "from", required_argument, NULL, 'f' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "keep-going", no_argument, NULL, 'k' },
		{ "loose", no_argument, NULL, 'l' },
		{ "seed", required_argument, NULL, 's' },
		{ NULL },
	};
	uint64_t n = r->schedules, from = 1;
	unsigned int jobs = 1;
	bool keep_going = false, repeats = false;
	int opt;

	runner = r;
	signal(SIGSEGV, on_signal);
	signal(SIGABRT, on_signal);
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			n = strtoull(optarg, NULL, 10);
			break;
		case 'f':
			from = strtoull(optarg, NULL, 10);
			break;
		case 'j':
			jobs = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'k':
			keep_going = true;
			break;
		case 'l':
			if (!r->loose)
				return 2;
			*r->loose = true;
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			repeats = true;
			break;
		default:
			return 2;
		}
	}
	return repeats ? repeat() :
	       run_all(from, n, jobs ? jobs : 1, keep_going) != 0;
}
