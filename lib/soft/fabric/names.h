/* SPDX-License-Identifier: BSD-2-Clause */
/* Names: abstract sockets of one user and one fabric. */
#ifndef SOFT_FABRIC_NAMES_H
#define SOFT_FABRIC_NAMES_H

#include <stdbool.h>

struct soft_dev;

/*
 * Returns a socket bound or connected to the name fmt, or -errno. If backlog is
 * 0, the bound socket does not listen yet.
 */
int soft_name_listen(const struct soft_dev *dev, int backlog, const char *fmt,
		     ...) __attribute__((format(printf, 3, 4)));
int soft_name_connect(const struct soft_dev *dev, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Returns true if a process of another user listens at the name. */
bool soft_name_foreign(const struct soft_dev *dev, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Returns true if the process at the other end has the same user. */
bool soft_same_user(int fd);

#endif
