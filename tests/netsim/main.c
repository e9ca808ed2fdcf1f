/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: two queue pairs of the soft HCA over a network that loses,
 * doubles, reorders and delays packets. Each schedule is decided by its seed.
 * The rules are in rules.c, bytes.c and inside.c.
 *
 *	netsim [--schedules=N] [--from=SEED] [--jobs=N] [--keep-going]
 *	netsim --seed=SEED	repeats one schedule, with a trace
 *
 * --keep-going goes on after a failure, which otherwise ends its job.
 */
#include "netsim.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of make check: seconds. Sanitizers take ten times as long. */
#ifdef __SANITIZE_ADDRESS__
#define SCHEDULES	3500
#else
#define SCHEDULES	35000
#endif

bool sim_traces;
static uint64_t seed;

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "netsim: seed %llu: ", (unsigned long long)seed);
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
	fprintf(stderr, "netsim: seed %llu: signal %d\n",
		(unsigned long long)seed, sig);
	raise(sig);
}

/* A worker's progress and sums, for its parent. */
struct worker {
	pid_t pid;
	uint64_t next, end;
	struct totals totals;
};

static void begin(void)
{
	bytes_init();
	ends_init(world_open());
}

static void start(struct worker *w)
{
	w->pid = fork();
	if (w->pid < 0) {
		perror("netsim: fork");
		exit(2);
	}
	if (w->pid)
		return;
	begin();
	while (w->next < w->end) {
		seed = w->next++;
		schedule_run(seed);
		w->totals = totals;
	}
	_exit(0);
}

static void add(struct totals *sum, const struct totals *t)
{
	sum->steps += t->steps;
	sum->requests += t->requests;
	sum->failed += t->failed;
	sum->packets += t->packets;
	sum->lost += t->lost;
	sum->doubled += t->doubled;
	sum->late += t->late;
}

/* Returns true if the job has failed. */
static bool await(struct worker *w, struct totals *sum)
{
	int status;

	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	add(sum, &w->totals);
	memset(&w->totals, 0, sizeof(w->totals));
	return status;
}

/* Returns the number of failures. */
static unsigned int run_all(uint64_t from, uint64_t n, unsigned int jobs,
			    bool keep_going)
{
	struct worker *w = mmap(NULL, jobs * sizeof(*w), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int failures = 0;
	struct totals t = { 0 };

	for (unsigned int i = 0; i < jobs; i++) {
		w[i].next = from + n * i / jobs;
		w[i].end = from + n * (i + 1) / jobs;
		start(&w[i]);
	}
	for (unsigned int i = 0; i < jobs; i++)
		while (await(&w[i], &t)) {
			failures++;
			if (!keep_going || w[i].next == w[i].end)
				break;
			start(&w[i]);
		}
	printf("%llu schedules, %llu steps, %llu requests, %llu packets, "
	       "%llu lost, %llu doubled, %llu late, %llu queue pairs failed, "
	       "%u failures\n", (unsigned long long)n,
	       (unsigned long long)t.steps, (unsigned long long)t.requests,
	       (unsigned long long)t.packets, (unsigned long long)t.lost,
	       (unsigned long long)t.doubled, (unsigned long long)t.late,
	       (unsigned long long)t.failed, failures);
	return failures;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "schedules", required_argument, NULL, 'n' },
		{ "from", required_argument, NULL, 'f' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "keep-going", no_argument, NULL, 'k' },
		{ "seed", required_argument, NULL, 's' },
		{ NULL },
	};
	uint64_t n = SCHEDULES, from = 1;
	unsigned int jobs = 1;
	bool keep_going = false;
	int opt;

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
		case 's':
			seed = strtoull(optarg, NULL, 10);
			sim_traces = true;
			break;
		default:
			return 2;
		}
	}
	if (sim_traces) {
		begin();
		schedule_run(seed);
		return 0;
	}
	return run_all(from, n, jobs ? jobs : 1, keep_going) != 0;
}
