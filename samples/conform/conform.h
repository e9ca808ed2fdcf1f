/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-conform: the device that is asked, and the report. */
#ifndef RDMAMSG_SAMPLES_CONFORM_H
#define RDMAMSG_SAMPLES_CONFORM_H

#include "../../tests/device/run.h"

#include <rdmamsg/device.h>

/* Exit statuses. */
enum { AS_EXPECTED, DIFFERENCES, WRONG_USE };

#define CAPS	64

struct options {
	const char *device;
	uint8_t port;
	int seconds;		/* of the run */
	bool verbose, json;
	const char *peer;	/* the host of a server; NULL: none */
	const char *address;	/* of the server; NULL: all */
	uint16_t service;
};

extern struct options options;

struct facts {
	int error;			/* of the first call that failed */
	char text[256];			/* of the error */
	struct rdmamsg_device_attr device;
	struct rdmamsg_port_attr port;
	struct rdmamsg_device_cap_attr caps[CAPS];
	int n_caps;
};

/* facts.c */
/*
 * Asks the library in a process of its own, because an open device does not
 * survive the fork() of a case.
 */
void facts_get(struct facts *ret);
/* Returns the key into differences.c, or NULL if the kind has no entries. */
const char *facts_kind(const struct facts *f);

/* report.c */
void report_begin(const struct facts *f);
void report_case(const char *name, const struct verdict *r);
/*
 * Returns the exit status. why: the run ended before all cases had run; NULL if
 * it did not.
 */
int report_end(const struct facts *f, const char *why);

#endif
