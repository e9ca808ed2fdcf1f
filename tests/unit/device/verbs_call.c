/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the seam's calls return 0 or -errno, whatever convention the
 * call below has and whatever errno an earlier call has left.
 */
#include "device/verbs_call.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct ibv_pd a_pd;
static struct ibv_comp_channel a_channel;

/* The calls return 'returns' or 'made', and set errno to 'sets_errno'. */
static int returns, sets_errno;
static void *made;

static void *make(void)
{
	if (sets_errno)
		errno = sets_errno;
	return made;
}

static int answer(void)
{
	if (sets_errno)
		errno = sets_errno;
	return returns;
}

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	return make();
}

static int dealloc_pd(struct ibv_pd *pd)
{
	return answer();
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			void **cq_context)
{
	*cq_context = NULL;
	return answer();
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		     void *context, enum rdma_port_space ps)
{
	return answer();
}

static const struct verbs_api table = {
	.alloc_pd = alloc_pd, .dealloc_pd = dealloc_pd,
	.get_cq_event = get_cq_event, .create_id = create_id,
};

static int set_up(void **state)
{
	returns = sets_errno = 0;
	made = NULL;
	errno = EBUSY;		/* left by an earlier call */
	return 0;
}

static void make__object_IN_RET(void **state)
{
	struct ibv_pd *pd = NULL;

	made = &a_pd;
	sets_errno = EAGAIN;
	assert_int_equal(rdmamsg__v_alloc_pd(&table, NULL, &pd), 0);
	assert_ptr_equal(pd, &a_pd);
}

static void make__null_NEGATIVE_ERRNO(void **state)
{
	struct ibv_pd *pd = &a_pd;

	sets_errno = EPERM;
	assert_int_equal(rdmamsg__v_alloc_pd(&table, NULL, &pd), -EPERM);
	assert_ptr_equal(pd, &a_pd);
}

static void make__null_without_errno_ENOMEM(void **state)
{
	struct ibv_pd *pd = &a_pd;

	assert_int_equal(rdmamsg__v_alloc_pd(&table, NULL, &pd), -ENOMEM);
	assert_ptr_equal(pd, &a_pd);
}

static void call__every_convention_NEGATIVE_ERRNO(void **state)
{
	sets_errno = EAGAIN;
	assert_int_equal(rdmamsg__v_dealloc_pd(&table, &a_pd), 0);
	returns = EINVAL;
	assert_int_equal(rdmamsg__v_dealloc_pd(&table, &a_pd), -EINVAL);
	returns = -EINVAL;
	assert_int_equal(rdmamsg__v_dealloc_pd(&table, &a_pd), -EINVAL);
	returns = -1;
	assert_int_equal(rdmamsg__v_dealloc_pd(&table, &a_pd), -EAGAIN);
}

static void call__minus_1_without_errno_EIO(void **state)
{
	struct rdma_cm_id *id;
	struct ibv_cq *cq;

	returns = -1;
	assert_int_equal(rdmamsg__v_get_cq_event(&table, &a_channel, &cq),
			 -EIO);
	errno = EBUSY;
	assert_int_equal(rdmamsg__v_create_id(&table, NULL, NULL, RDMA_PS_TCP,
					      &id), -EIO);
}

static void reg_dmabuf_mr__not_in_table_EOPNOTSUPP(void **state)
{
	struct ibv_mr *mr = NULL;

	assert_int_equal(rdmamsg__v_reg_dmabuf_mr(&table, &a_pd, 0, 4096, 0, 0,
						  IBV_ACCESS_LOCAL_WRITE, &mr),
			 -EOPNOTSUPP);
	assert_null(mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(make__object_IN_RET, set_up),
		cmocka_unit_test_setup(make__null_NEGATIVE_ERRNO, set_up),
		cmocka_unit_test_setup(make__null_without_errno_ENOMEM, set_up),
		cmocka_unit_test_setup(call__every_convention_NEGATIVE_ERRNO,
				       set_up),
		cmocka_unit_test_setup(call__minus_1_without_errno_EIO, set_up),
		cmocka_unit_test_setup(reg_dmabuf_mr__not_in_table_EOPNOTSUPP,
				       set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
