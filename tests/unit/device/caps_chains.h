/* SPDX-License-Identifier: BSD-2-Clause */
/* Trials of chains on devices whose requests do not work. */
#ifndef RDMAMSG_TESTS_UNIT_CAPS_CHAINS_H
#define RDMAMSG_TESTS_UNIT_CAPS_CHAINS_H

/* ---- chains that do not work -------------------------------------------- */

enum { OPMOD, OPCODE = 3, WAIT = 0x0f, INDEX = 24 };

static int init_obj_refused(struct mlx5dv_obj *obj, uint64_t types)
{
	return EDQUOT;
}

/* A wait for no completion. */
static bool raw_waits_not(void *wqe, bool fenced)
{
	uint8_t *r = wqe;

	if (r[OPCODE] == WAIT)
		memset(r + INDEX, 0, 4);
	return true;
}

static bool raw_ors(void *wqe, bool fenced)
{
	uint8_t *r = wqe;

	if (r[OPCODE] != WAIT)
		r[OPMOD] = 5;
	return true;
}

/* An exclusive or becomes an or. */
static bool raw_ors_once(void *wqe, bool fenced)
{
	uint8_t *r = wqe;

	if (r[OPCODE] != WAIT && r[OPMOD] == 6)
		r[OPMOD] = 5;
	return true;
}

static int raw_left;

/* A post of a later request fails. */
static bool raw_refused_later(void *wqe, bool fenced)
{
	return raw_left-- > 0;
}

static void raw__chains_do_not_work_SOFTWARE(void **state)
{
	const enum rdmamsg_cap_id id = RDMAMSG_CAP_CHAINS;

	replace_raw(&table, raw_waits_not);
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "wrong result");
	replace_raw(&table, raw_ors);
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "wrong result");
	replace_raw(&table, raw_ors_once);
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "wrong result");
	replace_raw(&table, raw_refused);
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "posting a wait");
	/* a queue pair still waits when the trial ends */
	replace_raw(&table, raw_refused_later);
	raw_left = 2;
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "posting a calculation");
	table.mlx5_qp_ex_from_ibv_qp_ex = soft.mlx5_qp_ex_from_ibv_qp_ex;
	wc_status = IBV_WC_LOC_QP_OP_ERR;
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "a calculation failed");
	wc_status = IBV_WC_SUCCESS;
	table.mlx5_init_obj = init_obj_refused;
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "number of a completion queue");
	ports_down = true;
	table.mlx5_init_obj = soft.mlx5_init_obj;
	assert_cap(id, RDMAMSG_CAP_SOFTWARE, "no port");
	assert_int_equal(ask(id).value, 0);
}

#endif
