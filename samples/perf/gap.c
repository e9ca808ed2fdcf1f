/* SPDX-License-Identifier: BSD-2-Clause */
/* --failover: the longest time without traffic, and what it was spent on. */
#include "perf.h"

#include <stdio.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>

void perf_gap_path(struct perf_gap *g, const struct rdmamsg_path_event *ev)
{
	perf_progress(NULL, 0, 0, 0);
	fprintf(stderr, "rdmamsg-perf: path %s: %s\n",
		rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change), ev->text);
	if (ev->change != RDMAMSG_PATH_CHANGE_RESUMED)
		return;
	g->resumes++;
	g->resumed = true;
	g->down_ms += ev->ms;
}

void perf_gap_end(struct perf_gap *g, uint64_t ticks)
{
	if (ticks > g->longest)
		g->longest = ticks;
	if (g->resumed && ticks > g->loss) {
		g->loss = ticks;
		g->loss_down_ms = g->down_ms;
	}
	g->resumed = false;
	g->down_ms = 0;
}

void perf_gap_report(const struct perf_gap *g, bool json)
{
	double longest = (double)g->longest * perf_usec_per_tick() / 1e3;
	double loss = (double)g->loss * perf_usec_per_tick() / 1e3;
	/* clocks differ by less than a millisecond */
	double found = loss > g->loss_down_ms ? loss - g->loss_down_ms : 0;

	if (json)
		printf("{\"longest_gap_ms\": %.3f, \"longest_loss_ms\": %.3f, "
		       "\"noticed_after_ms\": %.3f, "
		       "\"without_connection_ms\": %u, \"resumes\": %u}\n",
		       longest, loss, found, g->loss_down_ms, g->resumes);
	else if (g->resumes)
		printf("longest time without traffic: %.1f ms; at a loss %.1f "
		       "ms, of which %.1f ms until it was noticed, %u ms "
		       "without a connection; %u other connections took over\n",
		       longest, loss, found, g->loss_down_ms, g->resumes);
	else
		printf("longest time without traffic: %.1f ms; 0 other "
		       "connections took over\n", longest);
	fflush(stdout);
}
