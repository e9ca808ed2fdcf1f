/* SPDX-License-Identifier: BSD-2-Clause */
/* Pictures of results. */
#ifndef RDMAMSG_SAMPLES_PERF_PLOT_H
#define RDMAMSG_SAMPLES_PERF_PLOT_H

#include "rows.h"

/* Keeps a result of this process for perf_plot(). */
void perf_plot_add(const struct perf_row *r);
/* Lets pictures be small: no rates of tests of latency, nothing over time. */
void perf_plot_compact(void);
/* Draws into FILE.svg or FILE.png, or for "-" as text. Returns an exit status. */
int perf_plot(const char *to);
/* Reads the files and draws them. Returns an exit status. */
int perf_plot_files(char **files, int count, const char *to);
/* Returns true for names that perf_plot() can draw into. */
bool perf_plot_can(const char *to);

#endif
