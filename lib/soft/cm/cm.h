/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of the kernel's rdma_cm device, <rdma/rdma_user_cm.h>, as
 * functions. cma/ implements the asynchronous calls of librdmacm with them.
 * preload/ passes on the commands that an unmodified librdmacm writes to the
 * device.
 *
 * Every command locks the device itself, and returns 0 or -errno. The answer
 * goes to resp. The response pointer in the command is ignored.
 */
#ifndef SOFT_CM_CM_H
#define SOFT_CM_CM_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "soft/cm/ucm_abi.h"

struct soft_dev;

/* An open rdma_cm device: a queue of events and a descriptor. */
struct soft_cm_file {
	struct soft_dev *dev;
	struct list node;		/* dev->cm_files */
	int fd;				/* eventfd: number of events */
	struct list events;
};

int soft_cm_open(struct soft_cm_file **ret);
void soft_cm_close(struct soft_cm_file *file);
int soft_cm_create_id(struct soft_cm_file *file,
		      const struct rdma_ucm_create_id *cmd,
		      struct rdma_ucm_create_id_resp *resp);
int soft_cm_destroy_id(struct soft_cm_file *file,
		       const struct rdma_ucm_destroy_id *cmd,
		       struct rdma_ucm_destroy_id_resp *resp);
int soft_cm_migrate_id(struct soft_cm_file *from, struct soft_cm_file *to,
		       const struct rdma_ucm_migrate_id *cmd,
		       struct rdma_ucm_migrate_resp *resp);
int soft_cm_bind(struct soft_cm_file *file, const struct rdma_ucm_bind *cmd);
int soft_cm_resolve_addr(struct soft_cm_file *file,
			 const struct rdma_ucm_resolve_addr *cmd);
int soft_cm_resolve_route(struct soft_cm_file *file,
			  const struct rdma_ucm_resolve_route *cmd);
int soft_cm_query_addr(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_addr_resp *resp);
int soft_cm_query_gid(struct soft_cm_file *file,
		      const struct rdma_ucm_query *cmd,
		      struct rdma_ucm_query_addr_resp *resp);
int soft_cm_query_path(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_path_resp *resp, size_t size);
int soft_cm_query_route(struct soft_cm_file *file, uint32_t id,
			struct rdma_ucm_query_route_resp *resp);
int soft_cm_notify(struct soft_cm_file *file,
		   const struct rdma_ucm_notify *cmd);
int soft_cm_listen(struct soft_cm_file *file,
		   const struct rdma_ucm_listen *cmd);
int soft_cm_connect(struct soft_cm_file *file,
		    const struct rdma_ucm_connect *cmd);
int soft_cm_accept(struct soft_cm_file *file,
		   const struct rdma_ucm_accept *cmd);
int soft_cm_reject(struct soft_cm_file *file,
		   const struct rdma_ucm_reject *cmd);
int soft_cm_disconnect(struct soft_cm_file *file,
		       const struct rdma_ucm_disconnect *cmd);
int soft_cm_init_qp_attr(struct soft_cm_file *file,
			 const struct rdma_ucm_init_qp_attr *cmd,
			 struct ib_uverbs_qp_attr *resp);
/* Sends the RTU: RDMA_USER_CM_CMD_ACCEPT on the active side. */
int soft_cm_establish(struct soft_cm_file *file, uint32_t id);
int soft_cm_set_option(struct soft_cm_file *file,
		       const struct rdma_ucm_set_option *cmd,
		       const void *optval);
int soft_cm_join_mcast(struct soft_cm_file *file,
		       const struct rdma_ucm_join_mcast *cmd,
		       struct rdma_ucm_create_id_resp *resp);
int soft_cm_join_ip_mcast(struct soft_cm_file *file,
			  const struct rdma_ucm_join_ip_mcast *cmd,
			  struct rdma_ucm_create_id_resp *resp);
/* cmd->id is the handle that joining returned. */
int soft_cm_leave_mcast(struct soft_cm_file *file,
			const struct rdma_ucm_destroy_id *cmd,
			struct rdma_ucm_destroy_id_resp *resp);
/* Returns the MLID of a group, which is the same on all nodes. */
uint16_t soft_cm_mlid(const uint8_t mgid[16]);
/* Raises an event of the program's own: Linux, ucma_write_cm_event(). */
int soft_cm_write_event(struct soft_cm_file *file,
			const struct soft_ucm_write_cm_event *cmd);
/* Returns -EAGAIN if there is no event. */
int soft_cm_get_event(struct soft_cm_file *file,
		      struct rdma_ucm_event_resp *resp);

#endif
