/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: connecting without the connection manager. The test carries the
 * records itself, right and wrong ones.
 */
#include "clock.h"
#include "oob_pair.h"

#include <rdmamsg/oob.h>

static void make_answer(struct end *e, const struct oob_record *offer,
			struct oob_record *r)
{
	if (rdmamsg_oob_answer(e->ctx, offer->bytes, offer->len, &e->opts,
			       &e->ep))
		fail_msg("rdmamsg_oob_answer: %s", rdmamsg_error());
	oob_get_record(e->ep, r);
}

static void records__exchanged_TALK(void **state)
{
	struct oob_record offer, answer;
	struct pair p;

	oob_init(&p);
	oob_make_offer(&p.c, &offer);
	make_answer(&p.s, &offer, &answer);
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
			 0);
	/* a second answer to the same offer fails */
	assert_error(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
		     -EALREADY, "answer");
	oob_wait_connected(&p);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

/* On Ethernet the record has the GID's RoCE version, and 0 elsewhere. */
static void check_roce(struct pair *p, const struct oob_record *offer)
{
	struct oob_record other = *offer;
	struct rdmamsg_ep *ep;

	assert_int_equal(offer->bytes[62], offer->bytes[9] == 2 ? 2 : 0);
	other.bytes[62] = 1;
	if (offer->bytes[62])
		assert_error(rdmamsg_oob_answer(p->s.ctx, other.bytes,
						other.len, &p->s.opts, &ep),
			     -EHOSTUNREACH, "RoCE version 1, this side "
			     "version 2");
}

/* A record of an earlier library has no RoCE version. */
static void records__without_a_roce_version_TALK(void **state)
{
	struct oob_record offer, answer;
	struct pair p;

	oob_init(&p);
	oob_make_offer(&p.c, &offer);
	offer.bytes[62] = 0;
	make_answer(&p.s, &offer, &answer);
	answer.bytes[62] = 0;
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
			 0);
	oob_wait_connected(&p);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void records__damaged_ARE_REFUSED(void **state)
{
	struct oob_record offer, answer, bad;
	struct rdmamsg_ep *ep;
	struct pair p;

	oob_init(&p);
	oob_make_offer(&p.c, &offer);
	for (size_t n = 0; n < offer.len; n++)
		assert_error(rdmamsg_oob_answer(p.s.ctx, offer.bytes, n,
						&p.s.opts, &ep), -EPROTO,
			     "record");
	bad = offer;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len + 1,
					&p.s.opts, &ep), -EPROTO, "record");
	bad.bytes[4]++;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EPROTONOSUPPORT, "version");
	bad = offer;
	bad.bytes[9] = bad.bytes[9] == 1 ? 2 : 1;	/* another link */
	bad.bytes[11] = 1;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EHOSTUNREACH, "port is");
	bad = offer;
	bad.bytes[56] ^= 1;				/* another partition */
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EHOSTUNREACH, "partition");
	check_roce(&p, &offer);
	bad = offer;
	bad.bytes[64 + 4] = bad.bytes[64 + 5] = 99;	/* hello's versions */
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EPROTONOSUPPORT, "version");

	make_answer(&p.s, &offer, &answer);
	assert_error(rdmamsg_oob_answer(p.s.ctx, offer.bytes, offer.len,
					&p.s.opts, &ep), -EALREADY,
		     "answered");
	assert_error(rdmamsg_oob_answer(p.s.ctx, answer.bytes, answer.len,
					&p.s.opts, &ep), -EPROTO, "offer");
	assert_error(rdmamsg_oob_finish(p.c.ep, offer.bytes, offer.len),
		     -EPROTO, "offer");
	for (size_t n = 0; n < answer.len; n++)
		assert_error(rdmamsg_oob_finish(p.c.ep, answer.bytes, n),
			     -EPROTO, "record");
	bad = answer;
	bad.bytes[40]++;				/* the token */
	assert_error(rdmamsg_oob_finish(p.c.ep, bad.bytes, bad.len), -EPROTO,
		     "another offer");
	assert_error(rdmamsg_oob_finish(p.s.ep, answer.bytes, answer.len),
		     -EINVAL, "offer");
	assert_error(rdmamsg_oob_record(p.s.ep, bad.bytes, answer.len - 1),
		     -EINVAL, "bytes");

	/* after all refused answers the right one still connects */
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
			 0);
	oob_wait_connected(&p);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void records__without_an_answer_TIME_OUT(void **state)
{
	struct oob_record offer, answer;
	struct pair p;

	oob_init(&p);
	p.c.opts.timeout_ms = p.s.opts.timeout_ms = 2 * WAIT_MS;
	oob_make_offer(&p.c, &offer);
	make_answer(&p.s, &offer, &answer);
	assert_false(p.c.closed || p.s.closed);
	clock_pass(2 * WAIT_MS);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	/* a repeated offer of a closed endpoint times out as well */
	make_answer(&p.s, &offer, &answer);
	p.s.closed = 0;
	clock_pass(2 * WAIT_MS);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	pair_fini(&p);
}

/* A queue pair of another exchange must not become the peer. */
static void records__of_two_exchanges_mixed_up_ARE_REFUSED(void **state)
{
	struct oob_record offer[2], answer[2];
	struct pair p, q;

	oob_init(&p);
	oob_init(&q);
	p.c.opts.timeout_ms = p.s.opts.timeout_ms = 2 * WAIT_MS;
	q.c.opts.timeout_ms = q.s.opts.timeout_ms = 2 * WAIT_MS;
	oob_make_offer(&p.c, &offer[0]);
	oob_make_offer(&q.c, &offer[1]);
	make_answer(&p.s, &offer[0], &answer[0]);
	make_answer(&q.s, &offer[1], &answer[1]);
	/*
	 * a forged answer: the token of one exchange, the queue pair of the
	 * other
	 */
	memcpy(answer[1].bytes + 40, answer[0].bytes + 40, 16);
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer[1].bytes,
					    answer[1].len), 0);
	/* what could connect wrongly has the time to do so */
	for (int i = 0; i < 20 || !test_idle() ||
	     (test_on_soft() && !clock_others_sleep()); i++)
		test_pump(10);
	clock_pass(2 * WAIT_MS);
	WAIT_FOR(p.c.closed && p.s.closed && q.s.closed && q.c.closed);
	assert_int_equal(p.c.connected + q.c.connected, 0);
	pair_fini(&p);
	pair_fini(&q);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(records__exchanged_TALK),
		TEST(records__without_a_roce_version_TALK),
		TEST(records__damaged_ARE_REFUSED),
		TEST(records__without_an_answer_TIME_OUT),
		TEST(records__of_two_exchanges_mixed_up_ARE_REFUSED),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
