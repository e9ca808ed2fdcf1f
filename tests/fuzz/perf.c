/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: rdmamsg-perf plot reads any text as results, and passes only
 * finite numbers and printable words to gnuplot.
 */
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_word(const char *s)
{
	must(strnlen(s, PERF_WORD_MAX) < PERF_WORD_MAX);
	for (; *s; s++)
		must(*s >= ' ' && *s < 0x7f);
}

static void check_number(double n)
{
	must(isfinite(n) && n >= 0);
}

static void check_row(const struct perf_row *r)
{
	must(r->test[0] && r->p50 > 0);
	check_word(r->test);
	check_word(r->device);
	check_word(r->mode);
	check_number(r->size);
	check_number(r->p50);
	check_number(r->p99);
	check_number(r->p999);
	check_number(r->msg_per_s);
	check_number(r->mb_per_s);
	check_number(r->warmup);
	must(r->points <= PERF_POINTS);
	for (unsigned int i = 0; i < r->points; i++) {
		check_number(r->point[i].seconds);
		check_number(r->point[i].p50);
		check_number(r->point[i].worst);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_row r;
	int ret;

	memset(&r, 0xa5, sizeof(r));
	ret = perf_row_parse((const char *)data, size, &r);
	must(ret == 1 || ret == 0 || ret == -EINVAL);
	if (ret == 1)
		check_row(&r);
	else
		must((unsigned char)r.test[0] == 0xa5);
	return 0;
}
