/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network: packets wait in a heap until they arrive. A packet is lost,
 * doubled or late as the weather of its sender says, and the socket sometimes
 * takes no more.
 */
#include "netsim.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/bytes.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/upward.h"
#include "soft/net/net.h"

#define FLIGHTS		8192u
#define COPIES		3		/* of a packet, at most */
#define PSNS		4096u		/* of a schedule's requests, at most */

struct flight {
	uint64_t at, order;
	int from;
	uint32_t len;
	uint8_t bytes[SIM_ROOM];
};

static struct flight *heap[FLIGHTS], *unused[FLIGHTS];
static uint32_t flying, spare;
static uint64_t order, blocked_until;	/* 0: not blocked */
static uint64_t last[2];		/* arrival, of what that end sent */
static uint32_t sent[2], burst[2];
static uint32_t part_end[2][PSNS];	/* of the first request; 0: none */

uint8_t *__wrap_soft_net_room(struct soft_dev *dev);
void __wrap_soft_net_put(struct soft_dev *dev, const struct soft_path *path,
			 uint32_t len);
bool __wrap_soft_net_receive(struct soft_dev *dev);

/* ---- the heap ---------------------------------------------------------- */

static bool before(const struct flight *a, const struct flight *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(uint32_t i, uint32_t j)
{
	struct flight *f = heap[i];

	heap[i] = heap[j];
	heap[j] = f;
}

static void push(struct flight *f)
{
	uint32_t i = flying++;

	heap[i] = f;
	for (; i && before(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

static struct flight *pop(void)
{
	struct flight *f = heap[0];
	uint32_t i = 0, least;

	heap[0] = heap[--flying];
	for (;;) {
		least = i;
		for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < flying; c++)
			if (before(heap[c], heap[least]))
				least = c;
		if (least == i)
			return f;
		swap(i, least);
		i = least;
	}
}

static struct flight *flight_new(void)
{
	struct flight *f;

	if (flying == FLIGHTS)
		sim_fail("more than %u packets under way", FLIGHTS);
	f = spare ? unused[--spare] : malloc(sizeof(*f));
	if (!f)
		sim_fail("no memory");
	return f;
}

/* ---- what happens to a packet ------------------------------------------ */

static enum kind kind_of(uint8_t opcode)
{
	switch (opcode & PACKET_OP) {
	case PACKET_READ:
	case PACKET_CAS:
	case PACKET_FAA:
		return KIND_READ;
	case PACKET_READ_FIRST:
	case PACKET_READ_MIDDLE:
	case PACKET_READ_LAST:
	case PACKET_READ_ONLY:
	case PACKET_ATOMIC_ACK:
		return KIND_ANSWER;
	case PACKET_ACK:
		return KIND_ACK;
	default:
		return KIND_DATA;
	}
}

static bool in(uint32_t share)
{
	return share && sim_below(256) < share;
}

static bool is_lost(int from, uint8_t opcode)
{
	const struct weather *w = &plan.weather[from];

	if (sent[from]++ >= w->cut)
		return true;
	if (sim_now >= plan.calm_at)
		return false;
	if (burst[from]) {
		burst[from]--;
		return true;
	}
	if (!in(w->lost[kind_of(opcode)]))
		return false;
	burst[from] = in(w->bursts) ? sim_below(24) : 0;
	return true;
}

static void fly(int from, uint32_t len)
{
	const struct weather *w = &plan.weather[from];
	struct flight *f = flight_new();

	f->at = sim_now + w->base + (w->jitter ? sim_below(w->jitter) : 0);
	if (sim_now < plan.calm_at && in(w->late)) {
		totals.late++;
		f->at += sim_below(w->late_ns);
	}
	if (sim_now >= plan.calm_at)
		f->at += w->slower;
	f->at += plan.grain - 1;
	f->at -= f->at % plan.grain;
	if (plan.calm)
		f->at = last[from] = max(f->at, last[from]);
	f->order = order++;
	f->from = from;
	f->len = len;
	memcpy(f->bytes, sim_room, len);
	push(f);
}

/*
 * Soft-RoCE repeats the answer to a read only if the request lies within an
 * earlier one.
 */
static void check_read(int from, uint32_t len)
{
	struct packet p;
	uint32_t n, first;

	if (!packet_get(&p, sim_room, len) || p.opcode != PACKET_READ)
		return;
	n = max((p.length + plan.mtu - 1) / plan.mtu, 1u);
	first = part_end[from][p.psn % PSNS];
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *end = &part_end[from][(p.psn + i) % PSNS];

		if (*end != first)
			sim_fail("end %d: a request of %u packets from %06x "
				 "on spans two earlier ones", from, n, p.psn);
		if (!first)
			*end = p.psn + n;
	}
}

static void trace(int from, uint32_t len, const char *fate)
{
	struct packet p;

	if (!packet_get(&p, sim_room, len))
		sim_fail("end %d sends a packet that is none", from);
	sim_trace("%d: %-7s op %02x psn %06x, %u bytes%s, syndrome %02x\n",
		  from, fate, p.opcode, p.psn, p.bytes, p.ack ? ", ack" : "",
		  p.syndrome);
}

void __wrap_soft_net_put(struct soft_dev *dev, const struct soft_path *path,
			 uint32_t len)
{
	const uint32_t to = soft_get32(sim_room + 4) & 0xffffff;
	const int from = to == ends[0].qp->qp_num;

	memset(sim_room + len, 0, PACKET_CRC);
	len += PACKET_CRC;
	if (len > SIM_ROOM)
		sim_fail("a packet of %u bytes", len);
	totals.packets++;
	check_read(from, len);
	if (is_lost(from, sim_room[0])) {
		totals.lost++;
		if (sim_traces)
			trace(from, len, "lost");
	} else {
		if (sim_traces)
			trace(from, len, "sends");
		fly(from, len);
		for (int i = 1; i < COPIES && in(plan.weather[from].doubled);
		     i++) {
			totals.doubled++;
			sim_trace("%d: doubled\n", from);
			fly(from, len);
		}
	}
	dev->bells_due = true;
	if (plan.blocks && sim_once_in(plan.blocks)) {
		blocked_until = sim_now + 1 + sim_below(2000000);
		sim_trace("no room\n");
	}
}

/* ---- the calls of lib/soft/net ------------------------------------------ */

uint8_t *__wrap_soft_net_room(struct soft_dev *dev)
{
	return blocked_until ? NULL : sim_room;
}

bool __wrap_soft_net_receive(struct soft_dev *dev)
{
	const struct soft_path *back = &sim_way;
	struct packet p;
	uint32_t n = 0;

	while (n < plan.batch && flying && heap[0]->at <= sim_now) {
		struct flight *f = pop();

		if (!packet_get(&p, f->bytes, f->len))
			sim_fail("end %d has sent a packet that is none",
				 f->from);
		sim_trace("%d: gets    op %02x psn %06x\n", !f->from, p.opcode,
			  p.psn);
		soft_fabric_up->net_packet(dev, back, &p);
		unused[spare++] = f;
		n++;
	}
	return n;
}

/* ---- for the schedule --------------------------------------------------- */

void net_begin(void)
{
	while (flying)
		unused[spare++] = heap[--flying];
	order = blocked_until = 0;
	memset(sent, 0, sizeof(sent));
	memset(burst, 0, sizeof(burst));
	memset(part_end, 0, sizeof(part_end));
	memset(last, 0, sizeof(last));
}

uint64_t net_next(void)
{
	const uint64_t arrives = flying ? heap[0]->at : SIM_NEVER;

	return blocked_until && blocked_until < arrives ? blocked_until :
	       arrives;
}

void net_unblock(void)
{
	if (!blocked_until || blocked_until > sim_now)
		return;
	blocked_until = 0;
	soft_lock(sim_dev);
	soft_fabric_up->net_room(sim_dev);
	soft_unlock(sim_dev);
	world_progress();
}
