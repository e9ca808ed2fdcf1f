/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of devices and ports. */
#include "doctor.h"
#include "parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FULL_MEMBER	0x8000u
#define DISABLED	3			/* physical state */

enum { DOWN = 1, INIT, ARMED };			/* enum ibv_port_state */

/* ---- devices ---------------------------------------------------------- */

static void check_no_device(const struct facts *f)
{
	struct finding *one;
	char netdev[32];

	if (facts_soft_suffices(f)) {
		found("", OK, "no RDMA device of the kernel: the soft HCA, "
		      "which RDMAMSG_DEVICE asks for, leads to this host "
		      "and, over UDP, to others");
		return;
	}
	one = found("", WARNING, "no RDMA device of the kernel: the soft HCA "
		    "leads to this host and, over UDP, to others");
	net_candidate(f, netdev, sizeof(netdev));
	mend(one, "load the card's driver, or: modprobe rdma_rxe && rdma link "
	     "add rxe0 type rxe netdev %s", netdev[0] ? netdev : "NETDEV");
}

static void check_device(const struct device *d)
{
	struct finding *f;

	if (!d->error) {
		found(d->name, OK, "%s, opens", d->kind);
		return;
	}
	f = found(d->name, WRONG, "cannot be opened: %s",
		  d->error_text[0] ? d->error_text : strerror(-d->error));
	if (d->error == -EACCES)
		mend(f, "chmod a+rw /dev/infiniband/%s", d->node);
	else if (d->error == -EMFILE)
		mend(f, "ulimit -n 1024");
	else if (d->soft && d->error == -ENODEV)
		mend(f, "rdmamsg-soft-ctl add");
	else if (d->soft && d->error == -EINVAL)
		mend(f, "unset RDMAMSG_SOFT_FABRIC RDMAMSG_SOFT_PORTS "
		     "RDMAMSG_SOFT_LINK RDMAMSG_SOFT_ATOMICS "
		     "RDMAMSG_SOFT_LAYOUTS RDMAMSG_SOFT_LACKS "
		     "RDMAMSG_SOFT_PART RDMAMSG_SOFT_PATIENCE "
		     "RDMAMSG_SOFT_ORDER RDMAMSG_SOFT_NET");
	else
		mend(f, "see the findings of 'nodes' and 'memlock'");
}

void check_devices(const struct facts *f)
{
	struct finding *one;

	if (f->error) {
		one = found("", WRONG, "%s", f->error_text);
		if (f->error == -ENODEV)
			mend(one, "rdmamsg-soft-ctl add");
		else if (f->error == -EMFILE)
			mend(one, "ulimit -n 1024");
		else
			mend(one, "see rdmamsg-env(7) for the variables of the "
			     "soft HCA, or RDMAMSG_LOG=debug rdmamsg-info");
	}
	for_each_device(d, f)
		if (options.root[0])
			found(d->name, OK, "is in /sys");
		else
			check_device(d);
	if (!facts_kernel_device(f))
		check_no_device(f);
}

/* ---- drivers ---------------------------------------------------------- */

struct missing {
	const struct facts *facts;
	unsigned int n;
};

static void check_driver(void *arg, const char *name)
{
	struct missing *m = arg;
	struct finding *f;

	if (facts_has(m->facts, name))
		return;
	m->n++;
	f = found(name, WRONG, "libibverbs has no driver for the device");
	mend(f, "apt-get install ibverbs-providers, or repair "
	     "/etc/libibverbs.d");
}

/* In mode exclusive /sys may show devices of another network namespace. */
void check_provider(const struct facts *f)
{
	struct missing m = { .facts = f };
	char mode[16];

	root_line(mode, sizeof(mode), "%s", NETNS_MODE);
	if (options.root[0])
		found("", OK, "not looked at in another root");
	else if (!f->error && mode[0] != 'N')
		root_each("/sys/class/infiniband", check_driver, &m);
	if (!options.root[0] && !m.n)
		found("", OK, "libibverbs knows every device of the kernel");
}

bool firmware_is_older(const char *a, const char *b)
{
	for (;;) {
		char *end_a, *end_b;
		unsigned long m = strtoul(a, &end_a, 10);
		unsigned long n = strtoul(b, &end_b, 10);

		if (m != n || end_a == a || end_b == b)
			return m < n;
		a = end_a + (*end_a == '.');
		b = end_b + (*end_b == '.');
	}
}

void mend_firmware(struct finding *f, const char *where, const char *device)
{
	mend(f, "%sdevlink dev flash pci/$(basename $(readlink "
	     "/sys/class/infiniband/%s/device)) file IMAGE", where, device);
}

void check_firmware(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f) {
		const struct device *other = f->devices;
		struct finding *one;

		if (d->soft || !d->firmware[0])
			continue;
		any = true;
		while (other != d && (!d->board[0] ||
				      strcmp(other->board, d->board) ||
				      !strcmp(other->firmware, d->firmware)))
			other = other->next;
		if (other == d) {
			found(d->name, OK, "%s%s%s", d->firmware,
			      d->board[0] ? ", board " : "", d->board);
			continue;
		}
		one = found(d->name, WARNING, "%s, but %s on the same board "
			    "%s has %s", d->firmware, other->name, d->board,
			    other->firmware);
		mend_firmware(one, "",
			      firmware_is_older(d->firmware, other->firmware) ?
			      d->name : other->name);
	}
	if (!any)
		found("", OK, "no device has any");
}

void check_odp(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f) {
		if (d->soft || !d->attributes)
			continue;
		any = true;
		found(d->name, OK, d->odp ? "supported, the library pins "
		      "registered memory nevertheless" : "not supported: "
		      "registered memory is pinned, see 'memlock'");
	}
	if (!any)
		found("", OK, "no device of the kernel");
}

/* ---- ports ------------------------------------------------------------ */

static bool has_active_port(const struct device *d)
{
	for_each_port(p, d)
		if (port_is_active(p))
			return true;
	return false;
}

static const char *state_text(const struct port *p)
{
	if (p->state == INIT)
		return "INIT: no subnet manager has configured the port";
	if (p->state == ARMED)
		return "ARMED: the subnet manager has not activated the port";
	if (p->state != DOWN)
		return "state unknown";
	return p->phys_state == DISABLED ? "DOWN: the port is disabled" :
					   "DOWN: no link";
}

void mend_port(struct finding *f, const struct port *p)
{
	if (p->device->soft)
		mend(f, "rdmamsg-soft-ctl port %u up", p->number);
	else if (p->netdev[0])
		mend(f, "ip link set dev %s up", p->netdev);
	else if (p->ethernet)
		mend(f, "ip link set dev NETDEV up, or check the cable");
	else if (p->state == INIT || p->state == ARMED)
		mend(f, "systemctl start opensm, on one host of the fabric");
	else
		mend(f, "check the cable and the port of the switch: "
		     "iblinkinfo");
}

void mend_table(struct finding *f, const struct port *p, const char *table)
{
	if (p->device->soft)
		mend(f, "rdmamsg-soft-ctl set %s-error %u default", table,
		     p->number);
	else
		mend(f, "look for the driver's reason: dmesg | grep %s; then "
		     "load the driver anew", p->device->name);
}

static void check_port(const struct port *p)
{
	struct finding *f;

	if (port_is_active(p)) {
		found(port_subject(p), OK, "active%s%s%s",
		      p->ethernet ? ", Ethernet" : ", InfiniBand",
		      p->netdev[0] ? " on " : "", p->netdev);
		return;
	}
	/* a second port without a cable is common */
	f = found(port_subject(p), has_active_port(p->device) ? WARNING :
		  WRONG, "%s", state_text(p));
	mend_port(f, p);
}

void check_ports(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d) {
			any = true;
			check_port(p);
		}
	if (!any)
		found("", OK, "no port");
}

/* ---- counters --------------------------------------------------------- */

/* Counters that stay 0 on a sound link. */
static const struct {
	const char *file, *meaning, *remedy;
} counters[] = {
	{ "counters/symbol_error", "errors on the wire",
	  "reseat or replace the cable, then clear with: perfquery -R" },
	{ "counters/link_error_recovery", "recoveries of the link",
	  "reseat or replace the cable, then clear with: perfquery -R" },
	{ "counters/link_downed", "losses of the link",
	  "look at the switch's log; clear with: perfquery -R" },
	{ "counters/port_rcv_errors", "damaged packets received",
	  "reseat or replace the cable, then clear with: perfquery -R" },
	{ "counters/local_link_integrity_errors", "errors of the link",
	  "reseat or replace the cable, then clear with: perfquery -R" },
	{ "counters/excessive_buffer_overrun_errors", "buffer overruns",
	  "look for congestion: ibqueryerrors" },
	{ "counters/port_xmit_discards", "packets discarded before sending",
	  "look for congestion: ibqueryerrors" },
	{ "hw_counters/out_of_sequence", "packets out of sequence",
	  "look for loss in the network: configure PFC or ECN at the switch" },
	{ "hw_counters/packet_seq_err", "NAKs for lost packets",
	  "look for loss in the network: configure PFC or ECN at the switch" },
	{ "hw_counters/local_ack_timeout_err", "ack timeouts",
	  "look for loss in the network: configure PFC or ECN at the switch" },
	{ "hw_counters/rnr_nak_retry_err", "retries for want of receives",
	  "raise recv_depth at the receiver" },
	/* those of Soft-RoCE */
	{ "hw_counters/link_downed", "losses of the link",
	  "look for who sets the interface down: ip monitor link" },
	{ "hw_counters/retry_exceeded_err", "peers that did not answer",
	  "look for loss: rdma statistic show, ip -s link" },
	{ "hw_counters/retry_rnr_exceeded_err", "peers without receives",
	  "raise recv_depth at the receiver" },
	{ "hw_counters/send_err", "packets that were not sent",
	  "look for the reason: ip -s link, ip route" },
};

static bool check_counter(const struct port *p, size_t i)
{
	struct finding *f;
	char text[32];
	uint64_t n;

	root_line(text, sizeof(text), "/sys/class/infiniband/%s/ports/%u/%s",
		  p->device->name, p->number, counters[i].file);
	if (!parse_number(text, &n) || !n)
		return false;
	f = found(port_subject(p), WARNING, "%s is %llu: %s",
		  strchr(counters[i].file, '/') + 1, (unsigned long long)n,
		  counters[i].meaning);
	mend(f, "%s", counters[i].remedy);
	return true;
}

void check_counters(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d)
			for (size_t i = 0; i < sizeof(counters) /
			     sizeof(counters[0]) && !d->soft; i++)
				any |= check_counter(p, i);
	if (!any)
		found("", OK, "none tells of errors");
}

/* ---- P_Keys ----------------------------------------------------------- */

static void check_port_pkeys(const struct port *p)
{
	unsigned int full = 0, limited = 0;
	struct finding *f;

	if (p->pkeys_error[0]) {
		f = found(port_subject(p), WRONG, "%s", p->pkeys_error);
		mend_table(f, p, "pkey");
		return;
	}
	for (uint32_t i = 0; i < p->npkeys; i++) {
		/* no partition has the number 0, so 0x8000 is none */
		bool valid = p->pkeys[i] & ~FULL_MEMBER;

		full += valid && p->pkeys[i] & FULL_MEMBER;
		limited += valid && !(p->pkeys[i] & FULL_MEMBER);
	}
	if (full) {
		found(port_subject(p), OK, "%u with full membership, %u with "
		      "limited membership", full, limited);
		return;
	}
	f = limited ?
	    found(port_subject(p), WARNING, "limited membership only: hosts "
		  "that are limited as well do not connect") :
	    found(port_subject(p), WRONG, "no P_Key: nobody can connect");
	if (p->device->soft)
		mend(f, "rdmamsg-soft-ctl set pkey %u default", p->number);
	else
		mend(f, "in opensm's partitions.conf: Default=0x7fff, ipoib : "
		     "ALL=full; then pkill -HUP opensm");
}

void check_pkeys(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d)
			if (!p->ethernet && port_is_active(p)) {
				any = true;
				check_port_pkeys(p);
			}
	if (!any)
		found("", OK, "no active InfiniBand port");
}
