/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair whose ends run a chain each. */
#ifndef RDMAMSG_TESTS_INTEGRATION_CHAIN_PAIR_H
#define RDMAMSG_TESTS_INTEGRATION_CHAIN_PAIR_H

#include "abilities.h"
#include "common.h"
#include "../chain_send.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>

static struct pair p;
static struct rdmamsg_chain *chain, *other;	/* of the client, the server */
static uint32_t path;				/* that chains ask for */
static uint32_t takes[2];			/* path of runs */
static struct {
	unsigned int count;
	struct rdmamsg_chain_end end;
} done[2];
static void (*then_done)(struct rdmamsg_chain *c);	/* or NULL */

static void on_done(struct rdmamsg_chain *c,
		    const struct rdmamsg_chain_end *end)
{
	int i = c == other;

	done[i].count++;
	done[i].end = *end;
	if (then_done)
		then_done(c);
}

static struct rdmamsg_chain *chain_with(struct rdmamsg *ctx, uint32_t how,
					uint32_t timeout_ms)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on, .path = how,
		.timeout_ms = timeout_ms,
	};
	struct rdmamsg_chain *c;

	assert_int_equal(rdmamsg_chain_create(ctx, &opts, &c), 0);
	return c;
}

/* Skips the case if the device has no such chains. */
static void need_native(void)
{
	if (!test_has(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE))
		skip_because("the device has no native chains");
}

static void start(uint32_t how)
{
	path = takes[0] = takes[1] = how;
	if (how == RDMAMSG_CHAIN_NATIVE)
		need_native();
	memset(done, 0, sizeof(done));
	then_done = NULL;
	pair_init(&p, NULL);
	p.c.on.on_message = p.s.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	chain = chain_with(p.c.ctx, how, 0);
	other = chain_with(p.s.ctx, how, 0);
}

static void finish(void)
{
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	pair_close(&p);
	pair_fini(&p);
}

static void finish_closed(void)
{
	WAIT_FOR(p.c.closed && p.s.closed);
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	pair_fini(&p);
}

static void begin_both(void)
{
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	assert_int_equal(rdmamsg_chain_post(other), 0);
}

static void run_both(void)
{
	unsigned int c = done[0].count, s = done[1].count;

	begin_both();
	WAIT_FOR(done[0].count == c + 1 && done[1].count == s + 1);
	assert_string_equal(done[0].end.text, "");
	assert_string_equal(done[1].end.text, "");
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(done[1].end.status, 0);
	assert_int_equal(rdmamsg_chain_path(chain), takes[0]);
	assert_int_equal(rdmamsg_chain_path(other), takes[1]);
}

/* Removes all steps. */
static void fresh(void)
{
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	chain = chain_with(p.c.ctx, path, 0);
	other = chain_with(p.s.ctx, path, 0);
}

#endif
