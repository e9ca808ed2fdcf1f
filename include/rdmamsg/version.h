/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI promise: a program built against one 0.x release runs with a later
 * one of the same soname. Symbols and struct fields are only added, at the
 * end; the soname changes when that cannot be kept.
 */
#ifndef RDMAMSG_VERSION_H
#define RDMAMSG_VERSION_H

#define RDMAMSG_VERSION_MAJOR	0
#define RDMAMSG_VERSION_MINOR	1
#define RDMAMSG_VERSION_PATCH	0

#endif
