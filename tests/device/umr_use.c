/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indirect keys in use: as rkey and as lkey, nested, invalidated, against a
 * model that copies byte by byte.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "umr.h"

#include "../layout_model.h"

#define DEPTH	8u		/* keys in each other: man rdmamsg-soft(7) */
#define BIG	300000u		/* a payload that stays with its sender */

static void umr_use__device_supports_it(void)
{
	if (!has_umr())
		skip_rest("libmlx5 does not support the device");
}

/* ---- as rkey ----------------------------------------------------------- */

static void write__to_a_list_BYTES_IN_PLACE(void)
{
	struct mlx5dv_mkey *k;
	uint8_t *want = new_mem(MEM);

	pair();
	umr_open();
	k = three(1, ALL);
	fill(0, 1);
	fill(1, 2);
	memcpy(want, end[1].mem, MEM);
	for (uint32_t i = 5; i < THREE; i++)
		want[three_at(i)] = end[0].mem[i - 5];
	post_to(IBV_WR_RDMA_WRITE, 3, THREE - 5, 5, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(want, end[1].mem, MEM));
}

static void read__from_a_list_BYTES_IN_ORDER(void)
{
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = three(1, ALL);
	fill(1, 2);
	clear(0);
	post_to(IBV_WR_RDMA_READ, 3, THREE, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < THREE; i++)
		check_is(end[0].mem[i], end[1].mem[three_at(i)]);
	check_is(end[0].mem[THREE], 0);
}

/* Addresses begin at 0, whatever those of the memory are. */
static void write__address_of_the_memory_REFUSED(void)
{
	pair();
	umr_open();
	refused(IBV_WR_RDMA_WRITE, 8, (uintptr_t)end[1].mem + 1000,
		three(1, ALL)->rkey);
}

static void write__beyond_the_end_REFUSED(void)
{
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = three(1, ALL);
	post_to(IBV_WR_RDMA_WRITE, 3, 1, THREE - 1, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, 2, THREE - 1, k->rkey);
}

static void write__without_the_right_REFUSED(void)
{
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = three(1, IBV_ACCESS_REMOTE_READ);
	post_to(IBV_WR_RDMA_READ, 3, THREE, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

static void read__without_the_right_REFUSED(void)
{
	pair();
	umr_open();
	refused(IBV_WR_RDMA_READ, 8, 0, three(1, IBV_ACCESS_REMOTE_WRITE |
					      IBV_ACCESS_LOCAL_WRITE)->rkey);
}

static void write__key_never_defined_REFUSED(void)
{
	pair();
	umr_open();
	refused(IBV_WR_RDMA_WRITE, 1, 0, new_mkey()->rkey);
}

static void write__entry_with_a_wrong_key_REFUSED(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	pair();
	umr_open();
	sge = piece(1, 0, 8);
	sge.lkey ^= 0x5500;
	k = new_mkey();
	set_list(k, ALL, 1, &sge);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

/* The memory's own registration must permit local writes. */
static void write__memory_is_read_only_REFUSED(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	pair();
	umr_open();
	mr = new_mr(pd, end[1].mem, 4096, 0);
	sge = (struct ibv_sge){ (uintptr_t)end[1].mem, 64, mr->lkey };
	k = new_mkey();
	set_list(k, ALL, 1, &sge);
	post_to(IBV_WR_RDMA_READ, 3, 64, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

static void write__region_is_gone_REFUSED(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	pair();
	umr_open();
	mr = new_mr(pd, end[1].mem, 4096, how.mr_access);
	sge = (struct ibv_sge){ (uintptr_t)end[1].mem, 64, mr->lkey };
	k = new_mkey();
	set_list(k, ALL, 1, &sge);
	drop(mr);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

/* ---- interleaved ------------------------------------------------------- */

static struct mlx5dv_mr_interleaved strided(uint32_t offset, uint32_t bytes,
					    uint32_t skip)
{
	return (struct mlx5dv_mr_interleaved){
		.addr = (uintptr_t)end[1].mem + offset, .bytes_count = bytes,
		.bytes_skip = skip, .lkey = end[1].mr->lkey,
	};
}

static void write__interleaved_TAKES_TURNS(void)
{
	struct mlx5dv_mr_interleaved d[2];
	struct mlx5dv_mkey *k;
	uint32_t at = 0;

	pair();
	umr_open();
	d[0] = strided(100, 3, 61);
	d[1] = strided(50000, 5, 0);
	k = new_mkey();
	set_interleaved(k, ALL, 40, 2, d);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, 40 * 8, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	for (uint32_t r = 0; r < 40; r++) {
		check(!memcmp(end[1].mem + 100 + 64 * r, end[0].mem + at, 3));
		check_is(end[1].mem[103 + 64 * r], 0);
		check(!memcmp(end[1].mem + 50000 + 5 * r,
			      end[0].mem + at + 3, 5));
		at += 8;
	}
	refused(IBV_WR_RDMA_WRITE, 1, 40 * 8, k->rkey);
}

/* The driver cuts sizes to 16 bits, and says nothing. */
static void write__interleaved_sizes_CUT(void)
{
	struct mlx5dv_mr_interleaved d;
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	d = strided(0, 65536 + 4, 65536 + 12);	/* 4 of each 16 */
	k = new_mkey();
	set_interleaved(k, ALL, 3, 1, &d);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, 12, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	for (uint32_t r = 0; r < 3; r++) {
		check(!memcmp(end[1].mem + 16 * r, end[0].mem + 4 * r, 4));
		check_is(end[1].mem[16 * r + 4], 0);
	}
	refused(IBV_WR_RDMA_WRITE, 13, 0, k->rkey);
}

/* Large payloads, which some devices do not copy through a buffer. */
static void both_ways__large_ALL_BYTES(void)
{
	struct mlx5dv_mr_interleaved d;
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	d = strided(7, 1000, 500);
	k = new_mkey();
	set_interleaved(k, ALL, BIG / 1000, 1, &d);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, BIG, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < BIG; i++)
		check_is(end[1].mem[7 + i / 1000 * 1500 + i % 1000],
			 end[0].mem[i]);
	fill(1, 5);
	post_to(IBV_WR_RDMA_READ, 4, BIG, 0, k->rkey);
	(void)sent(0, 4, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < BIG; i++)
		check_is(end[0].mem[i],
			 end[1].mem[7 + i / 1000 * 1500 + i % 1000]);
}

/* ---- as lkey ----------------------------------------------------------- */

static struct request from_key(enum ibv_wr_opcode op, uint64_t id,
			       const struct mlx5dv_mkey *k, uint32_t len)
{
	struct request r = request(op, id, len);

	r.sge[0].addr = 0;
	r.sge[0].lkey = k->lkey;
	return r;
}

static void send__from_a_list_BYTES_IN_ORDER(void)
{
	struct request r;

	pair();
	umr_open();
	receive(1, 7, 0, MEM);
	fill(0, 1);
	clear(1);
	r = from_key(IBV_WR_SEND, 3, three(0, 0), THREE);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 7, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < THREE; i++)
		check_is(end[1].mem[i], end[0].mem[three_at(i)]);
}

/* Beside an ordinary entry, and not from the beginning. */
static void write__gathered_from_a_list_BYTES_IN_ORDER(void)
{
	struct request r;

	pair();
	umr_open();
	fill(0, 1);
	clear(1);
	r = request(IBV_WR_RDMA_WRITE, 3, 16);
	r.wr.num_sge = 2;
	r.sge[1] = (struct ibv_sge){ 5, 40, three(0, 0)->lkey };
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem, end[0].mem, 16));
	for (uint32_t i = 0; i < 40; i++)
		check_is(end[1].mem[16 + i], end[0].mem[three_at(5 + i)]);
	check_is(end[1].mem[56], 0);
}

static void receive__into_a_list_BYTES_IN_PLACE(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 7, .num_sge = 1 };
	struct ibv_sge sge = { 0, THREE, 0 };
	struct request r;

	pair();
	umr_open();
	sge.lkey = three(1, IBV_ACCESS_LOCAL_WRITE)->lkey;
	wr.sg_list = &sge;
	check_call(ibv_post_recv(end[1].qp, &wr, &bad), 0);
	fill(0, 1);
	clear(1);
	r = request(IBV_WR_SEND, 3, THREE);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 7, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < THREE; i++)
		check_is(end[1].mem[three_at(i)], end[0].mem[i]);
}

static struct mlx5dv_mkey *comb(int i, uint32_t access)
{
	struct mlx5dv_mr_interleaved d;
	struct mlx5dv_mkey *k = new_mkey();

	d = strided(7, 1000, 500);
	d.addr = (uintptr_t)end[i].mem + 7;
	d.lkey = end[i].mr->lkey;
	set_interleaved(k, access, BIG / 1000, 1, &d);
	return k;
}

static void read__large_into_a_comb_BYTES_IN_PLACE(void)
{
	struct request r;

	pair();
	umr_open();
	fill(1, 1);
	clear(0);
	r = from_key(IBV_WR_RDMA_READ, 3, comb(0, IBV_ACCESS_LOCAL_WRITE),
		     BIG);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < BIG; i++)
		check_is(end[0].mem[7 + i / 1000 * 1500 + i % 1000],
			 end[1].mem[i]);
}

static void send__large_from_and_into_combs_ALL_BYTES(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 7, .num_sge = 1 };
	struct ibv_sge sge = { 0, BIG, 0 };
	struct request r;

	pair();
	umr_open();
	sge.lkey = comb(1, ALL)->lkey;
	wr.sg_list = &sge;
	for (uint32_t from_comb = 0; from_comb < 2; from_comb++) {
		check_call(ibv_post_recv(end[1].qp, &wr, &bad), 0);
		fill(0, 1 + from_comb);
		clear(1);
		r = from_comb ? from_key(IBV_WR_SEND, 3, comb(0, 0), BIG) :
		    request(IBV_WR_SEND, 3, BIG);
		post(0, &r);
		(void)sent(0, 3, IBV_WC_SUCCESS);
		(void)received(1, 7, IBV_WC_SUCCESS);
		for (uint32_t i = 0; i < BIG; i++) {
			const uint32_t at = 7 + i / 1000 * 1500 + i % 1000;

			check_is(end[1].mem[at], end[0].mem[from_comb ? at : i]);
		}
	}
}

static void read__into_a_key_without_LOCAL_WRITE_PROT_ERR(void)
{
	struct request r;

	pair();
	umr_open();
	r = from_key(IBV_WR_RDMA_READ, 3, three(0, IBV_ACCESS_REMOTE_READ),
		     THREE);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_LOC_PROT_ERR);
}

static void send__beyond_the_end_PROT_ERR(void)
{
	struct request r;

	pair();
	umr_open();
	receive(1, 7, 0, MEM);
	r = from_key(IBV_WR_SEND, 3, three(0, ALL), THREE + 1);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_LOC_PROT_ERR);
}

/* ---- invalid ----------------------------------------------------------- */

static void write__after_local_inv_REFUSED(void)
{
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = three(1, ALL);
	post_to(IBV_WR_RDMA_WRITE, 3, 8, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	invalidate(k->rkey, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

static void send__after_local_inv_PROT_ERR(void)
{
	struct mlx5dv_mkey *k;
	struct request r;

	pair();
	umr_open();
	k = three(0, ALL);
	invalidate(k->rkey, IBV_WC_SUCCESS);
	receive(1, 7, 0, MEM);
	r = from_key(IBV_WR_SEND, 3, k, 8);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_LOC_PROT_ERR);
}

static void write__defined_again_OTHER_BYTES(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;

	pair();
	umr_open();
	k = three(1, ALL);
	invalidate(k->rkey, IBV_WC_SUCCESS);
	sge = piece(1, 70000, 100);
	set_list(k, ALL, 1, &sge);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, 100, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem + 70000, end[0].mem, 100));
	check_is(end[1].mem[1000], 0);
	/* without invalidating it */
	sge = piece(1, 80000, 50);
	set_list(k, ALL, 1, &sge);
	post_to(IBV_WR_RDMA_WRITE, 4, 50, 0, k->rkey);
	(void)sent(0, 4, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem + 80000, end[0].mem, 50));
	refused(IBV_WR_RDMA_WRITE, 51, 0, k->rkey);
}

static void write__key_destroyed_REFUSED(void)
{
	struct mlx5dv_mkey *k;
	uint32_t rkey;

	pair();
	umr_open();
	k = three(1, ALL);
	rkey = k->rkey;
	drop(k);
	refused(IBV_WR_RDMA_WRITE, 8, 0, rkey);
}

/* Only with the flag that permits it: MLX5DV_MKEY_INIT_ATTR_FLAGS_... */
static void send_inv__by_the_peer_IF_PERMITTED(void)
{
	const uint32_t permit = 1u << 4;	/* ..._REMOTE_INVALIDATE */
	struct mlx5dv_mkey *k;
	struct ibv_sge sge;
	struct request r;
	struct ibv_wc wc;

	pair();
	umr_open();
	k = mkey_with(4, permit);
	sge = piece(1, 0, 8);
	set_list(k, ALL, 1, &sge);
	receive(1, 7, 100, 8);
	r = request(IBV_WR_SEND_WITH_INV, 3, 8);
	r.wr.invalidate_rkey = k->rkey;
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	wc = received(1, 7, IBV_WC_SUCCESS);
	check(wc.wc_flags & IBV_WC_WITH_INV);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

static void send_inv__by_the_peer_OTHERWISE_REFUSED(void)
{
	struct request r;

	pair();
	umr_open();
	receive(1, 7, 100, 8);
	r = request(IBV_WR_SEND_WITH_INV, 3, 8);
	r.wr.invalidate_rkey = three(1, ALL)->rkey;
	post(0, &r);
	check(next_wc(end[0].scq).status != IBV_WC_SUCCESS);
}

/* ---- nested ------------------------------------------------------------ */

/* The second half of a key, then the first. */
static struct mlx5dv_mkey *turned(const struct mlx5dv_mkey *in, uint32_t len)
{
	struct ibv_sge sge[2] = {
		{ len / 2, len - len / 2, in->lkey }, { 0, len / 2, in->lkey },
	};
	struct mlx5dv_mkey *k = new_mkey();

	set_list(k, ALL, 2, sge);
	return k;
}

static void write__nested_BYTES_IN_PLACE(void)
{
	struct mlx5dv_mkey *k;

	pair();
	umr_open();
	k = three(1, ALL);
	for (uint32_t i = 1; i < DEPTH; i++)
		k = turned(k, THREE);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, THREE, 0, k->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	/* an odd number of turns is one */
	for (uint32_t i = 0; i < THREE; i++)
		check_is(end[1].mem[three_at((i + THREE / 2) % THREE)],
			 end[0].mem[i]);
	refused(IBV_WR_RDMA_WRITE, 8, 0, turned(k, THREE)->rkey);
}

static void write__inner_key_changes_OTHER_BYTES(void)
{
	struct mlx5dv_mkey *in, *out;
	struct ibv_sge sge;

	pair();
	umr_open();
	in = three(1, ALL);
	out = turned(in, THREE);
	sge = piece(1, 200, THREE);
	set_list(in, ALL, 1, &sge);
	fill(0, 1);
	clear(1);
	post_to(IBV_WR_RDMA_WRITE, 3, THREE, 0, out->rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem + 200 + THREE / 2, end[0].mem, THREE / 2));
	invalidate(in->rkey, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, 8, 0, out->rkey);
}

/* A key that is its own entry ends nowhere. */
static void write__key_in_itself_REFUSED(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge = { .length = 100 };

	pair();
	umr_open();
	k = new_mkey();
	sge.lkey = k->lkey;
	set_list(k, ALL, 1, &sge);
	refused(IBV_WR_RDMA_WRITE, 8, 0, k->rkey);
}

/* ---- in one list of requests ------------------------------------------- */

/* A key is usable by the requests behind the one that defines it. */
static void write__posted_with_the_definition_DONE(void)
{
	struct mlx5dv_mkey *k;
	struct ibv_sge sge[2];

	pair();
	umr_open();
	k = new_mkey();
	sge[0] = piece(1, 10, 3);
	sge[1] = piece(1, 900, 5);
	fill(0, 1);
	clear(1);
	umr_start(1);
	mlx5dv_wr_mr_list(umr_dv, k, ALL, 2, sge);
	umr_ex->wr_id = 2;
	umr_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(umr_ex, k->rkey, 0);
	ibv_wr_set_sge(umr_ex, end[0].mr->lkey, (uintptr_t)end[0].mem, 8);
	check_call(ibv_wr_complete(umr_ex), 0);
	umr_done(1);
	(void)expect(umr_cq, 2, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem + 10, end[0].mem, 3));
	check(!memcmp(end[1].mem + 900, end[0].mem + 3, 5));
}

/* ---- random ------------------------------------------------------------ */

#define LAYOUTS	2000u

/* Appends the blocks of one round. Returns false if they are too many. */
static bool blocks(const struct model_part *p, uint64_t at, uint32_t dim,
		   uint32_t lkey, struct mlx5dv_mr_interleaved *d, uint32_t *n)
{
	if (dim == p->dims) {
		if (*n == ENTRIES - 1)
			return false;
		d[(*n)++] = (struct mlx5dv_mr_interleaved){
			.addr = at, .bytes_count = (uint32_t)p->len,
			.bytes_skip = (uint32_t)(p->step - p->len),
			.lkey = lkey,
		};
		return true;
	}
	for (uint64_t i = 0; i < p->count[dim]; i++)
		if (!blocks(p, at + i * p->stride[dim], dim + 1, lkey, d, n))
			return false;
	return true;
}

/* Defines the keys of all layouts. Returns false if one is too long. */
static bool keys_of(const struct model *m, struct mlx5dv_mkey **keys)
{
	for (uint32_t i = 0; i < m->layouts; i++) {
		const struct model_layout *l = &m->layout[i];
		struct mlx5dv_mr_interleaved d[ENTRIES];
		uint32_t n = 0;

		for (uint32_t k = 0; k < l->parts; k++) {
			const struct model_part *p = &l->part[k];
			const uint64_t base = p->nested ? 0 :
				(uintptr_t)end[1].mem +
				p->index * MODEL_REGION;

			if (!blocks(p, base + p->offset, 0, p->nested ?
				    keys[p->index]->lkey : end[1].mr->lkey, d,
				    &n))
				return false;
		}
		set_interleaved(keys[i], ALL, (uint32_t)l->rounds,
				(uint16_t)n, d);
	}
	return true;
}

static uint8_t *byte_at(uint8_t *mem, const struct model_layout *l, uint32_t i)
{
	return &mem[l->at[i].region * MODEL_REGION + l->at[i].offset];
}

static void random_run(struct model *m, uint32_t rkey)
{
	static uint8_t want[MODEL_REGIONS * MODEL_REGION];
	const struct model_layout *l = model_last(m);
	const uint32_t at = model_random(m, l->len);
	const uint32_t len = 1 + model_random(m, l->len - at);

	memcpy(want, end[1].mem, sizeof(want));
	for (uint32_t i = 0; i < len; i++)
		*byte_at(want, l, at + i) = end[0].mem[i];
	post_to(IBV_WR_RDMA_WRITE, 3, len, at, rkey);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(want, end[1].mem, sizeof(want)));
	post_to(IBV_WR_RDMA_READ, 4, len, at, rkey);
	(void)sent(0, 4, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < len; i++)
		check_is(end[0].mem[i], *byte_at(want, l, at + i));
	for (uint32_t i = 0; i < 4096; i++)
		end[0].mem[i] = (uint8_t)model_random(m, 256);
}

static void random__keys_AS_COPIED_BYTE_BY_BYTE(void)
{
	static struct model m;
	struct mlx5dv_mkey *keys[MODEL_LAYOUTS];
	uint32_t run = 0;

	pair();
	umr_open();
	fill(0, 3);
	fill(1, 4);
	for (uint32_t i = 0; i < MODEL_LAYOUTS; i++)
		keys[i] = new_mkey();
	for (uint64_t seed = 0; run < LAYOUTS; seed++) {
		model_make(&m, seed);
		if (!keys_of(&m, keys))
			continue;
		random_run(&m, keys[m.layouts - 1]->rkey);
		run++;
	}
}

const struct device_case umr_use_cases[] = {
	GATE(umr_use__device_supports_it),
	CASE(write__to_a_list_BYTES_IN_PLACE),
	CASE(read__from_a_list_BYTES_IN_ORDER),
	CASE(write__address_of_the_memory_REFUSED),
	CASE(write__beyond_the_end_REFUSED),
	CASE(write__without_the_right_REFUSED),
	CASE(read__without_the_right_REFUSED),
	CASE(write__key_never_defined_REFUSED),
	CASE(write__entry_with_a_wrong_key_REFUSED),
	CASE(write__memory_is_read_only_REFUSED),
	CASE(write__region_is_gone_REFUSED),
	CASE(write__interleaved_TAKES_TURNS),
	CASE(write__interleaved_sizes_CUT),
	CASE(both_ways__large_ALL_BYTES),
	CASE(send__from_a_list_BYTES_IN_ORDER),
	CASE(write__gathered_from_a_list_BYTES_IN_ORDER),
	CASE(receive__into_a_list_BYTES_IN_PLACE),
	CASE(read__large_into_a_comb_BYTES_IN_PLACE),
	CASE(send__large_from_and_into_combs_ALL_BYTES),
	CASE(read__into_a_key_without_LOCAL_WRITE_PROT_ERR),
	CASE(send__beyond_the_end_PROT_ERR),
	CASE(write__after_local_inv_REFUSED),
	CASE(send__after_local_inv_PROT_ERR),
	CASE(write__defined_again_OTHER_BYTES),
	CASE(write__key_destroyed_REFUSED),
	CASE(send_inv__by_the_peer_IF_PERMITTED),
	CASE(send_inv__by_the_peer_OTHERWISE_REFUSED),
	CASE(write__nested_BYTES_IN_PLACE),
	CASE(write__inner_key_changes_OTHER_BYTES),
	CASE(write__key_in_itself_REFUSED),
	CASE(write__posted_with_the_definition_DONE),
	CASE(random__keys_AS_COPIED_BYTE_BY_BYTE),
	{ .name = NULL },
};

#endif
