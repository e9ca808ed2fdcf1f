/* SPDX-License-Identifier: BSD-2-Clause */
/* The completions and the memory of the programs follow from their requests. */
#include "netsim.h"

#include <string.h>

#include "base/util.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/qp.h"

/* ---- memory ------------------------------------------------------------- */

static void check_write(const struct end *e, const char *what, uint32_t id)
{
	const struct request *r = &e->request[id];

	bytes_check(e, what, id, e->peer->mem->slot[r->slot] + r->offset,
		    bytes_of_slot(r->slot, r->offset, r->version), e->versions,
		    r->slot, r->offset, r->len);
}

static void check_guard(const struct end *e, const char *what, uint32_t id,
			const uint8_t *p)
{
	for (uint32_t i = 0; i < GUARD; i++)
		if (p[i] != 0xa5)
			sim_fail("end %d, %s %u: bytes behind the end",
				 e->index, what, id);
}

/* ---- completed requests ------------------------------------------------- */

/* Writes behind a fence begin after the read has ended. */
static uint8_t latest(const struct end *e, uint32_t id)
{
	uint8_t ret = e->request[id].version;

	for (uint32_t i = id + 1; i < e->posted && !e->request[i].fenced; i++)
		if (e->request[i].version)
			ret = e->request[i].version;
	return ret;
}

static void check_read(const struct end *e, uint32_t id)
{
	const struct request *r = &e->request[id];
	const uint8_t *sink = e->mem->sink[id % DEPTH_MAX];
	uint8_t most = latest(e, id), before = 0;

	for (uint32_t i = 0; i < id; i++)
		before = max(before, e->request[i].version);
	bytes_check(e, "read", id, sink, e->least[id % DEPTH_MAX],
		    max(most, before), r->slot, r->offset, r->len);
	check_guard(e, "read", id, sink + r->len);
}

static void check_atomic(const struct end *e, uint32_t id)
{
	const struct request *r = &e->request[id];
	const uint8_t *sink = e->mem->sink[id % DEPTH_MAX];

	if (memcmp(sink, &r->before, sizeof(r->before)))
		sim_fail("end %d, atomic %u: another value than %llx",
			 e->index, id, (unsigned long long)r->before);
	check_guard(e, "atomic", id, sink + r->len);
}

/* The receiver has the message and its completion, or can poll that. */
static void check_arrived(const struct end *e, uint32_t id)
{
	const struct soft_cq *cq = (const struct soft_cq *)e->peer->recv_cq;
	uint32_t n = 0;

	while (n < e->messages && e->message[n] <= id)
		n++;
	if (n > e->peer->received + (cq->tail - cq->head))
		sim_fail("end %d, request %u: completes before it arrives",
			 e->index, id);
}

static void check_success(struct end *e, uint32_t id)
{
	const struct request *r = &e->request[id];

	switch (r->op) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		check_write(e, "write", id);
		break;
	case OP_READ:
		check_read(e, id);
		break;
	case OP_FAA:
	case OP_CAS:
		check_atomic(e, id);
		break;
	case OP_BIND:
		if (e->window == WINDOW_BINDING)
			e->window = WINDOW_GIVEN;
		break;
	case OP_UNBIND:
		e->window = WINDOW_IDLE;
		break;
	default:
		break;
	}
	if (request_takes_receive(r))
		check_arrived(e, id);
}

static enum ibv_wc_opcode opcode_of(enum op op)
{
	static const enum ibv_wc_opcode opcodes[OPS] = {
		IBV_WC_SEND, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE,
		IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD,
		IBV_WC_COMP_SWAP, IBV_WC_BIND_MW, IBV_WC_LOCAL_INV,
	};

	return opcodes[op];
}

/* Of the first request that fails. */
static bool may_fail(const struct end *e, uint32_t id,
		     enum ibv_wc_status status)
{
	if (plan.sure)
		return false;
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		/* a peer that has failed answers no more */
		return !plan.calm || soft_qp(e->peer->qp)->state == IBV_QPS_ERR;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return e->plan->rnr_retries < 7 &&
		       request_takes_receive(&e->request[id]);
	case IBV_WC_REM_ACCESS_ERR:
		return id == e->plan->bad;
	case IBV_WC_WR_FLUSH_ERR:
		/* the peer's bad request has arrived */
		return e->peer->plan->bad < e->peer->posted;
	default:
		return false;
	}
}

static void fails(struct end *e, uint32_t id, enum ibv_wc_status status)
{
	if (e->succeeded == SIM_NONE) {
		if (!may_fail(e, id, status))
			sim_fail("end %d, request %u: status %d", e->index, id,
				 status);
		e->succeeded = id;
		totals.failed++;
	} else if (status != IBV_WC_WR_FLUSH_ERR) {
		sim_fail("end %d, request %u: status %d after a failure",
			 e->index, id, status);
	}
}

void rules_completed(struct end *e, const struct ibv_wc *wc)
{
	const uint32_t id = (uint32_t)wc->wr_id;
	const struct request *r = &e->request[id];

	sim_trace("%d: request %u has status %d\n", e->index, id, wc->status);
	if (id < e->completed || id >= e->posted)
		sim_fail("end %d, request %u completes, %u have and %u are "
			 "posted", e->index, id, e->completed, e->posted);
	/* those without a completion have succeeded */
	for (; e->completed != id; e->completed++) {
		if (e->request[e->completed].signaled ||
		    e->succeeded != SIM_NONE)
			sim_fail("end %d, request %u: no completion",
				 e->index, e->completed);
		check_success(e, e->completed);
	}
	e->completed++;
	if (wc->status != IBV_WC_SUCCESS) {
		fails(e, id, wc->status);
		return;
	}
	if (!r->signaled || e->succeeded != SIM_NONE || id >= e->plan->bad)
		sim_fail("end %d, request %u: succeeds", e->index, id);
	if (wc->opcode != opcode_of(r->op) ||
	    (r->op == OP_READ && wc->byte_len != r->len))
		sim_fail("end %d, request %u: opcode %d, %u bytes", e->index,
			 id, wc->opcode, wc->byte_len);
	check_success(e, id);
}

/* ---- received messages -------------------------------------------------- */

static void check_message(const struct end *e, const struct ibv_wc *wc,
			  uint32_t id)
{
	const struct request *r = &e->peer->request[id];
	const uint8_t *p = e->mem->in[wc->wr_id % DEPTH_MAX];
	const bool write = r->op == OP_WRITE_IMM;

	if (wc->opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
	    wc->byte_len != r->len)
		sim_fail("end %d, message %u: opcode %d, %u bytes instead of "
			 "%u", e->index, id, wc->opcode, wc->byte_len, r->len);
	if (wc->wc_flags != (r->op == OP_SEND ? 0u :
			     r->op == OP_SEND_INV ? IBV_WC_WITH_INV :
			     IBV_WC_WITH_IMM) ||
	    (wc->wc_flags & IBV_WC_WITH_IMM && wc->imm_data != r->imm) ||
	    (wc->wc_flags & IBV_WC_WITH_INV && wc->invalidated_rkey != r->rkey))
		sim_fail("end %d, message %u: flags %x", e->index, id,
			 wc->wc_flags);
	if (write)
		check_write(e->peer, "message", id);
	else if (memcmp(p, bytes_of_message(id), r->len))
		sim_fail("end %d, message %u: wrong bytes", e->index, id);
	check_guard(e, "message", id, p + (write ? 0 : r->len));
}

void rules_received(struct end *e, const struct ibv_wc *wc)
{
	const struct end *from = e->peer;
	const uint32_t n = e->received;

	sim_trace("%d: receive %llu has status %d\n", e->index,
		  (unsigned long long)wc->wr_id, wc->status);
	if (wc->wr_id != n + e->flushed)
		sim_fail("end %d: receive %llu instead of %u", e->index,
			 (unsigned long long)wc->wr_id, n + e->flushed);
	if (wc->status == IBV_WC_WR_FLUSH_ERR && !plan.sure) {
		e->flushed++;
		return;
	}
	if (wc->status != IBV_WC_SUCCESS || e->flushed)
		sim_fail("end %d, receive %u: status %d", e->index, n,
			 wc->status);
	if (n >= from->messages)
		sim_fail("end %d: more messages than %u", e->index, n);
	check_message(e, wc, from->message[n]);
	if (from->request[from->message[n]].op == OP_SEND_INV)
		e->window = WINDOW_IDLE;
	e->received++;
}

/* ---- the end ------------------------------------------------------------ */

/* The word that so many requests leave. */
static uint64_t word_after(const struct end *e, uint32_t word, uint32_t n)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct request *r = &e->request[i];

		if (r->word == word && (r->op == OP_FAA || r->op == OP_CAS))
			value = r->after;
	}
	return value;
}

/* Of the requests that may have been executed, the first 'sure' were. */
static void check_words(const struct end *e, uint32_t sure, uint32_t most)
{
	for (uint32_t w = 0; w < WORDS; w++) {
		const uint64_t is = e->peer->mem->word[w];
		uint32_t n = sure;

		while (n < most && word_after(e, w, n) != is)
			n++;
		if (word_after(e, w, n) != is)
			sim_fail("end %d: word %u of the peer is %llx, not "
				 "%llx", e->index, w, (unsigned long long)is,
				 (unsigned long long)e->word[w]);
	}
}

/* The memory of the peer when the first n requests are executed. */
static void image_after(const struct end *e, uint32_t n,
			uint8_t image[][LENGTH_MAX])
{
	for (uint32_t i = 0; i < SLOTS; i++)
		memcpy(image[i], bytes_of_slot(i, 0, 0), plan.most);
	for (uint32_t i = 0; i < n; i++) {
		const struct request *r = &e->request[i];

		if (r->version)
			memcpy(image[r->slot] + r->offset,
			       bytes_of_slot(r->slot, r->offset, r->version),
			       r->len);
	}
}

static void check_slots(const struct end *e, uint32_t sure, uint32_t most)
{
	static uint8_t image[SLOTS][LENGTH_MAX];
	uint8_t version = 0;

	image_after(e, sure, image);
	for (uint32_t i = 0; i < most; i++)
		version = max(version, e->request[i].version);
	for (uint32_t i = 0; i < SLOTS; i++)
		bytes_check(e, "slot", i, e->peer->mem->slot[i], image[i],
			    version, i, 0, plan.most);
}

/* An unsignaled request that has succeeded before its queue pair failed. */
static void end_silently(struct end *e)
{
	while (soft_qp(e->qp)->state == IBV_QPS_ERR &&
	       e->completed != e->posted &&
	       !e->request[e->completed].signaled)
		check_success(e, e->completed++);
}

static void check_end(struct end *e)
{
	const uint32_t most = min(e->posted, e->plan->bad);
	uint32_t sure, n = 0;

	if (e->succeeded == SIM_NONE)
		end_silently(e);
	sure = min(e->succeeded, e->completed);
	if (!end_is_over(e))
		sim_fail("end %d: nothing happens any more, %u of %u posted, "
			 "%u completed", e->index, e->posted,
			 e->plan->requests, e->completed);
	while (n < e->messages && e->message[n] < sure)
		n++;
	if (e->peer->received < n)
		sim_fail("end %d: %u messages sent, %u received", e->index, n,
			 e->peer->received);
	check_words(e, sure, most);
	check_slots(e, sure, most);
}

void rules_end(void)
{
	for (int i = 0; i < 2; i++)
		check_end(&ends[i]);
}
