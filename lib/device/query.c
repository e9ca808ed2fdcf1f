/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls: attributes of devices and ports, GID and P_Key tables. */
#include "base/base.h"
#include "base/netif.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/codes.h"
#include "device/device.h"
#include "device/query.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

#define PARTITION	0x7fffu		/* of a P_Key; the rest is membership */

/* ---- attributes of a device ------------------------------------------- */

static void fill_guid(uint64_t *host, uint8_t wire[static 8],
		      char text[static 20], __be64 guid)
{
	memcpy(wire, &guid, sizeof(guid));
	*host = be64toh(guid);
	snprintf(text, 20, "%04x:%04x:%04x:%04x", wire[0] << 8 | wire[1],
		 wire[2] << 8 | wire[3], wire[4] << 8 | wire[5],
		 wire[6] << 8 | wire[7]);
}

static void fill_identity(struct rdmamsg_device_attr *a,
			  const struct ibv_device_attr *d)
{
	snprintf(a->firmware, sizeof(a->firmware), "%.*s",
		 (int)sizeof(d->fw_ver), d->fw_ver);
	fill_guid(&a->node_guid, a->node_guid_wire, a->node_guid_text,
		  d->node_guid);
	fill_guid(&a->image_guid, a->image_guid_wire, a->image_guid_text,
		  d->sys_image_guid);
	a->vendor_id = d->vendor_id;
	a->vendor_part_id = d->vendor_part_id;
	a->hw_version = d->hw_ver;
}

static void fill_limits(struct rdmamsg_device_attr *a,
			const struct ibv_device_attr *d)
{
	a->ports = a->ports_ex = d->phys_port_cnt;
	a->max_qp = (uint32_t)d->max_qp;
	a->max_cq = (uint32_t)d->max_cq;
	a->max_cqe = (uint32_t)d->max_cqe;
	a->max_mr = (uint32_t)d->max_mr;
	a->max_qp_wr = (uint32_t)d->max_qp_wr;
	a->max_sge = (uint32_t)d->max_sge;
	a->max_read_responder = (uint32_t)d->max_qp_rd_atom;
	a->max_read_initiator = (uint32_t)d->max_qp_init_rd_atom;
	a->max_mr_size = d->max_mr_size;
	a->cap_flags = d->device_cap_flags;
	a->cap_flags_ex = d->device_cap_flags;
	a->page_sizes = d->page_size_cap;
	a->atomic_cap = d->atomic_cap;
	a->max_pd = (uint32_t)d->max_pd;
	a->max_sge_rd = (uint32_t)d->max_sge_rd;
	a->max_read_total = (uint32_t)d->max_res_rd_atom;
	a->max_mw = (uint32_t)d->max_mw;
	a->max_ah = (uint32_t)d->max_ah;
	a->max_srq = (uint32_t)d->max_srq;
	a->max_srq_wr = (uint32_t)d->max_srq_wr;
	a->max_srq_sge = (uint32_t)d->max_srq_sge;
	a->max_pkeys = d->max_pkeys;
	a->max_mcast_groups = (uint32_t)d->max_mcast_grp;
	a->max_mcast_attach = (uint32_t)d->max_mcast_qp_attach;
	a->max_mcast_attach_total = (uint32_t)d->max_total_mcast_qp_attach;
	a->ack_delay = d->local_ca_ack_delay;
	a->max_ee = (uint32_t)d->max_ee;
	a->max_ee_rd_atom = (uint32_t)d->max_ee_rd_atom;
	a->max_ee_init_rd_atom = (uint32_t)d->max_ee_init_rd_atom;
	a->max_rdd = (uint32_t)d->max_rdd;
	a->max_raw_ipv6_qp = (uint32_t)d->max_raw_ipv6_qp;
	a->max_raw_ethy_qp = (uint32_t)d->max_raw_ethy_qp;
	a->max_fmr = (uint32_t)d->max_fmr;
	a->max_map_per_fmr = (uint32_t)d->max_map_per_fmr;
}

static void fill_extended(struct rdmamsg_device_attr *a,
			  const struct ibv_device_attr_ex *x)
{
	a->cap_flags_ex |= x->device_cap_flags_ex;
	a->odp_general = x->odp_caps.general_caps;
	a->odp_rc = x->odp_caps.per_transport_caps.rc_odp_caps;
	a->odp_uc = x->odp_caps.per_transport_caps.uc_odp_caps;
	a->odp_ud = x->odp_caps.per_transport_caps.ud_odp_caps;
	a->odp_xrc = x->xrc_odp_caps;
	a->timestamp_mask = x->completion_timestamp_mask;
	a->core_clock_khz = x->hca_core_clock;
	a->max_dm_size = x->max_dm_size;
	a->max_tso = x->tso_caps.max_tso;
	a->tso_qps = x->tso_caps.supported_qpts;
	a->rss_qps = x->rss_caps.supported_qpts;
	a->max_rwq_tables = x->rss_caps.max_rwq_indirection_tables;
	a->max_rwq_table_size = x->rss_caps.max_rwq_indirection_table_size;
	a->rx_hash_functions = x->rss_caps.rx_hash_function;
	a->rx_hash_fields = x->rss_caps.rx_hash_fields_mask;
	a->max_wq = x->max_wq_type_rq;
	a->raw_packet_caps = x->raw_packet_caps;
	a->rate_min_kbps = x->packet_pacing_caps.qp_rate_limit_min;
	a->rate_max_kbps = x->packet_pacing_caps.qp_rate_limit_max;
	a->rate_qps = x->packet_pacing_caps.supported_qpts;
	a->tm_max_header = x->tm_caps.max_rndv_hdr_size;
	a->tm_max_tags = x->tm_caps.max_num_tags;
	a->tm_max_ops = x->tm_caps.max_ops;
	a->tm_max_sge = x->tm_caps.max_sge;
	a->tm_flags = x->tm_caps.flags;
	a->cq_moderation_count = x->cq_mod_caps.max_cq_count;
	a->cq_moderation_usec = x->cq_mod_caps.max_cq_period;
	a->pci_fetch_add = x->pci_atomic_caps.fetch_add;
	a->pci_swap = x->pci_atomic_caps.swap;
	a->pci_compare_swap = x->pci_atomic_caps.compare_swap;
	/* 0: a driver that knows the short field only */
	a->ports_ex = max(a->ports, x->phys_port_cnt_ex);
}

static void fill_names(struct rdmamsg_device_attr *a, const struct verbs_api *v,
		       struct ibv_device *device)
{
	snprintf(a->name, sizeof(a->name), "%s", v->get_device_name(device));
	snprintf(a->node, sizeof(a->node), "%s", device->dev_name);
}

/* Fills in the board: from /sys, unless the kind has a fixed name. */
static void fill_board(struct rdmamsg_device_attr *a, enum device_kind kind,
		       const struct ibv_device *device)
{
	char path[sizeof(device->ibdev_path) + 16];
	FILE *f;

	if (rdmamsg__kind_board(kind)) {
		snprintf(a->board, sizeof(a->board), "%s",
			 rdmamsg__kind_board(kind));
		return;
	}
	snprintf(path, sizeof(path), "%s/board_id", device->ibdev_path);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(a->board, sizeof(a->board), f))
		a->board[0] = 0;
	a->board[strcspn(a->board, "\n")] = 0;
	fclose(f);
}

static uint32_t active_ports(const struct verbs_api *v,
			     struct ibv_context *verbs, uint8_t ports)
{
	struct ibv_port_attr port;
	uint32_t n = 0;

	for (unsigned int p = 1; p <= ports; p++)
		if (!rdmamsg__v_query_port(v, verbs, (uint8_t)p, &port))
			n += port.state == IBV_PORT_ACTIVE;
	return n;
}

void rdmamsg__fill_device(struct rdmamsg_device_attr *a,
			  const struct verbs_api *v, struct ibv_context *verbs,
			  const struct ibv_device_attr *d,
			  const struct ibv_device_attr_ex *x)
{
	enum device_kind kind;

	fill_names(a, v, verbs->device);
	fill_identity(a, d);
	fill_limits(a, d);
	if (x)
		fill_extended(a, x);
	kind = rdmamsg__kind_of(v, verbs, d);
	snprintf(a->kind, sizeof(a->kind), "%s", rdmamsg__kind_name(kind));
	a->pieces_max = rdmamsg__kind_pieces_max(kind);
	fill_board(a, kind, verbs->device);
	a->node_type = verbs->device->node_type;
	a->transport = verbs->device->transport_type;
	a->vectors = (uint32_t)verbs->num_comp_vectors;
}

/* Returns 0, or -errno and no text. */
static int fill_device(struct rdmamsg_device_attr *a, const struct verbs_api *v,
		       struct ibv_context *verbs)
{
	struct ibv_device_attr_ex x = { .comp_mask = 0 };
	struct ibv_device_attr d;
	int ret = rdmamsg__v_query_device(v, verbs, &d);

	if (ret)
		return ret;
	rdmamsg__fill_device(a, v, verbs, &d,
			     rdmamsg__v_query_device_ex(v, verbs, &x) ? NULL :
			     &x);
	a->ports_active = active_ports(v, verbs, d.phys_port_cnt);
	return 0;
}

/* ---- the list --------------------------------------------------------- */

static void list_one(struct rdmamsg_device_attr *a, const struct verbs_api *v,
		     struct ibv_device *device)
{
	struct ibv_context *verbs;

	fill_names(a, v, device);
	a->error = rdmamsg__try(rdmamsg__open_listed(v, device, &verbs));
	if (a->error)
		return;
	a->error = fill_device(a, v, verbs);
	(void)rdmamsg__v_close_device(v, verbs);
}

/* Fills in the devices of one table. Returns their number or -errno. */
static int list_table(const struct verbs_api *v, void *list, size_t size,
		      int room)
{
	struct ibv_device **devs;
	int n, err = rdmamsg__list_devices(v, &devs, &n);

	if (err)
		return err;
	for (int i = 0; i < min(n, room); i++) {
		struct rdmamsg_device_attr a = { .size = sizeof(a) };

		list_one(&a, v, devs[i]);
		memcpy((char *)list + (size_t)i * size, &a,
		       min(size, sizeof(a)));
	}
	v->free_device_list(devs);
	return n;
}

int rdmamsg_devices(struct rdmamsg_device_attr *list, size_t size, int room)
{
	int n, soft;

	rdmamsg__env_init();
	if (room < 0 || (room && (!list || size < sizeof(size))))
		return rdmamsg__fail(-EINVAL, "rdmamsg_devices: list or size");
	n = rdmamsg__try(list_table(rdmamsg__verbs, list, size, room));
	if (!rdmamsg__soft_possible() || (n < 0 && n != -ENODEV))
		return rdmamsg__fail_again(n);
	n = max(n, 0);
	room = max(room - n, 0);
	soft = rdmamsg__try(list_table(&rdmamsg__verbs_soft,
				       room ? (char *)list + (size_t)n * size :
				       NULL, size, room));
	if (soft < 0 && !n)
		return rdmamsg__fail_again(soft);
	return n + max(soft, 0);
}

/* ---- one device ------------------------------------------------------- */

static int open_first(const struct verbs_api *v, struct ibv_context **ret)
{
	struct ibv_device **list;
	int n, err = rdmamsg__list_devices(v, &list, &n);

	if (err)
		return err;
	err = rdmamsg__open_listed(v, list[0], ret);
	v->free_device_list(list);
	return err;
}

int rdmamsg__open_asked(const char *asked, const struct verbs_api **ret_v,
			struct ibv_context **ret)
{
	const struct verbs_api *v;
	int err;

	rdmamsg__env_init();
	asked = rdmamsg__asked(asked);
	v = rdmamsg__choose_table(asked);
	*ret_v = v ? v : rdmamsg__verbs;
	if (rdmamsg__asked_by_name(asked))
		return rdmamsg__open_by_name(*ret_v, asked, ret);
	err = rdmamsg__try(open_first(*ret_v, ret));
	if (err != -ENODEV || v)
		return rdmamsg__fail_again(err);
	*ret_v = &rdmamsg__verbs_soft;
	return open_first(*ret_v, ret);
}

int rdmamsg_device_query(const char *device, struct rdmamsg_device_attr *attr)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	struct ibv_context *verbs;
	const struct verbs_api *v;
	int ret = rdmamsg__open_asked(device, &v, &verbs);

	if (ret)
		return ret;
	ret = fill_device(&a, v, verbs);
	if (ret)
		ret = rdmamsg__fail_verbs(ret, "attributes of the RDMA device");
	(void)rdmamsg__v_close_device(v, verbs);
	return ret ? ret : rdmamsg__give(attr, &a, sizeof(a));
}

/* ---- ports ------------------------------------------------------------ */

/* A port of a device that is open for the length of a call. */
struct asked_port {
	const struct verbs_api *v;
	struct ibv_context *verbs;
	struct ibv_device_attr device;
	uint8_t number;
	struct ibv_port_attr attr;
};

static int query_port(struct asked_port *p, uint32_t port)
{
	int ret = rdmamsg__v_query_device(p->v, p->verbs, &p->device);

	if (ret)
		return rdmamsg__fail_verbs(ret, "attributes of the device");
	if (!port || port > p->device.phys_port_cnt)
		return rdmamsg__fail(-EINVAL, "port %u: device %s has %u", port,
				     p->v->get_device_name(p->verbs->device),
				     p->device.phys_port_cnt);
	p->number = (uint8_t)port;
	ret = rdmamsg__v_query_port(p->v, p->verbs, p->number, &p->attr);
	if (ret)
		ret = rdmamsg__fail_verbs(ret, "attributes of the port");
	return ret;
}

static void port_close(struct asked_port *p)
{
	(void)rdmamsg__v_close_device(p->v, p->verbs);
}

static int port_open(struct asked_port *p, const char *device, uint32_t port)
{
	int ret = rdmamsg__open_asked(device, &p->v, &p->verbs);

	if (ret)
		return ret;
	ret = query_port(p, port);
	if (ret)
		port_close(p);
	return ret;
}

/* Returns what means something on a port of that kind, in its state. */
static uint32_t valid_fields(const struct ibv_context *verbs, uint32_t caps,
			     const struct ibv_port_attr *port)
{
	uint32_t valid = 0;

	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return 0;
	if (caps & IBV_DEVICE_BAD_PKEY_CNTR)
		valid |= RDMAMSG_PORT_BAD_PKEYS;
	if (caps & IBV_DEVICE_BAD_QKEY_CNTR)
		valid |= RDMAMSG_PORT_BAD_QKEYS;
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET)
		return valid;
	valid |= RDMAMSG_PORT_SM | RDMAMSG_PORT_VLS | RDMAMSG_PORT_PKEYS |
		 RDMAMSG_PORT_SUBNET_TIMEOUT | RDMAMSG_PORT_PHYS_STATE |
		 RDMAMSG_PORT_WIDTH | RDMAMSG_PORT_SPEED;
	if (caps & IBV_DEVICE_INIT_TYPE)
		valid |= RDMAMSG_PORT_INIT_TYPE_REPLY;
	/* the subnet manager assigns LIDs before the port is armed */
	if (port->state >= IBV_PORT_ARMED)
		valid |= RDMAMSG_PORT_LID | RDMAMSG_PORT_LMC;
	return valid;
}

void rdmamsg__fill_port(struct rdmamsg_port_attr *a,
			const struct ibv_context *verbs, uint32_t caps,
			uint32_t port, const struct ibv_port_attr *d)
{
	a->port = port;
	a->valid = valid_fields(verbs, caps, d);
	a->state = d->state;
	a->link_layer = d->link_layer;
	a->max_mtu = RDMAMSG_MTU_BYTES(d->max_mtu);
	a->active_mtu = RDMAMSG_MTU_BYTES(d->active_mtu);
	a->max_msg_size = d->max_msg_sz;
	a->link_mbps = rdmamsg__link_mbps(d->active_width, d->active_speed);
	a->gid_count = (uint32_t)max(d->gid_tbl_len, 0);
	a->pkey_count = d->pkey_tbl_len;
	a->cap_flags = d->port_cap_flags;
	a->cap_flags2 = d->port_cap_flags2;
	a->flags = d->flags;
	a->lid = d->lid;
	a->lmc = d->lmc;
	a->sm_lid = d->sm_lid;
	a->sm_sl = d->sm_sl;
	a->max_vl_num = d->max_vl_num;
	a->vls = rdmamsg__vl_count(d->max_vl_num);
	a->subnet_timeout = d->subnet_timeout;
	a->init_type_reply = d->init_type_reply;
	a->phys_state = d->phys_state;
	a->active_width = d->active_width;
	a->active_speed = d->active_speed;
	a->bad_pkeys = d->bad_pkey_cntr;
	a->bad_qkeys = d->qkey_viol_cntr;
}

int rdmamsg_port_query(const char *device, uint32_t port,
		       struct rdmamsg_port_attr *attr)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };
	struct asked_port p;
	int ret = port_open(&p, device, port);

	if (ret)
		return ret;
	rdmamsg__fill_port(&a, p.verbs, p.device.device_cap_flags, p.number,
			   &p.attr);
	port_close(&p);
	return rdmamsg__give(attr, &a, sizeof(a));
}

/* ---- tables of ports -------------------------------------------------- */

static bool is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* An entry of a table of the port cannot be read. */
static int fail_entry(const struct asked_port *p, int err, const char *table,
		      uint32_t index)
{
	char what[128];

	snprintf(what, sizeof(what), "entry %u of the %s table of %s port %u",
		 index, table, p->v->get_device_name(p->verbs->device),
		 p->number);
	return rdmamsg__fail_verbs(err, what);
}

/* Returns 1, 0 for an empty entry, or -errno and a text. */
static int fill_gid(struct rdmamsg_gid_attr *a, const struct asked_port *p,
		    uint32_t index)
{
	struct ibv_gid_entry e;
	int ret = rdmamsg__v_query_gid_ex(p->v, p->verbs, p->number, index, &e);

	if (ret == -ENODATA)
		return 0;
	if (ret)
		return fail_entry(p, ret, "GID", index);
	if (is_zero(&e.gid))
		return 0;
	a->index = index;
	a->type = e.gid_type;
	memcpy(a->gid, e.gid.raw, sizeof(a->gid));
	rdmamsg_gid_text(a->gid, a->text);
	a->ifindex = e.ndev_ifindex;
	if (!e.ndev_ifindex || !netif_name(e.ndev_ifindex, a->netdev))
		a->netdev[0] = 0;
	return 1;
}

/* Returns the number of entries that are not empty, or -errno and a text. */
static int list_gids(const struct asked_port *p, void *list, size_t size,
		     int room)
{
	int n = 0;

	for (int i = 0; i < p->attr.gid_tbl_len; i++) {
		struct rdmamsg_gid_attr a = { .size = sizeof(a) };
		int ret = fill_gid(&a, p, (uint32_t)i);

		if (ret < 0)
			return ret;
		if (ret && n < room)
			memcpy((char *)list + (size_t)n * size, &a,
			       min(size, sizeof(a)));
		n += ret;
	}
	return n;
}

int rdmamsg_port_gids(const char *device, uint32_t port,
		      struct rdmamsg_gid_attr *list, size_t size, int room)
{
	struct asked_port p;
	int ret;

	if (room < 0 || (room && (!list || size < sizeof(size))))
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_port_gids: list or size");
	ret = port_open(&p, device, port);
	if (ret)
		return ret;
	ret = list_gids(&p, list, size, room);
	port_close(&p);
	return ret;
}

/* Returns the length of the table, or -errno and a text. */
static int list_pkeys(const struct asked_port *p, uint16_t *list, int room)
{
	for (int i = 0; i < min((int)p->attr.pkey_tbl_len, room); i++) {
		__be16 pkey = 0;
		int ret = rdmamsg__v_query_pkey(p->v, p->verbs, p->number, i,
						&pkey);

		if (ret)
			return fail_entry(p, ret, "P_Key", (uint32_t)i);
		list[i] = be16toh(pkey);
	}
	return p->attr.pkey_tbl_len;
}

int rdmamsg_port_pkeys(const char *device, uint32_t port, uint16_t *list,
		       int room)
{
	struct asked_port p;
	int ret;

	if (room < 0 || (room && !list))
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_port_pkeys: list or max");
	ret = port_open(&p, device, port);
	if (ret)
		return ret;
	ret = list_pkeys(&p, list, room);
	port_close(&p);
	return ret;
}

/*
 * Returns the index of the P_Key's partition, or -errno and a text. An entry
 * with full membership ends the search.
 */
static int find_pkey(const struct asked_port *p, uint16_t pkey)
{
	int found = -1;

	for (int i = 0; i < p->attr.pkey_tbl_len; i++) {
		uint16_t value;
		__be16 wire = 0;
		int ret = rdmamsg__v_query_pkey(p->v, p->verbs, p->number, i,
						&wire);

		if (ret)
			return fail_entry(p, ret, "P_Key", (uint32_t)i);
		value = be16toh(wire);
		if ((value ^ pkey) & PARTITION)
			continue;
		if (value & ~PARTITION)
			return i;
		if (found < 0)
			found = i;
	}
	return found >= 0 ? found :
	       rdmamsg__fail(-ENOENT, "pkey 0x%04x: %s port %u is not in that "
			     "partition", pkey,
			     p->v->get_device_name(p->verbs->device),
			     p->number);
}

int rdmamsg_port_find_pkey(const char *device, uint32_t port, uint16_t pkey)
{
	struct asked_port p;
	int ret;

	if (!(pkey & PARTITION))
		return rdmamsg__fail(-EINVAL, "pkey 0x%04x: no partition has "
				     "the number 0", pkey);
	ret = port_open(&p, device, port);
	if (ret)
		return ret;
	ret = find_pkey(&p, pkey);
	port_close(&p);
	return ret;
}
