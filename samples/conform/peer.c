/* SPDX-License-Identifier: BSD-2-Clause */
/* The cases between two hosts: each has a connection to the server. */
#include "conform.h"
#include "peer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define RESOLVE_MS	5000
#define EVENT_MS	30000
#define GREETINGS	8	/* of PEER_DEPTH receives */
#define GREETING_MS	1000
#define ID_SEND		100u	/* behind the slots of receives */
#define ID_OTHER	101u
#define ASKS		300	/* while the server is busy: 30 s */
#define ASK_MS		100

static struct sockaddr_in server;

bool peer_set(const char *host, uint16_t to_port)
{
	const struct addrinfo hints = { .ai_family = AF_INET };
	struct addrinfo *list;

	if (getaddrinfo(host, NULL, &hints, &list))
		return false;
	memcpy(&server, list->ai_addr, sizeof(server));
	server.sin_port = htons(to_port);
	freeaddrinfo(list);
	return true;
}

/* ---- a connection ------------------------------------------------------ */

struct link {
	struct rdma_event_channel *channel;
	struct peer_end end;
	uint64_t addr;		/* the server's memory */
	uint32_t rkey;
};

/* Returns the next event; 'want' is for the text. Copies its private data. */
static enum rdma_cm_event_type
next_event(struct link *l, enum rdma_cm_event_type want, void *ret, size_t size)
{
	struct pollfd p = { .fd = l->channel->fd, .events = POLLIN };
	enum rdma_cm_event_type is;
	struct rdma_cm_event *ev;

	if (poll(&p, 1, EVENT_MS) != 1)
		fail(__FILE__, __LINE__, "no %s in %d s", rdma_event_str(want),
		     EVENT_MS / 1000);
	check(!rdma_get_cm_event(l->channel, &ev));
	is = ev->event;
	if (ret && ev->param.conn.private_data_len >= size)
		memcpy(ret, ev->param.conn.private_data, size);
	(void)rdma_ack_cm_event(ev);
	return is;
}

/* Fails as fail() does, with a text that names no line of the source. */
static void __attribute__((format(printf, 1, 2), noreturn))
fail_plainly(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	(void)fflush(stdout);
	_exit(1);
}

/* Waits for an event, and checks which it is. */
static void await_event(struct link *l, enum rdma_cm_event_type want, void *ret,
			size_t size)
{
	enum rdma_cm_event_type is = next_event(l, want, ret, size);

	if (is != want)
		fail(__FILE__, __LINE__, "%s, not %s", rdma_event_str(is),
		     rdma_event_str(want));
}

static struct rdma_cm_id *resolve(struct link *l)
{
	struct rdma_cm_id *id;

	l->channel = rdma_create_event_channel();
	check(l->channel);
	check(!rdma_create_id(l->channel, &id, NULL, RDMA_PS_TCP));
	check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&server,
				 RESOLVE_MS));
	await_event(l, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	check(!rdma_resolve_route(id, RESOLVE_MS));
	await_event(l, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	return id;
}

/* Returns 0, or the errno of a connect that fails at once, as of iWARP. */
static int ask(struct link *l, uint32_t version, bool probe)
{
	const struct peer_hello h = { .magic = htonl(PEER_MAGIC),
				      .version = htonl(version),
				      .probe = htonl(probe) };
	struct rdma_conn_param p = {
		.private_data = &h, .private_data_len = sizeof(h),
		.responder_resources = 1, .initiator_depth = 1,
		.retry_count = 7, .rnr_retry_count = 7,
	};
	struct rdma_cm_id *id = resolve(l);

	if (strcmp(ibv_get_device_name(id->verbs->device), options.device))
		fail(__FILE__, __LINE__, "the way to the server is over %s",
		     ibv_get_device_name(id->verbs->device));
	check_is(peer_end_open(&l->end, id), 0);
	return rdma_connect(l->end.id, &p) ? errno : 0;
}

/* The private data of ESTABLISHED, or of REJECTED. */
union words {
	struct peer_memory memory;
	struct peer_hello hello;
};

_Static_assert(sizeof(struct peer_memory) == sizeof(struct peer_hello),
	       "next_event() copies either");

static bool is_busy(enum rdma_cm_event_type is, const union words *w)
{
	return is == RDMA_CM_EVENT_REJECTED &&
	       ntohl(w->hello.magic) == PEER_MAGIC && w->hello.busy;
}

/* Asks again while the server is busy, ASKS times. */
static int ask_until_served(struct link *l, bool probe,
			    enum rdma_cm_event_type *ret, union words *w)
{
	for (int i = 0; ; i++) {
		int error = ask(l, PEER_VERSION, probe);

		if (error)
			return error;
		memset(w, 0, sizeof(*w));
		*ret = next_event(l, RDMA_CM_EVENT_ESTABLISHED, w, sizeof(*w));
		if (!is_busy(*ret, w) || i == ASKS)
			return 0;
		peer_end_close(&l->end);
		(void)rdma_destroy_id(l->end.id);
		rdma_destroy_event_channel(l->channel);
		(void)poll(NULL, 0, ASK_MS);
	}
}

static void connect_link(struct link *l)
{
	enum rdma_cm_event_type is;
	union words w;

	check_is(ask_until_served(l, false, &is, &w), 0);
	if (is_busy(is, &w))
		fail_plainly("the server is busy with other clients");
	if (is != RDMA_CM_EVENT_ESTABLISHED)
		fail(__FILE__, __LINE__, "%s, not %s", rdma_event_str(is),
		     rdma_event_str(RDMA_CM_EVENT_ESTABLISHED));
	l->addr = be64toh(w.memory.addr);
	l->rkey = ntohl(w.memory.rkey);
}

static void leave(struct link *l)
{
	(void)rdma_disconnect(l->end.id);
	peer_end_close(&l->end);
}

/* As connect_link(), with a text for the user. */
static void probe(void)
{
	enum rdma_cm_event_type is;
	union words w;
	struct link l;
	int error;

	error = ask_until_served(&l, true, &is, &w);
	if (error)
		fail_plainly("no 'rdmamsg-conform server' answers at port %u: "
			     "%s", ntohs(server.sin_port), strerror(error));
	if (is_busy(is, &w))
		fail_plainly("the server is busy with other clients");
	if (is != RDMA_CM_EVENT_ESTABLISHED)
		fail_plainly("no 'rdmamsg-conform server' answers at port %u: "
			     "%s", ntohs(server.sin_port), rdma_event_str(is));
	if (ntohl(w.memory.version) != PEER_VERSION)
		fail_plainly("the server has version %u of the cases, this "
			     "program %u; install the same rdmamsg on both",
			     ntohl(w.memory.version), PEER_VERSION);
	leave(&l);
}

const struct device_case peer_probe = CASE(probe);

static void say(struct link *l, enum peer_op op, uint32_t seed)
{
	struct peer_message *m = peer_slot(&l->end, PEER_DEPTH);

	*m = (struct peer_message){ .op = htonl(op), .seed = htonl(seed) };
	check_is(peer_send(&l->end, 0, ID_SEND), 0);
}

/* Returns the message in a slot, which gets the next one. */
static struct peer_message take(struct link *l, unsigned int slot)
{
	struct peer_message ret = *peer_slot(&l->end, slot);

	check_is(peer_recv(&l->end, slot), 0);
	return ret;
}

/* Waits for a send and its answer, in either order. */
static struct peer_message answer(struct link *l)
{
	struct peer_message ret = { 0 };

	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(l->end.cq);

		check_is(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id < PEER_DEPTH)
			ret = take(l, (unsigned int)wc.wr_id);
	}
	return ret;
}

static bool completes_within(struct link *l, int ms, struct ibv_wc *ret)
{
	while (ibv_poll_cq(l->end.cq, 1, ret) != 1) {
		if (!ms--)
			return false;
		(void)poll(NULL, 0, 1);
	}
	return true;
}

/*
 * Connects, and sends messages until an answer arrives, because a device may
 * keep the first message until there are more: peer__first_message_ARRIVES.
 */
static void enter_link(struct link *l)
{
	int turns = 0, expected = 0;
	struct ibv_wc wc;

	connect_link(l);
	do {
		check(turns++ < GREETINGS);
		say(l, PEER_ECHO, 0);
		expected += 2;
		for (; expected && completes_within(l, GREETING_MS, &wc);
		     expected--) {
			check_is(wc.status, IBV_WC_SUCCESS);
			if (wc.wr_id < PEER_DEPTH)
				(void)take(l, (unsigned int)wc.wr_id);
		}
	} while (expected);
}

/* Posts an operation on 'size' bytes of the server's memory. */
static void post_to(struct link *l, enum ibv_wr_opcode opcode, uint32_t size,
		 uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer_data(&l->end), .length = size,
		.lkey = l->end.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = ID_OTHER, .sg_list = &sge, .num_sge = 1,
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = l->addr;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = l->addr;
		wr.wr.rdma.rkey = rkey;
	}
	check_is(ibv_post_send(l->end.id->qp, &wr, &bad), 0);
}

/* ---- cases ------------------------------------------------------------- */

static void peer__first_message_ARRIVES(void)
{
	struct link l;

	connect_link(&l);
	say(&l, PEER_ECHO, 7);
	check_is(ntohl(answer(&l).seed), 7);
	leave(&l);
}

static void peer__send_COMES_BACK(void)
{
	struct link l;

	enter_link(&l);
	for (uint32_t i = 0; i < 100; i++) {
		say(&l, PEER_ECHO, i);
		check_is(ntohl(answer(&l).seed), i);
	}
	leave(&l);
}

static void peer__send_behind_a_write_DATA_IS_THERE(void)
{
	struct link l;

	enter_link(&l);
	for (uint32_t seed = 1; seed < 9; seed++) {
		struct peer_message m;

		for (uint32_t i = 0; i < PEER_MEM; i++)
			peer_data(&l.end)[i] = peer_byte(seed, i);
		post_to(&l, IBV_WR_RDMA_WRITE, PEER_MEM, l.rkey);
		say(&l, PEER_CHECK, seed);
		check_is(next_wc(l.end.cq).wr_id, ID_OTHER);
		m = answer(&l);
		check_is(ntohl(m.op), PEER_CHECK);
		check_is(ntohl(m.wrong), 0);
	}
	leave(&l);
}

/* iWARP permits the other order. */
static void peer__send_behind_a_read_COMPLETES_LATER(void)
{
	bool iwarp;
	struct link l;

	enter_link(&l);
	iwarp = l.end.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	post_to(&l, IBV_WR_RDMA_READ, PEER_MEM, l.rkey);
	say(&l, PEER_ECHO, 0);
	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc = next_wc(l.end.cq);

		check_is(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == ID_SEND && !iwarp)
			check(i > 0);
	}
	leave(&l);
}

static void peer__fetch_add_ADDS(void)
{
	struct ibv_device_attr attr;
	uint64_t first, second;
	struct link l;

	enter_link(&l);
	check(!ibv_query_device(l.end.id->verbs, &attr));
	if (attr.atomic_cap == IBV_ATOMIC_NONE) {
		leave(&l);
		return;
	}
	post_to(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, l.rkey);
	check_is(next_wc(l.end.cq).status, IBV_WC_SUCCESS);
	memcpy(&first, peer_data(&l.end), 8);
	post_to(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, l.rkey);
	check_is(next_wc(l.end.cq).status, IBV_WC_SUCCESS);
	memcpy(&second, peer_data(&l.end), 8);
	check_is(second - first, 5);
	leave(&l);
}

static void peer__wrong_rkey_REM_ACCESS_ERR(void)
{
	struct link l;

	enter_link(&l);
	post_to(&l, IBV_WR_RDMA_READ, 64, l.rkey ^ 0x5a00);
	(void)expect(l.end.cq, ID_OTHER, IBV_WC_REM_ACCESS_ERR);
	leave(&l);
}

static void peer__server_leaves_FLUSHES(void)
{
	unsigned int flushed = 0;
	struct link l;

	enter_link(&l);
	say(&l, PEER_LEAVE, 0);
	await_event(&l, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	(void)rdma_disconnect(l.end.id);
	while (flushed < PEER_DEPTH) {
		struct ibv_wc wc = next_wc(l.end.cq);

		if (wc.wr_id == ID_SEND)
			continue;
		check_is(wc.status, IBV_WC_WR_FLUSH_ERR);
		flushed++;
	}
	peer_end_close(&l.end);
}

static void peer__other_version_REJECTED(void)
{
	struct peer_hello h = { 0 };
	struct link l;

	check_is(ask(&l, PEER_VERSION + 1, false), 0);
	await_event(&l, RDMA_CM_EVENT_REJECTED, &h, sizeof(h));
	check_is(ntohl(h.magic), PEER_MAGIC);
	check_is(ntohl(h.version), PEER_VERSION);
	peer_end_close(&l.end);
}

const struct device_case peer_cases[] = {
	CASE(peer__first_message_ARRIVES),
	CASE(peer__send_COMES_BACK),
	CASE(peer__send_behind_a_write_DATA_IS_THERE),
	CASE(peer__send_behind_a_read_COMPLETES_LATER),
	CASE(peer__fetch_add_ADDS),
	CASE(peer__wrong_rkey_REM_ACCESS_ERR),
	CASE(peer__server_leaves_FLUSHES),
	CASE(peer__other_version_REJECTED),
	{ .name = NULL },
};
