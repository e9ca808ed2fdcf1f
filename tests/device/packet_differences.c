/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Known differences of the soft HCA where the queue pairs reach each other by
 * packets, and their reasons, as in differences.c. rdmamsg-soft(7) lists what
 * packets do not carry. Functions are those of lib/soft.
 */
#include "device.h"

#define NO_PATH \
	"soft_far_up(): one path; path migration stays within the host"
#define NO_DC \
	"engine/dc.c, turn_to(): no wire to an address that packets reach"
#define NEAR_GROUP \
	"soft_ud_push(): a group's members on this host are reached by " \
	"shared memory, and those of others by a packet"
#define NO_MASKED	"remote invalid request error, not "
#define NO_MASKED_WHY \
	"transport/requester.c, push_atomic(): no packet is of a masked atomic"
#define NO_UC	"IBV_QPS_RTS): 95, not 0"
#define NO_UC_WHY	"soft_far_up(): RC only"

const struct difference packet_differences[] = {
	/* path migration */
	{ "path__loaded_at_both_ends_ARMED", OVER_PACKETS, NOT_ARMED, NO_PATH },
	{ "path__migrated_by_hand_TOLD_AND_WORKS", OVER_PACKETS, NOT_ARMED,
	  NO_PATH },
	{ "path__migrated_under_load_NOTHING_IS_LOST", OVER_PACKETS, NOT_ARMED,
	  NO_PATH },
	{ "path__armed_again_MIGRATES_BACK", OVER_PACKETS, NOT_ARMED, NO_PATH },

	/* DC */
	{ "dc_key__wrong_REM_ACCESS_ERR", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_key__of_each_target_ITS_OWN", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_key__violations_COUNTED_AND_TOLD", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_write__wrong_rkey_REM_ACCESS_ERR", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_read__without_access_REM_INV_REQ_ERR", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_send__local_key_LOC_PROT_ERR", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_send__too_long_LOC_LEN_ERR", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_recv__domain_of_the_target_CHECKED", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_rnr__receive_later_ARRIVES", OVER_PACKETS, NO_COMPLETION, NO_DC },
	{ "dc_rnr__no_retries_RNR_RETRY_EXC_ERR", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_target__absent_RETRY_EXC_ERR", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_target__destroyed_under_way_RETRY_EXC_ERR", OVER_PACKETS,
	  "ibv_poll_cq(end[i].scq, 1, &wc): 1, not 0", NO_DC },
	{ "dc_target__destroyed_under_way_RETRY_EXC_ERR", OVER_PACKETS,
	  NOT_REACHED, NO_DC },
	{ "dc_initiator__destroyed_under_way_TARGET_GOES_ON", OVER_PACKETS,
	  NOT_REACHED, NO_DC },
	{ "dc_initiator__destroyed_under_way_TARGET_GOES_ON", OVER_PACKETS,
	  "ibv_poll_cq(end[i].scq, 1, &wc): 1, not 0", NO_DC },
	{ "dc_initiator__in_error_FLUSHES", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_send__sizes_ARRIVE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_immediate__send_and_write_ARRIVE", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_write_read__sizes_MOVE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_atomics__many_ADD_UP", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_builder__no_address_EINVAL", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_builder__stream_IGNORED", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_local__before_any_target_COMPLETES", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_post__without_builder_FAILS", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_targets__change_each_time_IN_ORDER", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_targets__unsignalled_CHANGE", OVER_PACKETS, "request 1, not 2",
	  NO_DC },
	{ "dc_initiators__many_ONE_TARGET", OVER_PACKETS, NO_COMPLETION,
	  NO_DC },
	{ "dc_raw__masked_atomics_DONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_raw__among_others_IN_ORDER", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_raw__access_key_REM_ACCESS_ERR", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_raw__handle_destroyed_GOES_ON", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_raw__other_requests_REFUSED", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "mlx5_create_qp__most_streams_WORK", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__many_targets_ARRIVE", OVER_PACKETS,
	  "wc.status: 12, not 0", NO_DC },
	{ "dc_stream__without_a_number_STREAM_0", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__error_FLUSHES_ITS_STREAM", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__local_key_ALONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__local_key_amid_message_ALONE", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__place_of_a_read_ALONE", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__rkey_ALONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__access_key_ALONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__no_receive_ALONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__target_gone_ALONE", OVER_PACKETS,
	  "ibv_poll_cq(end[i].scq, 1, &wc): 1, not 0", NO_DC },
	{ "dc_stream__target_gone_ALONE", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__under_way_FLUSHED", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__local_request_STREAM_0", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dc_stream__many_requests_EACH_ENDS_ONCE", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dci_stream_id_reset__not_in_error_EINVAL", OVER_PACKETS, NOT_REACHED,
	  NO_DC },
	{ "dci_stream_id_reset__other_state_EOPNOTSUPP", OVER_PACKETS,
	  NOT_REACHED, NO_DC },
	{ "dc_stream__too_many_errors_END", OVER_PACKETS, NOT_REACHED, NO_DC },
	{ "dc_stream__one_error_END", OVER_PACKETS, NOT_REACHED, NO_DC },

	/* groups: a packet, and a copy in shared memory */
	{ "group__attached_RECEIVES", OVER_PACKETS, NOT_PACKETS, NEAR_GROUP },
	{ "group__who_sends_is_attached_RECEIVES_TOO", OVER_PACKETS,
	  NOT_PACKETS, NEAR_GROUP },
	{ "group__attached_twice_ONE_COPY", OVER_PACKETS, NOT_PACKETS,
	  NEAR_GROUP },
	{ "group__another_qkey_LOST", OVER_PACKETS, NOT_PACKETS, NEAR_GROUP },
	{ "group__loopback_blocked_NOT_TO_ITSELF", OVER_PACKETS, NOT_PACKETS,
	  NEAR_GROUP },

	/* masked atomics */
	{ "masked_swap__equal_bits_SWAPS_BITS", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked_swap__other_bits_KEEPS", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked_add__fields_CARRY_NOT", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked__answers_big_endian_AS_REPORTED", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked__many_with_plain_ADD_UP", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked__fence_behind_SENDS_WHAT_CAME", OVER_PACKETS,
	  "request 1, not 2", NO_MASKED_WHY },
	{ "masked__outside_of_the_region_REM_ACCESS_ERR", OVER_PACKETS,
	  NO_MASKED, NO_MASKED_WHY },
	{ "masked__region_without_atomics_REM_ACCESS_ERR", OVER_PACKETS,
	  NO_MASKED, NO_MASKED_WHY },
	{ "raw_wqe__masked_swap_SWAPS_BITS", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "raw_wqe__add_fields_CARRY_NOT", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "raw_wqe__unsignaled_IN_ORDER", OVER_PACKETS, "request 100, not 0",
	  NO_MASKED_WHY },
	{ "raw_wqe__wrong_key_REM_ACCESS_ERR", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },
	{ "masked__in_blocks_AS_PLAIN_ONES", OVER_PACKETS, NO_MASKED,
	  NO_MASKED_WHY },

	/* UC */
	{ "uc__without_what_a_step_needs_EINVAL", OVER_PACKETS,
	  "(qp, up[s], mask): 95, not 0", NO_UC_WHY },
	{ "uc__with_what_a_step_may_not_set_EINVAL", OVER_PACKETS, ": 95",
	  NO_UC_WHY },
	{ "uc__sends_and_writes_ARRIVE", OVER_PACKETS, NO_UC, NO_UC_WHY },
	{ "uc__no_receive_LOST", OVER_PACKETS, NO_UC, NO_UC_WHY },
	{ "uc__write_with_a_wrong_key_LOST", OVER_PACKETS, NO_UC, NO_UC_WHY },
	{ "uc_post__a_read_NEVER_DONE", OVER_PACKETS, NO_UC, NO_UC_WHY },
	{ "uc_post__an_atomic_NEVER_DONE", OVER_PACKETS, NO_UC, NO_UC_WHY },

	{ .name = NULL },
};
