/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/cm/mad.h"

#include <string.h>

#include "soft/fabric/bytes.h"
#include "soft/fabric/sockaddr.h"
#include "soft/net/packet.h"

#define HEADER		24u
#define CLASS_CM	0x07
#define METHOD_SEND	0x03
#define RESPONSE_TIME	20		/* 4.096 us * 2^20 = 4.3 s */
#define CM_RETRIES	15
#define HOPS		64
#define RATE		3		/* 10 Gb/s, which nothing depends on */

/* ---- the header of librdmacm, in front of a request's private data ------ */

static void put_ip(uint8_t at[16], const struct sockaddr_in6 *a)
{
	if (a->sin6_family == AF_INET6)
		memcpy(at, &a->sin6_addr, 16);
	else
		memcpy(at + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

/* Linux, drivers/infiniband/core/cma.c, struct cma_hdr */
static void put_cma(uint8_t *at, const struct soft_cm_msg *m)
{
	at[1] = m->src.sin6_family == AF_INET6 ? 0x60 : 0x40;
	memcpy(at + 2, &m->src.sin6_port, 2);
	put_ip(at + 4, &m->src);
	put_ip(at + 20, &m->dst);
}

static void get_ip(struct sockaddr_in6 *a, const uint8_t at[16], bool v6)
{
	struct sockaddr_in *in = (struct sockaddr_in *)a;

	memset(a, 0, sizeof(*a));
	if (v6) {
		a->sin6_family = AF_INET6;
		memcpy(&a->sin6_addr, at, 16);
	} else {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, at + 12, 4);
	}
}

static bool get_cma(const uint8_t *at, struct soft_cm_msg *m, uint16_t port)
{
	const bool v6 = at[1] >> 4 == 6;

	if (at[0] || (!v6 && at[1] >> 4 != 4))
		return false;
	get_ip(&m->src, at + 4, v6);
	get_ip(&m->dst, at + 20, v6);
	memcpy(&m->src.sin6_port, at + 2, 2);
	m->dst.sin6_port = htons(port);
	return true;
}

/* Copies private data, which has no length: all that there is room for. */
static void get_private(struct soft_cm_msg *m, const uint8_t *at, size_t len)
{
	memcpy(m->param.private_data, at, len);
	m->param.private_data_len = (uint8_t)len;
}

static void put_private(uint8_t *at, const struct soft_cm_msg *m, size_t len)
{
	memcpy(at, m->param.private_data,
	       min(m->param.private_data_len, len));
}

/* The service ID of a port: Linux, rdma_get_service_id(). */
static uint64_t service_of(const struct soft_cm_msg *m)
{
	return (uint64_t)m->ps << 16 | ntohs(m->dst.sin6_port);
}

/* Returns false for a service that is none of librdmacm's port spaces. */
static bool get_service(struct soft_cm_msg *m, uint64_t service)
{
	m->ps = (uint16_t)(service >> 16);
	return service >> 32 == 0 &&
	       (m->ps == RDMA_PS_TCP || m->ps == RDMA_PS_UDP ||
		m->ps == RDMA_PS_IB || m->ps == RDMA_PS_IPOIB);
}

/* ---- writing ---------------------------------------------------------- */

static void put_req(const struct mad *mad, uint8_t *at)
{
	const struct soft_cm_msg *m = &mad->m;
	const struct rdma_ucm_conn_param *c = &m->param;

	soft_put32(at, m->hdr.from);
	soft_put64(at + 8, service_of(m));
	soft_put64(at + 16, mad->guid);
	soft_put24(at + 32, c->qp_num);
	at[35] = c->responder_resources;
	at[39] = c->initiator_depth;
	at[43] = RESPONSE_TIME << 3 | (c->flow_control & 1);
	soft_put24(at + 44, m->psn);
	at[47] = RESPONSE_TIME << 3 | (c->retry_count & 7);
	soft_put16(at + 48, PACKET_PKEY);
	at[50] = (uint8_t)(mad->mtu << 4) | (c->rnr_retry_count & 7);
	at[51] = CM_RETRIES << 4 | (c->srq ? 1 << 3 : 0);
	memcpy(at + 56, mad->from, 16);
	memcpy(at + 72, mad->to, 16);
	at[91] = RATE;
	at[93] = HOPS;
	at[95] = 14 << 3;		/* ack timeout: 67 ms */
	put_cma(at + 140, m);
	put_private(at + 140 + SOFT_PRIVATE_CMA, m, SOFT_PRIVATE_REQ);
}

static void put_rep(const struct mad *mad, uint8_t *at)
{
	const struct soft_cm_msg *m = &mad->m;
	const struct rdma_ucm_conn_param *c = &m->param;

	soft_put32(at, m->hdr.from);
	soft_put32(at + 4, m->hdr.to);
	soft_put24(at + 12, c->qp_num);
	soft_put24(at + 20, m->psn);
	at[24] = c->responder_resources;
	at[25] = c->initiator_depth;
	at[26] = c->flow_control & 1;
	at[27] = (uint8_t)((c->rnr_retry_count & 7) << 5) |
		 (c->srq ? 1 << 4 : 0);
	soft_put64(at + 28, mad->guid);
	put_private(at + 36, m, SOFT_PRIVATE_REP);
}

static void put_rej(const struct mad *mad, uint8_t *at)
{
	const struct soft_cm_msg *m = &mad->m;

	soft_put32(at, m->hdr.from);
	soft_put32(at + 4, m->hdr.to);
	/* without a number of ours it is the request, else the reply */
	at[8] = (uint8_t)(m->hdr.from ? 1 << 6 : 0);
	soft_put16(at + 10, m->reason);
	put_private(at + 84, m, SOFT_PRIVATE_REJ);
}

static void put_sidr_req(const struct mad *mad, uint8_t *at)
{
	soft_put32(at, mad->m.hdr.from);
	soft_put16(at + 4, PACKET_PKEY);
	soft_put64(at + 8, service_of(&mad->m));
	put_cma(at + 16, &mad->m);
	put_private(at + 16 + SOFT_PRIVATE_CMA, &mad->m, SOFT_PRIVATE_SIDR_REQ);
}

static void put_sidr_rep(const struct mad *mad, uint8_t *at)
{
	const struct soft_cm_msg *m = &mad->m;

	soft_put32(at, m->hdr.to);
	if (m->hdr.type == SOFT_MSG_REJ)
		at[4] = m->reason == SOFT_REJ_INVALID_SERVICE ?
			SOFT_SIDR_UNSUPPORTED : SOFT_SIDR_REJECT;
	soft_put24(at + 8, m->param.qp_num);
	soft_put32(at + 20, m->param.qkey);
	put_private(at + 96, m, SOFT_PRIVATE_SIDR_REP);
}

static enum mad_kind kind_of(const struct mad *mad)
{
	switch (mad->m.hdr.type) {
	case SOFT_MSG_REQ:
		return mad->ud ? MAD_SIDR_REQ : MAD_REQ;
	case SOFT_MSG_REP:
		return mad->ud ? MAD_SIDR_REP : MAD_REP;
	case SOFT_MSG_REJ:
		return mad->ud ? MAD_SIDR_REP : MAD_REJ;
	case SOFT_MSG_RTU:
		return MAD_RTU;
	case SOFT_MSG_DREQ:
		return MAD_DREQ;
	default:
		return MAD_DREP;
	}
}

void mad_put(const struct mad *mad, uint8_t at[MAD_LENGTH])
{
	const enum mad_kind kind = kind_of(mad);
	uint8_t *body = at + HEADER;

	memset(at, 0, MAD_LENGTH);
	at[0] = 1;			/* base version */
	at[1] = CLASS_CM;
	at[2] = 2;			/* class version */
	at[3] = METHOD_SEND;
	soft_put64(at + 8, mad->tid);
	soft_put16(at + 16, kind);
	switch (kind) {
	case MAD_REQ:
		put_req(mad, body);
		return;
	case MAD_REP:
		put_rep(mad, body);
		return;
	case MAD_REJ:
		put_rej(mad, body);
		return;
	case MAD_SIDR_REQ:
		put_sidr_req(mad, body);
		return;
	case MAD_SIDR_REP:
		put_sidr_rep(mad, body);
		return;
	default:
		soft_put32(body, mad->m.hdr.from);
		soft_put32(body + 4, mad->m.hdr.to);
		if (kind == MAD_DREQ)
			soft_put24(body + 8, mad->m.param.qp_num);
	}
}

/* ---- reading ---------------------------------------------------------- */

static bool get_req(struct mad *mad, const uint8_t *at)
{
	struct soft_cm_msg *m = &mad->m;
	struct rdma_ucm_conn_param *c = &m->param;
	const uint64_t service = soft_get64(at + 8);

	m->hdr.type = SOFT_MSG_REQ;
	m->hdr.from = soft_get32(at);
	/* a reliable connection; any other transport has a number above 0 */
	if (at[43] & 6 || at[51] & 7 || !get_service(m, service))
		return false;
	c->qp_num = soft_get24(at + 32);
	c->responder_resources = at[35];
	c->initiator_depth = at[39];
	c->flow_control = at[43] & 1;
	m->psn = soft_get24(at + 44);
	c->retry_count = at[47] & 7;
	mad->mtu = at[50] >> 4;
	c->rnr_retry_count = at[50] & 7;
	c->srq = at[51] >> 3 & 1;
	memcpy(mad->from, at + 56, 16);
	memcpy(mad->to, at + 72, 16);
	get_private(m, at + 140 + SOFT_PRIVATE_CMA, SOFT_PRIVATE_REQ);
	return get_cma(at + 140, m, (uint16_t)service);
}

static bool get_rep(struct mad *mad, const uint8_t *at)
{
	struct soft_cm_msg *m = &mad->m;
	struct rdma_ucm_conn_param *c = &m->param;

	m->hdr.type = SOFT_MSG_REP;
	m->hdr.from = soft_get32(at);
	m->hdr.to = soft_get32(at + 4);
	c->qp_num = soft_get24(at + 12);
	m->psn = soft_get24(at + 20);
	c->responder_resources = at[24];
	c->initiator_depth = at[25];
	c->flow_control = at[26] & 1;
	c->rnr_retry_count = at[27] >> 5;
	c->srq = at[27] >> 4 & 1;
	get_private(m, at + 36, SOFT_PRIVATE_REP);
	return m->hdr.to;
}

static bool get_rej(struct mad *mad, const uint8_t *at)
{
	struct soft_cm_msg *m = &mad->m;

	m->hdr.type = SOFT_MSG_REJ;
	m->hdr.from = soft_get32(at);
	m->hdr.to = soft_get32(at + 4);
	m->reason = (uint8_t)min(soft_get16(at + 10), 255u);
	get_private(m, at + 84, SOFT_PRIVATE_REJ);
	return m->hdr.to || m->hdr.from;
}

static bool get_sidr_req(struct mad *mad, const uint8_t *at)
{
	struct soft_cm_msg *m = &mad->m;
	const uint64_t service = soft_get64(at + 8);

	mad->ud = true;
	m->hdr.type = SOFT_MSG_REQ;
	m->hdr.from = soft_get32(at);
	get_private(m, at + 16 + SOFT_PRIVATE_CMA, SOFT_PRIVATE_SIDR_REQ);
	return get_service(m, service) &&
	       get_cma(at + 16, m, (uint16_t)service);
}

static bool get_sidr_rep(struct mad *mad, const uint8_t *at)
{
	struct soft_cm_msg *m = &mad->m;

	mad->ud = true;
	m->hdr.type = at[4] ? SOFT_MSG_REJ : SOFT_MSG_REP;
	m->hdr.to = soft_get32(at);
	m->reason = at[4] == SOFT_SIDR_UNSUPPORTED ? SOFT_REJ_INVALID_SERVICE :
		    SOFT_REJ_CONSUMER;
	m->param.qp_num = soft_get24(at + 8);
	m->param.qkey = soft_get32(at + 20);
	get_private(m, at + 96, SOFT_PRIVATE_SIDR_REP);
	return m->hdr.to;
}

/* RTU, DREQ, DREP and MRA begin alike. */
static bool get_short(struct mad *mad, const uint8_t *at,
		      enum soft_msg_type type)
{
	mad->m.hdr.type = (uint16_t)type;
	mad->m.hdr.from = soft_get32(at);
	mad->m.hdr.to = soft_get32(at + 4);
	return true;
}

bool mad_get(struct mad *mad, const uint8_t at[MAD_LENGTH])
{
	const uint8_t *body = at + HEADER;

	memset(mad, 0, sizeof(*mad));
	if (at[0] != 1 || at[1] != CLASS_CM || at[2] != 2 ||
	    at[3] != METHOD_SEND)
		return false;
	mad->tid = soft_get64(at + 8);
	mad->m.hdr.magic = SOFT_MSG_MAGIC;
	switch (soft_get16(at + 16)) {
	case MAD_REQ:
		return get_req(mad, body);
	case MAD_REP:
		return get_rep(mad, body);
	case MAD_REJ:
		return get_rej(mad, body);
	case MAD_MRA:
		mad->delay = true;
		return get_short(mad, body, SOFT_MSG_BUSY);
	case MAD_RTU:
		return get_short(mad, body, SOFT_MSG_RTU);
	case MAD_DREQ:
		return get_short(mad, body, SOFT_MSG_DREQ);
	case MAD_DREP:
		return get_short(mad, body, SOFT_MSG_DREP);
	case MAD_SIDR_REQ:
		return get_sidr_req(mad, body);
	case MAD_SIDR_REP:
		return get_sidr_rep(mad, body);
	default:
		return false;
	}
}
