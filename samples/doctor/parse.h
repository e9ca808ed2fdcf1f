/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text of /sys, of /proc and of a peer, as values. Pure functions: text in,
 * values out, and false for text that is not of the form. Outputs are written
 * on success only.
 */
#ifndef RDMAMSG_SAMPLES_DOCTOR_PARSE_H
#define RDMAMSG_SAMPLES_DOCTOR_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNLIMITED	UINT64_MAX
#define FIELDS_MAX	12

/* The number that the text begins with: "4: ACTIVE\n" is 4. */
bool parse_number(const char *text, uint64_t *ret);
/* "0xffff\n" */
bool parse_pkey(const char *text, uint16_t *ret);
/* "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n" */
bool parse_gid(const char *text, uint8_t ret[16]);
/* "RoCE v2\n" is 2, "IB/RoCE v1\n" is 0 or 1 as the link layer says. */
bool parse_gid_type(const char *text, bool ethernet, uint32_t *ret);
/* "100 Gb/sec (4X EDR)\n" in Mb/s */
bool parse_rate(const char *text, uint32_t *ret);
/* "231:192\n" */
bool parse_node(const char *text, unsigned int *major, unsigned int *minor);

/* A line of /proc/PID/limits; the words "unlimited" are UNLIMITED. */
bool parse_limit(const char *text, const char *name, uint64_t *soft,
		 uint64_t *hard);
/* "NAME:  VALUE" of /proc/PID/status and /proc/meminfo */
bool parse_value(const char *text, const char *name, int base, uint64_t *ret);
/* "DEVICE OBJECT=VALUE ..." of rdma.max and rdma.current */
bool parse_rdma_cgroup(const char *text, const char *device,
		       const char *object, uint64_t *ret);
/*
 * The path of the process below the hierarchy of a controller in
 * /proc/PID/cgroup. NULL: below the unified hierarchy.
 */
bool parse_cgroup(const char *text, const char *controller, char *ret,
		  size_t size);
/* The file that /proc/PID/maps names, if its name begins with 'library'. */
bool parse_mapped(const char *text, const char *library, char *ret,
		  size_t size);
/* True if a line of modules.dep is about this module. */
bool parse_has_module(const char *text, const char *module);

/*
 * The variable at *at of an environment, whose variables end with a NUL. Moves
 * *at behind it. Returns false at the end.
 */
bool parse_variable(const char *text, size_t len, size_t *at, char *name,
		    size_t name_size, char *value, size_t value_size);

/* "HOST", "HOST:PORT", "ADDRESS6" or "[ADDRESS6]:PORT" */
bool parse_target(const char *text, char *host, size_t host_size, char *port,
		  size_t port_size);

/*
 * The next line of text at *at, split at tabs. Strings are copied to buf, and
 * characters that are not printable become '?'. Returns the number of fields,
 * 0 at the end of the text or if the line is longer than buf.
 */
unsigned int parse_line(const char *text, size_t len, size_t *at, char *buf,
			size_t size, const char *fields[FIELDS_MAX]);

#endif
