/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: two sessions over lanes that die at any step. Each schedule is
 * decided by its seed. The rules are in ends.c, incoming.c,
 * onesided.c, atomics.c, flow.c, late.c and inside.c.
 *
 *	model [--schedules=N] [--from=SEED] [--jobs=N] [--keep-going] [--loose]
 *	model --seed=SEED [--loose]	repeats one schedule, with a trace
 *
 * --keep-going goes on after a failure, which otherwise ends its job. Half of
 * the devices are loose (loose.c), and with --loose all of them.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmamsg/diag.h>

/* Of make check: seconds, or 40 s if slow. Sanitizers take ten times as long. */
#ifdef __SANITIZE_ADDRESS__
#define SCHEDULES	8000
#else
#define SCHEDULES	32000
#endif

bool sim_traces, all_loose;
static uint64_t seed;

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "model: seed %llu%s: ", (unsigned long long)seed,
		all_loose ? ", --loose" : "");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	_exit(1);
}

void sim_print(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%10.3f ms ", (double)sim_now / 1e6);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
}

static void on_signal(int sig)
{
	signal(sig, SIG_DFL);
	fprintf(stderr, "model: seed %llu: signal %d\n",
		(unsigned long long)seed, sig);
	raise(sig);
}

/* A worker's progress and sums, for its parent. */
struct worker {
	uint64_t next, end;
	struct totals totals;
};

static void work(struct worker *w)
{
	while (w->next < w->end) {
		seed = w->next++;
		schedule_run(seed);
		w->totals = totals;
	}
	_exit(0);
}

static pid_t start(struct worker *w)
{
	pid_t pid = fork();

	if (!pid)
		work(w);
	if (pid < 0)
		perror("model: fork");
	return pid;
}

/* Returns the number of failures. */
static unsigned int run_all(uint64_t from, uint64_t n, unsigned int jobs,
			    bool keep_going)
{
	struct worker *w = mmap(NULL, jobs * sizeof(*w), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t *pids = calloc(jobs, sizeof(*pids));
	unsigned int failures = 0;
	struct totals t = { 0 };

	for (unsigned int i = 0; i < jobs; i++) {
		w[i].next = from + n * i / jobs;
		w[i].end = from + n * (i + 1) / jobs;
		pids[i] = start(&w[i]);
	}
	for (unsigned int i = 0; i < jobs; i++) {
		int status;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		t.steps += w[i].totals.steps;
		t.messages += w[i].totals.messages;
		t.operations += w[i].totals.operations;
		t.doubts += w[i].totals.doubts;
		t.deaths += w[i].totals.deaths;
		t.moves += w[i].totals.moves;
		t.pauses += w[i].totals.pauses;
		t.cancels += w[i].totals.cancels;
		t.aborts += w[i].totals.aborts;
		t.quits += w[i].totals.quits;
		t.calls += w[i].totals.calls;
		t.refusals += w[i].totals.refusals;
		t.timed_out += w[i].totals.timed_out;
		t.overdue += w[i].totals.overdue;
		t.late += w[i].totals.late;
		t.resumes += w[i].totals.resumes;
		if (!status)
			continue;
		failures++;
		if (keep_going && w[i].next < w[i].end) {
			memset(&w[i].totals, 0, sizeof(w[i].totals));
			pids[i] = start(&w[i]);
			i--;
		}
	}
	printf("%llu schedules, %llu steps, %llu messages, %llu operations, "
	       "%llu in doubt, %llu deaths, %llu moves, %llu times resumed, "
	       "%llu pauses, %llu cancelled, %llu refused, %llu timed out, "
	       "%llu overdue, %llu late, %llu aborts, "
	       "%llu contexts closed early, %llu calls in callbacks, "
	       "%u failures\n",
	       (unsigned long long)n, (unsigned long long)t.steps,
	       (unsigned long long)t.messages, (unsigned long long)t.operations,
	       (unsigned long long)t.doubts,
	       (unsigned long long)t.deaths, (unsigned long long)t.moves,
	       (unsigned long long)t.resumes, (unsigned long long)t.pauses,
	       (unsigned long long)t.cancels,
	       (unsigned long long)t.refusals,
	       (unsigned long long)t.timed_out,
	       (unsigned long long)t.overdue, (unsigned long long)t.late,
	       (unsigned long long)t.aborts,
	       (unsigned long long)t.quits,
	       (unsigned long long)t.calls, failures);
	free(pids);
	return failures;
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *text)
{
	sim_print("lib: %s\n", text);
}

int main(int argc, char **argv)
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
	uint64_t n = SCHEDULES, from = 1;
	unsigned int jobs = 1;
	bool keep_going = false, repeats = false;
	int opt;

	rdmamsg__verbs = &sim_verbs;
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
			all_loose = true;
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			repeats = true;
			break;
		default:
			return 2;
		}
	}
	if (repeats) {
		sim_traces = true;
		rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_DEBUG);
		schedule_run(seed);
		return 0;
	}
	return run_all(from, n, jobs ? jobs : 1, keep_going) != 0;
}
