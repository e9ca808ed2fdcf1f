/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report as text for a peer: lines of fields that tabs separate. A reader
 * skips lines and fields that it does not know.
 */
#include "doctor.h"
#include "parse.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>

#define MAGIC		"rdmamsg-doctor"
#define VERSION		"1"
#define LINE_MAX_LEN	1024

void used_find(const struct facts *f, const struct rdmamsg_ep *ep,
	       struct used *ret)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	*ret = (struct used){ 0 };
	snprintf(ret->library, sizeof(ret->library), "%s", rdmamsg_version());
	if (rdmamsg_ep_query(ep, &a))
		return;
	snprintf(ret->device, sizeof(ret->device), "%s", a.device);
	ret->port = a.port;
	for_each_device(d, f)
		for_each_port(p, d) {
			if (strcmp(d->name, a.device) || p->number != a.port)
				continue;
			memcpy(ret->kind, d->kind, sizeof(ret->kind));
			memcpy(ret->firmware, d->firmware,
			       sizeof(ret->firmware));
			memcpy(ret->board, d->board, sizeof(ret->board));
			memcpy(ret->netdev, p->netdev, sizeof(ret->netdev));
			ret->active_mtu = p->active_mtu;
			ret->ethernet = p->ethernet;
			for (uint32_t i = 0; i < p->ngids; i++)
				if (!memcmp(p->gids[i].raw, a.gid, 16))
					ret->gid_type = p->gids[i].type;
		}
}

/* ---- writing ---------------------------------------------------------- */

struct text {
	char *buf;
	size_t len, size;
};

/* A line that does not fit is left out. */
static void add_line(struct text *t, unsigned int n, ...)
{
	size_t begin = t->len;
	va_list ap;

	va_start(ap, n);
	for (unsigned int i = 0; i < n; i++) {
		const char *field = va_arg(ap, const char *);
		size_t len = strlen(field);

		if (len + 1 > t->size - t->len) {
			t->len = begin;
			break;
		}
		for (size_t j = 0; j < len; j++)
			t->buf[t->len++] = field[j] == '\t' ||
					   field[j] == '\n' ? ' ' : field[j];
		t->buf[t->len++] = i + 1 < n ? '\t' : '\n';
	}
	va_end(ap);
}

static const char *number(char buf[16], uint32_t n)
{
	snprintf(buf, 16, "%" PRIu32, n);
	return buf;
}

size_t message_write(char *buf, size_t size, const struct used *used)
{
	struct text t = { .buf = buf, .size = size };
	char port[16], mtu[16], type[16];

	add_line(&t, 2, MAGIC, VERSION);
	add_line(&t, 2, "library", used->library);
	add_line(&t, 10, "used", used->device, number(port, used->port),
		 used->kind, used->ethernet ? "Ethernet" : "InfiniBand",
		 number(mtu, used->active_mtu), number(type, used->gid_type),
		 used->netdev, used->board, used->firmware);
	for (const struct finding *f = report_findings(); f; f = f->next)
		add_line(&t, 6, "finding", f->check, f->subject,
			 verdict_name(f->verdict), f->text, f->remedy);
	return t.len;
}

/* ---- reading ---------------------------------------------------------- */

static void read_number(const char *text, uint32_t *ret)
{
	uint64_t n;

	if (parse_number(text, &n) && n <= UINT32_MAX)
		*ret = (uint32_t)n;
}

static void read_used(const char *const *fields, struct used *used)
{
	snprintf(used->device, sizeof(used->device), "%s", fields[1]);
	read_number(fields[2], &used->port);
	snprintf(used->kind, sizeof(used->kind), "%s", fields[3]);
	used->ethernet = !strcmp(fields[4], "Ethernet");
	read_number(fields[5], &used->active_mtu);
	read_number(fields[6], &used->gid_type);
	snprintf(used->netdev, sizeof(used->netdev), "%s", fields[7]);
	snprintf(used->board, sizeof(used->board), "%s", fields[8]);
	snprintf(used->firmware, sizeof(used->firmware), "%s", fields[9]);
}

static void read_finding(const char *const *fields)
{
	enum verdict verdict = OK;
	struct finding *f;
	char subject[64];

	while (verdict < WRONG && strcmp(fields[3], verdict_name(verdict)))
		verdict++;
	if (verdict == OK)
		return;
	snprintf(subject, sizeof(subject), "%s%s%s", fields[1],
		 fields[2][0] ? " " : "", fields[2]);
	f = found(subject, verdict, "%s", fields[4]);
	if (fields[5][0])
		mend(f, "there: %s", fields[5]);
}

bool message_read(const char *text, size_t len, struct used *used)
{
	const char *fields[FIELDS_MAX];
	char buf[LINE_MAX_LEN];
	unsigned int n;
	size_t at = 0;

	*used = (struct used){ 0 };
	n = parse_line(text, len, &at, buf, sizeof(buf), fields);
	if (n < 2 || strcmp(fields[0], MAGIC))
		return false;
	while ((n = parse_line(text, len, &at, buf, sizeof(buf), fields)) > 0)
		if (n >= 2 && !strcmp(fields[0], "library"))
			snprintf(used->library, sizeof(used->library), "%s",
				 fields[1]);
		else if (n >= 10 && !strcmp(fields[0], "used"))
			read_used(fields, used);
		else if (n >= 6 && !strcmp(fields[0], "finding"))
			read_finding(fields);
	return used->library[0] && used->device[0];
}
