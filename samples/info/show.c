/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows devices, ports and their tables. */
#include "info.h"

#include <err.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#define FULL_MEMBER	0x8000u
#define GID_ROCE_V2	2		/* IBV_GID_TYPE_ROCE_V2 */

enum sort { NUMBER, HEX };

/* A field of a device, under the name that verbs give it. */
struct field {
	const char *name;
	size_t offset, size;
	enum sort sort;
};

#define FIELD(name, member, sort) \
	{ name, offsetof(struct rdmamsg_device_attr, member), \
	  sizeof(((struct rdmamsg_device_attr *)0)->member), sort }
#define SAME(member)	FIELD(#member, member, NUMBER)

static const struct field limits[] = {
	FIELD("max_mr_size", max_mr_size, HEX),
	FIELD("page_size_cap", page_sizes, HEX),
	SAME(max_qp), SAME(max_qp_wr), SAME(max_sge), SAME(max_sge_rd),
	SAME(max_cq), SAME(max_cqe), SAME(max_mr), SAME(max_pd),
	FIELD("max_qp_rd_atom", max_read_responder, NUMBER),
	SAME(max_ee_rd_atom),
	FIELD("max_res_rd_atom", max_read_total, NUMBER),
	FIELD("max_qp_init_rd_atom", max_read_initiator, NUMBER),
	SAME(max_ee_init_rd_atom), SAME(max_ee), SAME(max_rdd), SAME(max_mw),
	SAME(max_raw_ipv6_qp), SAME(max_raw_ethy_qp),
	FIELD("max_mcast_grp", max_mcast_groups, NUMBER),
	FIELD("max_mcast_qp_attach", max_mcast_attach, NUMBER),
	FIELD("max_total_mcast_qp_attach", max_mcast_attach_total, NUMBER),
	SAME(max_ah), SAME(max_fmr), SAME(max_map_per_fmr), SAME(max_srq),
	SAME(max_srq_wr), SAME(max_srq_sge), SAME(max_pkeys),
	FIELD("local_ca_ack_delay", ack_delay, NUMBER),
};

static const struct field extended[] = {
	FIELD("completion_timestamp_mask", timestamp_mask, HEX),
	FIELD("hca_core_clock_khz", core_clock_khz, NUMBER),
	SAME(max_tso),
	FIELD("max_rwq_indirection_tables", max_rwq_tables, NUMBER),
	FIELD("max_rwq_indirection_table_size", max_rwq_table_size, NUMBER),
	FIELD("max_wq_type_rq", max_wq, NUMBER),
	FIELD("qp_rate_limit_min_kbps", rate_min_kbps, NUMBER),
	FIELD("qp_rate_limit_max_kbps", rate_max_kbps, NUMBER),
	FIELD("max_rndv_hdr_size", tm_max_header, NUMBER),
	FIELD("max_num_tags", tm_max_tags, NUMBER),
	FIELD("tm_max_ops", tm_max_ops, NUMBER),
	FIELD("tm_max_sge", tm_max_sge, NUMBER),
	FIELD("max_cq_count", cq_moderation_count, NUMBER),
	FIELD("max_cq_period", cq_moderation_usec, NUMBER),
	FIELD("max_dm_size", max_dm_size, NUMBER),
	FIELD("num_comp_vectors", vectors, NUMBER),
	FIELD("phys_port_cnt_ex", ports_ex, NUMBER),
	/* of the library */
	SAME(pieces_max),
};

static void show_fields(const struct rdmamsg_device_attr *a,
			const struct field *f, size_t n)
{
	for (; n; n--, f++) {
		const char *at = (const char *)a + f->offset;
		uint32_t narrow;
		uint64_t wide;

		memcpy(&narrow, at, sizeof(narrow));
		if (f->size == sizeof(wide))
			memcpy(&wide, at, sizeof(wide));
		else
			wide = narrow;
		(f->sort == HEX ? emit_hex : emit_number)(f->name, wide);
	}
}

/* ---- ports ------------------------------------------------------------ */

/* As ibv_devinfo(1) does, only GIDs of RoCE v2 are written as addresses. */
static void show_gid(const struct rdmamsg_gid_attr *g)
{
	char key[24], full[48], text[96];
	int n = 0;

	for (int i = 0; i < 16; i += 2)
		n += snprintf(full + n, sizeof(full) - (size_t)n, "%s%02x%02x",
			      i ? ":" : "", g->gid[i], g->gid[i + 1]);
	snprintf(key, sizeof(key), "%u", g->index);
	if (options.json) {
		emit_object("index", key);
		emit_text("gid", full);
		emit_text("address", g->text);
		emit_text("type", rdmamsg_name(RDMAMSG_NAME_GID_TYPE, g->type));
		emit_text("netdev", g->netdev);
		emit_object_end();
		return;
	}
	snprintf(key, sizeof(key), "GID[%u]", g->index);
	snprintf(text, sizeof(text), "%s, %s%s%s",
		 g->type == GID_ROCE_V2 ? g->text : full,
		 rdmamsg_name(RDMAMSG_NAME_GID_TYPE, g->type),
		 g->netdev[0] ? ", " : "", g->netdev);
	emit_text(key, text);
}

static void *room(int n, size_t size)
{
	void *list = calloc(n > 0 ? (size_t)n : 1, size);

	if (!list)
		err(FAILED, "memory");
	return list;
}

/* Returns n, or 0 after an error, which it tells. */
static int told(int n, const char *device, int *status)
{
	if (n >= 0)
		return n;
	warnx("%s: %s", device, rdmamsg_error());
	*status = FAILED;
	return 0;
}

static void show_gids(const char *device, uint32_t port, int *status)
{
	int max = told(rdmamsg_port_gids(device, port, NULL, 0, 0), device,
		       status);
	struct rdmamsg_gid_attr *list = room(max, sizeof(*list));
	int n = max ? told(rdmamsg_port_gids(device, port, list, sizeof(*list),
					     max),
			   device, status)
		    : 0;

	emit_list("gids");
	for (int i = 0; i < n && i < max; i++)
		show_gid(&list[i]);
	emit_list_end();
	free(list);
}

static void show_pkey(uint32_t index, uint16_t pkey)
{
	const char *member = pkey & FULL_MEMBER ? "full" : "limited";
	char key[24], text[32];

	if (options.json) {
		snprintf(key, sizeof(key), "%u", index);
		emit_object("index", key);
		emit_hex("pkey", pkey);
		emit_text("member", member);
		emit_object_end();
		return;
	}
	snprintf(key, sizeof(key), "P_Key[%u]", index);
	snprintf(text, sizeof(text), "0x%04x, %s", pkey, member);
	emit_text(key, text);
}

static void show_pkeys(const char *device, uint32_t port, int *status)
{
	int max =
		told(rdmamsg_port_pkeys(device, port, NULL, 0), device, status);
	uint16_t *list = room(max, sizeof(*list));
	int n = max ? told(rdmamsg_port_pkeys(device, port, list, max), device,
			   status)
		    : 0;

	emit_list("pkeys");
	for (int i = 0; i < n && i < max; i++)
		if (list[i])
			show_pkey((uint32_t)i, list[i]);
	emit_list_end();
	free(list);
}

static void mark(const struct rdmamsg_port_attr *a, uint32_t field)
{
	if (!(a->valid & field))
		emit_not_applicable();
}

static void show_mtu(const char *key, uint32_t bytes)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", bytes);
	emit_coded(key, text, RDMAMSG_MTU_CODE(bytes), -1);
}

static void show_rate(const struct rdmamsg_port_attr *a)
{
	if (options.json || !a->link_mbps) {
		emit_number("rate_mbps", a->link_mbps);
	} else {
		char text[32];

		snprintf(text, sizeof(text), "%.4g Gb/s", a->link_mbps / 1e3);
		emit_text("rate", text);
	}
}

static void show_all_of_port(const struct rdmamsg_port_attr *a)
{
	mark(a, RDMAMSG_PORT_SM);
	emit_number("sm_lid", a->sm_lid);
	mark(a, RDMAMSG_PORT_LID);
	emit_number("port_lid", a->lid);
	mark(a, RDMAMSG_PORT_LMC);
	emit_hex("port_lmc", a->lmc);
	show_mtu("max_mtu", a->max_mtu);
	emit_hex("max_msg_sz", a->max_msg_size);
	emit_flags("port_cap_flags", a->cap_flags, RDMAMSG_NAME_PORT_CAP);
	emit_flags("port_cap_flags2", a->cap_flags2, RDMAMSG_NAME_PORT_CAP2);
	emit_flags("flags", a->flags, RDMAMSG_NAME_PORT_FLAG);
	mark(a, RDMAMSG_PORT_VLS);
	emit_coded("max_vl_num", rdmamsg_name(RDMAMSG_NAME_VL, a->max_vl_num),
		   a->max_vl_num, -1);
	mark(a, RDMAMSG_PORT_VLS);
	emit_number("vls", a->vls);
	mark(a, RDMAMSG_PORT_BAD_PKEYS);
	emit_hex("bad_pkey_cntr", a->bad_pkeys);
	mark(a, RDMAMSG_PORT_BAD_QKEYS);
	emit_hex("qkey_viol_cntr", a->bad_qkeys);
	mark(a, RDMAMSG_PORT_SM);
	emit_number("sm_sl", a->sm_sl);
	mark(a, RDMAMSG_PORT_PKEYS);
	emit_number("pkey_tbl_len", a->pkey_count);
	emit_number("gid_tbl_len", a->gid_count);
	mark(a, RDMAMSG_PORT_SUBNET_TIMEOUT);
	emit_number("subnet_timeout", a->subnet_timeout);
	mark(a, RDMAMSG_PORT_INIT_TYPE_REPLY);
	emit_number("init_type_reply", a->init_type_reply);
	mark(a, RDMAMSG_PORT_WIDTH);
	emit_coded("active_width",
		   rdmamsg_name(RDMAMSG_NAME_WIDTH, a->active_width),
		   a->active_width, -1);
	mark(a, RDMAMSG_PORT_SPEED);
	emit_coded("active_speed",
		   rdmamsg_name(RDMAMSG_NAME_SPEED, a->active_speed),
		   a->active_speed, -1);
	mark(a, RDMAMSG_PORT_PHYS_STATE);
	emit_coded("phys_state",
		   rdmamsg_name(RDMAMSG_NAME_PHYS_STATE, a->phys_state),
		   a->phys_state, -1);
}

static void show_port(const char *device, uint32_t port, int *status)
{
	struct rdmamsg_port_attr a = { .size = sizeof(a) };
	char number[16];

	if (rdmamsg_port_query(device, port, &a)) {
		(void)told(-1, device, status);
		return;
	}
	snprintf(number, sizeof(number), "%u", port);
	emit_object("port", number);
	emit_coded("state", rdmamsg_name(RDMAMSG_NAME_PORT_STATE, a.state),
		   a.state, rdmamsg_port_is_usable(&a));
	emit_text("link_layer",
		  rdmamsg_name(RDMAMSG_NAME_LINK_LAYER, a.link_layer));
	show_mtu("active_mtu", a.active_mtu);
	show_rate(&a);
	if (options.verbose || options.json)
		show_all_of_port(&a);
	else if (a.valid & RDMAMSG_PORT_LID)
		emit_number("port_lid", a.lid);
	show_gids(device, port, status);
	show_pkeys(device, port, status);
	emit_object_end();
}

/* ---- devices ---------------------------------------------------------- */

static void show_all_of_device(const struct rdmamsg_device_attr *a)
{
	emit_text("node", a->node);
	emit_coded("node_type",
		   rdmamsg_name(RDMAMSG_NAME_NODE_TYPE, a->node_type),
		   (uint32_t)a->node_type, -1);
	emit_text("sys_image_guid", a->image_guid_text);
	emit_hex("vendor_id", a->vendor_id);
	emit_number("vendor_part_id", a->vendor_part_id);
	emit_hex("hw_ver", a->hw_version);
	emit_text("board_id", a->board);
	emit_flags("device_cap_flags", a->cap_flags, RDMAMSG_NAME_DEVICE_CAP);
	emit_flags("device_cap_flags_ex", a->cap_flags_ex,
		   RDMAMSG_NAME_DEVICE_CAP);
	emit_coded("atomic_cap",
		   rdmamsg_name(RDMAMSG_NAME_ATOMIC_CAP, a->atomic_cap),
		   a->atomic_cap, -1);
	show_fields(a, limits, sizeof(limits) / sizeof(limits[0]));
	emit_flags("general_odp_caps", a->odp_general,
		   RDMAMSG_NAME_ODP_GENERAL);
	emit_flags("rc_odp_caps", a->odp_rc, RDMAMSG_NAME_ODP_CAP);
	emit_flags("uc_odp_caps", a->odp_uc, RDMAMSG_NAME_ODP_CAP);
	emit_flags("ud_odp_caps", a->odp_ud, RDMAMSG_NAME_ODP_CAP);
	emit_flags("xrc_odp_caps", a->odp_xrc, RDMAMSG_NAME_ODP_CAP);
	emit_flags("tso_supported_qp", a->tso_qps, RDMAMSG_NAME_QP_TYPE);
	emit_flags("rss_supported_qp", a->rss_qps, RDMAMSG_NAME_QP_TYPE);
	emit_flags("rx_hash_function", a->rx_hash_functions,
		   RDMAMSG_NAME_RX_HASH_FUNCTION);
	emit_flags("rx_hash_fields_mask", a->rx_hash_fields,
		   RDMAMSG_NAME_RX_HASH);
	emit_flags("raw_packet_caps", a->raw_packet_caps,
		   RDMAMSG_NAME_RAW_PACKET_CAP);
	emit_flags("qp_rate_supported_qp", a->rate_qps, RDMAMSG_NAME_QP_TYPE);
	emit_flags("tm_flags", a->tm_flags, RDMAMSG_NAME_TM_CAP);
	emit_flags("pci_fetch_add", a->pci_fetch_add, RDMAMSG_NAME_PCI_ATOMIC);
	emit_flags("pci_swap", a->pci_swap, RDMAMSG_NAME_PCI_ATOMIC);
	emit_flags("pci_compare_swap", a->pci_compare_swap,
		   RDMAMSG_NAME_PCI_ATOMIC);
	show_fields(a, extended, sizeof(extended) / sizeof(extended[0]));
}

/* A limit of an ability, or the set of operations that it has. */
static void show_limit(const struct rdmamsg_device_cap_attr *c,
		       const char *name, uint32_t value,
		       enum rdmamsg_name_kind bit)
{
	char key[80];

	if (options.json)
		snprintf(key, sizeof(key), "%s", name);
	else
		snprintf(key, sizeof(key), "capability %s %s", c->name, name);
	if (bit)
		emit_flags(key, value, bit);
	else
		emit_number(key, value);
}

#define LIMIT(ability, member)	\
	show_limit(c, #member, c->limits.ability.member, \
		   (enum rdmamsg_name_kind)0)
#define SET(ability, member, name) \
	show_limit(c, #member, c->limits.ability.member, name)

static void show_limits(const struct rdmamsg_device_cap_attr *c)
{
	switch (c->id) {
	case RDMAMSG_CAP_DC:
		LIMIT(dc, initiator_depth);
		LIMIT(dc, responder_resources);
		LIMIT(dc, violations);
		break;
	case RDMAMSG_CAP_UMR:
		LIMIT(umr, parts);
		LIMIT(umr, depth);
		LIMIT(umr, dims);
		LIMIT(umr, entries);
		LIMIT(umr, blocks);
		LIMIT(umr, max_step);
		break;
	case RDMAMSG_CAP_EXT_ATOMICS:
		LIMIT(ext_atomics, sizes);
		LIMIT(ext_atomics, max_field);
		LIMIT(ext_atomics, unit);
		LIMIT(ext_atomics, max_inline);
		LIMIT(ext_atomics, swapped);
		break;
	case RDMAMSG_CAP_CHAINS:
		SET(chains, types, RDMAMSG_NAME_CALC_TYPE);
		LIMIT(chains, sizes);
		SET(chains, int_ops, RDMAMSG_NAME_CALC_OP);
		SET(chains, uint_ops, RDMAMSG_NAME_CALC_OP);
		SET(chains, double_ops, RDMAMSG_NAME_CALC_OP);
		break;
	default:
		break;
	}
}

static void show_cap(const struct rdmamsg_device_cap_attr *c)
{
	char key[48], text[288];

	if (options.json) {
		emit_object("name", c->name);
		emit_text("how", rdmamsg_name(RDMAMSG_NAME_CAP_HOW, c->how));
		emit_number("tried", c->tried);
		emit_number("value", c->value);
		emit_text("reason", c->reason);
		show_limits(c);
		emit_object_end();
		return;
	}
	snprintf(key, sizeof(key), "capability %s", c->name);
	snprintf(text, sizeof(text), "%s, %s",
		 rdmamsg_name(RDMAMSG_NAME_CAP_HOW, c->how), c->reason);
	emit_text(key, text);
	if (c->how != RDMAMSG_CAP_ABSENT)
		show_limits(c);
}

static void show_caps(const char *device, int *status)
{
	struct rdmamsg_device_cap_attr list[RDMAMSG_CAPS];
	int n = told(rdmamsg_device_caps(device, list, sizeof(list[0]),
					 RDMAMSG_CAPS),
		     device, status);

	emit_list("capabilities");
	for (int i = 0; i < n && i < RDMAMSG_CAPS; i++)
		show_cap(&list[i]);
	emit_list_end();
}

/* Returns an exit status. */
static int show_device(const struct rdmamsg_device_attr *a)
{
	int status = ALL_WELL;

	if (options.port > a->ports) {
		warnx("%s: there is no port %u, the device has %u", a->name,
		      options.port, a->ports);
		return FAILED;
	}
	emit_object("device", a->name);
	emit_text("kind", a->kind);
	emit_coded("transport",
		   rdmamsg_name(RDMAMSG_NAME_TRANSPORT, a->transport),
		   (uint32_t)a->transport, -1);
	emit_text("fw_ver", a->firmware);
	emit_text("node_guid", a->node_guid_text);
	emit_number("phys_port_cnt", a->ports);
	if (options.verbose || options.json)
		show_all_of_device(a);
	if (options.verbose || options.json)
		show_caps(a->name, &status);
	emit_list("ports");
	for (uint32_t p = 1; p <= a->ports; p++)
		if (!options.port || p == options.port)
			show_port(a->name, p, &status);
	emit_list_end();
	emit_object_end();
	return status;
}

/* The text of the error is not in the list. */
static int show_listed(const struct rdmamsg_device_attr *listed)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	if (!listed->error)
		return show_device(listed);
	if (!rdmamsg_device_query(listed->name, &a))
		return show_device(&a);
	warnx("%s: %s", listed->name, rdmamsg_error());
	return FAILED;
}

static int show_list(void)
{
	int max = rdmamsg_devices(NULL, 0, 0), n, status = ALL_WELL;
	struct rdmamsg_device_attr *list;

	if (max < 0)
		errx(FAILED, "%s", rdmamsg_error());
	list = room(max, sizeof(*list));
	n = rdmamsg_devices(list, sizeof(*list), max);
	if (n < 0)
		errx(FAILED, "%s", rdmamsg_error());
	emit_begin();
	emit_text("version", rdmamsg_version());
	emit_list("devices");
	for (int i = 0; i < n && i < max; i++)
		if (show_listed(&list[i]))
			status = FAILED;
	emit_list_end();
	emit_end();
	free(list);
	return status;
}

int show_devices(void)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };
	int status;

	if (!options.device)
		return show_list();
	if (rdmamsg_device_query(options.device, &a))
		errx(FAILED, "%s", rdmamsg_error());
	emit_begin();
	emit_text("version", rdmamsg_version());
	emit_list("devices");
	status = show_device(&a);
	emit_list_end();
	emit_end();
	return status;
}
