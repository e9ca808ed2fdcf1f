/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: rdmamsg-doctor parses any text of /sys, of /proc and of a peer,
 * and writes no more than its buffers hold.
 */
#include "parse.h"

#include <stdlib.h>
#include <string.h>

#define ROOM	16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_values(const char *text)
{
	unsigned int major, minor;
	uint32_t type, rate;
	uint8_t gid[16];
	uint16_t pkey;
	uint64_t n;

	must(!parse_number(text, &n) || (*text >= '0' && *text <= '9'));
	if (parse_pkey(text, &pkey))
		must(strlen(text) > 0);
	if (parse_gid(text, gid))
		must(strlen(text) == 39 || strlen(text) == 40);
	if (parse_gid_type(text, true, &type))
		must(type == 1 || type == 2);
	(void)parse_rate(text, &rate);
	if (parse_node(text, &major, &minor))
		must(strchr(text, ':') != NULL);
}

static void check_proc(const char *text)
{
	uint64_t soft, hard, n;
	char small[ROOM];

	(void)parse_limit(text, "Max open files", &soft, &hard);
	(void)parse_value(text, "CapEff", 16, &n);
	(void)parse_value(text, "HugePages_Free", 10, &n);
	(void)parse_rdma_cgroup(text, "rxe0", "hca_handle", &n);
	if (parse_cgroup(text, NULL, small, sizeof(small)))
		must(strlen(small) > 0 && strlen(small) < ROOM);
	if (parse_cgroup(text, "rdma", small, sizeof(small)))
		must(strlen(small) > 0 && strlen(small) < ROOM);
	if (parse_mapped(text, "lib", small, sizeof(small)))
		must(*small == '/' && strlen(small) < ROOM);
	(void)parse_has_module(text, "rdma_rxe");
}

static void check_target(const char *text)
{
	char host[ROOM], port[ROOM] = "";

	if (!parse_target(text, host, sizeof(host), port, sizeof(port)))
		return;
	must(strlen(host) > 0 && strlen(host) < ROOM);
	must(strlen(port) < ROOM);
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* The input of these parsers has a length, and no NUL at the end. */
static void check_lines(const char *text, size_t size)
{
	const char *fields[FIELDS_MAX];
	char buf[64], name[ROOM], value[ROOM];
	unsigned int n;
	size_t at = 0;

	while ((n = parse_line(text, size, &at, buf, sizeof(buf), fields))) {
		must(n <= FIELDS_MAX && at <= size + 1);
		for (unsigned int i = 0; i < n; i++) {
			must(fields[i] >= buf && fields[i] < buf + sizeof(buf));
			must(is_printable(fields[i]));
		}
	}
	at = 0;
	while (parse_variable(text, size, &at, name, sizeof(name), value,
			      sizeof(value)))
		must(at <= size + 1 && is_printable(name) &&
		     is_printable(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = 0;
	check_values(text);
	check_proc(text);
	check_target(text);
	check_lines((const char *)data, size);
	free(text);
	return 0;
}
