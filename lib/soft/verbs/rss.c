/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling: the Toeplitz hash of header fields chooses a receive
 * queue. The rules for the fields are those of Linux, hw/mlx5/qp.c,
 * create_rss_raw_qp_tir().
 */
#include "soft/verbs/wq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/fabric/frame.h"

#define IPV4	((uint64_t)(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4))
#define IPV6	((uint64_t)(IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6))
#define TCP	((uint64_t)(IBV_RX_HASH_SRC_PORT_TCP | \
			    IBV_RX_HASH_DST_PORT_TCP))
#define UDP	((uint64_t)(IBV_RX_HASH_SRC_PORT_UDP | \
			    IBV_RX_HASH_DST_PORT_UDP))
#define SPI	((uint64_t)IBV_RX_HASH_IPSEC_SPI)
#define INNER	((uint64_t)IBV_RX_HASH_INNER)
#define INPUT_MAX 36u		/* two addresses of IPv6, and two ports */

/* ---- creation --------------------------------------------------------- */

static int check_fields(uint64_t fields, uint32_t mask)
{
	int l4 = !!(fields & TCP) + !!(fields & UDP) + !!(fields & SPI);

	if (fields & ~(IPV4 | IPV6 | TCP | UDP | SPI | INNER))
		return EOPNOTSUPP;
	if (fields & IPV4 && fields & IPV6)
		return EINVAL;
	if (l4 > 1)
		return EINVAL;
	/* without a field, a table of one entry steers and hashes nothing */
	return !(fields & ~INNER) && (mask || fields) ? EINVAL : 0;
}

int soft_rss_new(const struct ibv_qp_init_attr_ex *attr, struct soft_rss **ret)
{
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	const struct soft_table *table =
		(const struct soft_table *)attr->rwq_ind_tbl;
	int err;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) || !table)
		return EINVAL;
	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return EOPNOTSUPP;
	if (conf->rx_hash_key_len != SOFT_RSS_KEY || !conf->rx_hash_key)
		return EINVAL;
	err = check_fields(conf->rx_hash_fields_mask, table->mask);
	if (err)
		return err;
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return ENOMEM;
	(*ret)->table = (struct soft_table *)attr->rwq_ind_tbl;
	(*ret)->fields = conf->rx_hash_fields_mask;
	memcpy((*ret)->key, conf->rx_hash_key, SOFT_RSS_KEY);
	return 0;
}

/* ---- the hash --------------------------------------------------------- */

uint32_t soft_toeplitz(const uint8_t key[SOFT_RSS_KEY], const uint8_t *data,
		       uint32_t len)
{
	uint32_t hash = 0, window = (uint32_t)key[0] << 24 | key[1] << 16 |
				    key[2] << 8 | key[3];

	for (uint32_t i = 0; i < len; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (data[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

struct input {
	uint8_t bytes[INPUT_MAX];
	uint32_t len;
};

static void add(struct input *in, bool wanted, const uint8_t *at, uint32_t len)
{
	if (!wanted)
		return;
	memcpy(in->bytes + in->len, at, len);
	in->len += len;
}

static void add_addresses(struct input *in, uint64_t fields,
			  const struct soft_frame *f)
{
	if (f->ip == 4) {
		add(in, fields & IBV_RX_HASH_SRC_IPV4, f->l3 + 12, 4);
		add(in, fields & IBV_RX_HASH_DST_IPV4, f->l3 + 16, 4);
	} else if (f->ip == 6) {
		add(in, fields & IBV_RX_HASH_SRC_IPV6, f->l3 + 8, 16);
		add(in, fields & IBV_RX_HASH_DST_IPV6, f->l3 + 24, 16);
	}
}

static void add_ports(struct input *in, uint64_t fields,
		      const struct soft_frame *f)
{
	bool tcp = f->proto == FRAME_TCP, udp = f->proto == FRAME_UDP;

	if (!f->l4)
		return;
	add(in, (tcp && fields & IBV_RX_HASH_SRC_PORT_TCP) ||
	    (udp && fields & IBV_RX_HASH_SRC_PORT_UDP), f->l4, 2);
	add(in, (tcp && fields & IBV_RX_HASH_DST_PORT_TCP) ||
	    (udp && fields & IBV_RX_HASH_DST_PORT_UDP), f->l4 + 2, 2);
	add(in, f->proto == FRAME_ESP && fields & SPI, f->l4, 4);
}

/* A packet without any of the fields has the hash 0. */
struct soft_wq *soft_rss_choose(const struct soft_rss *rss,
				const uint8_t *frame, uint32_t len)
{
	struct input in = { .len = 0 };
	struct soft_frame outer, inner, *f = &outer;

	soft_frame_parse(&outer, frame, len);
	if (rss->fields & INNER)
		f = soft_frame_inner(&outer, &inner) ? &inner : NULL;
	if (f) {
		add_addresses(&in, rss->fields, f);
		add_ports(&in, rss->fields, f);
	}
	return rss->table->wq[soft_toeplitz(rss->key, in.bytes, in.len) &
			      rss->table->mask];
}
