/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KV_CROWD_H
#define KV_CROWD_H

/*
 * Sends many requests with large answers, and reads none until the server takes
 * no more. Exits unless all answers come then, in order.
 */
int crowd(const char *host, const char *port, const char *tcp_port);

#endif
