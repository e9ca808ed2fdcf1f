/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The schedule of a round's faults. On the soft HCA a fault of a port, of a
 * device or of requests affects one process, elsewhere the whole host.
 */
#include "chaos.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soft/control/soft_ctl.h"

#define UNDO_MAX	16
#define UNDO_MS		60000	/* a busy host answers far earlier */
#define USUAL_MS	3000	/* every_ms is the mean for this load */

/* A fault that ends later. */
struct undo {
	uint64_t at;			/* 0: none */
	enum harm harm;
	uint32_t slot;
	int pid;
};

static struct {
	uint64_t next;
	struct undo undo[UNDO_MAX];
	bool loss;
} state;

static bool on_soft(void)
{
	return !getenv("RDMAMSG_VM");
}

/* ---- the soft HCA ----------------------------------------------------- */

/* Finds the node of a process. Returns false if no node answers. */
static bool node_of(struct soft_ctl *ctl, int pid, uint32_t *ret)
{
	struct soft_ctl_node info;
	uint32_t node = 0;
	int err;

	do {
		err = soft_ctl_next(ctl, &node, &info);
		if (!err && info.pid == pid) {
			*ret = node - 1;
			return true;
		}
	} while (!err || err == -ETIMEDOUT);
	return false;
}

static bool soft_harm(enum harm harm, int pid, bool begin)
{
	struct soft_ctl *ctl;
	uint32_t node;
	bool ok = false;

	if (soft_ctl_open(NULL, &ctl))
		return false;
	if (node_of(ctl, pid, &node)) {
		if (harm == HARM_DEVICE)
			ok = begin ? !soft_ctl_remove(ctl, node) :
			     !soft_ctl_add(ctl, node);
		else
			ok = !soft_ctl_port(ctl, node, 0, !begin ?
					    SOFT_PORT_UP : harm == HARM_PORT ?
					    SOFT_PORT_DOWN :
					    SOFT_PORT_BLACK_HOLE);
	}
	soft_ctl_close(ctl);
	return ok;
}

static void soft_loss(bool begin, uint32_t seed)
{
	struct soft_ctl_faults f = {
		.drop = begin ? 500 : 0, .delay = begin ? 5000 : 0,
		.delay_us = 20000, .seed = seed,
	};
	struct soft_ctl *ctl;

	if (soft_ctl_open(NULL, &ctl))
		return;
	(void)soft_ctl_faults(ctl, SOFT_CTL_ALL, &f);
	soft_ctl_close(ctl);
}

/* ---- the kernel's devices --------------------------------------------- */

static bool run(const char *fmt, const char *dev)
{
	char line[128];
	int pid = fork(), status;

	if (pid)
		return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
	snprintf(line, sizeof(line), fmt, dev);
	(void)execl("/bin/sh", "sh", "-c", line, (char *)NULL);
	_exit(127);
}

/*
 * The fault drops packets and leaves the interface up. If the connection
 * manager sends while the interface is down, its queue pair fails and may lose
 * a request. rdma_destroy_id() then waits for ever in the kernel (Linux 6.1:
 * the completion of mad.c:ib_mad_send_error and rxe_qp_error() of rxe_qp.c
 * race). On one machine Soft-RoCE's packets do not pass the interface, so that
 * a rule on the interface drops none.
 */
static bool vm_harm(enum harm harm, bool begin)
{
	const char *net = getenv("CHAOS_NETDEV");

	if (harm == HARM_PORT || harm == HARM_SILENT)
		return net && run(begin ?
				  "tc qdisc replace dev %s root netem loss "
				  "100%%" : "tc qdisc del dev %s root", net);
	/* rdma(8) waits until every process has closed the device */
	return run(begin ? "rdma link del rxe0 &" :
		   "while rdma link show rxe0/1 2>/dev/null; do sleep 0.1; "
		   "done; rdma link add rxe0 type rxe netdev %s",
		   net ? net : "veth0");
}

/* ---- the schedule ----------------------------------------------------- */

static bool harm_done(enum harm harm, int pid, bool begin)
{
	return on_soft() ? soft_harm(harm, pid, begin) : vm_harm(harm, begin);
}

/* Without reaping the process, as parent.c does. */
static bool has_ended(int pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid;
}

static void undo_now(struct round *r, struct undo *u)
{
	struct process *p = &r->process[u->slot];
	uint64_t end = now_ms() + UNDO_MS;

	u->at = 0;
	if (u->harm == HARM_STOP) {
		if (p->pid == u->pid)
			(void)kill(p->pid, SIGCONT);
		r->board->stopped_ms[u->slot] +=
			(uint32_t)(now_ms() - p->stopped_at);
		p->stopped = false;
		return;
	}
	if (on_soft() && p->pid != u->pid)
		return;		/* the process and its node have ended */
	while (!harm_done(u->harm, u->pid, false)) {
		if (on_soft() && has_ended(u->pid))
			return;
		if (now_ms() >= end) {
			round_violation(r, "a fault of process %u (%x) does "
					"not end", u->slot, u->harm);
			return;
		}
		(void)usleep(10000);
	}
}

/*
 * The node of a stopped process does not answer. Whoever looks for another node
 * waits for it, and cannot end the stop in this time.
 */
static bool nodes_answer(const struct round *r)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		if (r->process[s].stopped)
			return false;
	return true;
}

/* Ends the faults whose time is over. Returns false if one has to wait. */
static bool undo_due(struct round *r)
{
	bool ended = true;

	for (int i = 0; i < UNDO_MAX; i++) {
		struct undo *u = &state.undo[i];

		if (!u->at || now_ms() < u->at)
			continue;
		if (u->harm == HARM_STOP || nodes_answer(r))
			undo_now(r, u);
		else
			ended = false;
	}
	return ended;
}

static void undo_later(enum harm harm, uint32_t slot, int pid, uint32_t ms)
{
	for (int i = 0; i < UNDO_MAX; i++)
		if (!state.undo[i].at) {
			state.undo[i] = (struct undo){
				now_ms() + ms, harm, slot, pid,
			};
			return;
		}
}

static bool busy(uint32_t slot)
{
	for (int i = 0; i < UNDO_MAX; i++)
		if (state.undo[i].at && (state.undo[i].slot == slot ||
					 !on_soft()))
			return true;
	return false;
}

/* Outside the soft HCA all processes share the faulty device. */
static void mark(struct round *r, enum harm harm, uint32_t slot)
{
	for (uint32_t s = 0; s < SLOTS; s++)
		if ((s == slot || (!on_soft() && harm >= HARM_PORT)) &&
		    r->process[s].life)
			r->journal[s][r->process[s].life - 1]->harmed |= harm;
}

static void harm(struct round *r, enum harm harm, uint32_t slot)
{
	struct process *p = &r->process[slot];
	uint32_t ms = 50 + rng_below(&r->rng, 1500);

	if (!p->pid || busy(slot))
		return;
	mark(r, harm, slot);
	switch (harm) {
	case HARM_KILL:
		process_kill(r, slot);
		break;
	case HARM_STOP:
		p->stopped_at = now_ms();
		p->stopped = true;
		(void)kill(p->pid, SIGSTOP);
		undo_later(harm, slot, p->pid, ms);
		break;
	case HARM_LOSS:
		if (!on_soft() || !nodes_answer(r))
			return;
		state.loss = !state.loss;
		soft_loss(state.loss, rng_below(&r->rng, 1u << 30));
		break;
	default:
		if (!nodes_answer(r) || !harm_done(harm, p->pid, true))
			return;
		undo_later(harm, slot, p->pid, ms);
	}
	r->totals->harms[__builtin_ctz(harm)]++;
}

static void plan_next(struct round *r)
{
	uint32_t every = r->sc->every_ms;

	/* a short round has as many faults as a usual one */
	if (r->load_ms < USUAL_MS)
		every = every * r->load_ms / USUAL_MS;
	state.next = now_ms() + 1 + rng_below(&r->rng, 2 * every);
}

void harm_start(struct round *r)
{
	memset(&state, 0, sizeof(state));
	plan_next(r);
}

void harm_step(struct round *r)
{
	uint32_t kinds = r->sc->harm & ~(uint32_t)(HARM_INJECT | HARM_FILES);
	uint32_t slot, pick;

	/* no stop begins while another fault waits for the end of one */
	if (!undo_due(r) || !kinds || now_ms() < state.next)
		return;
	slot = r->first_slot + rng_below(&r->rng, r->end_slot - r->first_slot);
	pick = rng_below(&r->rng, (uint32_t)__builtin_popcount(kinds));
	while (pick--)
		kinds &= kinds - 1;
	harm(r, (enum harm)(kinds & -kinds), slot);
	plan_next(r);
}

void harm_end(struct round *r)
{
	for (int i = 0; i < UNDO_MAX; i++)
		if (state.undo[i].at && state.undo[i].harm == HARM_STOP)
			undo_now(r, &state.undo[i]);
	for (int i = 0; i < UNDO_MAX; i++)
		if (state.undo[i].at)
			undo_now(r, &state.undo[i]);
	if (state.loss)
		soft_loss(false, 0);
	state.loss = false;
}
