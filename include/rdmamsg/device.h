/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, and the events of devices, ports and queue pairs. */
#ifndef RDMAMSG_DEVICE_H
#define RDMAMSG_DEVICE_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_device_attr {
	size_t size;			/* set by the library */
	char name[64];
	char kind[16];			/* "soft-roce", "infiniband", ... */
	char firmware[64];
	uint64_t node_guid;		/* host byte order */
	uint32_t ports;
	uint32_t ports_active;
	uint32_t max_qp;
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_mr;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_read_responder;
	uint32_t max_read_initiator;
	uint64_t max_mr_size;
};

/*
 * Fills up to max elements of 'size' bytes at list. Returns the number of
 * devices, the soft HCA included, which may be more than max. -EACCES: no
 * permission on the device nodes; -EMFILE, -ENOMEM. -ENODEV: there is no
 * device, because rdmamsg-soft-ctl(1) has removed the soft HCA. Any thread.
 */
int rdmamsg_devices(struct rdmamsg_device_attr *list, size_t size, int max);

/* An event of a device, of a port or of an endpoint's queue pair. */
struct rdmamsg_event {
	size_t size;
	int type;		/* enum ibv_event_type, -1: device is gone */
	const char *name;	/* static text */
	const char *device;	/* valid during the callback */
	uint32_t port;		/* 0 if not about a port */
	struct rdmamsg_ep *ep;	/* NULL if not about an endpoint */
};

#ifdef __cplusplus
}
#endif

#endif
