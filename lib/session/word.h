/* SPDX-License-Identifier: BSD-2-Clause */
/* The word with which a program ends a connection: a code and data. */
#ifndef RDMAMSG_LIB_SESSION_WORD_H
#define RDMAMSG_LIB_SESSION_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdmamsg_ep;
struct rdmamsg_msg;

/* Checks a word. name: the call, for the error. -EINVAL */
int rdmamsg__word_check(const char *name, const void *data, size_t len);
/* Keeps the word of this side, for an endpoint that is connected. */
void rdmamsg__word_keep(struct rdmamsg_ep *ep, uint32_t code, const void *data,
			size_t len);
/* Returns true if this side has a word, and the peer understands words. */
bool rdmamsg__word_due(const struct rdmamsg_ep *ep);
/*
 * Writes the body of CLOSE or ABORT, at most PROTO_WORD_MAX bytes. Returns its
 * length.
 */
size_t rdmamsg__word_write(const struct rdmamsg_ep *ep, uint8_t *out);
/*
 * Takes the peer's word from the body of CLOSE or ABORT, into the reason. An
 * empty body has no word. Returns false if it is broken: the endpoint ends.
 */
bool rdmamsg__word_take(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg);

#endif
