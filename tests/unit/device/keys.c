/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: libsiw refuses a queue whose key is 0x90000. Keys are offsets of
 * pages, of the first gap that is large enough. The null device gives them here
 * as Linux does, and refuses the key as libsiw does.
 */
#include "../iwarp_ends.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#define REFUSED		144		/* 0x90000 >> 12 */
#define PAGES		65536
#define PAIRS		60
/* more than one entry of each queue of siw */
#define ENTRY		32

static const void *pages[PAGES];	/* the object that has the page */
static unsigned int refusals;
static struct side clients[PAIRS];

/* Returns false if the object gets the key that is refused. */
static bool take(const void *of, uint32_t entries)
{
	uint32_t n = (entries * ENTRY + 8 + 4095) / 4096, at = 0, free = 0;

	while (free < n) {
		free = pages[at + free] ? 0 : free + 1;
		if (!free)
			at++;
	}
	if (at == REFUSED) {
		refusals++;
		errno = ENOMEM;
		return false;
	}
	for (uint32_t i = 0; i < n; i++)
		pages[at + i] = of;
	return true;
}

static void give(const void *of)
{
	for (uint32_t i = 0; i < PAGES; i++)
		if (pages[i] == of)
			pages[i] = NULL;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe,
				void *cq_context, struct ibv_comp_channel *ch,
				int comp_vector)
{
	struct ibv_cq *cq = nulldev_verbs.create_cq(verbs, cqe, cq_context, ch,
						    comp_vector);

	if (!cq || take(cq, (uint32_t)cq->cqe))
		return cq;
	(void)nulldev_verbs.destroy_cq(cq);
	errno = ENOMEM;
	return NULL;
}

static int destroy_cq(struct ibv_cq *cq)
{
	give(cq);
	return nulldev_verbs.destroy_cq(cq);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = nulldev_verbs.create_qp(pd, attr);

	if (!qp || (take(qp, attr->cap.max_send_wr) &&
		    take(qp, attr->cap.max_recv_wr)))
		return qp;
	give(qp);
	(void)nulldev_verbs.destroy_qp(qp);
	errno = ENOMEM;
	return NULL;
}

static int destroy_qp(struct ibv_qp *qp)
{
	give(qp);
	return nulldev_verbs.destroy_qp(qp);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static int set_up(void **state)
{
	device = nulldev_verbs;
	device.create_cq = create_cq;
	device.destroy_cq = destroy_cq;
	device.create_qp = create_qp;
	device.destroy_qp = destroy_qp;
	use_iwarp(SIW_VENDOR);
	return open_both();
}

static int tear_down(void **state)
{
	leave_iwarp();
	return nulldev_counts.cqs || nulldev_counts.qps ? -1 : 0;
}

static void queues__of_any_size_ARE_CREATED(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &server, .handlers = &handlers,
		.flags = RDMAMSG_EP_OWN_CQ,
		.tuning = TUNING(.send_depth = 8, .recv_depth = 8),
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	for (int i = 0; i < PAIRS; i++) {
		struct side *s = &clients[i];

		server.ep = NULL;
		opts.user = s;
		assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1",
						 service, &opts, NULL), 0);
		WAIT_FOR((s->ep && server.ep) || s->closed);
		assert_false(s->closed);
	}
	/* the key would have had its turn */
	assert_non_null(pages[REFUSED]);
	assert_int_equal(refusals, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			queues__of_any_size_ARE_CREATED, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
