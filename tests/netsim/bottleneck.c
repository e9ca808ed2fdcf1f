/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network of incast.c. Packets to the receiver pass the link that all
 * senders share, which sends one after the other, and drops what its queue has
 * no place for. The other packets go back over a link that is never full.
 */
#include "incast.h"

#include <string.h>

#include "base/util.h"
#include "soft/fabric/bytes.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/upward.h"
#include "soft/net/net.h"

#define FLIGHTS		16384u		/* a power of 2 */
#define FULL		1024u		/* bytes of a full packet */

struct flight {
	uint64_t at;
	uint32_t len;
	bool marked;
	uint8_t bytes[SIM_ROOM];
};

/* Packets in the order of their arrival: at the senders, at the receiver. */
static struct lane {
	struct flight flight[FLIGHTS];
	uint32_t head, tail;
	uint64_t last;			/* arrival */
} lanes[2];

struct shared_link shared_link;
struct shared_counts shared_counts;

static uint64_t busy_until;

uint8_t *__wrap_soft_net_room(struct soft_dev *dev);
void __wrap_soft_net_put(struct soft_dev *dev, const struct soft_path *path,
			 uint32_t len);
bool __wrap_soft_net_receive(struct soft_dev *dev);

static void fly(struct lane *lane, uint64_t at, uint32_t len, bool marked)
{
	struct flight *f = &lane->flight[lane->tail % FLIGHTS];

	if (lane->tail - lane->head == FLIGHTS)
		sim_fail("more than %u packets under way", FLIGHTS);
	at += shared_link.base;
	if (shared_link.jitter)
		at += sim_below(shared_link.jitter);
	f->at = lane->last = max(at, lane->last);
	f->len = len;
	f->marked = marked;
	memcpy(f->bytes, sim_room, len);
	lane->tail++;
}

/* Returns how many full packets the bytes in the queue make. */
static uint32_t queued(void)
{
	return busy_until <= sim_now ? 0 :
	       (uint32_t)((busy_until - sim_now) / shared_link.each);
}

static void trace(const struct packet *p, const char *fate)
{
	sim_trace("to %06x: %-5s op %02x psn %06x, %u bytes, length %u\n",
		  p->dst, fate, p->opcode, p->psn, p->bytes, p->length);
}

static void cross_link(const struct packet *p, uint32_t len)
{
	const uint32_t n = queued();
	const bool marked = shared_link.marks && n >= shared_link.marks;

	shared_counts.sent++;
	if (n >= QUEUE) {
		shared_counts.lost++;
		trace(p, "lost");
		return;
	}
	shared_counts.marked += marked;
	busy_until = max(busy_until, sim_now) +
		     (uint64_t)shared_link.each * len / FULL;
	fly(&lanes[1], busy_until, len, marked);
}

void __wrap_soft_net_put(struct soft_dev *dev, const struct soft_path *path,
			 uint32_t len)
{
	struct packet p;

	memset(sim_room + len, 0, PACKET_CRC);
	len += PACKET_CRC;
	if (len > SIM_ROOM || !packet_get(&p, sim_room, len))
		sim_fail("a packet of %u bytes that is none", len);
	if (incast_receives(p.dst))
		cross_link(&p, len);
	else
		fly(&lanes[0], sim_now, len, false);
	dev->bells_due = true;
}

uint8_t *__wrap_soft_net_room(struct soft_dev *dev)
{
	return sim_room;
}

static bool take(struct lane *lane)
{
	struct flight *f = &lane->flight[lane->head % FLIGHTS];
	struct packet p;

	if (lane->head == lane->tail || f->at > sim_now)
		return false;
	lane->head++;
	if (!packet_get(&p, f->bytes, f->len))
		sim_fail("a packet that is none");
	p.marked = f->marked;
	trace(&p, "gets");
	soft_fabric_up->net_packet(sim_dev, &sim_way, &p);
	return true;
}

bool __wrap_soft_net_receive(struct soft_dev *dev)
{
	bool any = false;

	while (take(&lanes[0]) || take(&lanes[1]))
		any = true;
	return any;
}

void bottleneck_begin(void)
{
	for (int i = 0; i < 2; i++) {
		lanes[i].head = lanes[i].tail = 0;
		lanes[i].last = 0;
	}
	memset(&shared_counts, 0, sizeof(shared_counts));
	busy_until = 0;
}

uint64_t bottleneck_next(void)
{
	uint64_t next = SIM_NEVER;

	for (int i = 0; i < 2; i++)
		if (lanes[i].head != lanes[i].tail)
			next = min(next, lanes[i].flight[lanes[i].head %
							  FLIGHTS].at);
	return next;
}
