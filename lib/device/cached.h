/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of an open device and of its ports, queried once. */
#ifndef RDMAMSG_LIB_CACHED_H
#define RDMAMSG_LIB_CACHED_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

struct device_cache;
struct rdmamsg_device;

/* NULL: no memory. d->attr is known. */
struct device_cache *rdmamsg__cache_new(const struct rdmamsg_device *d);
void rdmamsg__cache_free(struct device_cache *c);
/* Forgets what the event may have changed. */
void rdmamsg__cache_event(struct device_cache *c,
			  const struct ibv_async_event *ev);
/* Forgets all of it. */
void rdmamsg__cache_forget(struct device_cache *c);
/* These three query what is not known. 0, or -errno and a text. */
int rdmamsg__cache_device(const struct rdmamsg_device *d,
			  struct rdmamsg_device_attr *ret);
int rdmamsg__cache_extended(const struct rdmamsg_device *d,
			    struct ibv_device_attr_ex *ret);
/* parts: enum rdmamsg_port_part */
int rdmamsg__cache_port(const struct rdmamsg_device *d, uint32_t port,
			uint32_t parts, struct rdmamsg_port_attr *ret);

#endif
