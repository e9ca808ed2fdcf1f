/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device of a case, the objects created on it, and their destruction in
 * reverse order.
 */
#include "device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#define KEPT	512

const struct verbs_api *v;
struct ibv_context *ctx;
struct ibv_pd *pd;
uint8_t port_num = 1;
struct ibv_port_attr port;
union ibv_gid gid;
int gid_index;
struct end end[2];
struct how how;

static struct kept {
	void *object;
	int (*undo)(void *object);
} kept[KEPT];
static int keeping;

/* ---- checks ----------------------------------------------------------- */

void fail(const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (%s:%d)\n", base ? base + 1 : file, line);
	(void)fflush(stdout);
	_exit(1);
}

void skip_rest(const char *why)
{
	puts(why);
	(void)fflush(stdout);
	_exit(SKIPPED);
}

void check_is_at(const char *file, int line, const char *what, long long is,
		 long long want)
{
	if (is != want)
		fail(file, line, "%s: %lld, not %lld", what, is, want);
}

/* ---- kept objects ----------------------------------------------------- */

void keep(void *object, int (*undo)(void *object))
{
	check(object);
	check(keeping < KEPT);
	kept[keeping++] = (struct kept){ object, undo };
}

static void undo(int i)
{
	if (kept[i].object)
		check_call(kept[i].undo(kept[i].object), 0);
	kept[i].object = NULL;
}

void drop(void *object)
{
	int i = keeping;

	while (i-- && kept[i].object != object)
		;
	check(i >= 0);
	undo(i);
}

static int undo_mem(void *p)
{
	free(p);
	return 0;
}

static int undo_pd(void *p)
{
	return v->dealloc_pd(p);
}

static int undo_mr(void *p)
{
	return v->dereg_mr(p);
}

static int undo_mw(void *p)
{
	return ibv_dealloc_mw(p);
}

static int undo_cq(void *p)
{
	return v->destroy_cq(p);
}

static int undo_channel(void *p)
{
	return v->destroy_comp_channel(p);
}

static int undo_srq(void *p)
{
	return v->destroy_srq(p);
}

static int undo_ah(void *p)
{
	return v->destroy_ah(p);
}

static int undo_qp(void *p)
{
	return v->destroy_qp(p);
}

#define KEEP(kind, make) \
	do { \
		errno = 0; \
		p = (make); \
		if (!p) \
			fail(__FILE__, __LINE__, "%s: %s", #make, \
			     strerror(errno)); \
		keep(p, undo_##kind); \
	} while (0)

void *new_mem(size_t len)
{
	void *p = NULL;

	check(!posix_memalign(&p, 4096, len));
	memset(p, 0, len);
	keep(p, undo_mem);
	return p;
}

struct ibv_pd *new_pd(void)
{
	struct ibv_pd *p;

	KEEP(pd, v->alloc_pd(ctx));
	return p;
}

struct ibv_mr *new_mr(struct ibv_pd *of, void *addr, size_t len, int access)
{
	struct ibv_mr *p;

	KEEP(mr, v->reg_mr(of, addr, len, access));
	return p;
}

struct ibv_mw *new_mw(enum ibv_mw_type type)
{
	struct ibv_mw *p;

	KEEP(mw, ibv_alloc_mw(pd, type));
	return p;
}

struct ibv_comp_channel *new_channel(void)
{
	struct ibv_comp_channel *p;

	KEEP(channel, v->create_comp_channel(ctx));
	return p;
}

struct ibv_cq *new_cq(int cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *p;

	KEEP(cq, v->create_cq(ctx, cqe, NULL, channel, 0));
	return p;
}

struct ibv_srq *new_srq(uint32_t wr)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = 2 },
	};
	struct ibv_srq *p;

	KEEP(srq, v->create_srq(pd, &attr));
	return p;
}

struct ibv_ah *new_ah(const union ibv_gid *to)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *p;

	address(&attr, to);
	KEEP(ah, v->create_ah(pd, &attr));
	return p;
}

struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_cq *cq,
		      struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .srq = srq,
		.cap = how.cap, .sq_sig_all = how.sig_all,
	};
	struct ibv_qp *p;

	KEEP(qp, v->create_qp(pd, &attr));
	return p;
}

/* ---- the device ------------------------------------------------------- */

/* Returns true for a GID of RoCE v2 that is an IPv4 address. */
static bool is_ipv4(int index)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry e;

	if (v->query_gid_ex(ctx, port_num, (uint32_t)index, &e))
		return false;
	gid = e.gid;
	return e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
	       !memcmp(gid.raw, mapped, sizeof(mapped));
}

/*
 * Prefers an IPv4 GID, because IPv4 is routed everywhere. A card has the same
 * GID for RoCE v1, too.
 */
static void choose_gid(void)
{
	for (int i = 0; i < port.gid_tbl_len && i < 64; i++)
		if (is_ipv4(i)) {
			gid_index = i;
			return;
		}
	check_call(v->query_gid(ctx, port_num, 0, &gid), 0);
}

void device_open(const char *name)
{
	int n = 0, i = 0;
	struct ibv_device **list = v->get_device_list(&n);

	while (list && i < n && strcmp(v->get_device_name(list[i]), name))
		i++;
	if (!list || i == n)
		fail(__FILE__, __LINE__, "no device %s", name);
	ctx = v->open_device(list[i]);
	v->free_device_list(list);
	check(ctx);
	check_call(v->query_port(ctx, port_num, &port), 0);
	choose_gid();
	pd = new_pd();
	/* 34 ms until the retries are used up, or half a second */
	how = (struct how){
		.type = IBV_QPT_RC, .cqe = 256, .cap = { 64, 64, 4, 4, 64 },
		.mr_access = IBV_ACCESS_LOCAL_WRITE | REMOTE,
		.qp_access = REMOTE, .retry_cnt = 7,
		.timeout = strstr(written_texts, NOT_REACHED) ? 10 : 14,
		.rnr_retry = 7, .rnr_timer = 1, .depth = 4,
	};
}

void device_close(void)
{
	while (keeping)
		undo(--keeping);
	check_call(v->close_device(ctx), 0);
}

/* ---- its address ------------------------------------------------------ */

/*
 * Returns true if the GID is made of the hardware address: a MAC address on
 * iWARP, the end of the 20 bytes of IPoIB on InfiniBand.
 */
static bool is_gid(const struct sockaddr_ll *ll)
{
	return (ll->sll_halen == 6 && !memcmp(ll->sll_addr, gid.raw, 6)) ||
	       (ll->sll_halen == 20 &&
		!memcmp((const uint8_t *)ll +
			offsetof(struct sockaddr_ll, sll_addr) + 4,
			gid.raw, 16));
}

/* Returns the interface that the GID belongs to, or NULL. */
static const char *gid_interface(const struct ifaddrs *all)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const struct sockaddr_ll *ll = (const void *)i->ifa_addr;

		if (ll && ll->sll_family == AF_PACKET && is_gid(ll))
			return i->ifa_name;
	}
	return NULL;
}

static in_addr_t interface_address(void)
{
	in_addr_t addr = htonl(INADDR_LOOPBACK);
	struct ifaddrs *all;
	const char *name;

	check(!getifaddrs(&all));
	name = gid_interface(all);
	for (struct ifaddrs *i = name ? all : NULL; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    !strcmp(i->ifa_name, name))
			addr = ((struct sockaddr_in *)(void *)i->ifa_addr)
				       ->sin_addr.s_addr;
	freeifaddrs(all);
	return addr;
}

struct sockaddr_in own_address(uint16_t at)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_port = htons(at),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	if (is_iwarp() || port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		sin.sin_addr.s_addr = interface_address();
	else
		memcpy(&sin.sin_addr, gid.raw + 12, 4);
	return sin;
}

/* ---- two queue pairs -------------------------------------------------- */

void address(struct ibv_ah_attr *attr, const union ibv_gid *to)
{
	*attr = (struct ibv_ah_attr){
		.is_global = 1, .port_num = port_num, .dlid = port.lid,
		.grh = {
			.dgid = to ? *to : gid, .hop_limit = 64,
			.sgid_index = (uint8_t)gid_index,
		},
	};
	/* on InfiniBand, a group needs a multicast LID */
	if (to && port.lid)
		attr->dlid = 0xc001;
}

struct ibv_qp_attr step_attr(enum ibv_qp_state to, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.qp_state = to, .port_num = port_num, .qp_access_flags = how.qp_access,
		.qkey = QKEY, .path_mtu = port.active_mtu,
		.dest_qp_num = peer, .rq_psn = 0xfffffe, .sq_psn = 0xfffffe,
		.max_dest_rd_atomic = how.depth, .max_rd_atomic = how.depth,
		.min_rnr_timer = how.rnr_timer, .timeout = how.timeout,
		.retry_cnt = how.retry_cnt, .rnr_retry = how.rnr_retry,
	};

	address(&a.ah_attr, NULL);
	return a;
}

void step(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	struct ibv_qp_attr a = step_attr(to, peer);

	check_call(v->modify_qp(qp, &a, qp_step_mask(qp->qp_type, to)), 0);
}

void walk(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = step_attr(IBV_QPS_INIT, peer);

	check_call(qp_walk(v->modify_qp, qp, &a, IBV_QPS_RTS), 0);
}

void enter(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	check_call(v->modify_qp(qp, &a, IBV_QP_STATE), 0);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	check_call(v->query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

/* Returns true if the state of a queue pair is the one it was set to. */
static bool tells_states(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC, new_cq(8, NULL), NULL);

	step(qp, IBV_QPS_INIT, 0);
	return state_of(qp) == IBV_QPS_INIT;
}

void check_state_at(const char *file, int line, const char *what,
		    struct ibv_qp *qp, enum ibv_qp_state want)
{
	enum ibv_qp_state is = state_of(qp);

	if (is != want && tells_states())
		fail(file, line, "state_of(%s): %d, not %d", what, (int)is,
		     (int)want);
}

void ends(void)
{
	for (int i = 0; i < 2; i++) {
		struct end *e = &end[i];
		struct ibv_qp_init_attr attr = {
			.qp_type = how.type, .cap = how.cap,
			.srq = i ? how.srq : NULL, .sq_sig_all = how.sig_all,
		};
		struct ibv_qp *p;

		e->mem = new_mem(MEM);
		e->mr = new_mr(pd, e->mem, MEM, how.mr_access);
		e->scq = attr.send_cq = new_cq(how.cqe, how.channel);
		e->rcq = attr.recv_cq = new_cq(how.cqe, how.channel);
		KEEP(qp, v->create_qp(pd, &attr));
		e->qp = p;
		e->cap = attr.cap;
	}
}

/* ---- connected by the CM, on iWARP devices ----------------------------- */

static int undo_cm_channel(void *ch)
{
	v->destroy_event_channel(ch);
	return 0;
}

static int undo_id(void *id)
{
	return v->destroy_id(id);
}

bool is_iwarp(void)
{
	return ctx->device->transport_type == IBV_TRANSPORT_IWARP;
}

static struct rdma_cm_id *await(struct rdma_event_channel *ch,
				enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(readable(ch->fd, 30000));
	check_call(v->get_cm_event(ch, &event), 0);
	if (event->event != type)
		fail(__FILE__, __LINE__, "%s, not %s",
		     rdma_event_str(event->event), rdma_event_str(type));
	id = event->id;
	check_call(v->ack_cm_event(event), 0);
	return id;
}

static struct rdma_cm_id *id_on(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	check_call(v->create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	keep(id, undo_id);
	return id;
}

static void init_by(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	check_call(v->init_qp_attr(id, &a, &mask), 0);
	a.qp_access_flags = how.qp_access;
	check_call(v->modify_qp(qp, &a, mask), 0);
}

static void connect_by_cm(void)
{
	struct sockaddr_in at = own_address(0);
	struct rdma_conn_param p = {
		.responder_resources = how.depth, .initiator_depth = how.depth,
	};
	struct rdma_event_channel *asks = v->create_event_channel(), *asked;
	struct rdma_cm_id *id, *l;

	keep(asks, undo_cm_channel);
	asked = v->create_event_channel();
	keep(asked, undo_cm_channel);
	l = id_on(asked);
	check_call(v->bind_addr(l, (struct sockaddr *)&at), 0);
	check_call(v->listen(l, 4), 0);
	at.sin_port = v->get_src_port(l);
	id = id_on(asks);
	check_call(v->resolve_addr(id, NULL, (struct sockaddr *)&at, 2000), 0);
	(void)await(asks, RDMA_CM_EVENT_ADDR_RESOLVED);
	check_call(v->resolve_route(id, 2000), 0);
	(void)await(asks, RDMA_CM_EVENT_ROUTE_RESOLVED);
	init_by(id, end[0].qp);
	p.qp_num = end[0].qp->qp_num;
	check_call(v->connect(id, &p), 0);
	id = await(asked, RDMA_CM_EVENT_CONNECT_REQUEST);
	keep(id, undo_id);
	init_by(id, end[1].qp);
	p.qp_num = end[1].qp->qp_num;
	check_call(v->accept(id, &p), 0);
	(void)await(asked, RDMA_CM_EVENT_ESTABLISHED);
	(void)await(asks, RDMA_CM_EVENT_ESTABLISHED);
}

void pair(void)
{
	ends();
	if (is_iwarp()) {
		connect_by_cm();
		return;
	}
	walk(end[0].qp, end[1].qp->qp_num);
	if (!how.last_down)
		walk(end[1].qp, end[0].qp->qp_num);
}
