/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-pub and rdmamsg-sub share options, groups and signals. */
#ifndef RDMAMSG_SAMPLES_TOPIC_H
#define RDMAMSG_SAMPLES_TOPIC_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/group.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/version.h>

#define TOPICS_MAX	256

/* Exit statuses. */
enum { ALL_WELL, FAILED, WRONG_USE, LOSS };

struct topic {
	char name[256];			/* as given, or of the match */
	char address[256];		/* to join: the name, or the match's */
	struct rdmamsg_group *group;	/* NULL: not joined */
	bool joined, writable;
	bool flushed;
	struct rdmamsg_group_flushed result;
};

struct options {
	uint32_t flags;			/* enum rdmamsg_group_flags */
	const char *source, *device;
	uint32_t timeout_ms;
	uint32_t rate;			/* datagrams a second; 0: default */
	uint32_t linger_ms;		/* of repairs; 0: default */
	uint32_t confirm;		/* subscribers that must have all */
	uint32_t backlog;		/* messages */
	uint32_t flow, quorum;		/* enum rdmamsg_group_flow */
	const char *key_file;
	uint32_t parity;
	uint32_t max_message;		/* bytes; 0: default */
	unsigned int settle_ms; /* pause between joining and publishing */
	unsigned int wait_ms; /* longest wait for a message; 0: endless */
	unsigned int members;		/* memberships of each group */
	bool json, files, verbose, immediate;
	bool counts;			/* count is given, and may be 0 */
	bool each;			/* count applies to each membership */
	bool sized;			/* size is given */
	bool by_mgid;
	bool list;			/* topics, and do not subscribe */
	bool prefix;			/* lines begin with topics' names */
	unsigned long count;		/* messages */
	size_t size;			/* of counted messages */
	char **operands;
	int operand_count;
};

extern struct options options;
extern struct rdmamsg *ctx;
extern struct topic topics[TOPICS_MAX];
extern int topic_count;
extern volatile sig_atomic_t stopped;

/* Long options without a short one. */
enum {
	OPT_FILE = 256, OPT_RAW, OPT_REPAIR, OPT_JSON, OPT_RATE, OPT_SETTLE,
	OPT_IMMEDIATE, OPT_LINGER, OPT_MAX, OPT_LIST, OPT_CONFIRM,
	OPT_BACKLOG, OPT_FLOW, OPT_KEY_FILE, OPT_PARITY, OPT_UNORDERED,
};

struct program {
	const char *name, *usage, *shorts;
	const struct option *options;
	uint32_t flags;			/* flags of its groups */
	bool patterns;			/* an operand may be a pattern */
};

/* Exits for --help and for wrong options. */
void options_parse(int argc, char **argv, const struct program *p);
/* Joins the groups; exits if one cannot be joined. */
void topics_join(const struct rdmamsg_group_handlers *on);
/*
 * Leaves the groups, and waits until the library has left them. Waits first for
 * memberships that are lost; exits if the library cannot join again in time.
 */
void topics_leave(void);
/* Runs one turn of the loop. Exits if it fails. */
void turn(int timeout_ms);
unsigned long long now_ms(void);
/* Runs the loop for this time, or until the end or a signal. */
void turn_for(unsigned int ms);
/* Handlers of the programs call this function. */
void topic_joined(struct rdmamsg_group *group);
void topic_lost(struct rdmamsg_group *group, const struct rdmamsg_reason *why);
void topic_writable(struct rdmamsg_group *group);
void topic_closed(struct rdmamsg_group *group,
		  const struct rdmamsg_reason *why);

#endif
