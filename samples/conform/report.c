/* SPDX-License-Identifier: BSD-2-Clause */
/* The report, as lines of text or as one JSON object. */
#include "conform.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/version.h>

#define VERSION	"%d.%d.%d"
#define NUMBERS	RDMAMSG_VERSION_MAJOR, RDMAMSG_VERSION_MINOR, \
		RDMAMSG_VERSION_PATCH

static const char *const names[] = {
	[PASSED] = "ok", [DIFFERS_AS_WRITTEN] = "known",
	[DIFFERS] = "differs", [DIFFERENCE_GONE] = "gone",
	[LIST_SKIPPED] = "skipped", [NOT_RUN] = "not run",
	[NOT_ASKED] = "not asked",
};

static unsigned int counts[NOT_ASKED + 1];
static bool first = true;		/* of a JSON list */

static void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", (unsigned char)*s);
		else
			putchar(*s);
	putchar('"');
}

static void json_field(const char *key, const char *value,
		       const char *rest)
{
	printf("\"%s\": ", key);
	json_string(value);
	printf("%s", rest);
}

static void json_next(void)
{
	printf(first ? "\n    { " : ",\n    { ");
	first = false;
}

static void json_cap(const struct rdmamsg_device_cap_attr *c)
{
	json_next();
	json_field("name", c->name, ", ");
	json_field("how", rdmamsg_name(RDMAMSG_NAME_CAP_HOW, c->how), ", ");
	printf("\"tried\": %s, \"value\": %" PRIu64 ", ",
	       c->tried ? "true" : "false", c->value);
	json_field("reason", c->reason, " }");
}

static void json_begin(const struct facts *f, const struct utsname *u)
{
	const struct rdmamsg_device_attr *d = &f->device;
	const struct rdmamsg_port_attr *p = &f->port;

	printf("{\n  \"version\": \"" VERSION "\",\n  \"device\": { ", NUMBERS);
	json_field("name", d->name, ", ");
	json_field("kind", d->kind, ", ");
	json_field("firmware", d->firmware, ", ");
	json_field("board", d->board, ", ");
	printf("\"vendor_id\": %u, \"vendor_part_id\": %u, \"hw_version\": %u, ",
	       d->vendor_id, d->vendor_part_id, d->hw_version);
	printf("\"known\": %s },\n", facts_kind(f) ? "true" : "false");
	printf("  \"port\": { \"number\": %u, ", options.port);
	json_field("state", rdmamsg_name(RDMAMSG_NAME_PORT_STATE, p->state),
		   ", ");
	json_field("link_layer",
		   rdmamsg_name(RDMAMSG_NAME_LINK_LAYER, p->link_layer), ", ");
	printf("\"mtu\": %u, \"mbps\": %u },\n  \"kernel\": { ", p->active_mtu,
	       p->link_mbps);
	json_field("system", u->sysname, ", ");
	json_field("release", u->release, ", ");
	json_field("version", u->version, ", ");
	json_field("machine", u->machine, " },\n");
	printf("  \"capabilities\": [");
	for (int i = 0; i < f->n_caps; i++)
		json_cap(&f->caps[i]);
	printf("\n  ],\n  \"cases\": [");
	first = true;
}

static void text_begin(const struct facts *f, const struct utsname *u)
{
	const struct rdmamsg_device_attr *d = &f->device;
	const struct rdmamsg_port_attr *p = &f->port;

	printf("rdmamsg-conform " VERSION "\n", NUMBERS);
	printf("device: %s, %s%s%s, vendor 0x%x, part 0x%x, hardware 0x%x\n",
	       d->name, d->kind, *d->board ? ", board " : "", d->board,
	       d->vendor_id, d->vendor_part_id, d->hw_version);
	printf("firmware: %s\n", *d->firmware ? d->firmware : "unknown");
	printf("kernel: %s %s %s, %s\n", u->sysname, u->release, u->machine,
	       u->version);
	printf("port: %u, %s, %s, MTU %u, %u Mb/s\n", options.port,
	       rdmamsg_name(RDMAMSG_NAME_PORT_STATE, p->state),
	       rdmamsg_name(RDMAMSG_NAME_LINK_LAYER, p->link_layer),
	       p->active_mtu, p->link_mbps);
	printf("known: %s\n", facts_kind(f) ? "yes, its differences are listed" :
	       "no, every case is expected to pass");
	for (int i = 0; i < f->n_caps && options.verbose; i++)
		printf("capability %s: %s, %s\n", f->caps[i].name,
		       rdmamsg_name(RDMAMSG_NAME_CAP_HOW, f->caps[i].how),
		       f->caps[i].reason);
}

void report_begin(const struct facts *f)
{
	struct utsname u;

	memset(&u, 0, sizeof(u));
	(void)uname(&u);
	if (options.json)
		json_begin(f, &u);
	else
		text_begin(f, &u);
}

static const char *reason(const struct verdict *r)
{
	return r->as && r->result != PASSED && r->result != DIFFERS ?
	       r->as->why : "";
}

void report_case(const char *name, const struct verdict *r)
{
	counts[r->result]++;
	/* a case has one line, and a crash may have more */
	r->said[strcspn(r->said, "\n")] = '\0';
	if (options.json) {
		json_next();
		json_field("name", name, ", ");
		json_field("result", names[r->result], ", ");
		json_field("text", r->said, ", ");
		json_field("why", reason(r), " }");
	} else if (options.verbose || r->result != PASSED) {
		printf("%s %s%s%s%s%s\n", names[r->result], name,
		       *r->said ? ": " : "", r->said, *reason(r) ? "; " : "",
		       reason(r));
	}
	(void)fflush(stdout);
}

static void json_end(int status, const char *ended)
{
	printf("\n  ],\n  \"complete\": %s,\n  ", ended ? "false" : "true");
	if (ended)
		json_field("reason", ended, ",\n  ");
	printf("\"counts\": { ");
	for (int i = 0; i <= NOT_ASKED; i++)
		printf("\"%s\": %u%s", names[i], counts[i],
		       i < NOT_ASKED ? ", " : " },\n");
	printf("  \"status\": %d\n}\n", status);
}

static void text_end(const struct facts *f, int status, const char *ended)
{
	printf("%u ok, %u known, %u differ, %u gone, %u lists skipped, %u not run, %u not asked\n",
	       counts[PASSED], counts[DIFFERS_AS_WRITTEN], counts[DIFFERS],
	       counts[DIFFERENCE_GONE], counts[LIST_SKIPPED], counts[NOT_RUN],
	       counts[NOT_ASKED]);
	if (ended)
		printf("not complete: %s\n", ended);
	else
		printf("%s\n", status ? "differences found" :
		       "all as expected");
	if (!facts_kind(f))
		printf("This kind of device is not known to rdmamsg: please "
		       "open an issue of the repository with this report.\n");
}

int report_end(const struct facts *f, const char *why)
{
	unsigned int seen = 0;
	int status;

	for (int i = 0; i <= NOT_ASKED; i++)
		seen += counts[i];
	status = counts[DIFFERS] || counts[DIFFERENCE_GONE] || !seen || why ?
		 DIFFERENCES : AS_EXPECTED;
	if (options.json)
		json_end(status, why);
	else
		text_end(f, status, why);
	return status;
}
