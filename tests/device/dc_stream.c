/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of an initiator. The rules are those of rdma-core: its manual page
 * mlx5dv_dci_stream_id_reset(3), and tests/test_mlx5_dc.py for what the page
 * leaves open. An initiator ends with 1 << log_num_errored streams in error.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "dc.h"

static struct ibv_qp *dci;

static void dc_stream__device_supports_it(void)
{
	struct mlx5dv_context a = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS,
	};

	if (!has_dc())
		skip_rest("libmlx5 does not support the device");
	check_call(v->mlx5_query_device(ctx, &a), 0);
	if (!has(DC_STREAMS, a.dci_streams_caps.max_log_num_concurent &&
			     a.dci_streams_caps.max_log_num_errored))
		skip_rest("the device has no DCI streams");
}

static struct ibv_qp *new_streams(uint8_t log_streams, uint8_t log_errored)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a = dci_attr(end[0].scq);
	struct ibv_qp *qp;

	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	m.dc_init_attr.dci_streams.log_num_concurent = log_streams;
	m.dc_init_attr.dci_streams.log_num_errored = log_errored;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_qp);
	bring_up(qp);
	return qp;
}

/* 4 streams in error are the end. */
static void stream_pair(void)
{
	dc_pair();
	dci = new_streams(2, 2);
}

static void add_stream(struct ibv_qp_ex *ex, const struct request *r,
		       struct ibv_qp *to, uint64_t key, uint16_t stream)
{
	begin(ex, r);
	mlx5dv_wr_set_dc_addr_stream(v->mlx5_qp_ex_from_ibv_qp_ex(ex), ah,
				     to->qp_num, key, stream);
	ibv_wr_set_sge_list(ex, (size_t)r->wr.num_sge, r->sge);
}

static void post_key(const struct request *r, struct ibv_qp *to, uint64_t key,
		     uint16_t stream)
{
	struct ibv_qp_ex *ex = start(dci);

	add_stream(ex, r, to, key, stream);
	check_call(ibv_wr_complete(ex), 0);
}

static void post_stream(const struct request *r, struct ibv_qp *to,
			uint16_t stream)
{
	post_key(r, to, KEY, stream);
}

/* Adds 1 to the first word of the target's memory. */
static void post_count(uint64_t id, struct ibv_qp *to, uint16_t stream)
{
	struct request r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, id, 8);

	r.wr.wr.atomic.compare_add = 1;
	post_stream(&r, to, stream);
}

/* A write with a wrong local key. */
static struct request wrong(uint64_t id)
{
	struct request r = request(IBV_WR_RDMA_WRITE, id, 8);

	r.sge[0].lkey ^= 0x100;
	return r;
}

static void fail_stream(uint64_t id, uint16_t stream)
{
	struct request r = wrong(id);

	post_stream(&r, dct, stream);
	(void)sent(0, id, IBV_WC_LOC_PROT_ERR);
}

static void reset(uint16_t stream, int err)
{
	check_call(v->mlx5_dci_stream_id_reset(dci, stream), err);
}

static void goes_on(uint64_t id, uint16_t stream)
{
	check_state(dci, IBV_QPS_RTS);
	post_count(id, dct, stream);
	(void)sent(0, id, IBV_WC_SUCCESS);
}

static uint64_t counted(void)
{
	return *(const uint64_t *)(const void *)end[1].mem;
}

/* ---- creation --------------------------------------------------------- */

static void mlx5_create_qp__too_many_errored_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;
	struct mlx5dv_context caps = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS,
	};

	a = dci_attr(new_cq(16, NULL));
	check_call(v->mlx5_query_device(ctx, &caps), 0);
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	m.dc_init_attr.dci_streams.log_num_errored =
		caps.dci_streams_caps.max_log_num_errored + 1;
	check_null(v->mlx5_create_qp(ctx, &a, &m), EINVAL);
}

static void mlx5_create_qp__most_streams_WORK(void)
{
	struct mlx5dv_context caps = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS,
	};

	dc_pair();
	check_call(v->mlx5_query_device(ctx, &caps), 0);
	dci = new_streams(caps.dci_streams_caps.max_log_num_concurent,
			  caps.dci_streams_caps.max_log_num_errored);
	goes_on(1, 1);
	works(dci, dct, 2);
}

/* ---- requests --------------------------------------------------------- */

/* Any number is a stream, also beyond 1 << log_num_concurent. */
static void dc_stream__many_targets_ARRIVE(void)
{
	static const uint16_t streams[] = { 0, 1, 2, 3, 4, 777, 65535 };
	enum { N = 7, EACH = 6 };
	struct ibv_qp *to[3];
	uint64_t next[N] = { 0 };

	stream_pair();
	clear(1);
	for (int i = 0; i < 3; i++)
		to[i] = new_dct();
	for (uint64_t i = 0; i < N * EACH; i++)
		post_count(i, to[i % 3], streams[i % N]);
	for (uint64_t i = 0; i < N * EACH; i++) {
		struct ibv_wc wc = next_wc(end[0].scq);

		check_is(wc.status, IBV_WC_SUCCESS);
		check_is(wc.wr_id / N, next[wc.wr_id % N]++);
	}
	check_is(counted(), N * EACH);
	quiet();
}

/* mlx5dv_wr_set_dc_addr() is stream 0. */
static void dc_stream__without_a_number_STREAM_0(void)
{
	struct request r;

	stream_pair();
	fail_stream(1, 0);
	r = request(IBV_WR_RDMA_WRITE, 2, 8);
	check_call(try_dc(dci, &r, dct->qp_num, KEY), 0);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	reset(0, 0);
	check_call(try_dc(dci, &r, dct->qp_num, KEY), 0);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
}

/* ---- errors ----------------------------------------------------------- */

/* In one batch, the requests of the stream are flushed in their turn. */
static void dc_stream__error_FLUSHES_ITS_STREAM(void)
{
	struct ibv_qp *other;
	struct ibv_qp_ex *ex;
	struct request r;

	stream_pair();
	other = new_dct();
	clear(1);
	ex = start(dci);
	for (uint64_t i = 0; i < 12; i++) {
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 8);
		r.wr.wr.atomic.compare_add = 1;
		if (i == 3)
			r.sge[0].lkey ^= 0x100;
		add_stream(ex, &r, i % 2 ? dct : other, KEY,
			   (uint16_t)(i % 3));
	}
	check_call(ibv_wr_complete(ex), 0);
	for (uint64_t i = 0; i < 12; i++)
		(void)sent(0, i, i == 3 ? IBV_WC_LOC_PROT_ERR :
			   i > 3 && i % 3 == 0 ? IBV_WC_WR_FLUSH_ERR :
			   IBV_WC_SUCCESS);
	check_state(dci, IBV_QPS_RTS);
	/* the answer has no place, but the target has added */
	check_is(counted(), 10);
	quiet();
}

/* A failing request, its stream, and others to the same target. */
static void fails_alone(const struct request *r, uint64_t key,
			enum ibv_wc_status status)
{
	clear(1);
	post_key(r, dct, key, 5);
	for (uint64_t i = 2; i < 8; i++)
		post_count(i, dct, i % 2 ? 5 : 6);
	(void)sent(0, r->wr.wr_id, status);
	for (uint64_t i = 2; i < 8; i++)
		(void)sent(0, i, i % 2 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
	check_is(counted(), 3);
	reset(5, 0);
	goes_on(8, 5);
	check_is(counted(), 4);
	check_state(dct, IBV_QPS_RTR);
	works(dci, dct, 9);
	quiet();
}

static void dc_stream__local_key_ALONE(void)
{
	struct request r;

	stream_pair();
	r = wrong(1);
	fails_alone(&r, KEY, IBV_WC_LOC_PROT_ERR);
}

/* The target has seen the beginning. */
static void dc_stream__local_key_amid_message_ALONE(void)
{
	struct request r;

	stream_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 300000);
	r.sge[1] = r.sge[0];
	r.sge[0].length = 200000;
	r.sge[1].length = 100000;
	r.sge[1].lkey ^= 0x100;
	r.wr.num_sge = 2;
	r.wr.wr.rdma.remote_addr += 8;
	fails_alone(&r, KEY, IBV_WC_LOC_PROT_ERR);
}

static void dc_stream__place_of_a_read_ALONE(void)
{
	struct request r;

	stream_pair();
	r = request(IBV_WR_RDMA_READ, 1, 8);
	r.sge[0].lkey ^= 0x100;
	fails_alone(&r, KEY, IBV_WC_LOC_PROT_ERR);
}

static void dc_stream__rkey_ALONE(void)
{
	struct request r;

	stream_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.wr.wr.rdma.rkey ^= 0x100;
	fails_alone(&r, KEY, IBV_WC_REM_ACCESS_ERR);
}

static void dc_stream__access_key_ALONE(void)
{
	struct request r;

	stream_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	fails_alone(&r, KEY + 1, IBV_WC_REM_ACCESS_ERR);
}

static void dc_stream__no_receive_ALONE(void)
{
	struct request r;

	how.rnr_retry = 0;
	stream_pair();
	r = request(IBV_WR_SEND, 1, 8);
	fails_alone(&r, KEY, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* Requests to a target that is gone fail, and those to another one succeed. */
static void dc_stream__target_gone_ALONE(void)
{
	struct ibv_qp *gone;
	struct request r;

	how.timeout = 8;
	how.retry_cnt = 1;
	stream_pair();
	gone = new_dct();
	r = request(IBV_WR_SEND, 1, 70000);
	post_stream(&r, gone, 5);
	quiet();
	drop(gone);
	for (uint64_t i = 2; i < 8; i++)
		post_count(i, dct, i % 2 ? 5 : 6);
	(void)sent(0, 1, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = 2; i < 8; i++)
		(void)sent(0, i, i % 2 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
	reset(5, 0);
	goes_on(8, 5);
	quiet();
}

/* Requests of one stream that are under way behind the failing one. */
static void dc_stream__under_way_FLUSHED(void)
{
	struct ibv_qp_ex *ex;
	struct request r;

	stream_pair();
	clear(1);
	ex = start(dci);
	for (uint64_t i = 0; i < 12; i++) {
		r = request(IBV_WR_RDMA_WRITE, i, 8);
		r.wr.wr.rdma.remote_addr += 64 * i;
		if (i == 2)
			r.wr.wr.rdma.rkey ^= 0x100;
		r.wr.send_flags = i == 1 ? 0 : IBV_SEND_SIGNALED;
		add_stream(ex, &r, dct, KEY, i < 8 ? 1 : 2);
	}
	check_call(ibv_wr_complete(ex), 0);
	(void)sent(0, 0, IBV_WC_SUCCESS);
	(void)sent(0, 2, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 3; i < 12; i++)
		(void)sent(0, i, i < 8 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
	check_state(dci, IBV_QPS_RTS);
	quiet();
}

/* A local request belongs to stream 0. Its error concerns no other stream. */
static void dc_stream__local_request_STREAM_0(void)
{
	struct request r;
	struct ibv_qp_ex *ex;

	stream_pair();
	clear(1);
	r = request(IBV_WR_RDMA_WRITE, 1, 300000);
	r.wr.wr.rdma.remote_addr += 8;
	for (uint64_t i = 1; i < 3; i++) {
		ex = start(dci);
		add_stream(ex, &r, dct, KEY, 4);
		ex->wr_id = 2;
		ibv_wr_local_inv(ex, 0x12345);
		check_call(ibv_wr_complete(ex), 0);
		post_count(3, dct, 4);
		(void)sent(0, 1, IBV_WC_SUCCESS);
		(void)sent(0, 2, i == 1 ? IBV_WC_MW_BIND_ERR :
			   IBV_WC_WR_FLUSH_ERR);
		(void)sent(0, 3, IBV_WC_SUCCESS);
		check_is(counted(), i);
	}
	reset(0, 0);
	goes_on(4, 0);
	quiet();
}

/* ---- many ------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 16) % n;
}

enum { STREAMS = 5, TARGETS = 3, BATCH = 16 };

/* Posts a request. Returns what it should end with, and counts additions. */
static enum ibv_wc_status post_any(uint32_t *seed, uint64_t id,
				   struct ibv_qp *const *to, bool *errored,
				   uint64_t *added)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	const uint16_t stream = (uint16_t)draw(seed, STREAMS);
	const enum ibv_wr_opcode op = ops[draw(seed, 3)];
	const uint32_t fault = draw(seed, 12);
	const bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct request r = request(op, id, atomic ? 8 : draw(seed, 200000) + 8);

	if (atomic)
		r.wr.wr.atomic.compare_add = 1;
	else
		r.wr.wr.rdma.remote_addr += 8;
	if (!fault && op == IBV_WR_RDMA_WRITE)
		r.sge[0].lkey ^= 0x100;
	else if (!fault && !atomic)
		r.wr.wr.rdma.rkey ^= 0x100;
	post_key(&r, to[draw(seed, TARGETS)], KEY + (!fault && atomic), stream);
	if (errored[stream])
		return IBV_WC_WR_FLUSH_ERR;
	errored[stream] = !fault;
	*added += fault && atomic;
	return fault ? IBV_WC_SUCCESS : op == IBV_WR_RDMA_WRITE ?
	       IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR;
}

/* Each request ends as its stream says, and atomics execute once. */
static void dc_stream__many_requests_EACH_ENDS_ONCE(void)
{
	bool errored[STREAMS] = { false };
	struct ibv_qp *to[TARGETS];
	uint64_t added = 0;
	uint32_t seed = 7;

	dc_pair();
	dci = new_streams(3, 3);
	clear(1);
	for (int i = 0; i < TARGETS; i++)
		to[i] = new_dct();
	for (int n = 0; n < 60; n++) {
		enum ibv_wc_status ends[BATCH];

		for (uint64_t i = 0; i < BATCH; i++)
			ends[i] = post_any(&seed, i, to, errored,
					   &added);
		for (uint64_t i = 0; i < BATCH; i++)
			(void)sent(0, i, ends[i]);
		for (uint16_t i = 0; i < STREAMS; i++) {
			reset(i, errored[i] ? 0 : EINVAL);
			errored[i] = false;
		}
		check_is(counted(), added);
	}
	goes_on(1, 1);
	quiet();
}

/* ---- reset ------------------------------------------------------------ */

static void dci_stream_id_reset__not_in_error_EINVAL(void)
{
	stream_pair();
	reset(0, EINVAL);
	fail_stream(1, 3);
	reset(4, EINVAL);
	reset(3, 0);
	reset(3, EINVAL);
	goes_on(2, 3);
	check_call(v->mlx5_dci_stream_id_reset(end[0].qp, 0), EINVAL);
	quiet();
}

static void dci_stream_id_reset__other_state_EOPNOTSUPP(void)
{
	stream_pair();
	fail_stream(1, 3);
	enter(dci, IBV_QPS_ERR);
	reset(3, EOPNOTSUPP);
	check_call(v->mlx5_dci_stream_id_reset(dct, 3), EOPNOTSUPP);
	/* the queue pair begins with no stream in error */
	restart(dci);
	reset(3, EINVAL);
	goes_on(2, 3);
}

static void dci_stream_id_reset__other_type_EINVAL(void)
{
	pair();
	check_call(v->mlx5_dci_stream_id_reset(end[0].qp, 0), EINVAL);
}

/* ---- the end ---------------------------------------------------------- */

static void dc_stream__too_many_errors_END(void)
{
	struct request r;

	stream_pair();
	for (uint16_t i = 0; i < 3; i++) {
		fail_stream(i, i);
		/* a stream counts once */
		r = wrong(10);
		post_stream(&r, dct, i);
		(void)sent(0, 10, IBV_WC_WR_FLUSH_ERR);
		goes_on(11, 9);
	}
	/* a stream that was reset counts again */
	reset(1, 0);
	fail_stream(12, 1);
	goes_on(13, 9);
	r = wrong(20);
	post_stream(&r, dct, 65535);
	(void)sent(0, 20, IBV_WC_LOC_PROT_ERR);
	check_state(dci, IBV_QPS_ERR);
	post_count(21, dct, 9);
	(void)sent(0, 21, IBV_WC_WR_FLUSH_ERR);
	restart(dci);
	goes_on(22, 0);
	quiet();
}

static void dc_stream__one_error_END(void)
{
	struct request r;

	dc_pair();
	dci = new_streams(1, 0);
	r = wrong(1);
	post_stream(&r, dct, 1);
	(void)sent(0, 1, IBV_WC_LOC_PROT_ERR);
	check_state(dci, IBV_QPS_ERR);
	restart(dci);
	goes_on(2, 1);
}

const struct device_case dc_stream_cases[] = {
	GATE(dc_stream__device_supports_it),
	CASE(mlx5_create_qp__too_many_errored_EINVAL),
	CASE(mlx5_create_qp__most_streams_WORK),
	CASE(dc_stream__many_targets_ARRIVE),
	CASE(dc_stream__without_a_number_STREAM_0),
	CASE(dc_stream__error_FLUSHES_ITS_STREAM),
	CASE(dc_stream__local_key_ALONE),
	CASE(dc_stream__local_key_amid_message_ALONE),
	CASE(dc_stream__place_of_a_read_ALONE),
	CASE(dc_stream__rkey_ALONE),
	CASE(dc_stream__access_key_ALONE),
	CASE(dc_stream__no_receive_ALONE),
	CASE(dc_stream__target_gone_ALONE),
	CASE(dc_stream__under_way_FLUSHED),
	CASE(dc_stream__local_request_STREAM_0),
	CASE(dc_stream__many_requests_EACH_ENDS_ONCE),
	CASE(dci_stream_id_reset__not_in_error_EINVAL),
	CASE(dci_stream_id_reset__other_state_EOPNOTSUPP),
	CASE(dci_stream_id_reset__other_type_EINVAL),
	CASE(dc_stream__too_many_errors_END),
	CASE(dc_stream__one_error_END),
	{ .name = NULL },
};

#endif
