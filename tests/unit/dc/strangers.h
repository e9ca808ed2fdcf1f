/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers keep initiators of a target: a part of hellos.c. */
#ifndef RDMAMSG_TESTS_UNIT_DC_STRANGERS_H
#define RDMAMSG_TESTS_UNIT_DC_STRANGERS_H

#define STRANGERS	16u		/* as the target has initiators */

#define ADDRESS		0x0a000001u	/* of the first stranger */

/* A DCT of the stranger's device, with receives for the first answers only. */
struct deaf {
	struct ibv_srq *srq;
	struct ibv_qp *dct;
	struct ibv_mr *mr;
	uint8_t mem[DCF_WELCOME_LEN];
};

static void open_deaf(struct deaf *ret, uint32_t receives)
{
	const struct rdmamsg_device *d = port->dev->device;
	struct ibv_srq_init_attr few = {
		.attr = { .max_wr = STRANGERS, .max_sge = 1 },
	};
	struct dct_attr attr = {
		.pd = port->dev->pd, .cq = port->cq->ibv, .key = port->key,
	};
	struct ibv_sge sge = { (uintptr_t)ret->mem, sizeof(ret->mem), 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(rdmamsg__v_create_srq(d->v, port->dev->pd, &few,
					       &ret->srq), 0);
	assert_int_equal(rdmamsg__v_reg_mr(d->v, port->dev->pd, ret->mem,
					   sizeof(ret->mem),
					   IBV_ACCESS_LOCAL_WRITE, &ret->mr),
			 0);
	sge.lkey = ret->mr->lkey;
	/* no port has these slots, so nobody reads the answers */
	wr.wr_id = rdmamsg__port_wr_id(port, WR_RECV | port->depth);
	while (receives--)
		assert_int_equal(ibv_post_srq_recv(ret->srq, &wr, &bad), 0);
	attr.srq = ret->srq;
	assert_int_equal(rdmamsg__dct_open(d, &attr, &port->path, &ret->dct),
			 0);
}

static void close_deaf(struct deaf *x)
{
	const struct verbs_api *v = port->dev->device->v;

	assert_int_equal(rdmamsg__v_destroy_qp(v, x->dct), 0);
	assert_int_equal(rdmamsg__v_destroy_srq(v, x->srq), 0);
	assert_int_equal(rdmamsg__v_dereg_mr(v, x->mr), 0);
}

static void hello_from(const struct deaf *x, uint32_t ip)
{
	struct dc_hello_frame h = { .sender = 99, .key = port->key };
	uint8_t frame[DCF_HELLO_LEN];

	rdmamsg__port_place(port, &h.place);
	h.place.dctn = x->dct->qp_num;
	rdmamsg__dcf_hello_encode(&h, frame);
	say((struct dc_frame){
		.type = DCF_HELLO, .token = ticket_from(ip),
	}, frame + DCF_LEN, DCF_HELLO_LEN - DCF_LEN);
}

static struct deaf deaf[STRANGERS];

/*
 * Strangers come from one address, or each from its own, and have as many DCTs
 * together. Each DCT takes as many answers.
 */
static void open_crowd(uint32_t count, uint32_t dcts, uint32_t receives,
		       bool one)
{
	struct dc_place place;

	rdmamsg__port_place(target->dc, &place);
	open_stranger(&place, KEY);
	for (uint32_t i = 0; i < dcts; i++)
		open_deaf(&deaf[i], receives);
	for (uint32_t i = 0; i < count; i++)
		hello_from(&deaf[i % dcts], one ? ADDRESS : ADDRESS + i);
	WAIT_FOR(target->sessions == count + 1);
}

static void open_strangers(uint32_t dcts, uint32_t receives, bool one)
{
	open_crowd(STRANGERS, dcts, receives, one);
}

/* The other sender has noticed nothing. */
static void close_strangers(uint32_t dcts, uint32_t sessions)
{
	assert_int_equal(target->sessions, sessions);
	for (uint32_t i = 0; i < dcts; i++)
		close_deaf(&deaf[i]);
	close_both();
}

static uint32_t deaf_strangers(void)
{
	struct list *n;
	uint32_t count = 0;

	list_for_each(n, &target->visitors) {
		const struct visitor *v = list_entry(n, struct visitor, node);

		count += v->sender == 99 && v->deaf;
	}
	return count;
}

static uint32_t initiators_of_strangers(void)
{
	const struct dc_port *p = target->dc;
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->dci_count; i++)
		count += p->dcis[i]->peer &&
			 visitor_of(p->dcis[i]->peer)->sender == 99;
	return count;
}

/* Each stranger asks for an answer. */
static void ask_all(bool silent)
{
	struct list *n;

	list_for_each(n, &target->visitors) {
		const struct visitor *v = list_entry(n, struct visitor, node);

		if (v->sender != 99 || v->deaf != silent)
			continue;
		say((struct dc_frame){
			.type = DCF_ASK, .number = 1,
			.handle = v->peer.handle, .token = v->peer.token,
		}, NULL, 0);
	}
}

/*
 * Strangers send, and post no receives for the answers. Each answer keeps an
 * initiator of the target, until the target gives the answer up.
 */
static void initiators__answers_are_not_taken_OTHERS_HAVE_MOST(void **state)
{
	const uint32_t share = target->dc->dci_max / 2;

	open_strangers(STRANGERS, 0, false);
	WAIT_FOR(initiators_of_strangers() >= share);
	for (uint32_t i = 0; i < 4 * CREDITS; i++) {
		send_one();
		assert_true(initiators_of_strangers() <= share);
	}
	/* those whose answers have failed ask for others */
	WAIT_FOR(deaf_strangers() >= share);
	ask_all(true);
	for (uint32_t i = 0; i < 4 * CREDITS; i++) {
		send_one();
		assert_true(initiators_of_strangers() <= share);
	}
	close_strangers(STRANGERS, STRANGERS + 1);
}

static void initiators__of_one_address_FIRST_ANSWER_OF_OTHERS_AT_ONCE(
		void **state)
{
	open_strangers(STRANGERS, 0, true);
	WAIT_FOR(initiators_of_strangers());
	assert_true(initiators_of_strangers() <= target->dc->dci_max / 4);
	hello(ticket_from(ADDRESS + 1));
	WAIT_FOR(got.type == DCF_WELCOME);
	/* behind the strangers it would wait for all of them */
	assert_true(deaf_strangers() < STRANGERS - 1);
	close_strangers(STRANGERS, STRANGERS + 2);
}

/* Strangers take the first answer, and no other. */
static void initiators__of_one_address_HALF(void **state)
{
	const struct dc_port *p = target->dc;

	open_strangers(STRANGERS, 1, true);
	WAIT_FOR(list_empty(&p->doubts) && !p->doubtful);
	ask_all(false);
	WAIT_FOR(initiators_of_strangers() >= p->dci_max / 2);
	for (uint32_t i = 0; i < 4 * CREDITS; i++) {
		send_one();
		assert_true(initiators_of_strangers() <= p->dci_max / 2);
	}
	close_strangers(STRANGERS, STRANGERS + 1);
}

/* They are a quarter at first, and the others do not wait for these. */
static void sessions__of_one_process_IT_IS_DEAD_FOUND_OUT_TOGETHER(
		void **state)
{
	const struct dc_port *p = target->dc;

	open_strangers(1, 0, true);
	WAIT_FOR(deaf_strangers());
	/* those with an initiator, whose answers fail at the same time or so */
	assert_true(deaf_strangers() >= STRANGERS - p->dci_max / 4 + 1);
	assert_int_equal(p->waiting, 0);
	WAIT_FOR(deaf_strangers() == STRANGERS);
	close_strangers(1, STRANGERS + 1);
}

#define CROWD	160u	/* more than can be tried until they are forgotten */

/* Only some have an initiator meanwhile, but the others do not wait for them. */
static void sessions__never_answered_FORGOTTEN_TOGETHER(void **state)
{
	const struct dc_port *p = target->dc;
	const uint64_t before = p->uses;

	open_crowd(CROWD, 1, 0, false);
	WAIT_FOR(target->sessions == 1);
	assert_true(p->uses - before < CROWD);
	close_strangers(1, 1);
}

#endif
