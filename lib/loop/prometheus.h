/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes metrics in the text format of Prometheus, version 0.0.4. The samples
 * of a metric are together, below its HELP and TYPE.
 */
#ifndef RDMAMSG_LIB_PROMETHEUS_H
#define RDMAMSG_LIB_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A field of a struct of counters. */
struct metric {
	const char *name;		/* "..._total": a counter, else a gauge */
	const char *help;
	size_t offset;			/* of a uint64_t */
};

struct prometheus {
	char *buf;			/* NULL if size is 0 */
	size_t size;
	size_t len;			/* of the whole text, without the NUL */
	uint32_t context;		/* label of each sample */
	const char *prefix;		/* of the names */
	const struct metric *metric;	/* the one that is being written */
	bool headed;			/* HELP and TYPE are written */
};

/* Begins a metric. Its head is written with its first sample. */
void rdmamsg__prometheus_metric(struct prometheus *p, const char *prefix,
				const struct metric *m);
void rdmamsg__prometheus_sample(struct prometheus *p);
void rdmamsg__prometheus_label(struct prometheus *p, const char *name,
			       const char *value);
void rdmamsg__prometheus_number(struct prometheus *p, const char *name,
				uint64_t value);
/* Ends a sample with the field of *counters that the metric names. */
void rdmamsg__prometheus_value(struct prometheus *p, const void *counters);

#endif
