/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SOFT_FABRIC_DENIED_H
#define SOFT_FABRIC_DENIED_H

#include <errno.h>

/*
 * Returns the error of a system call as this device reports it. -EPERM, as a
 * sandbox answers, becomes -EACCES, because -EPERM means that another user
 * holds the names of the fabric.
 */
static inline int soft_denied(int err)
{
	return err == -EPERM ? -EACCES : err;
}

#endif
