/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the messages of the soft HCA went. Headers of lib/soft have names that
 * device.h has, so packets.c does not include it.
 */
#ifndef TESTS_DEVICE_PACKETS_H
#define TESTS_DEVICE_PACKETS_H

#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Counts the records of all messages, those in shared memory as well, and the
 * packets of the device. An acknowledgement is a packet, and no record. So more
 * records than packets prove that some were in shared memory.
 */
void packets_count(struct ibv_context *verbs, uint64_t *ret_records,
		   uint64_t *ret_packets);

#endif
