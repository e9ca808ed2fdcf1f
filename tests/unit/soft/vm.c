/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large payloads that are fetched from where they lie: by a connection of this
 * process to itself, and each reason why they are not. The last test refuses
 * process_vm_readv(2) to this process for good.
 */
#include "soft/fabric/dev.h"
#include "soft/fabric/key.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/vm.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "pair.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_fabric.h"

#define LARGE	SIZE

static struct soft_dev *dev(void)
{
	return soft_dev_of(c);
}

static struct soft_wire *wire(void)
{
	return dev()->to[dev()->node];
}

static void fill(int seed)
{
	for (uint32_t i = 0; i < SIZE; i++) {
		mem[0][i] = (uint8_t)(i * 7 + i / 251 + (uint32_t)seed);
		mem[1][i] = 0;
	}
}

static uint8_t *map(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/* Runs each operation with a large payload once, and checks the payload. */
static void each_works(void)
{
	fill(1);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, LARGE,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], LARGE);
	fill(2);
	assert_int_equal(post_recv(qp[1], 2, LARGE), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 2, LARGE, 0, 0), 0);
	expect(2, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], LARGE);
	fill(3);
	memcpy(mem[1], mem[0], LARGE);
	memset(mem[0], 0, LARGE);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 3, LARGE,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], LARGE);
}

static void all__large_FETCHED_OR_PUSHED(void **state)
{
	each_works();
	/* the second is pushed, to see how long that takes */
	assert_int_equal(wire()->fetched, 2 * LARGE);
	for (int i = 0; i < 200; i++)
		each_works();
	assert_true(wire()->fetched > 2 * LARGE);
}

static void send__lists_of_odd_parts_WHOLE(void **state)
{
	struct ibv_sge from[4] = {
		{ (uintptr_t)mem[0], 3, mr[0]->lkey },
		{ (uintptr_t)mem[0] + 3, 100000, mr[0]->lkey },
		{ (uintptr_t)mem[0], 0, mr[0]->lkey },
		{ (uintptr_t)mem[0] + 100003, 99991, mr[0]->lkey },
	}, to[4] = {
		{ (uintptr_t)mem[1], 77777, mr[1]->lkey },
		{ (uintptr_t)mem[1] + 77777, 122212, mr[1]->lkey },
		{ (uintptr_t)mem[1] + 199989, 5, mr[1]->lkey },
		{ (uintptr_t)mem[1] + 199994, 100, mr[1]->lkey },
	};
	struct ibv_recv_wr *bad_recv, recv = {
		.wr_id = 1, .sg_list = to, .num_sge = 4,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = from, .num_sge = 4,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	fill(0);
	assert_int_equal(ibv_post_recv(qp[1], &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	assert_int_equal(expect(1, IBV_WC_SUCCESS).byte_len, 199994);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(wire()->fetched, 199994);
	assert_memory_equal(mem[0], mem[1], 199994);
	for (uint32_t i = 199994; i < SIZE; i++)
		assert_int_equal(mem[1][i], 0);
}

/* ---- memory that goes ------------------------------------------------- */

static void show(struct soft_fetch *ret)
{
	(void)soft_vm_show_at(dev(), wire(), mem[0], 1000, mr[0]->rkey,
			      &ret->shown);
}

static void fetch__withdrawn_END_IS_NOT_SEEN(void **state)
{
	struct soft_fetch from;

	fill(0);
	soft_lock(dev());
	from.wire = wire();
	show(&from);
	assert_int_equal(soft_vm_fetch(&from, mem[1], 1000), 0);
	assert_memory_equal(mem[0], mem[1], 1000);
	memset(mem[1], 0, 1000);
	soft_vm_withdraw(dev(), mr[0]->rkey);
	assert_int_equal(soft_vm_fetch(&from, mem[1], 1000), -EAGAIN);
	for (int i = 992; i < 1000; i++)
		assert_int_equal(mem[1][i], 0);
	show(&from);
	assert_int_equal(soft_vm_fetch(&from, mem[1], 1000), 0);
	soft_unlock(dev());
}

static uint32_t counter(uint32_t key)
{
	const struct soft_key *k = soft_key_at(&dev()->keys, key);

	assert_non_null(k);
	return k->counter;
}

static uint32_t value(uint32_t i)
{
	return wire()->tx.shm->withdrawn[i];
}

static void withdrawn__with_region_or_request_COUNTED(void **state)
{
	struct ibv_mr *r = soft_reg_mr(pd, mem[0], SIZE, ALL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	uint32_t i, before;

	assert_non_null(r);
	i = counter(r->lkey);
	before = value(i);
	assert_int_equal(soft_rereg_mr(r, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				       NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(value(i), before + 1);
	assert_int_equal(soft_dereg_mr(r), 0);
	assert_int_equal(value(i), before + 2);
	/* one that waits for a receive has been shown */
	i = counter(mr[0]->lkey);
	before = value(i);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, LARGE, 0, 0), 0);
	assert_int_equal(value(i), before);
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE), 0);
	expect(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(value(i), before + 1);
}

/* The request fails as on a device that finds no page. */
static void send__source_unmapped_LOC_PROT_ERR(void **state)
{
	uint8_t *at = map(LARGE);
	struct ibv_mr *r = soft_reg_mr(pd, at, LARGE, ALL);
	struct ibv_sge sge = { (uintptr_t)at, LARGE, r->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	assert_int_equal(munmap(at + LARGE / 2, LARGE / 2), 0);
	assert_int_equal(post_recv(qp[1], 2, LARGE), 0);
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	expect(1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(soft_dereg_mr(r), 0);
	assert_int_equal(munmap(at, LARGE / 2), 0);
}

static void remote__unmapped_REM_OP_ERR(void **state)
{
	bool read = *(bool *)*state;
	uint8_t *at = map(LARGE);
	struct ibv_mr *r = soft_reg_mr(pd, at, LARGE, ALL);

	assert_int_equal(munmap(at, LARGE), 0);
	assert_int_equal(post(qp[0], read ? IBV_WR_RDMA_READ :
			      IBV_WR_RDMA_WRITE, 1, LARGE, (uintptr_t)at,
			      r->rkey), 0);
	expect(1, IBV_WC_REM_OP_ERR);
	if (!read)
		expect_event(IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(soft_dereg_mr(r), 0);
}

static void write__remote_unmapped_REM_OP_ERR(void **state)
{
	*state = &(bool){ false };
	remote__unmapped_REM_OP_ERR(state);
}

static void read__remote_unmapped_REM_OP_ERR(void **state)
{
	*state = &(bool){ true };
	remote__unmapped_REM_OP_ERR(state);
}

/* ---- what cannot be --------------------------------------------------- */

static void decode__nonsense_REFUSED(void **state)
{
	struct soft_shown s = { .count = 1, .range[0] = { .len = 100 } };
	const uint32_t one = offsetof(struct soft_shown, range[1]);
	struct soft_rec rec = { .bytes = one };
	struct soft_fetch f;

	assert_true(soft_vm_decode(wire(), &rec, &s, &f));
	assert_int_equal(rec.bytes, 100);
	rec.bytes = one - 1;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	rec.bytes = sizeof(s) + 1;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	rec.bytes = one;
	s.count = 2;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	s.count = UINT32_MAX;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	s.count = 1;
	s.range[0].len = SOFT_SHOW_MAX + 1;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	s.range[0].len = 0;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
	s.range[0].len = 1;
	rec.flags = SOFT_F_UNRELIABLE;
	assert_false(soft_vm_decode(wire(), &rec, &s, &f));
}

static void all__process_is_gone_PUSHED(void **state)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	soft_lock(dev());
	wire()->pid = pid;
	soft_unlock(dev());
	each_works();
	assert_false(wire()->fetches);
	assert_false(wire()->shows);
	assert_int_equal(wire()->fetched, 0);
}

static void all__not_wanted_PUSHED(void **state)
{
	each_works();
	assert_int_equal(wire()->fetched, 0);
}

static void no_vm__neither_0_nor_1_EINVAL(void **state)
{
	struct ibv_device **list;

	(void)setenv("RDMAMSG_SOFT_NO_VM", "perhaps", 1);
	list = soft_get_device_list(NULL);
	errno = 0;
	assert_null(soft_open_device(list[0]));
	assert_int_equal(errno, EINVAL);
	soft_free_device_list(list);
	(void)unsetenv("RDMAMSG_SOFT_NO_VM");
}

static int setup_patient(void **state)
{
	int ret;

	rnr_retry = 7;
	ret = setup_pair(state);
	rnr_retry = 2;
	return ret;
}

static int setup_no_vm(void **state)
{
	(void)setenv("RDMAMSG_SOFT_NO_VM", "1", 1);
	return setup_pair(state);
}

static int teardown_no_vm(void **state)
{
	(void)unsetenv("RDMAMSG_SOFT_NO_VM");
	return teardown_pair(state);
}

/* Forbids process_vm_readv(2), as a container's seccomp profile does. */
static void refuse(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0,
			 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_TSYNC, &prog))
		skip();
}

static void all__refused_by_the_system_PUSHED(void **state)
{
	refuse();
	each_works();
	each_works();
	assert_false(wire()->fetches);
	assert_false(wire()->shows);
	assert_int_equal(wire()->fetched, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(all__large_FETCHED_OR_PUSHED),
		PAIR(send__lists_of_odd_parts_WHOLE),
		PAIR(fetch__withdrawn_END_IS_NOT_SEEN),
		cmocka_unit_test_setup_teardown(
			withdrawn__with_region_or_request_COUNTED,
			setup_patient, teardown_pair),
		PAIR(send__source_unmapped_LOC_PROT_ERR),
		PAIR(write__remote_unmapped_REM_OP_ERR),
		PAIR(read__remote_unmapped_REM_OP_ERR),
		PAIR(decode__nonsense_REFUSED),
		PAIR(all__process_is_gone_PUSHED),
		cmocka_unit_test_setup_teardown(all__not_wanted_PUSHED,
						setup_no_vm, teardown_no_vm),
		cmocka_unit_test(no_vm__neither_0_nor_1_EINVAL),
		PAIR(all__refused_by_the_system_PUSHED),
	};

	/* what is tested here is what it refuses */
	(void)unsetenv("RDMAMSG_SOFT_NO_VM");
	join_own_fabric("vm");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
