/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indirect keys: creation, and the requests that define them. The rules are
 * those of rdma-core (providers/mlx5).
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "umr.h"

static void umr__device_supports_it(void)
{
	if (!has_umr())
		skip_rest("libmlx5 does not support the device");
}

/* ---- keys ------------------------------------------------------------- */

static void create_mkey__flags_EOPNOTSUPP(void)
{
	static const uint32_t wrong[] = {
		0, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | 1u << 20,
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct mlx5dv_mkey_init_attr a = {
			.pd = pd, .max_entries = 4, .create_flags = wrong[i],
		};

		check_null(v->mlx5_create_mkey(&a), EOPNOTSUPP);
	}
}

/* The driver makes each key indirect, but wants a flag. */
static void create_mkey__only_remote_invalidate_INDIRECT(void)
{
	struct mlx5dv_mkey_init_attr a = {
		.pd = pd, .max_entries = 4,
		.create_flags = 1u << 4,	/* ..._REMOTE_INVALIDATE */
	};
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	pair();
	umr_open();
	k = v->mlx5_create_mkey(&a);
	keep(k, undo_mkey);
	sge = piece(1, 0, 8);
	set_list(k, ALL, 1, &sge);
	post_to(IBV_WR_RDMA_WRITE, 3, 8, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
}

static void create_mkey__entries_ROUNDED_UP(void)
{
	static const uint16_t counts[] = { 1, 4, 5, 62 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		struct mlx5dv_mkey_init_attr a = {
			.pd = pd, .max_entries = counts[i],
			.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
		};
		struct mlx5dv_mkey *k = v->mlx5_create_mkey(&a);

		check(k);
		check_is(a.max_entries, (counts[i] + 3) / 4 * 4);
		check(k->lkey && k->rkey);
		check_call(v->mlx5_destroy_mkey(k), 0);
	}
}

static void create_mkey__domain_BUSY_until_destroyed(void)
{
	struct ibv_pd *other = v->alloc_pd(ctx);
	struct mlx5dv_mkey_init_attr a = {
		.pd = other, .max_entries = 4,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	struct mlx5dv_mkey *k;

	check(other);
	k = v->mlx5_create_mkey(&a);
	check(k);
	check_call(v->dealloc_pd(other), EBUSY);
	check_call(v->mlx5_destroy_mkey(k), 0);
	check_call(v->dealloc_pd(other), 0);
}

/* ---- queue pairs ------------------------------------------------------- */

static void create_fails(enum ibv_qp_type type, uint64_t ops, int err)
{
	struct mlx5dv_qp_init_attr m = umr_mlx5_attr(ops);
	struct ibv_qp_init_attr_ex a = umr_attr(new_cq(16, NULL));

	a.qp_type = type;
	a.send_ops_flags = IBV_QP_EX_WITH_SEND;
	check_null(v->mlx5_create_qp(ctx, &a, &m), err);
}

/*
 * rdma-core, mlx5/qp.c, mlx5_qp_fill_wr_pfns(), sets the calls of all operations
 * that the type has, and only checks those that the program names. Its
 * tests/test_mlx5_mkey.py sends with invalidate without having named it.
 */
static void create_qp__operations_not_named_TAKEN(void)
{
	struct mlx5dv_qp_init_attr m = umr_mlx5_attr(UMR_OPS);
	struct ibv_qp_init_attr_ex a = umr_attr(new_cq(64, NULL));
	struct mlx5dv_mkey *k;

	umr_open();
	k = mkey_with(ENTRIES, MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE);
	a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	umr = v->mlx5_create_qp(ctx, &a, &m);
	keep(umr, undo_umr_qp);
	umr_ex = v->qp_to_qp_ex(umr);
	walk(umr, umr->qp_num);
	umr_start(1);
	ibv_wr_send_inv(umr_ex, k->rkey);
	ibv_wr_set_inline_data(umr_ex, NULL, 0);
	check_call(ibv_wr_complete(umr_ex), 0);
}

static void create_qp__other_type_EOPNOTSUPP(void)
{
	create_fails(IBV_QPT_UD, MLX5DV_QP_EX_WITH_MR_LIST, EOPNOTSUPP);
	create_fails(IBV_QPT_UC, MLX5DV_QP_EX_WITH_MR_INTERLEAVED, EOPNOTSUPP);
	create_fails(IBV_QPT_UC, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE, EOPNOTSUPP);
	create_fails(IBV_QPT_XRC_SEND, MLX5DV_QP_EX_WITH_MR_LIST, EOPNOTSUPP);
}

static void create_qp__unknown_operations_EOPNOTSUPP(void)
{
	create_fails(IBV_QPT_RC, MLX5DV_QP_EX_WITH_MR_LIST | 1ull << 40,
		     EOPNOTSUPP);
}

/* Both masks must ask for a builder. */
static void create_qp__without_operations_NO_BUILDER(void)
{
	struct mlx5dv_qp_init_attr m = umr_mlx5_attr(UMR_OPS);
	struct ibv_qp_init_attr_ex a = umr_attr(new_cq(16, NULL));
	struct ibv_qp *qp;

	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_umr_qp);
	check(!v->qp_to_qp_ex(qp));
}

/* ---- requests --------------------------------------------------------- */

static void mr_list__completion_OPCODE_UMR(void)
{
	ends();
	umr_open();
	(void)three(1, ALL);
}

static void mr_list__unsignaled_NO_COMPLETION(void)
{
	struct ibv_sge sge;
	struct mlx5dv_mkey *k;
	struct ibv_wc wc;

	ends();
	umr_open();
	k = new_mkey();
	sge = piece(1, 0, 8);
	umr_start(1);
	umr_ex->wr_flags = IBV_SEND_INLINE;
	mlx5dv_wr_mr_list(umr_dv, k, ALL, 1, &sge);
	check_call(ibv_wr_complete(umr_ex), 0);
	set_list(k, ALL, 1, &sge);
	check_is(ibv_poll_cq(umr_cq, 1, &wc), 0);
}

static void mr_list__not_inline_EOPNOTSUPP(void)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 0 };
	struct mlx5dv_mr_interleaved d = { .bytes_count = 8 };
	struct ibv_sge sge;
	struct mlx5dv_mkey *k;

	ends();
	umr_open();
	k = new_mkey();
	sge = piece(1, 0, 8);
	umr_start(1);
	umr_ex->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_mr_list(umr_dv, k, ALL, 1, &sge);
	check_call(ibv_wr_complete(umr_ex), EOPNOTSUPP);
	umr_start(1);
	umr_ex->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_mr_interleaved(umr_dv, k, ALL, 1, 1, &d);
	check_call(ibv_wr_complete(umr_ex), EOPNOTSUPP);
	umr_start(1);
	umr_ex->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_mkey_configure(umr_dv, k, 1, &conf);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	check_call(ibv_wr_complete(umr_ex), EOPNOTSUPP);
	/* the queue pair goes on */
	set_list(k, ALL, 1, &sge);
}

static void mr_list__unknown_access_EINVAL(void)
{
	struct ibv_sge sge;

	ends();
	umr_open();
	sge = piece(1, 0, 8);
	check_call(try_list(new_mkey(), ALL | IBV_ACCESS_MW_BIND, 1, &sge),
		   EINVAL);
	check_call(try_list(new_mkey(), IBV_ACCESS_ZERO_BASED, 1, &sge),
		   EINVAL);
}

static void mr_list__more_than_the_key_has_ENOMEM(void)
{
	struct mlx5dv_mr_interleaved d[8];
	struct ibv_sge sge[8];
	struct mlx5dv_mkey *k;

	ends();
	umr_open();
	k = mkey_with(4, 0);
	for (uint32_t i = 0; i < 8; i++) {
		sge[i] = piece(1, 16 * i, 8);
		d[i] = (struct mlx5dv_mr_interleaved){
			.addr = sge[i].addr, .lkey = sge[i].lkey,
			.bytes_count = 1,
		};
	}
	check_call(try_list(k, ALL, 5, sge), ENOMEM);
	check_call(try_interleaved(k, ALL, 1, 5, d), ENOMEM);
	set_list(k, ALL, 4, sge);
	set_interleaved(k, ALL, 2, 4, d);
}

/* Inline data holds 16 bytes an entry, and the repetition is another entry. */
static void mr_list__more_than_inline_data_ENOMEM(void)
{
	struct ibv_qp_init_attr init;
	struct mlx5dv_mr_interleaved d[1024];
	struct ibv_sge sge[1024];
	struct mlx5dv_mkey *k;
	struct ibv_qp_attr is;
	uint16_t most;

	ends();
	umr_open();
	check_call(v->query_qp(umr, &is, IBV_QP_CAP, &init), 0);
	most = (uint16_t)((is.cap.max_inline_data + 4) / 16);
	check(most >= ENTRIES && most < 1000);
	k = mkey_with((uint16_t)(most + 4), 0);
	for (uint32_t i = 0; i <= most; i++) {
		sge[i] = piece(1, 16 * i, 8);
		d[i] = (struct mlx5dv_mr_interleaved){
			.addr = sge[i].addr, .lkey = sge[i].lkey,
			.bytes_count = 1,
		};
	}
	check_call(try_list(k, ALL, (uint16_t)(most + 1), sge), ENOMEM);
	check_call(try_interleaved(k, ALL, 1, most, d), ENOMEM);
	set_list(k, ALL, most, sge);
	set_interleaved(k, ALL, 1, (uint16_t)(most - 1), d);
}

/* ---- setters ----------------------------------------------------------- */

static void mkey_configure__setters_twice_EINVAL(void)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 0 };
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	ends();
	umr_open();
	k = new_mkey();
	sge = piece(1, 0, 8);
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, k, 3, &conf);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	check_call(ibv_wr_complete(umr_ex), EINVAL);
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, k, 3, &conf);
	mlx5dv_wr_set_mkey_layout_list(umr_dv, 1, &sge);
	mlx5dv_wr_set_mkey_layout_list(umr_dv, 1, &sge);
	check_call(ibv_wr_complete(umr_ex), EINVAL);
	umr_start(1);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	check_call(ibv_wr_complete(umr_ex), EINVAL);
}

static void mkey_configure__unknown_flags_EOPNOTSUPP(void)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 1u << 20 };

	ends();
	umr_open();
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, new_mkey(), 0, &conf);
	check_call(ibv_wr_complete(umr_ex), EOPNOTSUPP);
	conf = (struct mlx5dv_mkey_conf_attr){ .comp_mask = 1 };
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, new_mkey(), 0, &conf);
	check_call(ibv_wr_complete(umr_ex), EOPNOTSUPP);
}

/* The key was created without them. */
static void mkey_configure__signature_or_cryptography_EINVAL(void)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 0 };
	struct mlx5dv_sig_block_attr sig = { .check_mask = 0 };
	struct mlx5dv_crypto_attr crypto = { .comp_mask = 0 };
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	ends();
	umr_open();
	k = new_mkey();
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, k, 1, &conf);
	mlx5dv_wr_set_mkey_sig_block(umr_dv, &sig);
	check_call(ibv_wr_complete(umr_ex), EINVAL);
	umr_start(1);
	mlx5dv_wr_mkey_configure(umr_dv, k, 1, &conf);
	mlx5dv_wr_set_mkey_crypto(umr_dv, &crypto);
	check_call(ibv_wr_complete(umr_ex), EINVAL);
	/* the queue pair goes on */
	sge = piece(1, 0, 8);
	set_list(k, ALL, 1, &sge);
}

static int try_setters(struct mlx5dv_mkey *k, uint32_t repeat, uint16_t n,
		       const struct mlx5dv_mr_interleaved *data)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 0 };

	umr_start(3);
	mlx5dv_wr_mkey_configure(umr_dv, k, 2, &conf);
	mlx5dv_wr_set_mkey_layout_interleaved(umr_dv, repeat, n, data);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	return ibv_wr_complete(umr_ex);
}

static void mkey_configure__interleaved_AS_IN_ONE_CALL(void)
{
	struct mlx5dv_mr_interleaved d[5];
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	for (uint32_t i = 0; i < 5; i++)
		d[i] = (struct mlx5dv_mr_interleaved){
			.addr = (uintptr_t)end[1].mem + 1000 * i,
			.bytes_count = 2, .bytes_skip = 6,
			.lkey = end[1].mr->lkey,
		};
	k = mkey_with(4, 0);
	check_call(try_setters(k, 3, 5, d), ENOMEM);
	check_call(try_setters(k, 3, 4, d), 0);
	umr_done(3);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 4, 24, 0, k->rkey);
	(void)sent(0, 4, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 24; i++)
		check_is(end[1].mem[i / 2 % 4 * 1000 + i / 8 * 8 + i % 2],
			 end[0].mem[i]);
	refused(IBV_WR_RDMA_WRITE, 25, 0, k->rkey);
}

/* A property that no setter names stays. */
static void mkey_configure__one_setter_REST_STAYS(void)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = 0 };
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	pair();
	umr_open();
	k = three(1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	umr_start(3);
	mlx5dv_wr_mkey_configure(umr_dv, k, 1, &conf);
	mlx5dv_wr_set_mkey_access_flags(umr_dv, ALL);
	check_call(ibv_wr_complete(umr_ex), 0);
	umr_done(3);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 4, THREE, 0, k->rkey);
	(void)sent(0, 4, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < THREE; i++)
		check_is(end[1].mem[three_at(i)], end[0].mem[i]);
	sge = piece(1, 300, 8);
	umr_start(5);
	mlx5dv_wr_mkey_configure(umr_dv, k, 1, &conf);
	mlx5dv_wr_set_mkey_layout_list(umr_dv, 1, &sge);
	check_call(ibv_wr_complete(umr_ex), 0);
	umr_done(5);
	post_to(IBV_WR_RDMA_WRITE, 6, 8, 0, k->rkey);
	(void)sent(0, 6, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem + 300, end[0].mem, 8));
}

/* ---- execution --------------------------------------------------------- */

static void mr_list__key_of_another_domain_MW_BIND_ERR(void)
{
	struct mlx5dv_mkey_init_attr a = {
		.pd = new_pd(), .max_entries = 4,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	ends();
	umr_open();
	k = v->mlx5_create_mkey(&a);
	keep(k, undo_mkey);
	sge = piece(1, 0, 8);
	check_call(try_list(k, ALL, 1, &sge), 0);
	(void)expect(umr_cq, 1, IBV_WC_MW_BIND_ERR);
}

static void local_inv__plain_region_MW_BIND_ERR(void)
{
	ends();
	umr_open();
	invalidate(end[1].mr->rkey, IBV_WC_MW_BIND_ERR);
}

static void local_inv__free_key_MW_BIND_ERR(void)
{
	ends();
	umr_open();
	invalidate(new_mkey()->rkey, IBV_WC_MW_BIND_ERR);
}

const struct device_case umr_cases[] = {
	GATE(umr__device_supports_it),
	CASE(create_mkey__flags_EOPNOTSUPP),
	CASE(create_mkey__only_remote_invalidate_INDIRECT),
	CASE(create_mkey__entries_ROUNDED_UP),
	CASE(create_mkey__domain_BUSY_until_destroyed),
	CASE(create_qp__operations_not_named_TAKEN),
	CASE(create_qp__other_type_EOPNOTSUPP),
	CASE(create_qp__unknown_operations_EOPNOTSUPP),
	CASE(create_qp__without_operations_NO_BUILDER),
	CASE(mr_list__completion_OPCODE_UMR),
	CASE(mr_list__unsignaled_NO_COMPLETION),
	CASE(mr_list__not_inline_EOPNOTSUPP),
	CASE(mr_list__unknown_access_EINVAL),
	CASE(mr_list__more_than_the_key_has_ENOMEM),
	CASE(mr_list__more_than_inline_data_ENOMEM),
	CASE(mkey_configure__setters_twice_EINVAL),
	CASE(mkey_configure__unknown_flags_EOPNOTSUPP),
	CASE(mkey_configure__signature_or_cryptography_EINVAL),
	CASE(mkey_configure__interleaved_AS_IN_ONE_CALL),
	CASE(mkey_configure__one_setter_REST_STAYS),
	CASE(mr_list__key_of_another_domain_MW_BIND_ERR),
	CASE(local_inv__plain_region_MW_BIND_ERR),
	CASE(local_inv__free_key_MW_BIND_ERR),
	{ .name = NULL },
};

#endif
