/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests, their completions, and events. */
#include "device.h"

#include <poll.h>

#define EVENT_MS	5000	/* after the cause of the event has been seen */
#define QUIET_MS	30	/* for completions that must not arrive */
#define WRITTEN_MS	1000	/* if differences.c says: in vain */

const char *written_texts = "";
int bound_ms = 30000;

struct request request(enum ibv_wr_opcode op, uint64_t id, uint32_t len)
{
	struct request r = {
		.wr = {
			.wr_id = id, .opcode = op, .num_sge = len ? 1 : 0,
			.send_flags = IBV_SEND_SIGNALED,
		},
		.sge = { { (uintptr_t)end[0].mem, len, end[0].mr->lkey } },
	};

	if (op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM)
		r.wr.imm_data = htobe32(0x12345678);
	aim(&r, (uintptr_t)end[1].mem, end[1].mr->rkey);
	return r;
}

void aim(struct request *r, uint64_t addr, uint32_t rkey)
{
	if (r->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    r->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		r->wr.wr.atomic.remote_addr = addr;
		r->wr.wr.atomic.rkey = rkey;
	} else {
		r->wr.wr.rdma.remote_addr = addr;
		r->wr.wr.rdma.rkey = rkey;
	}
}

int try_post(int i, struct request *r)
{
	struct ibv_send_wr *bad;

	r->wr.sg_list = r->sge;
	return ibv_post_send(end[i].qp, &r->wr, &bad);
}

void receive(int i, uint64_t id, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {
		(uintptr_t)end[i].mem + offset, len, end[i].mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = len ? 1 : 0,
	};

	check_call(end[i].qp->srq ?
		   ibv_post_srq_recv(end[i].qp->srq, &wr, &bad) :
		   ibv_post_recv(end[i].qp, &wr, &bad), 0);
}

int bound(int ms, const char *text)
{
	return strstr(written_texts, text) && ms > WRITTEN_MS ? WRITTEN_MS : ms;
}

struct ibv_wc next_wc(struct ibv_cq *cq)
{
	int64_t until = now_ms() + bound(bound_ms, NO_COMPLETION);
	struct ibv_wc wc;
	int n;

	for (int i = 0; ; i++) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n)
			break;
		if (i > 1000)
			(void)poll(NULL, 0, 1);
		if (i % 64 == 0 && now_ms() > until)
			fail(__FILE__, __LINE__, NO_COMPLETION);
	}
	check_is(n, 1);
	return wc;
}

void wc_is(const char *file, int line, const struct ibv_wc *wc, uint64_t id,
	   enum ibv_wc_status status)
{
	if (wc->wr_id != id)
		fail(file, line, "request %llu, not %llu",
		     (unsigned long long)wc->wr_id, (unsigned long long)id);
	if (wc->status != status)
		fail(file, line, "request %llu: %s, not %s",
		     (unsigned long long)id, ibv_wc_status_str(wc->status),
		     ibv_wc_status_str(status));
}

void quiet(void)
{
	int64_t until = now_ms() + QUIET_MS;
	struct ibv_wc wc;

	do {
		for (int i = 0; i < 2; i++) {
			check_is(ibv_poll_cq(end[i].scq, 1, &wc), 0);
			check_is(ibv_poll_cq(end[i].rcq, 1, &wc), 0);
		}
		(void)poll(NULL, 0, 1);
	} while (now_ms() < until);
}

static bool polls_in(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

bool readable(int fd, int ms)
{
	return polls_in(fd, bound(ms, NOT_READABLE));
}

struct ibv_async_event expect_event(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	if (!polls_in(ctx->async_fd, bound(EVENT_MS, NO_EVENT)))
		fail(__FILE__, __LINE__, NO_EVENT "%s",
		     ibv_event_type_str(type));
	check_call(v->get_async_event(ctx, &ev), 0);
	if (ev.event_type != type)
		fail(__FILE__, __LINE__, "event: %s, not %s",
		     ibv_event_type_str(ev.event_type),
		     ibv_event_type_str(type));
	v->ack_async_event(&ev);
	return ev;
}

void fill(int i, uint32_t seed)
{
	for (uint32_t n = 0; n < MEM; n++)
		end[i].mem[n] = (uint8_t)(n * 7 + (n >> 8) + seed);
}

void clear(int i)
{
	memset(end[i].mem, 0, MEM);
}

void same(uint32_t len)
{
	check(!memcmp(end[0].mem, end[1].mem, len));
	check(len == MEM || !end[1].mem[len]);
}
