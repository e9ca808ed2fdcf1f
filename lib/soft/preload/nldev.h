/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers of the kernel's RDMA netlink (rdma_netlink.h, RDMA_NL_NLDEV) for the
 * soft HCA, which is the only device and has index 0.
 */
#ifndef SOFT_PRELOAD_NLDEV_H
#define SOFT_PRELOAD_NLDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nlmsghdr;
struct soft_dev;

/*
 * Messages that wait for the program. at[] is allocated. No message is longer
 * than NL_MESSAGE_MAX, which is less than what any program makes room for.
 */
#define NL_MESSAGE_MAX	4096u
struct nl_answer {
	uint8_t *at;
	size_t len, room, read;
	size_t message;			/* offset of the message being made */
	uint32_t seq, portid;
	bool failed;			/* no memory, or a message too long */
};

/*
 * nlmsg.c. nl_nest() returns a value for nl_nest_end(). nl_cut() takes back
 * what was put since the answer had this length.
 */
void nl_begin(struct nl_answer *a, uint16_t type, uint16_t flags);
void nl_end(struct nl_answer *a);
size_t nl_length(const struct nl_answer *a);	/* of the message */
void nl_put(struct nl_answer *a, uint16_t type, const void *data, size_t len);
void nl_put_u8(struct nl_answer *a, uint16_t type, uint8_t value);
void nl_put_u32(struct nl_answer *a, uint16_t type, uint32_t value);
void nl_put_u64(struct nl_answer *a, uint16_t type, uint64_t value);
void nl_put_string(struct nl_answer *a, uint16_t type, const char *text);
size_t nl_nest(struct nl_answer *a, uint16_t type);
void nl_nest_end(struct nl_answer *a, size_t nest);
/* The last message: NLMSG_DONE of a dump, or NLMSG_ERROR with 0 or -errno. */
void nl_done(struct nl_answer *a);
void nl_error(struct nl_answer *a, const struct nlmsghdr *request, int err);
/* Returns the u32 attribute of a request, or 'none'. */
uint32_t nl_get_u32(const struct nlmsghdr *request, uint16_t type,
		    uint32_t none);

/* One request, and the answer to it. */
struct ask {
	struct soft_dev *dev;
	struct nl_answer *a;
	uint16_t type, flags;		/* of each message */
	uint32_t port;			/* 0: none named */
};

/* nlres.c: the number of all resources, and lists of them. 0 or -errno. */
int nldev_summary(struct ask *ask);
int nldev_list(struct ask *ask, uint16_t cmd);

/* nldev.c. Begins a message about the device. */
void nldev_begin(struct ask *ask);
/* Appends the answer. The request has request->nlmsg_len bytes. */
void nldev_answer(const struct nlmsghdr *request, struct nl_answer *a);

#endif
