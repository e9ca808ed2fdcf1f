/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a device does something else than the list says, and why. Lines and
 * functions are those of Linux 6.1, drivers/infiniband/sw/rxe, or of rdma-core
 * 44, unless something else is named.
 */
#include "device.h"

#define LOCAL_KEY \
	"request 1: local QP operation error, not local protection error"
#define LOCAL_WHY "rxe_req.c makes every local failure IB_WC_LOC_QP_OP_ERR"

#define UNTOLD "not so: readable(channel->fd, 5000)"
#define UNTOLD_WHY \
	"rxe_verbs.c, rxe_req_notify_cq(): the next completion raises the event"

const struct difference differences[] = {
	/* keys and bounds */
	{ "local__wrong_key_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY },
	{ "local__deregistered_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY },
	{ "local__another_domain_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY },
	{ "local__second_of_a_list_LOC_PROT_ERR", "rxe", LOCAL_KEY, LOCAL_WHY },
	{ "reg_mr__zero_based_BEGINS_AT_0", "rxe",
	  "request 7: remote access error, not success",
	  "rxe_mr.c takes IB_ZERO_BASED and goes on with the address" },
	{ "reg_mr__memory_not_permitted_EFAULT", "rxe", ": 0, not 14",
	  "umem.c, ib_umem_get(): FOLL_FORCE for what is only read" },
	{ "rereg_mr__access_HAS_CHANGED", "rxe", ": 4, not 0",
	  "no rereg_mr before Linux 6.6: IBV_REREG_MR_ERR_CMD" },
	{ "rereg_mr__translation_HAS_CHANGED", "rxe", ": 4, not 0",
	  "no rereg_mr before Linux 6.6: IBV_REREG_MR_ERR_CMD" },
	{ "rereg_mr__domain_HAS_CHANGED", "rxe", ": 4, not 0",
	  "no rereg_mr before Linux 6.6: IBV_REREG_MR_ERR_CMD" },

	/* a CQ that overruns */
	{ "overrun__QUEUE_PAIR_IN_ERROR", "rxe",
	  "event: CQ error, not local work queue catastrophic error",
	  "rxe_cq.c, rxe_cq_post(): an event each time; queue pairs go on" },
	{ "overrun__events_TOLD_ONCE", "rxe",
	  "event: CQ error, not local work queue catastrophic error",
	  "rxe_cq.c, rxe_cq_post(): an event each time; queue pairs go on" },

	/* a CQ that is armed while there is something in it */
	{ "notify__of_what_came_unarmed_AT_ONCE", "rxe", UNTOLD, UNTOLD_WHY },
	{ "notify__of_what_was_left_AT_ONCE", "rxe", UNTOLD, UNTOLD_WHY },
	{ "notify__solicited_only_of_what_came_unarmed_AT_ONCE", "rxe", UNTOLD,
	  UNTOLD_WHY },

	/* receives that do not do */
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
	  "rxe raises it from Linux 6.8 on" },
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
	  "rxe_qp.c: rounded up after the answer of the creation" },
	{ "query__current_state_TOLD_TOO", "rxe", ": 0, not 3",
	  "rxe_qp.c, rxe_qp_to_attr(): what was last given with it" },
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
	  "send_data_in(); since mended: rxe_resp_check_length() drops it" },
	{ "ud_send__wrong_local_key_ONLY_SQE", "rxe", LOCAL_KEY, LOCAL_WHY },
	{ "group__loopback_blocked_NOT_TO_ITSELF", "rxe",
	  "blocking loopback: Operation not supported",
	  "providers/rxe/rxe.c has no create_qp_ex with create_flags" },

	{ .name = NULL },
};
