/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: crash [ROUNDS [SEED]]
 * The program kills one of two processes of a fabric at random points, from its
 * start to full load, again and again. The victim connects and listens in turn.
 * The survivor works with the next victim. At the end no descriptor, thread,
 * mapping or name is left.
 */
#include "soft/soft.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE		(128u << 10)
#define DEPTH		16
#define RECVS		64
#define POLITE		25	/* in each 25th round no victim dies early */
#define ENOUGH		500	/* completions of such a round */
#define BOUND_MS	60000
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct memory {				/* private data */
	uint64_t addr;
	uint32_t rkey, pad;
};

/* One end of the connection, and its objects. */
struct end {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;		/* NULL: no connection */
	struct ibv_qp *qp;
	struct memory peer;
	bool connected, over;
	unsigned int out, posted, done, broken;
};

static char fabric[64];

static void die(const char *what)
{
	fprintf(stderr, "crash: %s (errno %d)\n", what, errno);
	exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

/* ---- the resources of an end ------------------------------------------ */

static void open_end(struct end *e)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	memset(e, 0, sizeof(*e));
	e->verbs = soft_open_device(list[0]);
	soft_free_device_list(list);
	must(e->verbs, "open_device");
	e->pd = soft_alloc_pd(e->verbs);
	e->cq = soft_create_cq(e->verbs, 4 * RECVS, NULL, NULL, 0);
	e->mem = calloc(2, SIZE);
	e->mr = soft_reg_mr(e->pd, e->mem, 2 * SIZE, ACCESS);
	e->ch = soft_cma_create_event_channel();
	must(e->pd && e->cq && e->mr && e->ch, "objects");
	must(!fcntl(e->ch->fd, F_SETFL, O_NONBLOCK), "fcntl");
}

static void close_end(struct end *e)
{
	if (e->listener)
		must(!soft_cma_destroy_id(e->listener), "destroy_id");
	soft_cma_destroy_event_channel(e->ch);
	must(!soft_dereg_mr(e->mr), "dereg_mr");
	must(!soft_destroy_cq(e->cq), "destroy_cq");
	must(!soft_dealloc_pd(e->pd), "dealloc_pd");
	must(!soft_close_device(e->verbs), "close_device");
	free(e->mem);
}

static struct sockaddr_in address(unsigned int port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};

	return a;
}

static void listen_at(struct end *e, unsigned int port)
{
	struct sockaddr_in a = address(port);

	must(!soft_cma_create_id(e->ch, &e->listener, NULL, RDMA_PS_TCP) &&
	     !soft_cma_bind_addr(e->listener, (struct sockaddr *)&a) &&
	     !soft_cma_listen(e->listener, 8), "listen");
}

/* ---- a connection ----------------------------------------------------- */

static void post_recv(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->mem, 256, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = RECVS, .sg_list = &sge, .num_sge = 1,
	};

	(void)ibv_post_recv(e->qp, &wr, &bad);
}

static void make_qp(struct end *e)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = { DEPTH, RECVS, 1, 1, 0 },
	};

	e->qp = soft_create_qp(e->pd, &a);
	must(e->qp, "create_qp");
}

static bool step(struct end *e, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };
	int mask;

	if (soft_cma_init_qp_attr(e->id, &a, &mask))
		return false;
	if (to == IBV_QPS_RTR)
		a.min_rnr_timer = 1;
	if (to == IBV_QPS_RTS) {
		a.timeout = 10;
		a.retry_cnt = 1;
		a.rnr_retry = 7;
	}
	if (to == IBV_QPS_INIT)
		a.qp_access_flags = ACCESS;
	return !soft_modify_qp(e->qp, &a, mask);
}

static bool walk(struct end *e)
{
	if (!step(e, IBV_QPS_INIT) || !step(e, IBV_QPS_RTR) ||
	    !step(e, IBV_QPS_RTS))
		return false;
	for (int i = 0; i < RECVS; i++)
		post_recv(e);
	return true;
}

static void drop(struct end *e)
{
	if (e->qp)
		must(!soft_destroy_qp(e->qp), "destroy_qp");
	if (e->id)
		must(!soft_cma_destroy_id(e->id), "destroy_id");
	e->qp = NULL;
	e->id = NULL;
	e->connected = e->over = false;
	e->out = 0;
}

static struct rdma_conn_param param(struct end *e, struct memory *m)
{
	struct rdma_conn_param p = {
		.private_data = m, .private_data_len = sizeof(*m),
		.responder_resources = 4, .initiator_depth = 4,
		.retry_count = 1, .rnr_retry_count = 7,
		.qp_num = e->qp->qp_num,
	};

	m->addr = (uintptr_t)e->mem + SIZE;
	m->rkey = e->mr->rkey;
	m->pad = 0;
	return p;
}

static void dial(struct end *e, unsigned int port)
{
	struct sockaddr_in a = address(port);

	must(!soft_cma_create_id(e->ch, &e->id, NULL, RDMA_PS_TCP) &&
	     !soft_cma_resolve_addr(e->id, NULL, (struct sockaddr *)&a, 1000),
	     "resolve_addr");
}

static void take_peer(struct end *e, const struct rdma_conn_param *p)
{
	if (p->private_data_len >= sizeof(e->peer))
		memcpy(&e->peer, p->private_data, sizeof(e->peer));
}

static void on_request(struct end *e, struct rdma_cm_id *id,
		       const struct rdma_conn_param *from)
{
	struct rdma_conn_param p;
	struct memory m;

	if (e->id) {
		(void)soft_cma_reject(id, NULL, 0);
		must(!soft_cma_destroy_id(id), "destroy_id");
		return;
	}
	e->id = id;
	take_peer(e, from);
	make_qp(e);
	p = param(e, &m);
	/* the sender of the request may have died by now */
	if (!walk(e) || soft_cma_accept(id, &p))
		drop(e);
}

static void on_event(struct end *e, enum rdma_cm_event_type type,
		     struct rdma_cm_id *id, const struct rdma_conn_param *from)
{
	struct rdma_conn_param p;
	struct memory m;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		on_request(e, id, from);
		return;
	}
	if (id != e->id)
		return;
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		must(!soft_cma_resolve_route(id, 1000), "resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		make_qp(e);
		p = param(e, &m);
		must(!soft_cma_connect(id, &p), "connect");
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		take_peer(e, from);
		if (walk(e) && !soft_cma_establish(id))
			e->connected = true;
		else
			e->over = true;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		e->connected = true;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		e->over = true;
	}
}

/* ---- load ------------------------------------------------------------- */

static void post(struct end *e)
{
	static const struct {
		enum ibv_wr_opcode op;
		uint32_t len;
	} kinds[] = {
		{ IBV_WR_SEND_WITH_IMM, 200 }, { IBV_WR_RDMA_WRITE, SIZE },
		{ IBV_WR_RDMA_READ, SIZE }, { IBV_WR_RDMA_WRITE, 64 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	};
	unsigned int kind = e->posted % 5;
	struct ibv_sge sge = { (uintptr_t)e->mem, kinds[kind].len,
			       e->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = kinds[kind].op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (kinds[kind].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = e->peer.addr;
		wr.wr.atomic.rkey = e->peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = e->peer.addr;
		wr.wr.rdma.rkey = e->peer.rkey;
	}
	if (ibv_post_send(e->qp, &wr, &bad))
		return;
	e->posted++;
	e->out++;
}

static void work(struct end *e, bool load)
{
	struct rdma_cm_event *ev;
	struct ibv_wc wc[16];
	int n;

	while (!soft_cma_get_cm_event(e->ch, &ev)) {
		struct rdma_cm_event copy = *ev;
		uint8_t data[256] = { 0 };

		if (copy.param.conn.private_data)
			memcpy(data, copy.param.conn.private_data,
			       copy.param.conn.private_data_len);
		copy.param.conn.private_data = data;
		(void)soft_cma_ack_cm_event(ev);
		on_event(e, copy.event, copy.id, &copy.param.conn);
	}
	while ((n = ibv_poll_cq(e->cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++) {
			if (!e->qp || wc[i].qp_num != e->qp->qp_num)
				continue;
			if (!wc[i].wr_id)
				e->out--;
			e->broken |= wc[i].status != IBV_WC_SUCCESS;
			if (wc[i].status != IBV_WC_SUCCESS)
				continue;
			e->done++;
			if (wc[i].wr_id)
				post_recv(e);
		}
	must(!n, "poll_cq");
	if (!load || !e->connected)
		(void)poll(NULL, 0, 1);
	else
		while (!e->over && !e->broken && e->out < DEPTH)
			post(e);
}

/* ---- the victim ------------------------------------------------------- */

static void victim(unsigned int port, bool active)
{
	struct end e;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(BOUND_MS / 1000);
	open_end(&e);
	if (!active)
		listen_at(&e, port);
	for (;;) {
		if (active && !e.id)
			dial(&e, port);
		work(&e, true);
		if (e.over || e.broken) {
			drop(&e);
			e.broken = 0;
		}
	}
}

static pid_t start_victim(unsigned int port, bool active)
{
	char text[16];
	pid_t pid;

	(void)snprintf(text, sizeof(text), "%u", port);
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		(void)execl("/proc/self/exe", "crash", "victim", text,
			    active ? "active" : "passive", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* ---- counting resources ----------------------------------------------- */

struct census {
	int fds, threads, maps, names;
};

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	must(d, path);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static int lines_with(const char *path, const char *what)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	int n = 0;

	must(f, path);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, what) != NULL;
	(void)fclose(f);
	return n;
}

static struct census count(void)
{
	return (struct census){
		.fds = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task"),
		.maps = lines_with("/proc/self/maps", "memfd:soft"),
		.names = lines_with("/proc/net/unix", fabric),
	};
}

/* The device's thread soon notices sockets of dead processes. */
static void expect_census(const struct census *want, const char *when)
{
	int64_t end = now_ms() + BOUND_MS;
	struct census c;

	do {
		c = count();
		if (!memcmp(&c, want, sizeof(c)))
			return;
		(void)poll(NULL, 0, 10);
	} while (now_ms() < end);
	fprintf(stderr, "crash: %s: fds %d threads %d maps %d names %d, "
		"not %d %d %d %d\n", when, c.fds, c.threads, c.maps, c.names,
		want->fds, want->threads, want->maps, want->names);
	exit(1);
}

/* ---- the survivor ----------------------------------------------------- */

static void one_round(struct end *e, unsigned int port, bool active,
		      bool polite, int64_t delay_us)
{
	struct timespec ts;
	int64_t bound = now_ms() + BOUND_MS, begun, at;
	pid_t pid = start_victim(port, active);
	int status = 0;

	e->done = e->posted = e->broken = 0;
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	begun = ts.tv_sec * 1000000ll + ts.tv_nsec / 1000;
	do {
		if (!active && !e->id)
			dial(e, port);
		work(e, true);
		if (e->over || e->broken) {
			drop(e);
			e->broken = 0;
		}
		(void)clock_gettime(CLOCK_MONOTONIC, &ts);
		at = ts.tv_sec * 1000000ll + ts.tv_nsec / 1000;
		must(now_ms() < bound, "the survivor does not work");
	} while (polite ? e->done < ENOUGH : at - begun < delay_us);
	must(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid, "kill");
	must(WIFSIGNALED(status), "the victim has ended by itself");
	/* all requests in flight must complete */
	while (e->id && (!e->over || e->out)) {
		work(e, false);
		must(now_ms() < bound, "a connection to the dead goes on");
	}
	drop(e);
}

static void *no_work(void *arg)
{
	return arg;
}

static void survive(unsigned int rounds, unsigned int seed)
{
	struct census before, open;
	pthread_t thread;
	struct end e;

	/* sanitizers start a thread of their own with the first one */
	must(!pthread_create(&thread, NULL, no_work, NULL) &&
	     !pthread_join(thread, NULL), "pthread_create");
	before = count();
	open_end(&e);
	listen_at(&e, 1);
	open = count();
	for (unsigned int i = 0; i < rounds; i++) {
		bool active = i % 2, polite = i % POLITE < 2;

		one_round(&e, active ? 1 : 2 + i, active, polite,
			  rand_r(&seed) % 15000);
	}
	expect_census(&open, "after the last");
	close_end(&e);
	expect_census(&before, "after closing");
	must(!before.names, "names of others");
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 500;
	unsigned int seed = argc > 2 ? (unsigned int)atoi(argv[2]) :
			    (unsigned int)now_ms();
	char name[32];
	int64_t begun = now_ms();

	if (argc == 4 && !strcmp(argv[1], "victim"))
		victim((unsigned int)atoi(argv[2]),
		       !strcmp(argv[3], "active"));
	(void)snprintf(name, sizeof(name), "crash-%d", getpid());
	(void)snprintf(fabric, sizeof(fabric), "/%s/", name);
	(void)setenv("RDMAMSG_SOFT_FABRIC", name, 1);
	printf("# %u rounds, seed %u\n", rounds, seed);
	(void)fflush(stdout);
	survive(rounds, seed);
	printf("ok %u killed, nothing left # %d ms\n", rounds,
	       (int)(now_ms() - begun));
	return 0;
}
