/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes metrics in the text format of Prometheus. */
#include "base/util.h"
#include "loop/prometheus.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 2, 3)))
put(struct prometheus *p, const char *fmt, ...)
{
	size_t at = min(p->len, p->size);
	va_list ap;

	va_start(ap, fmt);
	p->len += (size_t)vsnprintf(p->buf ? p->buf + at : NULL, p->size - at,
				    fmt, ap);
	va_end(ap);
}

static bool is_counter(const char *name)
{
	size_t len = strlen(name), end = strlen("_total");

	return len > end && !strcmp(name + len - end, "_total");
}

void rdmamsg__prometheus_metric(struct prometheus *p, const char *prefix,
				const struct metric *m)
{
	p->prefix = prefix;
	p->metric = m;
	p->headed = false;
}

void rdmamsg__prometheus_sample(struct prometheus *p)
{
	const char *name = p->metric->name;

	if (!p->headed) {
		put(p, "# HELP %s%s %s\n", p->prefix, name, p->metric->help);
		put(p, "# TYPE %s%s %s\n", p->prefix, name,
		    is_counter(name) ? "counter" : "gauge");
		p->headed = true;
	}
	put(p, "%s%s{context=\"%u\"", p->prefix, name, p->context);
}

void rdmamsg__prometheus_label(struct prometheus *p, const char *name,
			       const char *value)
{
	put(p, ",%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			put(p, "\\n");
		else if (*value == '\\' || *value == '"')
			put(p, "\\%c", *value);
		else
			put(p, "%c", *value);
	}
	put(p, "\"");
}

void rdmamsg__prometheus_number(struct prometheus *p, const char *name,
				uint64_t value)
{
	put(p, ",%s=\"%" PRIu64 "\"", name, value);
}

void rdmamsg__prometheus_value(struct prometheus *p, const void *counters)
{
	uint64_t value;

	memcpy(&value, (const char *)counters + p->metric->offset,
	       sizeof(value));
	put(p, "} %" PRIu64 "\n", value);
}
