/* SPDX-License-Identifier: BSD-2-Clause */
#include "record.h"

#include <string.h>

size_t record_build(void *to, const struct kv_item *item)
{
	char *at = (char *)to + sizeof(uint64_t);
	size_t len = kv_build(at, item);
	const uint64_t sum = kv_sum(0, at, len);

	memcpy(to, &sum, sizeof(sum));
	return sizeof(sum) + len;
}

size_t record_parse(const void *from, size_t len, struct kv_item *ret)
{
	const char *at = (const char *)from + sizeof(uint64_t);
	uint64_t sum;
	long n;

	if (len < sizeof(sum))
		return 0;
	memcpy(&sum, from, sizeof(sum));
	n = kv_parse(at, len - sizeof(sum), ret);
	if (n <= 0 || sum != kv_sum(0, at, (size_t)n))
		return 0;
	return sizeof(sum) + (size_t)n;
}
