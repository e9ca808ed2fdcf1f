/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Facts about devices. The library knows its devices, the soft HCA included. Of
 * another root only /sys is there.
 */
#include "doctor.h"
#include "parse.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

#define IB	"/sys/class/infiniband"
#define ETHERNET	2			/* IBV_LINK_LAYER_ETHERNET */
#define ACTIVE		4			/* IBV_PORT_ACTIVE */
#define IWARP		1			/* IBV_TRANSPORT_IWARP */
#define RNIC		4			/* IBV_NODE_RNIC */
#define DEVICES		16			/* room at first */

static void *room(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		err(WRONG, "memory");
	return p;
}

static struct device *add_device(struct facts *f, const char *name)
{
	struct device *d = room(1, sizeof(*d)), **end = &f->devices;

	snprintf(d->name, sizeof(d->name), "%s", name);
	while (*end)
		end = &(*end)->next;
	*end = d;
	return d;
}

static struct port *add_port(struct device *d, uint32_t number)
{
	struct port *p = room(1, sizeof(*p)), **end = &d->ports;

	p->device = d;
	p->number = number;
	while (*end)
		end = &(*end)->next;
	*end = p;
	return p;
}

/* ---- from the library ------------------------------------------------- */

/* Each call opens the device, so ask for as much as the port's tables have. */
static void library_gids(struct port *p, uint32_t count)
{
	int max = (int)count, n;
	struct rdmamsg_gid_attr *list = room(count, sizeof(*list));

	n = rdmamsg_port_gids(p->device->name, p->number, list, sizeof(*list),
			      max);
	if (n < 0)
		snprintf(p->gids_error, sizeof(p->gids_error), "%s",
			 rdmamsg_error());
	p->gids = room(count, sizeof(*p->gids));
	for (int i = 0; i < n && i < max; i++) {
		struct gid *g = &p->gids[p->ngids++];

		memcpy(g->raw, list[i].gid, sizeof(g->raw));
		memcpy(g->text, list[i].text, sizeof(g->text));
		memcpy(g->netdev, list[i].netdev, sizeof(g->netdev));
		g->type = list[i].type;
	}
	free(list);
}

static void library_pkeys(struct port *p, uint32_t count)
{
	int n;

	p->pkeys = room(count, sizeof(*p->pkeys));
	n = rdmamsg_port_pkeys(p->device->name, p->number, p->pkeys,
			       (int)count);
	if (n < 0)
		snprintf(p->pkeys_error, sizeof(p->pkeys_error), "%s",
			 rdmamsg_error());
	p->npkeys = n < 0 ? 0 : (uint32_t)n < count ? (uint32_t)n : count;
}

static void library_port(struct device *d, uint32_t number)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };
	struct port *p;

	if (rdmamsg_port_query(d->name, number, &a))
		return;
	p = add_port(d, number);
	p->state = a.state;
	p->phys_state = a.phys_state;
	p->ethernet = a.link_layer == ETHERNET;
	p->active_mtu = a.active_mtu;
	p->max_mtu = a.max_mtu;
	p->link_mbps = a.link_mbps;
	library_gids(p, a.gid_count);
	if (!p->ethernet)
		library_pkeys(p, a.pkey_count);
}

static void library_device(struct facts *f, const struct rdmamsg_device_attr *a)
{
	struct device *d = add_device(f, a->name);

	memcpy(d->kind, a->kind, sizeof(d->kind));
	memcpy(d->firmware, a->firmware, sizeof(d->firmware));
	memcpy(d->board, a->board, sizeof(d->board));
	memcpy(d->node, a->node, sizeof(d->node));
	/* the kind is not known of a device that cannot be opened */
	d->soft = a->error ? !root_has(IB "/%s", a->name) :
			     !strcmp(a->kind, "soft");
	d->iwarp = a->transport == IWARP;
	d->odp = a->odp_general;
	d->error = a->error;
	d->attributes = !a->error;
	if (a->error) {
		struct rdmamsg_device_attr again = { .size = sizeof(again) };

		/* for the text */
		if (rdmamsg_device_query(a->name, &again))
			snprintf(d->error_text, sizeof(d->error_text), "%s",
				 rdmamsg_error());
		return;
	}
	for (uint32_t n = 1; n <= a->ports; n++)
		library_port(d, n);
}

static void library_facts(struct facts *f)
{
	struct rdmamsg_device_attr *list = NULL;
	int max, n = DEVICES;

	do {
		max = n;
		free(list);
		list = room((size_t)max, sizeof(*list));
		n = rdmamsg_devices(list, sizeof(*list), max);
	} while (n > max);
	if (n < 0) {
		f->error = n;
		snprintf(f->error_text, sizeof(f->error_text), "%s",
			 rdmamsg_error());
	}
	for (int i = 0; i < n; i++)
		library_device(f, &list[i]);
	free(list);
}

/* ---- from /sys of another root ---------------------------------------- */

static void sys_gid(void *arg, const char *name)
{
	struct port *p = arg;
	const char *device = p->device->name;
	struct gid *g = &p->gids[p->ngids];
	char text[64];

	root_line(text, sizeof(text), IB "/%s/ports/%u/gids/%s", device,
		  p->number, name);
	if (!parse_gid(text, g->raw) ||
	    !memcmp(g->raw, &in6addr_any, sizeof(g->raw)))
		return;
	inet_ntop(AF_INET6, g->raw, g->text, sizeof(g->text));
	root_line(text, sizeof(text), IB "/%s/ports/%u/gid_attrs/types/%s",
		  device, p->number, name);
	(void)parse_gid_type(text, p->ethernet, &g->type);
	root_line(g->netdev, sizeof(g->netdev),
		  IB "/%s/ports/%u/gid_attrs/ndevs/%s", device, p->number,
		  name);
	p->ngids++;
}

static void sys_pkey(void *arg, const char *name)
{
	struct port *p = arg;
	char text[32];

	root_line(text, sizeof(text), IB "/%s/ports/%u/pkeys/%s",
		  p->device->name, p->number, name);
	if (parse_pkey(text, &p->pkeys[p->npkeys]))
		p->npkeys++;
}

static uint32_t sys_number(const struct port *p, const char *file)
{
	uint64_t n = 0;
	char text[64];

	root_line(text, sizeof(text), IB "/%s/ports/%u/%s", p->device->name,
		  p->number, file);
	(void)parse_number(text, &n);
	return n > UINT32_MAX ? 0 : (uint32_t)n;
}

static void sys_port(void *arg, const char *name)
{
	struct device *d = arg;
	char text[256];
	struct port *p;
	uint64_t number;

	if (!parse_number(name, &number) || number > 255)
		return;
	p = add_port(d, (uint32_t)number);
	p->state = sys_number(p, "state");
	p->phys_state = sys_number(p, "phys_state");
	root_line(text, sizeof(text), IB "/%s/ports/%s/link_layer", d->name,
		  name);
	p->ethernet = !strcmp(text, "Ethernet");
	root_line(text, sizeof(text), IB "/%s/ports/%s/rate", d->name, name);
	(void)parse_rate(text, &p->link_mbps);
	snprintf(text, sizeof(text), IB "/%s/ports/%s/gids", d->name, name);
	p->gids = room((size_t)root_each(text, NULL, NULL), sizeof(*p->gids));
	root_each(text, sys_gid, p);
	snprintf(text, sizeof(text), IB "/%s/ports/%s/pkeys", d->name, name);
	p->pkeys = room((size_t)root_each(text, NULL, NULL),
			sizeof(*p->pkeys));
	root_each(text, sys_pkey, p);
}

static void sys_device(void *arg, const char *name)
{
	struct device *d = add_device(arg, name);
	uint64_t type = 0;
	char dir[128];

	root_line(dir, sizeof(dir), IB "/%s/node_type", name);
	d->iwarp = parse_number(dir, &type) && type == RNIC;
	root_line(d->firmware, sizeof(d->firmware), IB "/%s/fw_ver", name);
	root_line(d->board, sizeof(d->board), IB "/%s/board_id", name);
	snprintf(dir, sizeof(dir), IB "/%s/ports", d->name);
	root_each(dir, sys_port, d);
}

/* ---- of both ---------------------------------------------------------- */

/* Soft-RoCE has a file with the network device, cards have it in their GIDs. */
static void find_netdev(struct port *p)
{
	if (p->device->soft || !p->ethernet)
		return;
	root_line(p->netdev, sizeof(p->netdev), IB "/%s/parent",
		  p->device->name);
	for (uint32_t i = 0; i < p->ngids && !p->netdev[0]; i++)
		memcpy(p->netdev, p->gids[i].netdev, sizeof(p->netdev));
}

void facts_read(struct facts *f)
{
	*f = (struct facts){ 0 };
	if (options.root[0])
		root_each(IB, sys_device, f);
	else
		library_facts(f);
	for (struct device *d = f->devices; d; d = d->next)
		for (struct port *p = d->ports; p; p = p->next)
			find_netdev(p);
}

static void free_ports(struct device *d)
{
	struct port *next;

	for (struct port *p = d->ports; p; p = next) {
		next = p->next;
		free(p->gids);
		free(p->pkeys);
		free(p);
	}
}

void facts_free(struct facts *f)
{
	struct device *next;

	for (struct device *d = f->devices; d; d = next) {
		next = d->next;
		free_ports(d);
		free(d);
	}
	f->devices = NULL;
}

bool facts_soft_suffices(const struct facts *f)
{
	const char *asked = getenv("RDMAMSG_DEVICE");

	if (options.root[0] || !asked ||
	    (strcmp(asked, "soft") && strcmp(asked, "soft0")))
		return false;
	for_each_device(d, f)
		if (d->soft && !d->error)
			return true;
	return false;
}

const struct device *facts_kernel_device(const struct facts *f)
{
	for_each_device(d, f)
		if (!d->soft)
			return d;
	return NULL;
}

bool device_is_hw(const struct device *d)
{
	return !d->soft || root_has(IB "/%s", d->name);
}

bool facts_has(const struct facts *f, const char *device)
{
	for_each_device(d, f)
		if (!strcmp(d->name, device))
			return true;
	return false;
}

struct search {
	const struct facts *facts;
	bool found;
};

static void look_at(void *arg, const char *name)
{
	struct search *s = arg;
	bool soft = false;

	for_each_device(d, s->facts)
		soft |= d->soft && !strcmp(d->name, name);
	s->found |= !soft;
}

bool facts_kernel_lists_any(const struct facts *f)
{
	struct search s = { .facts = f };

	root_each(IB, look_at, &s);
	return s.found;
}

const char *port_subject(const struct port *p)
{
	static char text[80];

	snprintf(text, sizeof(text), "%s port %u", p->device->name, p->number);
	return text;
}

bool port_is_active(const struct port *p)
{
	return p->state == ACTIVE || p->state == ACTIVE + 1;
}

/* The one GID of iWARP has the hardware address. */
bool port_is_roce(const struct port *p)
{
	return p->ethernet && !p->device->iwarp;
}

bool gid_is_link_local(const struct gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}
