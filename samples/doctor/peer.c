/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps to a peer. The first step that is wrong is the last. */
#include "doctor.h"
#include "parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define OTHER_PORT	"7483"		/* if another program has DOCTOR_PORT */
#define WAIT_MS		10000
#define ROUNDS		101
#define SMALL		64u
#define LARGE		((size_t)1 << 20)
#define LARGE_ROUNDS	8
/* Bytes that a peer may send at once, and a report above REPORT_MAX is told. */
#define TAKEN_MAX	65536

struct visit {
	const struct facts *facts;
	const char *target;
	char host[256], service[32];
	char text[INET6_ADDRSTRLEN];	/* the address of the host */
	struct sockaddr_storage to, from;
	socklen_t to_len;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct used own, theirs;
};

/* ---- address and route ------------------------------------------------ */

static void write_address(const struct sockaddr_storage *ss, char *buf,
			  socklen_t size)
{
	buf[0] = 0;
	(void)getnameinfo((const struct sockaddr *)ss, sizeof(*ss), buf, size,
			  NULL, 0, NI_NUMERICHOST);
}

static bool resolve(struct visit *v)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *list;
	struct finding *f;
	int ret = getaddrinfo(v->host, v->service, &hints, &list);

	if (ret) {
		f = found(v->host, WRONG, "%s", gai_strerror(ret));
		if (ret == EAI_SERVICE)
			mend(f, "use the number of a port");
		else
			mend(f, "getent hosts %s; add the name to /etc/hosts, "
			     "or use an address", v->host);
		return false;
	}
	v->to_len = list->ai_addrlen;
	memcpy(&v->to, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	write_address(&v->to, v->text, sizeof(v->text));
	found(v->host, OK, "%s", v->text);
	return true;
}

static void gid_of(const struct sockaddr_storage *ss, uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (ss->ss_family == AF_INET) {
		memcpy(gid, mapped, 12);
		memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)
				   ss)->sin_addr, 4);
	} else {
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)
			      ss)->sin6_addr, 16);
	}
}

static bool is_loopback(const uint8_t gid[16])
{
	return !memcmp(gid, &in6addr_loopback, 16) ||
	       (!memcmp(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f", 13));
}

/* The network device that has the address, or "". */
static void netdev_of(const struct sockaddr_storage *ss, char *buf,
		      size_t size)
{
	struct ifaddrs *list;
	struct sockaddr_storage one;
	uint8_t wanted[16], gid[16];

	buf[0] = 0;
	gid_of(ss, wanted);
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != ss->ss_family)
			continue;
		memcpy(&one, a->ifa_addr, ss->ss_family == AF_INET ?
		       sizeof(struct sockaddr_in) :
		       sizeof(struct sockaddr_in6));
		gid_of(&one, gid);
		if (!memcmp(gid, wanted, sizeof(gid)))
			snprintf(buf, size, "%s", a->ifa_name);
	}
	freeifaddrs(list);
}

/* Asks the kernel without sending. Returns 0 or -errno. */
static int find_source(struct visit *v)
{
	int fd = socket(v->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;
	socklen_t len = sizeof(v->from);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&v->to, v->to_len) ||
	    getsockname(fd, (struct sockaddr *)&v->from, &len))
		ret = -errno;
	close(fd);
	return ret;
}

/* ---- the device that the library uses for an address ------------------ */

/* The conditions that decide which device and port a connection uses. */
struct need {
	const char *asked;		/* RDMAMSG_DEVICE, or NULL */
	bool loopback;			/* the target is 127.0.0.1 or such */
	bool own;			/* the target is this host */
	bool soft;			/* the soft HCA, or else other devices */
	uint8_t gid[16];		/* the source address */
	const char *netdev;		/* that has it, or "" */
};

/* The choice of rdmamsg_connect(), see rdmamsg-env(7). */
static bool may_use(const struct need *n, const struct device *d)
{
	if (d->soft != n->soft)
		return false;
	if (!n->asked)
		return device_is_hw(d) || n->loopback;
	if (!strcmp(n->asked, "hw"))
		return device_is_hw(d);
	if (!strcmp(n->asked, "soft"))
		return d->soft;
	return !strcmp(n->asked, d->name);
}

static bool has_address(const struct need *n, const struct port *p)
{
	if (n->netdev[0] && !strcmp(p->netdev, n->netdev))
		return true;
	for (uint32_t i = 0; i < p->ngids; i++)
		if (!memcmp(p->gids[i].raw, n->gid, 16) ||
		    (n->netdev[0] && !strcmp(p->gids[i].netdev, n->netdev)))
			return true;
	return false;
}

/*
 * The port with the address, else one whose GIDs are no addresses, which may
 * have it: an active one if there is one. NULL: there is none. Only the soft
 * HCA has loopback addresses without a GID of them.
 */
static const struct port *port_of(const struct facts *f, const struct need *n)
{
	const struct port *other = NULL;

	for_each_device(d, f)
		for_each_port(p, d) {
			if (!may_use(n, d))
				continue;
			if (has_address(n, p))
				return p;
			if (!port_is_roce(p) && (d->soft || !n->loopback) &&
			    (!other || (port_is_active(p) &&
					!port_is_active(other))))
				other = p;
		}
	return other;
}

/* A name may be in a command if a shell takes it as it is. */
static bool is_plain(const char *name)
{
	return name[0] && !name[strspn(name, "0123456789_.:@-"
				       "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

static void mend_link(struct finding *f, const char *first, const char *netdev)
{
	if (netdev[0])
		mend(f, "%srdma link add rxe_%s type rxe netdev %s", first,
		     netdev, netdev);
	else
		mend(f, "%srdma link add rxe0 type rxe netdev NETDEV", first);
}

/* Says why the library does not use the soft HCA, which has every address. */
static void not_soft(const struct visit *v, const struct need *n)
{
	struct finding *f;

	if (n->asked ? !strncmp(n->asked, "soft", 4) : n->loopback) {
		found(v->host, WRONG, "the soft HCA cannot be opened: see "
		      "'devices'");
		return;
	}
	if (n->asked)
		f = found(v->host, WRONG, "RDMAMSG_DEVICE=%s excludes the soft "
			  "HCA, and no other device has %s", n->asked, v->text);
	else
		f = found(v->host, WRONG, "%s has no RDMA device, and for its "
			  "address the soft HCA has to be asked for",
			  n->netdev[0] ? n->netdev : v->text);
	mend(f, n->loopback ? "unset RDMAMSG_DEVICE" :
			      "export RDMAMSG_DEVICE=soft");
}

/* Says why no device can be used. */
static void no_device(const struct visit *v, const struct need *n)
{
	bool bound = n->asked && strcmp(n->asked, "hw");
	struct need any = *n;
	const struct port *p;
	struct finding *f;

	any.asked = NULL;
	any.soft = false;
	p = port_of(v->facts, &any);
	if (p) {
		f = found(v->host, WRONG, "RDMAMSG_DEVICE=%s: this device "
			  "does not reach %s, %s does", n->asked, v->text,
			  p->device->name);
		mend(f, "unset RDMAMSG_DEVICE");
	} else if (n->own) {
		not_soft(v, n);
	} else {
		f = found(v->host, WRONG, "through %s, which has no RDMA "
			  "device%s%s", n->netdev[0] ? n->netdev :
			  "an unknown network device", bound ?
			  "; RDMAMSG_DEVICE is " : "", bound ? n->asked : "");
		mend_link(f, bound ? "unset RDMAMSG_DEVICE; " : "",
			  n->netdev);
	}
}

/* Says through what the host is reached, or that nothing leads there. */
static bool judge_device(struct visit *v, struct need *n)
{
	const struct port *p = port_of(v->facts, n);
	struct finding *f;
	char from[64];

	write_address(&v->from, from, sizeof(from));
	/* the soft HCA reaches this host only */
	n->soft = n->own;
	if (!p && n->soft)
		p = port_of(v->facts, n);
	if (!p) {
		no_device(v, n);
		return false;
	}
	if (port_is_active(p)) {
		found(v->host, OK, "through %s from %s, device %s", n->netdev,
		      from, p->device->name);
		return true;
	}
	f = found(v->host, WRONG, "through %s from %s, but port %u of %s is "
		  "not active", n->netdev, from, p->number, p->device->name);
	mend_port(f, p);
	return false;
}

static bool route(struct visit *v)
{
	struct need n = { .asked = getenv("RDMAMSG_DEVICE") };
	int ret = find_source(v);
	struct finding *f;
	uint8_t to[16];
	char netdev[32];

	if (ret) {
		f = found(v->host, WRONG, "no route to %s: %s", v->text,
			  strerror(-ret));
		mend(f, "ip route add %s via GATEWAY", v->text);
		return false;
	}
	netdev_of(&v->from, netdev, sizeof(netdev));
	gid_of(&v->from, n.gid);
	gid_of(&v->to, to);
	if (n.asked && !n.asked[0])
		n.asked = NULL;
	n.netdev = netdev;
	n.loopback = is_loopback(to);
	n.own = n.loopback || net_is_mine(to);
	return judge_device(v, &n);
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
		mend(f, "ping %s; there: rdmamsg-doctor; between: let UDP port "
		     "4791 of RoCE v2 pass", v->text);
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
	struct rdmamsg_msg *msg;
	bool good;

	used_find(v->facts, v->ep, &v->own);
	if (rdmamsg_send_wait(v->ep, "", 0, TAG_REPORT, WAIT_MS) ||
	    rdmamsg_recv_wait(v->ep, WAIT_MS, &msg)) {
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

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool latency(struct visit *v)
{
	static const char payload[SMALL];
	double took[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct rdmamsg_msg *msg;

		took[i] = now_us();
		if (rdmamsg_send(v->ep, payload, SMALL, TAG_ECHO, NULL) ||
		    rdmamsg_recv_wait(v->ep, WAIT_MS, &msg))
			return broken(v);
		took[i] = now_us() - took[i];
		rdmamsg_msg_free(msg);
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_value);
	found(v->host, OK, "%u bytes there and back: %.1f us, median of %d",
	      SMALL, took[ROUNDS / 2], ROUNDS);
	return true;
}

static bool bandwidth(struct visit *v)
{
	char *payload = calloc(1, LARGE);
	double took = now_us();
	int ret = payload ? 0 : -ENOMEM;

	for (int i = 0; i < LARGE_ROUNDS && !ret; i++)
		ret = rdmamsg_send_wait(v->ep, payload, LARGE, TAG_BULK,
					WAIT_MS);
	took = now_us() - took;
	free(payload);
	if (ret)
		return broken(v);
	found(v->host, OK, "%d messages of %zu KB: %.1f MB/s", LARGE_ROUNDS,
	      LARGE >> 10, (double)(LARGE * LARGE_ROUNDS) / took);
	return true;
}

/* ---- comparing -------------------------------------------------------- */

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
		     rdmamsg_mtu_code(large->active_mtu));
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
	{ "resolve", resolve }, { "route", route }, { "connect", reach },
	{ "report", ask_report }, { "latency", latency },
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
		(void)rdmamsg_close_wait(v.ep, WAIT_MS);
	rdmamsg_close(v.ctx);
}
