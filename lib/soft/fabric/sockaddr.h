/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses, IPv4 and IPv6. */
#ifndef SOFT_FABRIC_SOCKADDR_H
#define SOFT_FABRIC_SOCKADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

size_t soft_addr_len(const struct sockaddr_storage *a);	/* 0: another family */
in_port_t *soft_addr_port(struct sockaddr_storage *a);
bool soft_addr_is_any(const struct sockaddr_storage *a);
bool soft_addr_is_loopback(const struct sockaddr_storage *a);
/* Turns an IPv4-mapped IPv6 address into an IPv4 address. */
void soft_addr_unmap(struct sockaddr_storage *a);
/*
 * Returns 0 for an address of this host, else -EADDRNOTAVAIL or another -errno.
 */
int soft_addr_local(const struct sockaddr_storage *addr);
/* Writes the GID of an address; IPv4 is mapped. All 0 for another family. */
void soft_addr_to_gid(const struct sockaddr_storage *a, uint8_t gid[16]);
/* Writes the address of a GID, with port 0. */
void soft_gid_to_addr(const uint8_t gid[16], struct sockaddr_storage *ret);
int soft_gid_local(const uint8_t gid[16]);	/* likewise */

#endif
