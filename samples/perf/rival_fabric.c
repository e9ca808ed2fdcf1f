/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: libfabric by a driver of its own, for which its headers are needed
 * when rdmamsg is built. The library is loaded if it is installed. The remote CQ
 * data of a message is its enum rival_kind.
 */
#include "config.h"
#include "rival.h"

#ifdef HAVE_LIBFABRIC
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define RING		32u	/* receives that are posted */
#define WINDOW		32u	/* unfinished sends */
#define ENTRIES		16
#define API_VERSION		FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)

static struct {
	__typeof__(fi_getinfo) *getinfo;
	__typeof__(fi_dupinfo) *dupinfo;
	__typeof__(fi_fabric) *fabric;
} fi;

struct slot {
	struct fi_context context;	/* first: the operation's context */
	void *buf;
	enum rival_kind kind;
	bool done;
};

struct fabric {
	struct fi_info *info;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
	size_t inject;
	size_t size;
	struct slot ring[RING];
	struct fi_context sends[WINDOW];
	unsigned int next;	/* the slot of the next message */
	unsigned int sent;
	unsigned int flying;	/* unfinished sends */
	bool failed;
};

static bool load(void)
{
	const struct rival_symbol symbols[] = {
		{ "fi_getinfo", &fi.getinfo },
		{ "fi_dupinfo", &fi.dupinfo },
		{ "fi_fabric", &fi.fabric },
		{ NULL, NULL },
	};

	return rival_load("libfabric.so.1", symbols);
}

/* ---- messages --------------------------------------------------------- */

static void progress(struct fabric *f)
{
	struct fi_cq_data_entry done[ENTRIES];
	ssize_t n = fi_cq_read(f->cq, done, ENTRIES);

	if (n < 0 && n != -FI_EAGAIN)
		f->failed = true;
	for (ssize_t i = 0; i < n; i++) {
		struct slot *s = done[i].op_context;

		if (!(done[i].flags & FI_RECV)) {
			f->flying--;
			continue;
		}
		s->kind = done[i].len == f->size ?
			  (enum rival_kind)done[i].data : RIVAL_STOP;
		s->done = true;
	}
}

static ssize_t try_send(struct fabric *f, const uint8_t *msg, size_t size)
{
	if (size <= f->inject)
		return fi_injectdata(f->ep, msg, size, msg[0], f->peer);
	return fi_senddata(f->ep, msg, size, NULL, msg[0], f->peer,
			   &f->sends[f->sent % WINDOW]);
}

static int fabric_send(void *conn, const uint8_t *msg, size_t size, bool more)
{
	struct fabric *f = conn;
	ssize_t ret;

	while ((ret = try_send(f, msg, size)) == -FI_EAGAIN && !f->failed)
		progress(f);
	if (ret)
		return -1;
	f->sent++;
	f->flying += size > f->inject;
	while (f->flying >= (more ? WINDOW : 1) && !f->failed)
		progress(f);
	return f->failed ? -1 : 0;
}

static int post(struct fabric *f, struct slot *s)
{
	ssize_t ret;

	s->done = false;
	while ((ret = fi_recv(f->ep, s->buf, f->size, NULL, FI_ADDR_UNSPEC,
			      &s->context)) == -FI_EAGAIN && !f->failed)
		progress(f);
	return ret ? -1 : 0;
}

static enum rival_kind fabric_recv(void *conn, size_t size)
{
	struct fabric *f = conn;
	struct slot *s = &f->ring[f->next];
	enum rival_kind kind;

	(void)size;
	while (!s->done)
		if (f->failed)
			return RIVAL_STOP;
		else
			progress(f);
	kind = s->kind;
	if (post(f, s))
		return RIVAL_STOP;
	f->next = (f->next + 1) % RING;
	return kind;
}

/* ---- connections ------------------------------------------------------ */

static int find(struct fabric *f)
{
	struct fi_info *hints = fi.dupinfo(NULL);

	if (!hints)
		return -1;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup("shm");
	/* the end of the process frees the hints */
	return fi.getinfo(API_VERSION, NULL, NULL, 0, hints, &f->info);
}

static int make_ep(struct fabric *f)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr av = { .type = FI_AV_UNSPEC };
	struct fid_fabric *fabric;

	return fi.fabric(f->info->fabric_attr, &fabric, NULL) ||
	       fi_domain(fabric, f->info, &f->domain, NULL) ||
	       fi_av_open(f->domain, &av, &f->av, NULL) ||
	       fi_cq_open(f->domain, &cq, &f->cq, NULL) ||
	       fi_endpoint(f->domain, f->info, &f->ep, NULL) ||
	       fi_ep_bind(f->ep, &f->av->fid, 0) ||
	       fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV) ||
	       fi_enable(f->ep) ? -1 : 0;
}

static int connect_ep(struct fabric *f, int fd)
{
	uint8_t own[RIVAL_ADDRESS_MAX], peer[RIVAL_ADDRESS_MAX];
	size_t len = sizeof(own), n;

	return fi_getname(&f->ep->fid, own, &len) ||
	       rival_swap(fd, own, len, peer, &n) ||
	       fi_av_insert(f->av, peer, 1, &f->peer, 0, NULL) != 1 ? -1 : 0;
}

static int fill_ring(struct fabric *f)
{
	for (unsigned int i = 0; i < RING; i++) {
		f->ring[i].buf = malloc(f->size);
		if (!f->ring[i].buf || post(f, &f->ring[i]))
			return -1;
	}
	return 0;
}

/* Returns NULL on failure. The end of the process closes all. */
static void *open_fabric(const struct rival_run *run, bool server)
{
	struct fabric *f = calloc(1, sizeof(*f));
	int fd = rival_meet(run, server);

	if (!f || fd < 0 || find(f) || make_ep(f))
		return NULL;
	f->size = run->size;
	f->inject = f->info->tx_attr->inject_size;
	return fill_ring(f) || connect_ep(f, fd) ? NULL : f;
}

static const struct rival_ops ops = {
	.send = fabric_send, .recv = fabric_recv, .open = open_fabric,
};

const struct rival rival_fabric[] = {
	{ .name = "libfabric",
	  .flags = "shm, rdm, fi_injectdata and fi_senddata, 32 receives posted",
	  .figures = { true, true, true }, .listens = true, .ops = &ops, .load = load,
	  .there = rival_loads, .serve = rival_server, .client = rival_client },
	{ .name = NULL },
};
#else
const struct rival rival_fabric[] = {
	{ .name = "libfabric",
	  .absent = "has no driver: built without its headers, libfabric-dev" },
	{ .name = NULL },
};
#endif
