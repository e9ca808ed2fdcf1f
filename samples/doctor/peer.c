/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps to a peer. The first step that is wrong is the last. */
#include "doctor.h"
#include "parse.h"
#include "visit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define OTHER_PORT	"7483"		/* if another program has DOCTOR_PORT */
#define WAIT_MS		10000
#define MEASURE_MS	5000		/* the most that a measurement takes */
#define ENOUGH_US	2e6		/* a measurement ends after this time */
#define ROUNDS		101
#define SMALL		64u
#define LARGE		((size_t)1 << 20)
#define LARGE_ROUNDS	8
/* Bytes that a peer may send at once, and a report above REPORT_MAX is told. */
#define TAKEN_MAX	65536

/* ---- time -------------------------------------------------------------- */

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Returns the milliseconds left of the 'ms' of a step that began at 'start'. */
static int left_ms(double start, int ms)
{
	double used = (now_us() - start) / 1e3;

	return used < ms ? ms - (int)used : 0;
}

/* ---- connecting ------------------------------------------------------- */

static void mend_connect(struct finding *f, const struct visit *v,
			 enum rdmamsg_cause cause)
{
	switch (cause) {
	case RDMAMSG_CAUSE_REFUSED:
	case RDMAMSG_CAUSE_REJECTED:
	case RDMAMSG_CAUSE_PROTOCOL:
	case RDMAMSG_CAUSE_VERSION:
	case RDMAMSG_CAUSE_AUTH:
		mend(f, "there: rdmamsg-doctor --serve -p %s", v->service);
		break;
	case RDMAMSG_CAUSE_UNREACHABLE:
	case RDMAMSG_CAUSE_TIMEOUT:
	case RDMAMSG_CAUSE_TRANSPORT:
		if (v->here)
			mend(f, "on this host: rdmamsg-doctor --serve -p %s, "
			     "in place of a program that does not go on",
			     v->service);
		else
			mend(f, "ping %s; there: rdmamsg-doctor; between: let "
			     "UDP port 4791 of RoCE v2 pass", v->text);
		break;
	default:
		mend(f, "RDMAMSG_LOG=debug rdmamsg-doctor %s", v->target);
	}
}

static bool reach(struct visit *v)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .max_msg_size = TAKEN_MAX,
	};
	struct finding *f;

	if (!rdmamsg_connect_wait(v->ctx, v->host, v->service, &opts, WAIT_MS,
				  &v->ep)) {
		found(v->host, OK, "connected to port %s", v->service);
		return true;
	}
	f = found(v->host, WRONG, "%s", rdmamsg_error());
	if (rdmamsg_wait_reason(v->ctx)->cm_status == -EPROTOTYPE)
		mend(f, "unset RDMAMSG_SOFT_LINK; there: unset "
		     "RDMAMSG_SOFT_LINK");
	else
		mend_connect(f, v, rdmamsg_wait_reason(v->ctx)->cause);
	return false;
}

/* Adds a finding about a connection that has failed. */
static bool broken(const struct visit *v)
{
	struct finding *f = found(v->host, WRONG, "%s", rdmamsg_error());

	mend(f, "there: rdmamsg-doctor --serve -p %s", v->service);
	return false;
}

/* Says that the peer is no doctor, which has to take another port. */
static bool foreign(const struct visit *v, const char *why)
{
	const char *port = strcmp(v->service, DOCTOR_PORT) ? DOCTOR_PORT :
							     OTHER_PORT;
	bool colon = strchr(v->host, ':');
	struct finding *f;

	f = found(v->host, WRONG, "%sthe program at port %s is not "
		  "rdmamsg-doctor", why, v->service);
	mend(f, "there: rdmamsg-doctor --serve -p %s; here: rdmamsg-doctor "
	     "%s%s%s:%s", port, colon ? "[" : "", v->host, colon ? "]" : "",
	     port);
	return false;
}

static bool read_report(struct visit *v, const struct rdmamsg_msg *msg)
{
	size_t len = rdmamsg_msg_len(msg);
	char why[96];
	bool good;

	if (len > REPORT_MAX) {
		snprintf(why, sizeof(why), "a report of %zu bytes, where %d "
			 "are the most: ", len, REPORT_MAX);
		return foreign(v, why);
	}
	report_check("peer");
	good = message_read(rdmamsg_msg_data(msg), len, &v->theirs);
	report_check("report");
	if (!good)
		return foreign(v, "");
	found(v->host, OK, "from %s port %u", v->theirs.device,
	      v->theirs.port);
	return true;
}

static bool ask_report(struct visit *v)
{
	double start = now_us();
	struct rdmamsg_msg *msg;
	bool good;

	used_find(v->facts, v->ep, &v->own);
	if (rdmamsg_send_wait(v->ep, "", 0, TAG_REPORT, WAIT_MS) ||
	    rdmamsg_recv_wait(v->ep, left_ms(start, WAIT_MS), &msg)) {
		struct finding *f;

		f = found(v->host, WRONG, "no report of at most %d bytes: %s",
			  REPORT_MAX, rdmamsg_error());
		mend(f, "there: rdmamsg-doctor --serve -p %s", v->service);
		return false;
	}
	good = read_report(v, msg);
	rdmamsg_msg_free(msg);
	return good;
}

/* ---- measuring -------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A peer that answers late costs no more time, and is told. */
static void told_slow(const struct visit *v, struct finding *f)
{
	f->verdict = WARNING;
	mend(f, "there: top, to see what keeps the host busy; between: ping %s",
	     v->text);
}

static bool latency(struct visit *v)
{
	static const char payload[SMALL];
	double took[ROUNDS], start = now_us();
	struct finding *f;
	unsigned int n = 0;

	while (n < ROUNDS && now_us() - start < ENOUGH_US) {
		struct rdmamsg_msg *msg;

		took[n] = now_us();
		if (rdmamsg_send(v->ep, payload, SMALL, TAG_ECHO, NULL) ||
		    rdmamsg_recv_wait(v->ep, left_ms(start, MEASURE_MS), &msg))
			return broken(v);
		took[n] = now_us() - took[n];
		n++;
		rdmamsg_msg_free(msg);
	}
	qsort(took, n, sizeof(took[0]), by_value);
	f = found(v->host, OK, "%u bytes there and back: %.1f us, median of %u",
		  SMALL, took[n / 2], n);
	if (n < ROUNDS)
		told_slow(v, f);
	return true;
}

static bool bandwidth(struct visit *v)
{
	char *payload = calloc(1, LARGE);
	double start = now_us(), took;
	int ret = payload ? 0 : -ENOMEM;
	struct finding *f;
	unsigned int n = 0;

	while (n < LARGE_ROUNDS && !ret && now_us() - start < ENOUGH_US) {
		ret = rdmamsg_send_wait(v->ep, payload, LARGE, TAG_BULK,
					left_ms(start, MEASURE_MS));
		n++;
	}
	took = now_us() - start;
	free(payload);
	if (ret)
		return broken(v);
	f = found(v->host, OK, "%u messages of %zu KB: %.1f MB/s", n,
		  LARGE >> 10, (double)(LARGE * n) / took);
	if (n < LARGE_ROUNDS)
		told_slow(v, f);
	return true;
}

/* ---- comparing ------------------------------------------------------- */

/* A name may be in a command if a shell takes it as it is. */
static bool is_plain(const char *name)
{
	return name[0] && !name[strspn(name, "0123456789_.:@-"
				       "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

static bool compare_mtu(const struct visit *v)
{
	const struct used *a = &v->own, *b = &v->theirs;
	bool here = a->active_mtu < b->active_mtu;
	const struct used *small = here ? a : b, *large = here ? b : a;
	struct finding *f;

	if (!a->active_mtu || !b->active_mtu || a->active_mtu == b->active_mtu)
		return true;
	f = found(v->host, WARNING, "MTU of %u here, of %u there: messages "
		  "have packets of the smaller one", a->active_mtu,
		  b->active_mtu);
	if (is_plain(small->netdev))
		mend(f, "%sip link set dev %s mtu %u", here ? "" : "there: ",
		     small->netdev, large->active_mtu + 104);
	else if (!small->ethernet)
		mend(f, "raise the MTU in opensm's partitions.conf: mtu=%u",
		     RDMAMSG_MTU_CODE(large->active_mtu));
	else
		mend(f, "set the same MTU on both sides");
	return false;
}

static bool is_roce(const struct used *u)
{
	return u->gid_type == 1 || u->gid_type == 2;
}

static bool compare_gid_type(const struct visit *v)
{
	const struct used *a = &v->own, *b = &v->theirs;
	bool here = a->gid_type == 1;
	const char *device = here ? a->device : b->device;
	struct finding *f;

	if (!is_roce(a) || !is_roce(b) || a->gid_type == b->gid_type)
		return true;
	f = found(v->host, WARNING, "RoCE v%u here, v%u there", a->gid_type,
		  b->gid_type);
	if (is_plain(device))
		mend(f, "%scd /sys/kernel/config/rdma_cm && mkdir -p %s && "
		     "echo 'RoCE v2' >%s/ports/%u/default_roce_mode",
		     here ? "" : "there: ", device, device,
		     (here ? a : b)->port);
	else
		mend(f, "use RoCE v2 on both sides");
	return false;
}

static void compare_firmware(const struct visit *v)
{
	const struct used *a = &v->own, *b = &v->theirs;
	bool here = firmware_is_older(a->firmware, b->firmware);
	struct finding *f;

	f = found(v->host, WARNING, "firmware %s here, %s there, on the same "
		  "board", a->firmware, b->firmware);
	if (is_plain((here ? a : b)->device))
		mend_firmware(f, here ? "" : "there: ", (here ? a : b)->device);
	else
		mend(f, "install the same firmware on both sides");
}

static bool compare_versions(const struct visit *v)
{
	const struct used *a = &v->own, *b = &v->theirs;
	struct finding *f;
	bool same = true;

	if (strcmp(a->library, b->library)) {
		f = found(v->host, WARNING, "librdmamsg %s here, %s there",
			  a->library, b->library);
		mend(f, "install the same version on both sides");
		same = false;
	}
	if (a->board[0] && !strcmp(a->board, b->board) &&
	    strcmp(a->firmware, b->firmware)) {
		compare_firmware(v);
		same = false;
	}
	return same;
}

static bool compare(struct visit *v)
{
	bool same = compare_mtu(v);

	same &= compare_gid_type(v);
	same &= compare_versions(v);
	if (same)
		found(v->host, OK, "both have librdmamsg %s, MTU %u, %s",
		      v->own.library, v->own.active_mtu,
		      v->own.ethernet ? "Ethernet" : "InfiniBand");
	return true;
}

/* ---- the steps -------------------------------------------------------- */

static const struct {
	const char *name;
	bool (*take)(struct visit *v);
} steps[] = {
	{ "resolve", step_resolve }, { "route", step_route },
	{ "connect", reach }, { "report", ask_report }, { "latency", latency },
	{ "bandwidth", bandwidth }, { "compare", compare },
};

#define STEPS	(sizeof(steps) / sizeof(steps[0]))

void examine_peer(const struct facts *f, const char *target)
{
	struct visit v = {
		.facts = f, .target = target, .service = DOCTOR_PORT,
	};
	bool goes_on = true;

	(void)parse_target(target, v.host, sizeof(v.host), v.service,
			   sizeof(v.service));
	report_check("connect");
	if (rdmamsg_open(&v.ctx, NULL)) {
		found(v.host, WRONG, "%s", rdmamsg_error());
		return;
	}
	for (size_t i = 0; i < STEPS && goes_on; i++) {
		report_check(steps[i].name);
		goes_on = steps[i].take(&v);
	}
	if (v.ep)
		(void)rdmamsg_ep_close_wait(v.ep, WAIT_MS);
	rdmamsg_close(v.ctx);
}
