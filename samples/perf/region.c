/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for one-sided tests, at either end. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>

int perf_region_open(struct perf_region *m, struct rdmamsg_ep *ep, size_t room)
{
	const uint32_t access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
				RDMAMSG_ACCESS_ATOMIC |
				RDMAMSG_ACCESS_LOCAL_WRITE;
	size_t bytes = (room + 4095) / 4096 * 4096;
	int ret;

	if (m->region) {
		memset(m->in, 0, m->room);
		return room <= m->room ? 0 : -EINVAL;
	}
	if (posix_memalign((void **)&m->in, 4096, 2 * bytes))
		return -ENOMEM;
	memset(m->in, 0, 2 * bytes);
	m->out = m->in + bytes;
	m->room = bytes;
	ret = rdmamsg_region_create(rdmamsg_ep_ctx(ep), m->in, 2 * bytes,
				    access, &m->region);
	if (!ret)
		ret = rdmamsg_region_get_key(m->region, ep, &m->own);
	if (ret)
		perf_region_close(m);
	return ret;
}

void perf_region_close(struct perf_region *m)
{
	/* a closed endpoint has no operation in flight */
	(void)rdmamsg_region_destroy(m->region);
	free(m->in);
	memset(m, 0, sizeof(*m));
}

int perf_region_write(struct perf_region *m, struct rdmamsg_ep *ep,
		      uint32_t size, uint32_t n)
{
	const struct rdmamsg_sge s = { m->out, size, m->region };

	m->out[size - 1] = (uint8_t)n;
	return rdmamsg_write(ep, &s, 1, &m->peer, 0, 0, NULL);
}
