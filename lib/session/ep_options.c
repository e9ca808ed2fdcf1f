/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of an endpoint: checks, defaults, copies. */
#include "base/base.h"
#include "base/ctx.h"
#include "device/cq.h"
#include "device/pd.h"
#include "lane/create_flags.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#define EP_FLAGS	(RDMAMSG_EP_SIGNAL_ALL | RDMAMSG_EP_OWN_CQ | \
			 RDMAMSG_EP_GUARD | RDMAMSG_EP_FULL_HEADERS | \
			 RDMAMSG_EP_CRC | RDMAMSG_EP_RETRY)

#define RANGE(...)	RANGE_OF(struct rdmamsg_ep_options, __VA_ARGS__)
#define TUNING(...)	RANGE_OF(struct rdmamsg_ep_tuning, __VA_ARGS__)

static const struct range ranges[] = {
	RANGE(timeout_ms, 10000, 0, 1, 86400000),
	RANGE(max_msg_size, 64u << 20, 1, 1, RDMAMSG_MSG_MAX),
	RANGE(send_queue, 0, 0, 0, 1u << 16),
	RANGE(dead_after_ms, 0, RDMAMSG_NONE, 10, 86400000),
	RANGE(close_timeout_ms, 10000, 0, 1, 86400000),
};

static const struct range tuning_ranges[] = {
	TUNING(max_lent, 64u << 20, RDMAMSG_NONE, 1, RDMAMSG_NONE - 1),
	TUNING(max_copy, 65536, 0, 0, RDMAMSG_MSG_MAX),
	TUNING(inline_max, 240, 0, 0, TX_STAGE),
	TUNING(eager_max, PROTO_RECV_MIN - PROTO_HDR_LEN, 0, 0, 1u << 20),
	TUNING(recv_depth, 64, 0, 1, 1u << 16),
	TUNING(send_depth, 128, 0, 1, 1u << 16),
	TUNING(stall_after_ms, 5000, RDMAMSG_NONE, 10, 86400000),
	TUNING(peer_timeout_ms, RDMAMSG_NONE, RDMAMSG_NONE, 10, 86400000),
	TUNING(fetch_timeout_ms, 60000, RDMAMSG_NONE, 10, 86400000),
	TUNING(ack_timeout, 0, 0, 0, 31),
	TUNING(retry_count, 7, 0, 0, 7),
	TUNING(rnr_retry_count, RNR_RETRY_AUTO, 0, 0, 7),
	TUNING(min_rnr_timer, 12, 0, 0, 31),
	TUNING(responder_resources, 16, 0, 1, 255),
	TUNING(initiator_depth, 16, 0, 1, 255),
	TUNING(tos, RDMAMSG_NONE, 0, 0, 255),
	TUNING(comp_vector, VECTOR_ANY, RDMAMSG_NONE, 0, VECTOR_ANY),
	TUNING(pieces_max, 0, RDMAMSG_NONE, 1, PROTO_PIECES_MAX),
};

/* A guarded endpoint shares neither receives nor a protection domain. */
static int check_guard(const struct rdmamsg_ep_options *o)
{
	if (!(o->flags & RDMAMSG_EP_GUARD) || (!o->srq && !o->pd))
		return 0;
	return rdmamsg__fail(-EINVAL, "RDMAMSG_EP_GUARD and %s: a guarded "
			     "endpoint has a protection domain and receives "
			     "of its own", o->srq ? "srq" : "pd");
}

static int set_tuning(struct rdmamsg_ep_tuning *t)
{
	int ret = rdmamsg__create_flags_check(t->create_flags, IBV_QPT_RC, NULL,
					      NULL);

	return ret ? ret : rdmamsg__set_ranges(t, tuning_ranges,
			sizeof(tuning_ranges) / sizeof(tuning_ranges[0]));
}

/* Declared in the headers, for programs and bindings to come. */
static int check_future(const struct rdmamsg_ep_options *o)
{
	if (o->reconnect)
		return rdmamsg__fail(-EOPNOTSUPP, "reconnect: this version does "
				     "not connect again by itself; call "
				     "rdmamsg_connect() in on_closed");
	if (o->on_demand)
		return rdmamsg__fail(-EOPNOTSUPP, "on_demand: endpoints of this "
				     "version connect at once; call "
				     "rdmamsg_connect() at the first use");
	if (o->dc)
		return rdmamsg__fail(-EOPNOTSUPP, "dc: this version has no "
				     "endpoints over DC; use "
				     "rdmamsg_dc_sender_create()");
	return 0;
}

static int set_ranges(struct rdmamsg_ep_options *o, struct rdmamsg_ep_tuning *t)
{
	int ret = check_future(o);

	if (!ret)
		ret = set_tuning(t);
	if (ret)
		return ret;
	if (o->flags & ~(uint32_t)EP_FLAGS)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: unknown bits",
				     o->flags);
	ret = check_guard(o);
	if (ret)
		return ret;
	return rdmamsg__set_ranges(o, ranges,
				   sizeof(ranges) / sizeof(ranges[0]));
}

int rdmamsg__ep_options_copy(struct rdmamsg_ep_options *o,
			     struct rdmamsg_ep_tuning *t,
			     const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts, "rdmamsg_ep_options");

	if (!ret)
		ret = rdmamsg__opts_copy(t, sizeof(*t), o->tuning,
					 "rdmamsg_ep_tuning");
	o->tuning = t;
	return ret;
}

int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    struct rdmamsg_ep_tuning *t,
			    const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__ep_options_copy(o, t, opts);

	return ret ? ret : set_ranges(o, t);
}

void rdmamsg__ep_options_unset(struct rdmamsg_ep_options *o,
			       struct rdmamsg_ep_tuning *t)
{
	rdmamsg__unset_ranges(o, ranges, sizeof(ranges) / sizeof(ranges[0]));
	rdmamsg__unset_ranges(t, tuning_ranges, sizeof(tuning_ranges) /
			      sizeof(tuning_ranges[0]));
}

int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_ep_options o = *opts;
	struct rdmamsg_ep_tuning t = *opts->tuning;

	return set_ranges(&o, &t);
}

static int copy_string(char **dst, const char *src)
{
	if (!src)
		return 0;
	*dst = strdup(src);
	return *dst ? 0 : rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
}

static int set_data(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_options *o = &ep->opts;

	if (o->hello_data_len > RDMAMSG_HELLO_DATA_MAX ||
	    (o->hello_data_len && !o->hello_data))
		return rdmamsg__fail(-EINVAL, "hello_data_len %zu: at most %d, "
				     "with hello_data", o->hello_data_len,
				     RDMAMSG_HELLO_DATA_MAX);
	if (o->setup_data_len > RDMAMSG_SETUP_DATA_MAX ||
	    (o->setup_data_len && !o->setup_data))
		return rdmamsg__fail(-EINVAL, "setup_data_len %zu: at most %d, "
				     "with setup_data", o->setup_data_len,
				     RDMAMSG_SETUP_DATA_MAX);
	if (o->hello_data_len)
		memcpy(ep->connect.hello_data, o->hello_data,
		       o->hello_data_len);
	if (o->setup_data_len) {
		ep->connect.setup_data = malloc(o->setup_data_len);
		if (!ep->connect.setup_data)
			return rdmamsg__fail(-ENOMEM,
					     "no memory for setup_data");
		memcpy(ep->connect.setup_data, o->setup_data,
		       o->setup_data_len);
	}
	return 0;
}

static int set_recorder(struct rdmamsg_ep *ep)
{
	if (!ep->opts.failover)
		return 0;
	ep->recorder = rdmamsg__recorder_new();
	return ep->recorder ? 0 :
	       rdmamsg__fail(-ENOMEM, "no memory for failover");
}

int rdmamsg__ep_configure(struct rdmamsg_ep *ep,
			  const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__ep_options_set(&ep->opts, &ep->tuning, opts);

	if (!ret)
		ret = rdmamsg__opts_copy(&ep->on, sizeof(ep->on),
					 ep->opts.handlers,
					 "rdmamsg_ep_handlers");
	if (!ret)
		ret = rdmamsg__srq_options_check(ep->ctx, ep->opts.srq);
	if (!ret)
		ret = rdmamsg__userpools_check(ep->ctx, &ep->opts);
	if (!ret)
		ret = rdmamsg__pd_check(ep->ctx, ep->opts.pd);
	if (!ret)
		ret = set_recorder(ep);
	if (!ret)
		ret = rdmamsg__failover_new(ep, ep->opts.failover);
	ep->opts.failover = NULL;	/* the caller owns it */
	if (!ret)
		ret = set_data(ep);
	if (!ret)
		ret = copy_string(&ep->connect.source, ep->opts.source);
	if (!ret)
		ret = copy_string(&ep->connect.device, ep->opts.device);
	ep->user = ep->opts.user;
	return ret;
}
