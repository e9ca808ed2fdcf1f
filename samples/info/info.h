/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-info: writes fields as text or as JSON. */
#ifndef RDMAMSG_SAMPLES_INFO_H
#define RDMAMSG_SAMPLES_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/diag.h>

/* Exit statuses. */
enum { ALL_WELL, FAILED, WRONG_USE };

struct options {
	const char *device;		/* NULL: all */
	uint32_t port;			/* 0: all */
	bool verbose, json;
	uint64_t count;			/* of events; 0: no end */
};

extern struct options options;

/* emit.c */
void emit_begin(void);
void emit_end(void);
/* A list of objects in JSON. Text has no line for it. */
void emit_list(const char *key);
void emit_list_end(void);
/* In JSON: an object. */
void emit_object_begin(void);
/* An object with its first field. */
void emit_object(const char *key, const char *value);
void emit_object_end(void);
void emit_text(const char *key, const char *value);
void emit_number(const char *key, uint64_t value);
void emit_hex(const char *key, uint64_t value);
/* A value with its name. good: colour on a terminal, -1 for none. */
void emit_coded(const char *key, const char *name, uint64_t code, int good);
/* A set of flags with their names. */
void emit_flags(const char *key, uint64_t value, enum rdmamsg_name_kind kind);
/* The next field means nothing on this port. */
void emit_not_applicable(void);

/* In JSON: a string with its quotes. */
void emit_string(const char *s);

/* These return an exit status. */
int show_devices(void);			/* show.c */
int show_stats(const char *path);	/* stats.c */
int show_objects(const char *path);	/* stats.c */
/* metrics.c. at: [ADDRESS:]PORT; path: of one program, or NULL. */
int serve_metrics(const char *at, const char *path);
int watch_devices(void);		/* watch.c */

#endif
