/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault injector: a second verbs table, replaced context->ops of opened
 * devices, and wrapped calls of the C library (-Wl,--wrap). All of them count
 * their calls. The test can make one of them fail at its Nth call, once or from
 * there on, by its own convention. The injector counts the objects that are
 * created and not destroyed.
 * A failing destructor keeps the object alive for its caller. The next call of
 * the table destroys it, so that one fault has no consequences of its own. A
 * queue pair that the program still has is left to the program.
 */
#ifndef FAULTY_H
#define FAULTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/verbs_api.h"

/*
 * The names of the calls, and how each fails: N NULL and errno, M -1 and errno,
 * P positive errno.
 */
#define FAULTY_TABLE(X) \
	X(get_device_list, N, EAGAIN) \
	X(open_device, N, EMFILE) \
	X(close_device, M, EIO) \
	X(query_device, P, EIO) \
	X(query_device_ex, P, EIO) \
	X(query_port, P, EIO) \
	X(query_gid, M, EIO) \
	X(query_gid_ex, P, EIO) \
	X(query_pkey, M, EIO) \
	X(get_async_event, M, EIO) \
	X(alloc_pd, N, ENOMEM) \
	X(dealloc_pd, P, EIO) \
	X(reg_mr, N, ENOMEM) \
	X(reg_mr_iova, N, ENOMEM) \
	X(dereg_mr, P, EIO) \
	X(create_comp_channel, N, EMFILE) \
	X(destroy_comp_channel, P, EBUSY) \
	X(create_cq, N, ENOMEM) \
	X(destroy_cq, P, EIO) \
	X(resize_cq, P, EOPNOTSUPP) \
	X(create_srq, N, ENOMEM) \
	X(create_srq_ex, N, ENOMEM) \
	X(modify_srq, P, EINVAL) \
	X(destroy_srq, P, EIO) \
	X(get_cq_event, M, EIO) \
	X(create_qp, N, ENOMEM) \
	X(create_qp_ex, N, ENOMEM) \
	X(mlx5_create_qp, N, ENOMEM) \
	X(mlx5_create_mkey, N, ENOMEM) \
	X(mlx5_destroy_mkey, P, EIO) \
	X(mlx5_init_obj, P, EIO) \
	X(create_ah, N, ENOMEM) \
	X(modify_qp, P, EINVAL) \
	X(query_qp, P, EIO) \
	X(destroy_qp, P, EIO) \
	X(create_event_channel, N, EMFILE) \
	X(create_id, M, ENOMEM) \
	X(destroy_id, M, EIO) \
	X(migrate_id, M, ENOMEM) \
	X(bind_addr, M, EADDRINUSE) \
	X(resolve_addr, M, ENODEV) \
	X(resolve_route, M, EINVAL) \
	X(listen, M, EADDRINUSE) \
	X(connect, M, ENOMEM) \
	X(establish, M, EINVAL) \
	X(accept, M, EINVAL) \
	X(reject, M, EINVAL) \
	X(disconnect, M, EINVAL) \
	X(init_qp_attr, M, EINVAL) \
	X(attach_mcast, P, ENOMEM) \
	X(detach_mcast, P, EIO) \
	X(join_multicast, M, ENOMEM) \
	X(leave_multicast, M, EIO) \
	X(get_cm_event, M, EIO) \
	X(ack_cm_event, M, EIO)

/*
 * Calls through context->ops, and of extended queue pairs. The last two turn
 * good completions into errors.
 */
#define FAULTY_DATA(X) \
	X(post_send, P, ENOMEM) \
	X(post_recv, P, ENOMEM) \
	X(post_srq_recv, P, ENOMEM) \
	X(poll_cq, M, EIO) \
	X(req_notify_cq, P, EIO) \
	X(alloc_mw, N, ENOMEM) \
	X(dealloc_mw, P, EIO) \
	X(wr_complete, P, ENOMEM) \
	X(wc_send, P, IBV_WC_RETRY_EXC_ERR) \
	X(wc_recv, P, IBV_WC_WR_FLUSH_ERR)

#define FAULTY_LIBC(X) \
	X(malloc, N, ENOMEM) \
	X(calloc, N, ENOMEM) \
	X(realloc, N, ENOMEM) \
	X(strdup, N, ENOMEM) \
	X(mmap, N, ENOMEM) \
	X(madvise, M, EINVAL) \
	X(epoll_create1, M, EMFILE) \
	X(epoll_ctl, M, ENOSPC) \
	X(eventfd, M, EMFILE) \
	X(timerfd_create, M, EMFILE) \
	X(pthread_create, P, EAGAIN) \
	X(getaddrinfo, P, EAI_MEMORY) \
	X(socket, M, EMFILE) \
	X(accept4, M, EMFILE) \
	X(send, M, ECONNRESET) \
	X(recv, M, ECONNRESET) \
	X(getrandom, M, ENOSYS)

#define FAULTY_ALL(X) FAULTY_TABLE(X) FAULTY_DATA(X) FAULTY_LIBC(X)

enum faulty_call {
#define X(name, how, err) FAULTY_##name,
	FAULTY_ALL(X)
#undef X
	FAULTY_CALLS
};

/* The objects that faulty_alive() counts. */
enum faulty_kind {
	FAULTY_LISTS, FAULTY_DEVICES, FAULTY_PDS, FAULTY_MRS, FAULTY_CHANNELS,
	FAULTY_CQS, FAULTY_SRQS, FAULTY_QPS, FAULTY_MKEYS, FAULTY_AHS,
	FAULTY_MWS,
	FAULTY_CM_CHANNELS,
	FAULTY_IDS,
	FAULTY_CM_EVENTS, FAULTY_MEMORY, FAULTY_MAPPINGS, FAULTY_ADDRS,
	FAULTY_KINDS
};

extern const struct verbs_api faulty_verbs;

const char *faulty_name(enum faulty_call call);

/* Makes the nth call from now on fail, from 1, and all later if persistent. */
void faulty_arm(enum faulty_call call, uint32_t nth, bool persistent);
/* Ends the faults. Returns true if a call has failed. */
bool faulty_disarm(void);
/* Starts counting calls. Returns a count. */
void faulty_count_start(void);
uint32_t faulty_count(enum faulty_call call);

/* Holds back the completions of all devices for this time. */
void faulty_delay(uint32_t ms);

/* Makes the next get_async_event() return ev, without an acknowledgement. */
void faulty_async_event(const struct ibv_async_event *ev);

long faulty_alive(enum faulty_kind kind);
/* Describes the living objects, "" if there are none. */
const char *faulty_leftovers(void);
/* Stops counting an object. */
void faulty_forget(void);

#endif
