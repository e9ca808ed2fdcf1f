/* SPDX-License-Identifier: BSD-2-Clause */
/* What rdmamsg-pub and rdmamsg-sub share: options, groups, signals. */
#ifndef RDMAMSG_SAMPLES_TOPIC_H
#define RDMAMSG_SAMPLES_TOPIC_H

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
	const char *address;
	struct rdmamsg_group *group;	/* NULL: it is not joined */
	bool joined, writable;
};

struct options {
	uint32_t flags;			/* enum rdmamsg_group_flags */
	const char *source, *device;
	uint32_t timeout_ms;
	bool json, files;
	unsigned long count;		/* 0: without end */
	char **operands;
	int operand_count;
};

extern struct options options;
extern struct rdmamsg *ctx;
extern struct topic topics[TOPICS_MAX];
extern int topic_count;
extern volatile sig_atomic_t stopped;

/* Exits for --help and for what makes no sense. */
void options_parse(int argc, char **argv, const char *usage, bool publishes);
/* Joins the groups; exits if one cannot be joined. */
void topics_join(char **addresses, int count,
		 const struct rdmamsg_group_handlers *on);
/* Leaves them, and waits until they have gone. */
void topics_leave(void);
/* One turn of the loop. Exits when it fails. */
void turn(int timeout_ms);
/* For the handlers. */
void topic_joined(struct rdmamsg_group *group);
void topic_writable(struct rdmamsg_group *group);
void topic_closed(struct rdmamsg_group *group,
		  const struct rdmamsg_reason *why);

#endif
