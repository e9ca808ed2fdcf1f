/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI promise: a program built against one 0.x release runs with every
 * later release of the same soname. New symbols and struct fields come at the
 * end. A release that cannot keep the promise has another soname.
 */
#ifndef RDMAMSG_VERSION_H
#define RDMAMSG_VERSION_H

#define RDMAMSG_VERSION_MAJOR	0
#define RDMAMSG_VERSION_MINOR	1
#define RDMAMSG_VERSION_PATCH	0

#endif
