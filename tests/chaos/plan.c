/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends of a connection compute the same plan from its number. */
#include "chaos.h"

#include <rdmamsg/rdmamsg.h>

static uint32_t one_of(struct rng *r, const uint32_t *list, uint32_t count)
{
	return list[rng_below(r, count)];
}

static enum how_ends how_ends(struct rng *r, const struct scenario *sc)
{
	if (rng_chance(r, sc->abort))
		return ENDS_ABORT;
	if (rng_chance(r, sc->early))
		return ENDS_EARLY;
	return rng_chance(r, 500) ? ENDS_ALL : ENDS_SENT;
}

static void plan_side(struct plan_side *s, struct rng *r,
		      const struct scenario *sc)
{
	static const uint32_t recv_depth[] = { 64, 64, 16, 4, 200 };
	static const uint32_t send_depth[] = { 128, 128, 32, 8, 256 };
	static const uint32_t send_queue[] = { 0, 0, 16, 128 };
	static const uint32_t eager_max[] = { 0, 0, 0, 1024, 32000 };
	static const uint32_t flags[] = {
		0, 0, 0, RDMAMSG_EP_SIGNAL_ALL, RDMAMSG_EP_OWN_CQ,
	};

	s->max_send = UINT32_MAX;
	s->count = 1 + rng_below(r, sc->count);
	s->ends = how_ends(r, sc);
	s->end_at = s->ends < ENDS_EARLY ? s->count : rng_below(r, s->count);
	s->recv_depth = sc->recv_depth ? sc->recv_depth :
			one_of(r, recv_depth, ARRAY_SIZE(recv_depth));
	s->send_depth = sc->send_depth ? sc->send_depth :
			one_of(r, send_depth, ARRAY_SIZE(send_depth));
	s->send_queue = sc->send_queue ? sc->send_queue :
			one_of(r, send_queue, ARRAY_SIZE(send_queue));
	s->eager_max = one_of(r, eager_max, ARRAY_SIZE(eager_max));
	s->flags = one_of(r, flags, ARRAY_SIZE(flags));
}

struct plan plan_of(const struct board *b, uint32_t id)
{
	const struct scenario *sc = &scenarios[b->scenario];
	struct plan p = {
		.seed = mix(b->seed, id), .sc = sc, .max_size = b->max_size,
	};
	struct rng r = { p.seed, 0 };

	p.onesided = rng_chance(&r, sc->onesided);
	plan_side(&p.side[0], &r, sc);
	plan_side(&p.side[1], &r, sc);
	return p;
}

uint32_t plan_draw(const struct plan *p, int side, uint32_t n, uint32_t what)
{
	return (uint32_t)(mix(mix(p->seed, (uint32_t)side * 64 + what), n) >>
			  20);
}

static uint32_t size_mixed(uint32_t draw, uint32_t at)
{
	/*
	 * sizes where the library changes the path, with one byte less and more
	 */
	static const uint32_t edges[] = {
		1, 16, 32, 224, 240, 512, 1008, 1024, 8160, 8176, 8192, 32000,
		65536, 1 << 20,
	};
	uint32_t kind = draw % 100;

	if (kind < 20)
		return edges[at % ARRAY_SIZE(edges)] - 1 + at / 64 % 3;
	if (kind < 50)
		return at % 241;
	if (kind < 75)
		return at % 8200;
	if (kind < 90)
		return at % 65536;
	return kind < 97 ? at % (1u << 20) : at % (4u << 20);
}

/* Returns a message's size. The first message has room for the key. */
uint32_t plan_size(const struct plan *p, int side, uint32_t n)
{
	uint32_t draw = plan_draw(p, side, n, 0), at = plan_draw(p, side, n, 1);
	uint32_t size;

	if (!n && p->onesided)
		return 128;
	switch (p->sc->sizes) {
	case SIZES_SMALL:
		size = draw % 8 ? at % 300 : at % 9000;
		break;
	case SIZES_LARGE:
		size = 8192 + (draw % 8 ? at % (1u << 20) : at % (8u << 20));
		break;
	default:
		size = size_mixed(draw, at);
	}
	size = size > p->max_size ? size % p->max_size : size;
	return size > p->side[side].max_send ?
	       size % p->side[side].max_send : size;
}

uint32_t plan_tag(const struct plan *p, int side, uint32_t n)
{
	/* the plan uses small and large tags */
	return p->seed & 1 ? n : (uint32_t)mix(p->seed + (uint32_t)side, n);
}

/*
 * From less than a message takes to more than a stop. The receiver of the last
 * message knows that it has all.
 */
uint32_t plan_timeout(const struct plan *p, int side, uint32_t n)
{
	uint32_t draw = plan_draw(p, side, n, 7);

	if (draw % 1000 >= p->sc->timeout || n + 1 >= p->side[side].count ||
	    (!n && p->onesided))
		return 0;
	return 1 + plan_draw(p, side, n, 8) % (1u << draw / 1000 % 12);
}
