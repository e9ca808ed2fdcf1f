/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling: UDP datagrams as raw Ethernet frames, which the device
 * spreads over receive queues by a hash of addresses and ports. 'rss -s'
 * receives and 'rss' sends. All datagrams of one source port are in one queue,
 * so that each queue could have a thread of its own. A packet for which its queue
 * has no receive is lost.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#define ROOM	128u		/* of a receive */
#define DEPTH	1024u		/* receives of a queue */
#define MOST	256u		/* queues */
#define PAYLOAD	16u
#define HEADERS	42u		/* Ethernet, IPv4 and UDP */
#define PORT	5000u		/* the destination; the sources follow */
#define WAIT_MS	60000		/* longest wait for a packet */

static struct {
	bool server;
	const char *device;
	unsigned long packets, flows, queues;
	uint8_t mac[6];
} o = { false, NULL, 1000, 64, 4, { 2, 0, 0, 0, 0, 1 } };

static struct rdmamsg *ctx;
static uint8_t *memory;
static struct ibv_mr *mr;
static unsigned long got, of_queue[MOST];
static int queue_of[65536];	/* of a source port; 0: none, else 1 + queue */
static bool failed;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "rss: %s: %s\n", what, why);
	failed = true;
}

/* The objects for the calls of verbs. */
static struct rdmamsg_qp_objects of(const struct rdmamsg_qp *qp)
{
	struct rdmamsg_qp_objects v = { .size = sizeof(v) };

	(void)rdmamsg_qp_verbs(qp, &v);	/* a queue pair has them */
	return v;
}

/* ---- receiving -------------------------------------------------------- */

/* wr_id: the queue, and the place in its memory */
static void post(struct rdmamsg_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {
		(uintptr_t)memory + id * ROOM, ROOM, mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int ret = ibv_post_wq_recv(of(qp).wqs[id / DEPTH], &wr, &bad);

	if (ret)
		fail("posting a receive", strerror(ret));
}

static void take(uint64_t id)
{
	const uint8_t *frame = memory + id * ROOM;
	uint16_t source = (uint16_t)(frame[34] << 8 | frame[35]);
	int queue = (int)(id / DEPTH);

	got++;
	of_queue[queue]++;
	if (queue_of[source] && queue_of[source] != 1 + queue)
		fail("a packet", "it is in another queue than those before");
	queue_of[source] = 1 + queue;
}

static void on_completion(struct rdmamsg_qp *qp, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!failed && ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status) {
			fail("a receive", ibv_wc_status_str(wc.status));
			return;
		}
		take(wc.wr_id);
		post(qp, wc.wr_id);
	}
}

/* Steers the frames for our address to the queue pair. */
static struct ibv_flow *steer(struct rdmamsg_qp *qp)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule;
	struct ibv_flow *flow;

	memset(&rule, 0, sizeof(rule));
	rule.attr.type = IBV_FLOW_ATTR_NORMAL;
	rule.attr.size = sizeof(rule);
	rule.attr.num_of_specs = 1;
	rule.attr.port = 1;
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	rule.eth.size = sizeof(rule.eth);
	memcpy(rule.eth.val.dst_mac, o.mac, sizeof(o.mac));
	memset(rule.eth.mask.dst_mac, 0xff, sizeof(o.mac));
	flow = ibv_create_flow(of(qp).qp, &rule.attr);
	if (!flow)
		fail("steering", strerror(errno));
	return flow;
}

static void serve(struct rdmamsg_qp *qp)
{
	struct ibv_flow *flow;

	for (uint64_t id = 0; id < o.queues * DEPTH && !failed; id++)
		post(qp, id);
	flow = failed ? NULL : steer(qp);
	if (flow) {
		printf("waiting for %lu packets\n", o.packets);
		fflush(stdout);
	}
	while (flow && got < o.packets && !failed) {
		int n = rdmamsg_wait(ctx, WAIT_MS);

		if (n <= 0 && n != -EINTR)
			fail("waiting", "nothing arrives");
	}
	for (unsigned long i = 0; i < o.queues && !failed; i++)
		printf("queue %lu: %lu packets\n", i, of_queue[i]);
	if (flow)
		(void)ibv_destroy_flow(flow);
}

/* ---- sending ---------------------------------------------------------- */

static void put(uint8_t *at, unsigned int value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Headers without checksums: the receiver needs none. */
static void fill(uint8_t *frame, unsigned int source)
{
	memset(frame, 0, HEADERS + PAYLOAD);
	memcpy(frame, o.mac, 6);
	frame[6] = 2;
	frame[11] = 2;
	put(frame + 12, 0x0800);
	frame[14] = 0x45;
	put(frame + 16, 28 + PAYLOAD);
	frame[22] = 64;
	frame[23] = 17;
	(void)inet_pton(AF_INET, "192.0.2.1", frame + 26);
	(void)inet_pton(AF_INET, "192.0.2.2", frame + 30);
	put(frame + 34, source);
	put(frame + 36, PORT);
	put(frame + 38, 8 + PAYLOAD);
}

static void send_one(struct rdmamsg_qp *qp, unsigned long n)
{
	struct ibv_sge sge = {
		(uintptr_t)memory, HEADERS + PAYLOAD, mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_wc wc;
	int ret;

	fill(memory, PORT + 1 + (unsigned int)(n % o.flows));
	ret = ibv_post_send(of(qp).qp, &wr, &bad);
	if (ret) {
		fail("sending", strerror(ret));
		return;
	}
	do
		ret = ibv_poll_cq(of(qp).send_cq, 1, &wc);
	while (!ret);
	if (ret < 0 || wc.status)
		fail("sending", ret < 0 ? "the completion queue" :
		     ibv_wc_status_str(wc.status));
}

/* ---- both ------------------------------------------------------------- */

static void run(void)
{
	/* without enough ones in it, all packets have the same queue */
	static const uint8_t key[40] = {
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
		0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
		0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
		0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
	};
	const struct rdmamsg_rss rss = {
		.size = sizeof(rss), .queues = (uint32_t)o.queues,
		.function = IBV_RX_HASH_FUNC_TOEPLITZ,
		.key_len = sizeof(key), .key = key,
		.fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
			  IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
	};
	static const struct rdmamsg_qp_handlers on = {
		.size = sizeof(on), .on_completion = on_completion,
	};
	const struct rdmamsg_qp_options opts = {
		.size = sizeof(opts), .device = o.device,
		.type = IBV_QPT_RAW_PACKET, .max_recv = DEPTH,
		.rss = o.server ? &rss : NULL,
		.handlers = o.server ? &on : NULL,
	};
	size_t room = o.queues * DEPTH * ROOM;
	struct rdmamsg_qp *qp;

	memory = malloc(room);
	if (!memory)
		fail("memory", strerror(errno));
	else if (rdmamsg_qp_create(ctx, &opts, &qp))
		fail("a queue pair", rdmamsg_error());
	if (failed)
		return;
	if (rdmamsg_qp_register(qp, memory, room, IBV_ACCESS_LOCAL_WRITE, &mr))
		fail("registering memory", rdmamsg_error());
	else if (o.server)
		serve(qp);
	for (unsigned long n = 0; !o.server && n < o.packets && !failed; n++)
		send_one(qp, n);
	/* receives that are still posted name the memory until this */
	rdmamsg_qp_deregister(qp, mr);
	if (rdmamsg_qp_destroy(qp))
		fail("destroying", rdmamsg_error());
}

static unsigned long number(const char *arg, unsigned long most, int opt)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || end == arg || !n || n > most) {
		fprintf(stderr, "rss: -%c %s: a number from 1 to %lu; "
			"see --help\n", opt, arg, most);
		exit(2);
	}
	return n;
}

static void address(const char *arg)
{
	unsigned int m[6];
	char rest;

	if (sscanf(arg, "%2x:%2x:%2x:%2x:%2x:%2x%c", &m[0], &m[1], &m[2],
		   &m[3], &m[4], &m[5], &rest) != 6) {
		fprintf(stderr, "rss: -m %s: not like 02:00:00:00:00:01; "
			"see --help\n", arg);
		exit(2);
	}
	for (int i = 0; i < 6; i++)
		o.mac[i] = (uint8_t)m[i];
}

static const char usage[] =
"Usage: rss [-s] [OPTION...]\n"
"UDP datagrams in raw Ethernet frames, spread over receive queues.\n"
"\n"
"  -s              receive; else send\n"
"  -d DEVICE       RDMA device (the first)\n"
"  -m MAC          address of the receiver (02:00:00:00:00:01)\n"
"  -c PACKETS      how many (1000)\n"
"  -f FLOWS        source ports of the sender (64)\n"
"  -q QUEUES       of the receiver, a power of two (4)\n"
"  -h, --help      print this and exit\n";

static void options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "sd:m:c:f:q:h", longs, NULL)) != -1) {
		switch (c) {
		case 's': o.server = true; break;
		case 'd': o.device = optarg; break;
		case 'm': address(optarg); break;
		case 'c': o.packets = number(optarg, 1u << 30, c); break;
		case 'f': o.flows = number(optarg, 60000, c); break;
		case 'q': o.queues = number(optarg, MOST, c); break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs("rss: see --help\n", stderr); exit(2);
		}
	}
	if (optind == argc)
		return;
	fprintf(stderr, "rss: '%s': no operand is expected; see --help\n",
		argv[optind]);
	exit(2);
}

int main(int argc, char **argv)
{
	options(argc, argv);
	if (rdmamsg_open(&ctx, NULL)) {
		fprintf(stderr, "rss: %s\n", rdmamsg_error());
		return 1;
	}
	run();
	rdmamsg_close(ctx);
	free(memory);
	return failed;
}
