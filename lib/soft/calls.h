/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the objects do for each other. */
#ifndef SOFT_CALLS_H
#define SOFT_CALLS_H

/* mr.c. The memory behind a key, or NULL: key, domain, bounds or access. L */
void *soft_mr_at(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		 uint64_t addr, uint64_t len, int access);
/* As a peer's request reaches it: through a window as well. L */
void *soft_remote_at(struct soft_dev *dev, const struct soft_qp *qp,
		     const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		     uint64_t len, int access);
/* 0, or EFAULT: the memory is not there. */
int soft_touch(void *addr, size_t len, int access);
/* A way through len bytes of a scatter list, from an offset. */
struct soft_walk {
	const struct ibv_sge *sge;
	uint32_t n, offset, len;
	uint32_t key;			/* of the last part */
};
void *soft_walk(struct soft_dev *dev, const struct ibv_pd *pd,
		struct soft_walk *w, int access, uint32_t *part);	/* L */
int soft_key_new(struct soft_dev *dev, struct soft_mr *mr, struct soft_mw *mw,
		 uint32_t *ret);
struct soft_mr *soft_key_find(const struct soft_dev *dev, uint32_t key);
struct soft_mw *soft_key_window(const struct soft_dev *dev, uint32_t key);
/* Between a scatter list, at an offset, and plain memory. -EACCES. L */
int soft_gather(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		uint32_t offset, void *dst, uint32_t len);
int soft_scatter(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		 uint32_t offset, const void *src, uint32_t len);
int soft_scatter_in(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const void *src, uint32_t len);
/* Lower addresses are visible before higher ones. */
void soft_copy(void *dst, const void *src, size_t len);

/* mw.c */
struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int soft_dealloc_mw(struct ibv_mw *mw);
int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);
int soft_mw_prepare(struct soft_swqe *wqe, const struct ibv_mw *mw,
		    uint32_t rkey, const struct ibv_mw_bind_info *info);
int soft_mw_bind(struct soft_dev *dev, struct soft_qp *qp,
		 const struct soft_swqe *wqe);			/* L */
int soft_mr_invalidate(struct soft_dev *dev, struct soft_qp *qp, uint32_t rkey);
void soft_mw_forget(struct soft_qp *qp);			/* L */
void *soft_mw_at(struct soft_dev *dev, const struct soft_qp *qp,
		 const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		 uint64_t len, int access);			/* L */

/* srq.c, xrc.c */
struct soft_srq *soft_srq_find(const struct soft_dev *dev,
			       uint32_t num);		/* L */
void soft_srq_take(struct soft_dev *dev, struct soft_qp *qp);	/* L */
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
bool soft_xrc_choose(struct soft_dev *dev, struct soft_qp *qp,
		     uint32_t srqn);				/* L */

/* cq.c */
void soft_cq_add(struct soft_dev *dev, struct soft_cq *cq,
		 const struct ibv_wc *wc, bool solicited);	/* L */
/* The end of the queue pairs whose completions have been lost. L */
void soft_cq_overruns(struct soft_dev *dev);
/* Forgets what is there of a queue pair that goes. L */
void soft_cq_clean(struct soft_cq *cq, uint32_t qpn);
extern int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
extern int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ah.c, ud.c, mcast.c. All L */
bool soft_ah_attr_ok(const struct soft_dev *dev, const struct ibv_ah_attr *a);
void soft_ah_header(const struct soft_ah *ah, uint32_t length,
		    uint8_t grh[SOFT_GRH]);
void soft_ah_put(struct soft_ah *ah);
bool soft_ud_push(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_swqe *wqe);
/* No room in the ring: true, lose it; false, pend, to be tried again. */
bool soft_give_up(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_wire *w);
void soft_ud_arrives(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_rec *rec, const void *payload);
struct soft_group *soft_group_find(struct soft_dev *dev,
				   const uint8_t mgid[16]);
void soft_mcast_members(struct soft_dev *dev, struct soft_ah *ah);
void soft_mcast_unreachable(struct soft_ah *ah, uint32_t node);
void soft_mcast_clear(struct soft_dev *dev);

/* steps.c: whether this step exists and sets what it must and may. */
bool soft_step_ok(enum ibv_qp_type type, enum ibv_qp_state from,
		  enum ibv_qp_state to, int mask);

/* apm.c: alternate paths. All L. 0, or EINVAL: not these values now. */
int soft_apm_check(const struct soft_dev *dev, const struct soft_qp *qp,
		   const struct ibv_qp_attr *a, int mask);
/* The state that the program asks for. */
void soft_apm_set(struct soft_dev *dev, struct soft_qp *qp,
		  enum ibv_mig_state state);
/* The retries are used up. True: it goes on over the alternate path. */
bool soft_apm_retry(struct soft_dev *dev, struct soft_qp *qp);
/* Whether the port that a request was sent to lets it in; it tells of paths. */
bool soft_apm_arrives(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_rec *rec);
/* The device's ports are no longer as they were. */
void soft_apm_ports(struct soft_dev *dev, const struct soft_faults *were);

/* queue.c, modify.c, post.c */
void soft_qp_error(struct soft_dev *dev, struct soft_qp *qp);	/* L */
/* Only the send queue, as of an unreliable one. L */
void soft_sq_error(struct soft_dev *dev, struct soft_qp *qp);
void soft_qp_reset(struct soft_dev *dev, struct soft_qp *qp);	/* L */
int soft_sq_init(struct soft_qp *qp);
void soft_sq_fini(struct soft_qp *qp);
int soft_rq_init(struct soft_rq *rq, uint32_t wr, uint32_t sge);
void soft_rq_fini(struct soft_rq *rq);
int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr);
/* SQD: tells, if nothing is under way any more. L */
void soft_sq_drained(struct soft_dev *dev, struct soft_qp *qp);
void soft_sq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_swqe *wqe, enum ibv_wc_status status);
/* The receive at the head is done. L */
void soft_rq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      struct ibv_wc *wc, bool solicited);
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);
/* 0, or why nothing may be posted now. L */
int soft_sq_may_post(const struct soft_qp *qp);
/* What is filled in at the tail belongs to the queue from now on. L */
void soft_sq_commit(struct soft_qp *qp, struct soft_swqe *wqe);
void soft_sq_kick(struct soft_dev *dev, struct soft_qp *qp);	/* L */
/* qp_ex.c */
int soft_qp_ex_check(enum ibv_qp_type type, uint64_t ops);
void soft_qp_ex_init(struct soft_qp *qp, uint64_t ops);
/* The same, with the type of windows that it may bind. */
int soft_post_send_any(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad, enum ibv_mw_type binds);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);

/* async.c */
void soft_async_qp(struct soft_dev *dev, struct soft_qp *qp,
		   enum ibv_event_type type);			/* L */
void soft_async_srq(struct soft_dev *dev, struct soft_srq *srq,
		    enum ibv_event_type type);			/* L */
void soft_async_cq(struct soft_dev *dev, struct soft_cq *cq);	/* L */
void soft_async_port(struct soft_dev *dev, uint8_t port,
		     enum ibv_event_type type);			/* L */
void soft_async_device(struct soft_ctx *ctx, enum ibv_event_type type); /* L */
void soft_async_forget(struct soft_ctx *ctx, const void *object); /* L */

/* cm_*.c, as the rest of the device meets them */
void soft_cm_message(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_msg *msg, size_t len);	/* L */
void soft_cm_wire_down(struct soft_dev *dev, struct soft_wire *w); /* L */
void soft_cm_removed(struct soft_dev *dev);			/* L */

#endif
