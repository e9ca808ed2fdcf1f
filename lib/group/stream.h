/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream is the messages of one sender, as one subscriber receives them. The
 * stream makes messages from fragments and reports missing messages. The
 * functions do no I/O and read no clock.
 *
 * Without repair a message is given up when a later message begins. With
 * repair, later messages wait for earlier ones, within a window, unless the
 * stream has no order.
 */
#ifndef RDMAMSG_LIB_STREAM_H
#define RDMAMSG_LIB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/frame.h"

struct stream;

struct stream_events {
	/* The data is valid during the call. */
	void (*message)(struct stream *s, uint32_t number, const void *data,
			uint32_t len);
	/* The messages 'first' to 'last' will not come. */
	void (*gap)(struct stream *s, uint32_t first, uint32_t last);
};

/*
 * Bounds the memory of all streams of a group. A stream that finds no room
 * takes it from the stream that uses most.
 */
struct stream_room {
	struct list streams;
	size_t used, max;		/* bytes */
	uint32_t max_message;		/* at most 'max' */
};

/* A fragment of a message, in the order in which they are sent. */
struct stream_place {
	uint32_t number, index;
};

struct stream {
	const struct stream_events *on;
	struct stream_room *room;
	struct list node;		/* in room->streams */
	size_t used;			/* bytes of room->used */
	bool started;
	uint32_t next;			/* number that is due */
	/* The sender has sent all fragments before this one. */
	struct stream_place heard;
	bool jumped;			/* see rdmamsg__stream_jumped() */
	struct part **parts;		/* by number; size is 'window' */
	uint32_t window;		/* a power of two; 1: no repair */
	uint64_t *early;		/* see rdmamsg__stream_unorder() */
	uint32_t part_count;
	uint32_t evicted;		/* parts, for want of room */
	uint32_t top;			/* no part has a later number */
};

enum stream_result {
	STREAM_TAKEN,
	STREAM_OLD,		/* delivered or given up already */
	STREAM_DOUBLE,		/* the fragment is present already */
	STREAM_UNLIKE,		/* contradicts an earlier fragment */
	STREAM_TOO_LARGE,	/* larger than max_message */
	STREAM_NO_ROOM,		/* no memory now */
};

/* -ENOMEM */
int rdmamsg__stream_init(struct stream *s, const struct stream_events *on,
			 struct stream_room *room, uint32_t window);
/*
 * Each message is given when it is whole. A bitmap of the window has the
 * numbers of those that were given before their turn. -ENOMEM
 */
int rdmamsg__stream_unorder(struct stream *s);
void rdmamsg__stream_fini(struct stream *s);
enum stream_result rdmamsg__stream_data(struct stream *s,
					const struct frame *f);
/*
 * Starts with this number, instead of with the next fragment. All messages
 * below 'end' were sent.
 */
void rdmamsg__stream_begin(struct stream *s, uint32_t first, uint32_t end);
/* The sender has sent all messages below this number. */
void rdmamsg__stream_sent(struct stream *s, uint32_t number);
/* Gives up missing messages below this number. */
void rdmamsg__stream_give_up(struct stream *s, uint32_t number);
/* The sender is gone. Gives up all messages that are not whole. */
void rdmamsg__stream_give_up_all(struct stream *s);
/*
 * Gives up all, and starts again with the next fragment, whatever its number
 * is.
 */
void rdmamsg__stream_restart(struct stream *s);
/* Returns true if the number is due, or at most 'ahead' of what was heard. */
bool rdmamsg__stream_expects(const struct stream *s, uint32_t number,
			     uint32_t ahead);
/* Returns true if something that was sent has not come. */
bool rdmamsg__stream_lacks(const struct stream *s);
/*
 * Returns true if something was found to be missing since the last call that
 * was not missing before.
 */
bool rdmamsg__stream_jumped(struct stream *s);
/*
 * Lists what is missing from this place on, in at most max ranges. Returns
 * their number.
 */
uint32_t rdmamsg__stream_missing(const struct stream *s,
				 const struct stream_place *from,
				 struct frame_range *ranges, uint32_t max);

#endif
