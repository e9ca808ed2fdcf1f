/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A publisher and its subscribers: over rdmamsg's groups, over multicast by
 * raw verbs, or over UDP multicast sockets. 'lat' sends a message to one
 * subscriber, which publishes it back in a second group, and prints half of the
 * round trip. 'rate' sends messages as fast as they go. The publisher is pinned
 * on the second core, the subscribers on the first one. Prints a JSON object.
 */
#define _GNU_SOURCE	/* for the affinity of processes */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/group.h>
#include <rdmamsg/rdmamsg.h>

#define SUBSCRIBERS_MAX	64
#define PIECE		32768u		/* largest datagram of a socket */
#define SOCKET_BUFFER	(8 << 20)
#define SILENCE		300000000u /* ns; then a subscriber expects no more */
#define WARM_UP		200u		/* messages that are not timed */

/* The first group carries messages, the second one the echoes. */
static const char *const group_names[2] = { "239.77.7.1", "239.77.7.2" };
#define UDP_PORT	7770

static enum { RDMAMSG, VERBS, UDP } over;
static bool is_lat, polls;
static const char *source;
static size_t size;
static unsigned long count;
static int subscribers;
static uint8_t *data;

/* The report of a subscriber when it ends. */
struct result {
	uint64_t messages, datagrams, dropped;
	uint64_t first, last;		/* ns, all processes have one clock */
};

static struct result got;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void message_came(void)
{
	if (got.messages++ && !(got.messages & 15))
		got.last = now_ns();
	else if (got.messages == 1)
		got.first = got.last = now_ns();
}

/* ---- rdmamsg ---------------------------------------------------------- */

static struct rdmamsg *ctx;
static struct rdmamsg_group *groups[2];
static int joined;

static void on_joined(struct rdmamsg_group *g)
{
	(void)g;
	joined++;
}

static void on_message(struct rdmamsg_group *g,
		       const struct rdmamsg_group_message *msg)
{
	(void)g;
	if (msg->len == size)
		message_came();
}

static void on_closed(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	(void)g;
	errx(1, "a group has ended: %s", why->text);
}

static void rdma_join(int which, bool publishes)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .source = source,
		.flags = publishes ? RDMAMSG_GROUP_PUBLISH :
				     RDMAMSG_GROUP_SUBSCRIBE,
		.rate = RDMAMSG_NONE, .recv_depth = 8192,
	};
	int wanted = joined + 1;

	if (rdmamsg_group_join(ctx, group_names[which], &opts, &groups[which]))
		errx(1, "%s", rdmamsg_error());
	while (joined < wanted)
		if (rdmamsg_wait(ctx, 10000) < 0)
			errx(1, "%s", rdmamsg_error());
}

static int rdma_send(struct rdmamsg_group *g)
{
	int ret = rdmamsg_group_publish(g, data, size);

	if (ret && ret != -EAGAIN)
		errx(1, "%s", rdmamsg_error());
	return ret;
}

static void rdma_turn(int ms)
{
	if ((polls ? rdmamsg_fast_poll(ctx) : rdmamsg_wait(ctx, ms)) < 0)
		errx(1, "%s", rdmamsg_error());
}

/* ---- raw verbs -------------------------------------------------------- */

#define GRH		40u
#define BUFFER		(GRH + 4096u)
#define RECEIVES	2048u
#define SENDS		256u
#define SIGNALED	64u

/* A queue pair for each group, which all share a completion queue. */
struct raw {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	struct ibv_mr *mr;
	uint8_t *buffers;		/* the last ones are for sends */
	uint32_t sent, done;
};

static struct raw raws[2];
static struct ibv_cq *raw_cq;

static void raw_receive(struct raw *r, uint64_t which, uint32_t slot)
{
	struct ibv_sge sge = {
		(uintptr_t)(r->buffers + (size_t)slot * BUFFER), BUFFER,
		r->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = which << 32 | slot, .sg_list = &sge, .num_sge = 1,
	};

	if (ibv_post_recv(r->qp, &wr, &bad))
		err(1, "ibv_post_recv");
}

static void raw_qp(struct raw *r, int which, bool publishes)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = SENDS, .max_recv_wr = RECEIVES,
			.max_send_sge = 1, .max_recv_sge = 1,
			.max_inline_data = 64,
		},
	};
	size_t room = (size_t)(RECEIVES + SENDS) * BUFFER;

	if (!raw_cq)
		raw_cq = ibv_create_cq(r->id->verbs, 2 * (SENDS + RECEIVES),
				       NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = raw_cq;
	r->buffers = calloc(1, room);
	if (!raw_cq || !r->buffers || rdma_create_qp(r->id, NULL, &attr))
		err(1, "raw verbs");
	r->qp = r->id->qp;
	r->mr = ibv_reg_mr(r->id->pd, r->buffers, room, IBV_ACCESS_LOCAL_WRITE);
	if (!r->mr)
		err(1, "ibv_reg_mr");
	for (uint32_t i = 0; !publishes && i < RECEIVES; i++)
		raw_receive(r, (uint64_t)which, i);
	if (publishes)
		r->id->qp = NULL; /* librdmacm must not attach the queue pair */
}

static void raw_join(int which, bool publishes)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = publishes ?
			      RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER :
			      RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&to,
	};
	struct raw *r = &raws[which];
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	inet_pton(AF_INET, source, &from.sin_addr);
	inet_pton(AF_INET, group_names[which], &to.sin_addr);
	if (!channel || rdma_create_id(channel, &r->id, NULL, RDMA_PS_UDP) ||
	    rdma_resolve_addr(r->id, (struct sockaddr *)&from,
			      (struct sockaddr *)&to, 5000) ||
	    rdma_get_cm_event(channel, &event) || rdma_ack_cm_event(event))
		err(1, "address of a group");
	raw_qp(r, which, publishes);
	if (rdma_join_multicast_ex(r->id, &attr, NULL) ||
	    rdma_get_cm_event(channel, &event) ||
	    event->event != RDMA_CM_EVENT_MULTICAST_JOIN)
		err(1, "rdma_join_multicast_ex");
	r->ah = ibv_create_ah(r->qp->pd, &event->param.ud.ah_attr);
	r->qpn = event->param.ud.qp_num;
	r->qkey = event->param.ud.qkey;
	rdma_ack_cm_event(event);
	if (!r->ah)
		err(1, "ibv_create_ah");
}

static int raw_send(int which)
{
	struct raw *r = &raws[which];
	uint8_t *buf = r->buffers +
		       (size_t)(RECEIVES + r->sent % SENDS) * BUFFER;
	struct ibv_sge sge = { (uintptr_t)buf, (uint32_t)size, r->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = UINT64_MAX - (uint64_t)which, .sg_list = &sge,
		.num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { r->ah, r->qpn, r->qkey },
	};

	if (r->sent - r->done >= SENDS)
		return -EAGAIN;
	if (r->sent % SIGNALED == SIGNALED - 1)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (size <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	if (ibv_post_send(r->qp, &wr, &bad))
		err(1, "ibv_post_send");
	r->sent++;
	return 0;
}

static void raw_turn(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(raw_cq, 16, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			errx(1, "%s", ibv_wc_status_str(wc[i].status));
		if (wc[i].wr_id >= UINT64_MAX - 1) {
			raws[UINT64_MAX - wc[i].wr_id].done += SIGNALED;
			continue;
		}
		message_came();
		raw_receive(&raws[wc[i].wr_id >> 32], wc[i].wr_id >> 32,
			    (uint32_t)wc[i].wr_id);
	}
}

/* ---- sockets ---------------------------------------------------------- */

struct udp_header {
	uint32_t number, pieces, index;
};

static int sockets[2] = { -1, -1 };
static uint32_t udp_number;
static uint8_t udp_in[sizeof(struct udp_header) + PIECE];

static struct sockaddr_in udp_address(int which)
{
	struct sockaddr_in to = { .sin_family = AF_INET };

	to.sin_port = htons((uint16_t)(UDP_PORT + which));
	inet_pton(AF_INET, group_names[which], &to.sin_addr);
	return to;
}

static void udp_join(int which, bool publishes)
{
	struct sockaddr_in group = udp_address(which);
	struct ip_mreq member = { .imr_multiaddr = group.sin_addr };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int on = 1, room = SOCKET_BUFFER, ret = s;

	inet_pton(AF_INET, source, &member.imr_interface);
	if (ret >= 0 && publishes) {
		ret = setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF,
				 &member.imr_interface,
				 sizeof(member.imr_interface));
		if (!ret)
			ret = connect(s, (struct sockaddr *)&group,
				      sizeof(group));
	} else if (ret >= 0) {
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		/* root may exceed the limit of the system */
		if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room,
			       sizeof(room)))
			setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room,
				   sizeof(room));
		ret = bind(s, (struct sockaddr *)&group, sizeof(group));
		if (!ret)
			ret = setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP,
					 &member, sizeof(member));
	}
	if (ret < 0)
		err(1, "UDP socket for %s", group_names[which]);
	sockets[which] = s;
}

static int udp_send(int which)
{
	struct udp_header h = { .number = udp_number++ };
	size_t at = 0;

	h.pieces = size ? (uint32_t)((size + PIECE - 1) / PIECE) : 1;
	for (; h.index < h.pieces; h.index++, at += PIECE) {
		struct iovec iov[2] = {
			{ &h, sizeof(h) },
			{ data + at, size - at < PIECE ? size - at : PIECE },
		};
		struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

		if (sendmsg(sockets[which], &m, 0) < 0 && errno != ENOBUFS)
			err(1, "sendmsg");
	}
	return 0;
}

/* A message is complete if its pieces arrive one after the other. */
static void udp_turn(int which, int ms)
{
	static struct udp_header due;
	struct pollfd fd = { sockets[which], POLLIN, 0 };
	struct udp_header h;
	ssize_t n;

	if (!polls && poll(&fd, 1, ms) <= 0)
		return;
	do {
		n = recv(sockets[which], udp_in, sizeof(udp_in), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(h))
			return;
		memcpy(&h, udp_in, sizeof(h));
		if (h.index && (h.number != due.number || h.index != due.index))
			continue;
		due = h;
		due.index++;
		if ((size_t)h.index * PIECE > size)
			continue;
		memcpy(data + (size_t)h.index * PIECE, udp_in + sizeof(h),
		       (size_t)n - sizeof(h));
		if (due.index == h.pieces)
			message_came();
	} while (!is_lat);
}

/* ---- all three transports --------------------------------------------- */

static void join(int which, bool publishes)
{
	if (over != RDMAMSG) {
		(over == UDP ? udp_join : raw_join)(which, publishes);
		return;
	}
	if (!ctx && rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	rdma_join(which, publishes);
}

static int send_one(int which)
{
	return over == UDP ? udp_send(which) :
	       over == VERBS ? raw_send(which) : rdma_send(groups[which]);
}

static void turn(int which, int ms)
{
	if (over == UDP)
		udp_turn(which, ms);
	else if (over == VERBS)
		raw_turn();
	else
		rdma_turn(ms);
}

static bool is_closed(int fd)
{
	struct pollfd p = { fd, 0, 0 };

	return poll(&p, 1, 0) > 0;
}

static void note_drops(void)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	if (over != RDMAMSG || rdmamsg_group_get_stats(groups[0], &st))
		return;
	got.datagrams = st.received_datagrams;
	got.dropped = st.lost_messages;
}

static void answer(uint64_t *answered)
{
	while (*answered < got.messages)
		if (!send_one(1))
			++*answered;
}

/* Ends when the parent has closed 'down' and no more messages arrive. */
static void subscriber(int up, int down)
{
	uint64_t answered = 0, seen = 0, since = now_ns();

	join(0, false);
	if (is_lat)
		join(1, true);
	if (write(up, "R", 1) != 1)
		err(1, "pipe");
	for (uint32_t turns = 1; ; turns++) {
		turn(0, 50);
		if (is_lat)
			answer(&answered);
		if (polls && turns % 1024)
			continue;
		if (got.messages != seen)
			since = now_ns();
		seen = got.messages;
		if (now_ns() - since > SILENCE && is_closed(down))
			break;
	}
	note_drops();
	if (write(up, &got, sizeof(got)) != sizeof(got))
		err(1, "pipe");
	_exit(0);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void publish_lat(void)
{
	uint64_t *samples = calloc(count + WARM_UP, sizeof(*samples));
	unsigned long lost = 0;

	if (!samples)
		err(1, "samples");
	for (unsigned long i = 0; i < count + WARM_UP; i++) {
		uint64_t began = now_ns(), before = got.messages;

		while (send_one(0))
			turn(1, 1);
		while (got.messages == before &&
		       now_ns() - began < 10ull * SILENCE)
			turn(1, 100);
		lost += got.messages == before;
		samples[i] = now_ns() - began;
	}
	qsort(samples + WARM_UP, count, sizeof(*samples), by_value);
	printf("{\"usec_p50\": %.3f, \"usec_p99\": %.3f, \"lost\": %lu}\n",
	       (double)samples[WARM_UP + count / 2] / 2000,
	       (double)samples[WARM_UP + count * 99 / 100] / 2000, lost);
	free(samples);
}

static double publish_rate(void)
{
	uint64_t began = now_ns();

	for (unsigned long i = 0; i < count; i++)
		while (send_one(0))
			turn(0, 1);
	return (double)count * 1e9 / (double)(now_ns() - began);
}

static void report_rate(double sent, const int *up)
{
	double slowest = 0;
	uint64_t least = UINT64_MAX;
	struct result r;

	for (int i = 0; i < subscribers; i++) {
		double rate;

		if (read(up[i], &r, sizeof(r)) != sizeof(r))
			errx(1, "a subscriber has ended");
		rate = r.last > r.first ? (double)r.messages * 1e9 /
			(double)(r.last - r.first) : 0;
		if (!i || rate < slowest)
			slowest = rate;
		if (r.messages < least)
			least = r.messages;
	}
	printf("{\"sent_per_s\": %.1f, \"per_s\": %.1f, \"mb_per_s\": %.3f, "
	       "\"lost\": %lu}\n", sent, slowest,
	       slowest * (double)size / 1e6,
	       count - (unsigned long)least);
}

static void run(void)
{
	int up[SUBSCRIBERS_MAX], down[2];
	double sent;
	char c;

	if (pipe2(down, O_CLOEXEC))
		err(1, "pipe");
	for (int i = 0; i < subscribers; i++) {
		int fds[2];
		pid_t pid;

		if (pipe2(fds, O_CLOEXEC) || (pid = fork()) < 0)
			err(1, "subscriber");
		if (!pid) {
			close(down[0]);
			pin(0);
			subscriber(fds[1], down[1]);
		}
		close(fds[1]);
		up[i] = fds[0];
	}
	pin(1);
	join(0, true);
	if (is_lat)
		join(1, false);
	for (int i = 0; i < subscribers; i++)
		if (read(up[i], &c, 1) != 1)
			errx(1, "a subscriber has ended");
	if (is_lat) {
		publish_lat();
	} else {
		sent = publish_rate();
		close(down[0]);
		report_rate(sent, up);
	}
	close(down[0]);
	while (wait(NULL) > 0)
		;
}

static unsigned long number(const char *text, unsigned long least,
			    unsigned long most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || n < least || n > most)
		errx(2, "'%s' is no number from %lu to %lu", text, least, most);
	return n;
}

int main(int argc, char **argv)
{
	if (argc != 8)
		errx(2, "usage: topic rdmamsg|verbs|udp lat|rate SIZE COUNT "
		     "SUBSCRIBERS poll|event ADDRESS");
	over = !strcmp(argv[1], "udp") ? UDP :
	       !strcmp(argv[1], "verbs") ? VERBS : RDMAMSG;
	is_lat = !strcmp(argv[2], "lat");
	size = number(argv[3], 0, 1 << 20);
	count = number(argv[4], 1, 100000000);
	subscribers = (int)number(argv[5], 1, is_lat ? 1 : SUBSCRIBERS_MAX);
	polls = !strcmp(argv[6], "poll");
	source = argv[7];
	data = calloc(1, size + PIECE);
	if (!data)
		err(1, "%zu bytes", size);
	run();
	return 0;
}
