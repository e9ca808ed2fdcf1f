/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Known differences of devices from the list, and their reasons. Lines and
 * functions refer to Linux 6.1, drivers/infiniband/sw/rxe, or to rdma-core 44,
 * unless an entry names another source. Tried on Linux 6.1 and 6.12: a kernel
 * between that an entry names is taken from the sources.
 */
#include "device.h"

#define LOCAL_KEY \
	"request 1: local QP operation error, not local protection error"
#define LOCAL_WHY "rxe_req.c makes every local failure IB_WC_LOC_QP_OP_ERR"
#define FLUSHED_WHY \
	"rxe_req.c, rxe_requester() enters the error state, then rxe_comp.c, " \
	"flush_send_queue() completes the request"
/* With these, a request that fails locally has its own status no more. */
#define TOLD	.last = LINUX(6, 3)
#define FLUSHED	FLUSHED_WHY, .first = LINUX(6, 4)
#define LOCAL_FLUSH \
	"request 1: Work Request Flushed Error, not local protection error"
#define BIND_FLUSH \
	"request 50: Work Request Flushed Error, not memory management"

#define UNTOLD "not so: readable(channel->fd, 5000)"
#define UNTOLD_WHY \
	"rxe_verbs.c, rxe_req_notify_cq(): the next completion raises the event"

#define NO_REREG_WHY \
	"providers/rxe/rxe.c has no rereg_mr, whatever the kernel has: " \
	"IBV_REREG_MR_ERR_CMD"

#define NO_TD	"no thread domain: Operation not supported"
#define NO_PARENT	"no parent domain: Operation not supported"
#define NO_TD_WHY	"providers/rxe/rxe.c has no alloc_td and no parent domain"

#define NO_QP	"v->create_qp(pd, &attr): Operation not supported"
#define NO_QP_WHY	"RC only: siw_create_qp(), c4iw_create_qp()"
#define NO_AH	"no datagrams, so no address handles"
#define NO_SUCH_QP \
	"iw_cm_connect() looks for the queue pair: iwarp.c has its cases"
#define NO_GROUP	"no datagrams, so no groups: rdma_join_multicast()"
#define NO_RNR	"iWARP has no RNR: the stream ends"
#define ENDS	"queue pairs end with their connection: iwcm.c"
#define WALK	"IBV_QPS_RTS): 22, not 0"
#define BY_CM \
	"siw_qp_nextstate_from_idle(): RTS by the connection manager only"
#define NO_IMM	"siw_post_send(): no immediate data"
#define NO_ATOMIC	"siw_post_send(): no atomics"
#define ANY_ACCESS \
	"cxgb4/qp.c, rdma_init(): reads and writes are always enabled"
#define ONE_SGE	"max_sge_rd is 1: a read goes to one place"
#define SQD	"siw_qp_modify(): SQD closes the connection"
#define ANY_ATTR \
	"siw_verbs_modify_qp() reads state and access flags only"

const struct difference differences[] = {
	/* keys and bounds */
	{ "local__wrong_key_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY,
	  TOLD },
	{ "local__wrong_key_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "local__deregistered_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY,
	  TOLD },
	{ "local__deregistered_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "local__another_domain_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY,
	  TOLD },
	{ "local__another_domain_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "local__second_of_a_list_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY,
	  TOLD },
	{ "local__second_of_a_list_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "local__one_byte_beyond_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "local__one_byte_before_LOC_PROT_ERR", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "reg_mr__zero_based_BEGINS_AT_0", "rxe",
	  "request 7: remote access error, not success",
	  "rxe_mr.c takes IB_ZERO_BASED and goes on with the address",
	  .last = LINUX(6, 5) },
	{ "reg_mr__zero_based_BEGINS_AT_0", "rxe",
	  "v->reg_mr(of, addr, len, access): Operation not supported",
	  "rxe_verbs.c, rxe_reg_user_mr() refuses what rxe does not do",
	  .first = LINUX(6, 6) },
	{ "reg_mr__memory_not_permitted_EFAULT", "rxe", ": 0, not 14",
	  "umem.c, ib_umem_get(): FOLL_FORCE for what is only read",
	  .last = LINUX(6, 1) },
	{ "rereg_mr__access_HAS_CHANGED", "rxe", ": 4, not 0",
	  NO_REREG_WHY },
	{ "rereg_mr__translation_HAS_CHANGED", "rxe", ": 4, not 0",
	  NO_REREG_WHY },
	{ "rereg_mr__domain_HAS_CHANGED", "rxe", ": 4, not 0",
	  NO_REREG_WHY },

	/* a CQ that overruns */
	{ "overrun__QUEUE_PAIR_IN_ERROR", "rxe",
	  "event: CQ error, not local work queue catastrophic error",
	  "rxe_cq.c, rxe_cq_post(): an event each time; queue pairs go on" },
	{ "overrun__events_TOLD_ONCE", "rxe",
	  "event: CQ error, not local work queue catastrophic error",
	  "rxe_cq.c, rxe_cq_post(): an event each time; queue pairs go on" },

	/* a CQ that is armed while it has completions */
	{ "notify__of_what_came_unarmed_AT_ONCE", "rxe", UNTOLD, UNTOLD_WHY },
	{ "notify__of_what_was_left_AT_ONCE", "rxe", UNTOLD, UNTOLD_WHY },
	{ "notify__solicited_only_of_what_came_unarmed_AT_ONCE", "rxe", UNTOLD,
	  UNTOLD_WHY },
	{ "notify__solicited_only_ERRORS_TOO", "rxe", UNTOLD,
	  "rxe_resp.c, flush_recv_wqe() posts it as not solicited",
	  .first = LINUX(6, 4) },

	/* domains and time stamps: providers/rxe has none of their calls */
	{ "cq_ex__time_stamps_WHEN_COMPLETED", "rxe",
	  "not so: mask && device.hca_core_clock", "no clock that is told" },
	{ "td__of_a_parent_domain_EBUSY", "rxe", NO_TD, NO_TD_WHY },
	{ "pd__of_a_parent_domain_EBUSY", "rxe", NO_PARENT, NO_TD_WHY },
	{ "parent__bad_values_EINVAL", "rxe", NO_PARENT, NO_TD_WHY },
	{ "parent__objects_ARE_OF_THE_PROTECTION_DOMAIN", "rxe", NO_TD,
	  NO_TD_WHY },

	/* receives that are unsuitable */
	{ "receive__too_short_TELLS_THE_SENDER", "rxe",
	  "request 1: remote operation error, not remote invalid request error",
	  "rxe_resp.c, send_data_in(): not told from a malformed receive" },
	{ "receive__too_short_LOC_LEN_ERR", "rxe",
	  "request 2: local QP operation error, not local length error",
	  "rxe_resp.c, RESPST_ERR_MALFORMED_WQE" },
	{ "receive__wrong_key_LOC_PROT_ERR", "rxe",
	  "request 2: local QP operation error, not local protection error",
	  "rxe_resp.c, RESPST_ERR_MALFORMED_WQE" },
	{ "receive__into_what_is_only_read_LOC_PROT_ERR", "rxe",
	  "request 2: local QP operation error, not local protection error",
	  "rxe_resp.c, RESPST_ERR_MALFORMED_WQE" },
	{ "flush__receives_posted_in_error_COME_BACK", "rxe", "no completion",
	  "providers/rxe/rxe.c, rxe_post_recv(): nobody tells the kernel, which "
	  "may look for another reason", true },

	/* events */
	{ "event__access_refused_QP_ACCESS_ERR", "rxe",
	  "no event: local access violation work queue error",
	  "rxe raises no events of queue pairs but IB_EVENT_SQ_DRAINED" },
	{ "event__request_invalid_QP_REQ_ERR", "rxe",
	  "no event: invalid request local work queue error",
	  "rxe raises no events of queue pairs but IB_EVENT_SQ_DRAINED" },

	/* shared receives, windows */
	{ "srq_error__LAST_WQE_REACHED", "rxe",
	  "no event: last WQE reached",
	  "rxe raises it from Linux 6.8 on", .last = LINUX(6, 7) },
	{ "bind__region_that_may_not_MW_BIND_ERR", "rxe", BIND_FLUSH, FLUSHED },
	{ "bind__beyond_the_region_MW_BIND_ERR", "rxe", BIND_FLUSH, FLUSHED },
	{ "bind_mw__type_1_beyond_REM_ACCESS_ERR", "rxe",
	  "request 1: success, not remote access error",
	  "rxe_resp.c, check_rkey(): the bounds of the region only" },
	{ "bind__type_2_beyond_REM_ACCESS_ERR", "rxe",
	  "request 1: success, not remote access error",
	  "rxe_resp.c, check_rkey(): the bounds of the region only" },
	{ "bind__type_2_before_REM_ACCESS_ERR", "rxe",
	  "request 1: success, not remote access error",
	  "rxe_resp.c, check_rkey(): the bounds of the region only" },
	{ "send_with_inv__TELLS_THE_KEY", "rxe",
	  "not so: wc.wc_flags & IBV_WC_WITH_INV",
	  "rxe_resp.c, do_complete(): for users of the kernel only" },

	/* states */
	{ "values__no_such_pkey_EINVAL", "rxe", ": 0, not 22",
	  "rxe_qp.c, rxe_qp_chk_attr() does not look at it" },
	{ "values__too_many_reads_to_answer_EINVAL", "rxe", ": 0, not 22",
	  "rxe_qp.c, rxe_qp_chk_attr() looks at max_rd_atomic only" },
	{ "query__queues_AS_GRANTED", "rxe", ": 127, not 64",
	  "rxe_qp.c: rounded up after the answer of the creation",
	  .last = LINUX(6, 5) },
	{ "query__current_state_TOLD_TOO", "rxe", ": 0, not 3",
	  "rxe_qp.c, rxe_qp_to_attr(): what was last given with it",
	  .last = LINUX(6, 3) },
	{ "post__before_its_time_TELLS_WHICH", "rxe",
	  "not so: bad == &r.wr",
	  "providers/rxe/rxe.c, rxe_post_send(): the kernel refuses later" },
	{ "sqd__what_is_posted_WAITS_FOR_RTS", "rxe", "no completion",
	  "rxe_qp.c, rxe_qp_from_attr(): RTS does not wake the requester" },

	/* datagrams */
	{ "ud_send__the_highest_bit_THE_QUEUE_PAIRS_OWN_QKEY", "rxe",
	  "no completion",
	  "rxe_req.c, init_req_packet(): remote_qkey as it is" },
	{ "ud_send__receive_too_short_LOST", "rxe",
	  "ibv_poll_cq(end[i].rcq, 1, &wc): 1, not 0",
	  "send_data_in(); since mended: rxe_resp_check_length() drops it",
	  .last = LINUX(6, 3) },
	{ "ud_send__wrong_local_key_ONLY_SQE", "rxe", LOCAL_KEY, LOCAL_WHY,
	  TOLD },
	{ "ud_send__wrong_local_key_ONLY_SQE", "rxe", LOCAL_FLUSH, FLUSHED },
	{ "group__loopback_blocked_NOT_TO_ITSELF", "rxe",
	  "blocking loopback: Operation not supported",
	  "providers/rxe/rxe.c has no create_qp_ex with create_flags" },

	/* iWARP: siw and c4iw are in drivers/infiniband */
	{ "device__attributes_COHERENT", "iwarp", "not so: a.max_ah > 0",
	  "no datagrams: siw_query_device() has no address handles" },
	{ "port__on_ethernet_SAYS_GRH_REQUIRED", "iwarp",
	  "port.flags & IBV_QPF_GRH_REQUIRED", "iWARP has no GRH" },
	{ "gid__table_and_entry_AGREE", "iwarp", "e.gid_type: 0, not 2",
	  "a MAC address, not a RoCE GID: siw_query_gid()" },
	{ "pd__of_an_address_EBUSY", "iwarp", "Operation not supported",
	  NO_AH },
	{ "cm_connect__accepted_ESTABLISHED", "iwarp",
	  "v->connect(asks, &p): 22, not 0", NO_SUCH_QP },
	{ "cm_connect__rejected_SAYS_WHY", "iwarp",
	  "v->connect(asks, &p): 22, not 0", NO_SUCH_QP },
	{ "cm_connect__request_destroyed_REJECTED", "iwarp",
	  "v->connect(asks, &p): 22, not 0", NO_SUCH_QP },
	{ "cm_connect__nobody_listens_REJECTED", "iwarp",
	  "v->connect(asks, &p): 22, not 0", NO_SUCH_QP },
	{ "cm_migrate__request_TOLD_THERE", "iwarp",
	  "v->connect(asks, &p): 22, not 0", NO_SUCH_QP },
	{ "cm_join__group_TELLS_ITS_ADDRESS", "iwarp", ": 38, not 0",
	  NO_GROUP },
	{ "cm_join__destroyed_with_it_LEAVES", "iwarp", ": 38, not 0",
	  NO_GROUP },
	{ "overrun__QUEUE_PAIR_IN_ERROR", "iwarp",
	  "state_of(end[1].qp): 6, not 3", ENDS, true },
	{ "cq_ex__polled_by_calls_TELLS_ALL", "iwarp", WALK, BY_CM },
	{ "rnr__no_retries_RNR_RETRY_EXC", "iwarp",
	  "request 1: remote invalid request error, not RNR", NO_RNR },
	{ "rnr__two_retries_RNR_RETRY_EXC", "iwarp",
	  "request 1: remote invalid request error, not RNR", NO_RNR },
	{ "rnr__retries_without_end_ARRIVES_LATER", "iwarp",
	  "ibv_poll_cq(end[i].scq, 1, &wc): 1, not 0", NO_RNR },
	{ "rnr__of_a_write_with_imm_ARRIVES_LATER", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_IMM },
	{ "peer__never_ready_RETRY_EXC", "iwarp",
	  "request 1: remote invalid request error, not", NO_RNR },
	{ "peer__destroyed_RETRY_EXC", "iwarp",
	  "request 3: Work Request Flushed Error, not", ENDS },
	{ "peer__ready_in_time_NOTHING_IS_LOST", "iwarp",
	  "ibv_poll_cq(end[i].scq, 1, &wc): 1, not 0", NO_RNR },
	{ "flush__by_hand_IN_ORDER_AND_ONCE", "iwarp",
	  "request 0: remote invalid request error, not", NO_RNR, true },
	{ "reset__after_an_error_WORKS_AGAIN", "iwarp", WALK, BY_CM },
	{ "group__attached_RECEIVES", "iwarp", NO_QP, NO_QP_WHY },
	{ "group__nobody_attached_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "group__who_sends_is_attached_RECEIVES_TOO", "iwarp", NO_QP,
	  NO_QP_WHY },
	{ "group__attached_twice_ONE_COPY", "iwarp", NO_QP, NO_QP_WHY },
	{ "group__detached_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "group__another_qkey_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "attach__of_a_connection_REFUSED", "iwarp", ": 95, not 22",
	  NO_GROUP },
	{ "destroy_qp__attached_EBUSY", "iwarp", NO_QP, NO_QP_WHY },
	{ "group__loopback_blocked_NOT_TO_ITSELF", "iwarp", NO_QP, NO_QP_WHY },
	{ "local__read_into_what_is_only_read_LOC_PROT_ERR", "iwarp",
	  "request 1: local access error, not local protection error",
	  "c4iw_poll_cq_one(): T4_ERR_ACCESS" },
	{ "remote__atomic_where_there_are_none_REM_ACCESS_ERR", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_ATOMIC },
	{ "qp_access__no_writes_REM_INV_REQ_ERR", "iwarp",
	  "success, not remote invalid request error", ANY_ACCESS },
	{ "qp_access__no_reads_REM_INV_REQ_ERR", "iwarp",
	  "success, not remote invalid request error", ANY_ACCESS },
	{ "qp_access__no_atomics_REM_INV_REQ_ERR", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_ATOMIC },
	{ "send_with_imm__every_size_ARRIVES", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_IMM },
	{ "write_with_imm__TAKES_A_RECEIVE", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_IMM },
	{ "compare_swap__equal_SWAPS_else_NOT", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_ATOMIC },
	{ "fetch_add__WRAPS", "iwarp", "try_post(0, &r): 22, not 0",
	  NO_ATOMIC },
	{ "atomics__many_at_once_EACH_ONCE", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_ATOMIC },
	{ "lists__read_scatters_IN_ORDER", "iwarp",
	  "try_post(0, &r): 22, not 0", ONE_SGE },
	{ "order__of_unlike_requests_KEPT", "iwarp",
	  "try_post(0, &r): 22, not 0", NO_ATOMIC },
	{ "post_send__queue_full_ENOMEM", "iwarp", "ret: 0, not 12", NO_RNR,
	  true },
	{ "resize_srq__KEEPS_WHAT_IS_THERE", "iwarp", ": 95, not 0",
	  "no resizing: siw_modify_srq()" },
	{ "resize_srq__smaller_than_what_is_there_EINVAL", "iwarp",
	  ": 95, not 22", "no resizing: siw_modify_srq()" },
	{ "srq__empty_RNR_RETRY_EXC", "iwarp",
	  "request 1: remote invalid request error, not RNR", NO_RNR },
	{ "srq_error__shared_receives_STAY", "iwarp", WALK, BY_CM },
	{ "srq_error__LAST_WQE_REACHED", "iwarp", "no event: last WQE reached",
	  "siw raises none" },
	{ "rc__without_what_a_step_needs_EINVAL", "iwarp",
	  "step to 1 without 0x8 is taken", ANY_ATTR },
	{ "uc__without_what_a_step_needs_EINVAL", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud__without_what_a_step_needs_EINVAL", "iwarp", NO_QP, NO_QP_WHY },
	{ "rc__with_what_a_step_may_not_set_EINVAL", "iwarp",
	  "step to 1 with 0x2: 0", ANY_ATTR },
	{ "uc__with_what_a_step_may_not_set_EINVAL", "iwarp", NO_QP,
	  NO_QP_WHY },
	{ "ud__with_what_a_step_may_not_set_EINVAL", "iwarp", NO_QP,
	  NO_QP_WHY },
	{ "steps__that_are_none_EINVAL", "iwarp", "0 to 2 is taken", ANY_ATTR },
	{ "values__no_such_mtu_NOTHING_CHANGES", "iwarp",
	  ": 0, not 22", ANY_ATTR },
	{ "values__too_many_reads_to_answer_EINVAL", "iwarp",
	  ": 0, not 22", ANY_ATTR },
	{ "values__no_such_pkey_EINVAL", "iwarp",
	  ": 0, not 22", ANY_ATTR },
	{ "path__without_grh_on_ethernet_EINVAL", "iwarp",
	  ": 0, not 22", ANY_ATTR },
	{ "query__TELLS_WHAT_WAS_SET", "iwarp",
	  "a.qp_access_flags & REMOTE: 6, not 14", NO_ATOMIC },
	{ "event__request_invalid_QP_REQ_ERR", "iwarp",
	  "request 1: success, not remote invalid request error", ANY_ACCESS },
	{ "rtr__RECEIVES_ALREADY", "iwarp", ": 22, not 0", BY_CM },
	{ "sqd__nothing_under_way_TOLD_AT_ONCE", "iwarp",
	  "no event: send queue drained", SQD },
	{ "sqd__what_is_posted_WAITS_FOR_RTS", "iwarp",
	  "no event: send queue drained", SQD },
	{ "sqd__what_is_under_way_ENDS_FIRST", "iwarp",
	  "no event: send queue drained", SQD },
	{ "ud_send__behind_40_bytes_ARRIVES", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__of_a_whole_mtu_ARRIVES", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__another_qkey_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__the_highest_bit_THE_QUEUE_PAIRS_OWN_QKEY", "iwarp", NO_QP,
	  NO_QP_WHY },
	{ "ud_send__nobody_of_that_number_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__more_than_the_mtu_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__no_receive_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__receive_too_short_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__solicited_NOTICED", "iwarp", NO_QP, NO_QP_WHY },
	{ "ah_from_wc__ANSWERS", "iwarp", NO_QP, NO_QP_WHY },
	{ "ah__bad_values_REFUSED", "iwarp", ": 95, not 22", NO_AH },
	{ "ud_post__a_write_NEVER_DONE", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_post__a_read_NEVER_DONE", "iwarp", NO_QP, NO_QP_WHY },
	{ "ud_send__wrong_local_key_ONLY_SQE", "iwarp", NO_QP, NO_QP_WHY },
	{ "uc__sends_and_writes_ARRIVE", "iwarp", NO_QP, NO_QP_WHY },
	{ "uc__no_receive_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "uc__write_with_a_wrong_key_LOST", "iwarp", NO_QP, NO_QP_WHY },
	{ "uc_post__a_read_NEVER_DONE", "iwarp", NO_QP, NO_QP_WHY },
	{ "uc_post__an_atomic_NEVER_DONE", "iwarp", NO_QP, NO_QP_WHY },

	{ .name = NULL },
};
