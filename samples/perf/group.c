/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group-lat: one publisher and its subscribers, each in a process on this host,
 * so that all have the same clock. This process forks them, sets the faults of
 * --drop, and shows the figures.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* for the affinity of processes */
#endif
#include "group.h"
#include "plot.h"
#include "rival.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE		64u
#define RATE		20000u	/* messages/s */
#define MEASURE_S	5u	/* without -n and --time */
#define WARM_PART	10u	/* of a second */
#define LOOK_NS		5000000	/* between looks at the children */
#define USEC		1e-3	/* in a ns */

struct group_lat {
	const struct perf_options *o;
	struct group_shared *shared;
	size_t mapped;		/* bytes */
	pid_t children[1 + PERF_SUBSCRIBERS_MAX];	/* publisher first */
	uint32_t started, running;
};

/* ---- processes -------------------------------------------------------- */

/* Binds the publisher to the first processor, and subscribers to others. */
static void pin(uint32_t which)
{
	int cpus[CPU_SETSIZE], n = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &set))
			cpus[n++] = i;
	if (n > 1)
		rival_pin(which ? cpus[1 + (which - 1) % (uint32_t)(n - 1)] :
			  cpus[0]);
}

static int start(struct group_lat *g)
{
	const pid_t parent = getpid();
	const uint32_t which = g->started;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		rival_child(parent);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		pin(which);
		_exit(which ? group_subscriber(g->o, g->shared, which - 1) :
		      group_publisher(g->o, g->shared));
	}
	if (child < 0) {
		perf_complain("a process: %m");
		return -1;
	}
	g->children[g->started++] = child;
	g->running++;
	return 0;
}

/* Reaps those that have ended. Returns -1 if one has failed. */
static int reap(struct group_lat *g)
{
	int ret = 0;

	for (uint32_t i = 0; i < g->started; i++) {
		int status;

		if (!g->children[i] ||
		    waitpid(g->children[i], &status, WNOHANG) !=
		    g->children[i])
			continue;
		g->children[i] = 0;
		g->running--;
		if (WIFSIGNALED(status))
			perf_complain("a process of the group: signal %d",
				      WTERMSIG(status));
		if (status)
			ret = -1;
	}
	return ret;
}

static void end(struct group_lat *g)
{
	int status;

	for (uint32_t i = 0; i < g->started; i++)
		if (g->children[i]) {
			kill(g->children[i], SIGKILL);
			(void)rival_reap(g->children[i], &status);
		}
}

/* Waits for processes that join, or if 'joined' is 0 for the end of all. */
static int await(struct group_lat *g, uint32_t joined)
{
	const struct timespec pause = { 0, LOOK_NS };
	const struct group_shared *m = g->shared;

	while (joined ? m->joined < joined : g->running) {
		if (perf_stopped || reap(g))
			return -1;
		perf_progress("group-lat", m->size, m->published,
			      m->warm + m->count);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* ---- --drop ----------------------------------------------------------- */

/* Lets the soft HCA of a process lose datagrams. */
static int drop_of(const struct perf_options *o, pid_t child)
{
	char pid[16], faults[32];
	int status = -1;
	pid_t ctl;

	snprintf(pid, sizeof(pid), "%d", (int)child);
	snprintf(faults, sizeof(faults), "drop=%g", o->drop);
	ctl = fork();
	if (!ctl) {
		execlp("rdmamsg-soft-ctl", "rdmamsg-soft-ctl", "-p", pid,
		       "faults", faults, (char *)NULL);
		perf_complain("--drop: rdmamsg-soft-ctl: %m");
		_exit(1);
	}
	return ctl < 0 || rival_reap(ctl, &status) || status ? -1 : 0;
}

static int drop(const struct group_lat *g)
{
	if (g->o->drop <= 0)
		return 0;
	if (!g->shared->soft) {
		perf_complain("--drop: only the soft HCA loses datagrams on "
			      "purpose, and %s is another device: see "
			      "RDMAMSG_DEVICE", g->shared->device);
		return -1;
	}
	for (uint32_t i = 0; i < g->started; i++)
		if (drop_of(g->o, g->children[i]))
			return -1;
	return 0;
}

/* ---- figures ---------------------------------------------------------- */

/* The sum over all subscribers, and samples in the order of time. */
struct figures {
	struct perf_result r;
	struct group_result sum;
	uint64_t *samples, *repaired;
	size_t count, repairs;
	uint64_t lost, untold, max;
	/* us, of repaired messages alone */
	double repaired_p50, repaired_p90, repaired_p99, repaired_p999;
};

static void add(struct figures *f, uint64_t sample)
{
	if (sample & GROUP_REPAIRED)
		f->repaired[f->repairs++] = sample & ~GROUP_REPAIRED;
	sample &= ~GROUP_REPAIRED;
	f->samples[f->count++] = sample;
	f->max = sample > f->max ? sample : f->max;
}

static void sum_up(struct figures *f, const struct group_lat *g)
{
	const struct group_shared *m = g->shared;
	struct perf_result repaired = { 0 };

	for (uint32_t i = 0; i < g->o->subscribers; i++) {
		const struct group_result *r = &m->results[i];

		f->sum.gaps += r->gaps;
		f->sum.told += r->told;
		f->sum.wrong += r->wrong;
		f->sum.overtaken += r->overtaken;
		f->sum.repeated += r->repeated;
		f->sum.asked += r->asked;
		f->lost += m->count - r->delivered;
	}
	for (uint32_t n = 0; n < m->count; n++)
		for (uint32_t i = 0; i < g->o->subscribers; i++)
			if (n < m->results[i].delivered)
				add(f, m->samples[(size_t)i * m->count + n]);
	f->untold = f->lost > f->sum.told ? f->lost - f->sum.told :
		    f->sum.told - f->lost;
	f->r.errors = f->sum.wrong +
		      (g->o->no_repair ? f->untold : f->lost + f->untold);
	perf_over_time(&f->r, f->samples, f->count, USEC);
	perf_percentiles(&f->r, f->samples, f->count, USEC);
	perf_percentiles(&repaired, f->repaired, f->repairs, USEC);
	if (!f->repairs)
		return;
	f->repaired_p50 = repaired.usec_p50;
	f->repaired_p90 = perf_rank(f->repaired, f->repairs, 0.9) * USEC;
	f->repaired_p99 = repaired.usec_p99;
	f->repaired_p999 = repaired.usec_p999;
}

static void json(struct figures *f, const struct group_lat *g)
{
	const struct perf_options *o = g->o;
	char more[1024];

	snprintf(more, sizeof(more), "\"group\": \"%s\", \"subscribers\": %u, "
		 "\"rate\": %u, \"drop\": %g, \"repair\": %s, "
		 "\"unordered\": %s, \"overtaken\": %llu, "
		 "\"usec_max\": %.3f, \"usec_late\": %.3f, \"lost\": %llu, "
		 "\"gaps\": %llu, \"repeated\": %llu, \"asked\": %llu, "
		 "\"repaired\": %zu, \"usec_repaired_p50\": %.3f, "
		 "\"usec_repaired_p90\": %.3f, \"usec_repaired_p99\": %.3f, "
		 "\"usec_repaired_p999\": %.3f, ", o->group, o->subscribers,
		 o->rate, o->drop, o->no_repair ? "false" : "true",
		 o->unordered ? "true" : "false",
		 (unsigned long long)f->sum.overtaken,
		 (double)f->max * USEC, (double)g->shared->late * USEC,
		 (unsigned long long)f->lost, (unsigned long long)f->sum.gaps,
		 (unsigned long long)f->sum.repeated,
		 (unsigned long long)f->sum.asked, f->repairs,
		 f->repaired_p50, f->repaired_p90, f->repaired_p99,
		 f->repaired_p999);
	f->r.more = more;
	perf_report(&f->r, true);
	f->r.more = NULL;
}

static const char *mode(const struct perf_options *o)
{
	return o->no_repair ? "no repair" :
	       o->unordered ? "repair without order" : "repair";
}

static void table(const struct figures *f, const struct group_lat *g)
{
	const struct perf_options *o = g->o;
	const struct perf_result *r = &f->r;

	perf_progress(NULL, 0, 0, 0);
	printf("group-lat on %s, %s, %u messages/s to %u subscriber%s, %s, "
	       "%g %% dropped; microseconds are from the time in the schedule "
	       "to the delivery\n"
	       "%10s %9s %10s %10s %10s %10s %10s %7s %7s %8s %8s %9s\n",
	       r->device, o->event ? "events" : "polling", o->rate,
	       o->subscribers, o->subscribers == 1 ? "" : "s",
	       mode(o), o->drop, "bytes",
	       "count", "average", "p50", "p99", "p99.9", "max", "lost",
	       "gaps", "repeated", "asked", "left out");
	printf("%10u %9u %10.2f %10.2f %10.2f %10.2f %10.2f %7llu %7llu %8llu "
	       "%8llu %9u\n", r->size, r->count, r->usec_avg, r->usec_p50,
	       r->usec_p99, r->usec_p999, (double)f->max * USEC,
	       (unsigned long long)f->lost, (unsigned long long)f->sum.gaps,
	       (unsigned long long)f->sum.repeated,
	       (unsigned long long)f->sum.asked, r->warmup);
	if (f->repairs)
		printf("repaired: %zu messages, p50 %.2f, p90 %.2f, p99 %.2f, "
		       "p99.9 %.2f\n", f->repairs, f->repaired_p50,
		       f->repaired_p90, f->repaired_p99, f->repaired_p999);
	printf("the publisher was at most %.2f behind the schedule\n",
	       (double)g->shared->late * USEC);
	fflush(stdout);
}

/* Returns an exit status. */
static int judge(const struct figures *f, const struct group_lat *g)
{
	if (f->sum.wrong)
		perf_complain("%llu messages were wrong, %s",
			      (unsigned long long)f->sum.wrong,
			      g->o->unordered ? "or came twice" :
			      "or out of order");
	if (f->untold)
		perf_complain("%llu messages are missing, and gaps told %llu",
			      (unsigned long long)f->lost,
			      (unsigned long long)f->sum.told);
	else if (f->lost && !g->o->no_repair)
		perf_complain("%llu messages were lost and not repaired",
			      (unsigned long long)f->lost);
	return f->r.errors ? 1 : 0;
}

static void hist(const struct figures *f)
{
	perf_hist(f->samples, f->count, USEC);
	if (!f->repairs)
		return;
	printf("the repaired messages alone:\n");
	perf_hist(f->repaired, f->repairs, USEC);
}

static int show(struct figures *f, const struct group_lat *g)
{
	const struct perf_options *o = g->o;

	sum_up(f, g);
	if (o->json)
		json(f, g);
	else
		table(f, g);
	if (o->hist)
		hist(f);
	if (o->plot && f->count) {
		struct perf_row row;

		perf_row_of(&f->r, &row);
		perf_plot_add(&row);
	}
	return judge(f, g);
}

static int report(const struct group_lat *g)
{
	const struct group_shared *m = g->shared;
	const size_t most = (size_t)m->count * g->o->subscribers;
	struct figures f = {
		.r = { .test = PERF_GROUP_LAT, .size = m->size,
		       .count = m->count, .seconds = (double)m->took / 1e9,
		       .warmup = m->first, .device = m->device,
		       .event = g->o->event, .server_event = g->o->event },
		.samples = calloc(most, sizeof(*f.samples)),
		.repaired = calloc(most, sizeof(*f.repaired)),
	};
	int ret = 1;

	if (f.samples && f.repaired)
		ret = show(&f, g);
	else
		perf_complain("no memory for %zu times", most);
	free(f.samples);
	free(f.repaired);
	return ret;
}

/* ---- a size ----------------------------------------------------------- */

static int run(struct group_lat *g)
{
	if (start(g) || await(g, 1))
		return -1;
	while (g->started < 1 + g->o->subscribers)
		if (start(g))
			return -1;
	if (await(g, g->started) || drop(g))
		return -1;
	g->shared->go = true;
	return await(g, 0);
}

static int share(struct group_lat *g, uint32_t size)
{
	const struct perf_options *o = g->o;
	struct group_shared *m = MAP_FAILED;
	const uint64_t bytes = sizeof(*m) +
		(uint64_t)o->count * o->subscribers * sizeof(*m->samples);

	errno = ENOMEM;
	g->mapped = (size_t)bytes;
	if (bytes <= SIZE_MAX / 2)
		m = mmap(NULL, g->mapped, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED) {
		perf_complain("memory for %u times: %m", o->count);
		return -1;
	}
	m->size = size;
	m->count = o->count;
	m->warm = o->rate / WARM_PART + 1;
	m->first = UINT32_MAX;
	g->shared = m;
	return 0;
}

static int measure(const struct perf_options *o, uint32_t size)
{
	struct group_lat g = { .o = o };
	int ret;

	if (share(&g, size))
		return 1;
	ret = run(&g) ? 1 : report(&g);
	end(&g);
	munmap(g.shared, g.mapped);
	return ret;
}

int perf_group(const struct perf_options *opts)
{
	struct perf_options o = *opts;
	int ret = 0;

	if (!o.size_count)
		o.sizes[o.size_count++] = SIZE;
	if (!o.rate)
		o.rate = RATE;
	if (!o.count)
		o.count = o.rate * (o.seconds ? o.seconds : MEASURE_S);
	/*
	 * All members are here: the soft HCA need not send each datagram to the
	 * network as well, which costs the publisher more than the members do.
	 */
	setenv("RDMAMSG_SOFT_NET", "0", 0);
	perf_catch_signals();
	for (int i = 0; i < o.size_count && !perf_stopped; i++)
		ret |= measure(&o, o.sizes[i]);
	if (o.plot && perf_plot(o.plot))
		ret = 1;
	if (perf_stopped)
		perf_complain("interrupted");
	return ret;
}
