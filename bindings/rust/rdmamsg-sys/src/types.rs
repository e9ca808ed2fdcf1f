// SPDX-License-Identifier: BSD-2-Clause
//! Made by generate.sh.

use super::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_listener {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_request {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_msg {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_srq {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_pool {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_pd {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_window {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_qp {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_dc {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_listen_dc {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ctx_handlers {
    pub size: usize,
    pub on_event: ::std::option::Option<
        unsafe extern "C" fn(ctx: *mut rdmamsg, ev: *const rdmamsg_event),
    >,
    pub on_shutdown: ::std::option::Option<
        unsafe extern "C" fn(ctx: *mut rdmamsg, failed: u32),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_ctx_handlers,
    pub spin_us: u32,
    pub submit_depth: u32,
    pub max_registered: usize,
    pub max_send_registered: usize,
    pub srq: *const rdmamsg_srq_options,
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub key_file: *const ::std::os::raw::c_char,
    pub max_lanes: u32,
    pub group_rate: u32,
}
pub type rdmamsg_who = ::std::os::raw::c_uint;
pub type rdmamsg_cause = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_reason {
    pub size: usize,
    pub who: rdmamsg_who,
    pub cause: rdmamsg_cause,
    pub error: ::std::os::raw::c_int,
    pub cm_event: ::std::os::raw::c_int,
    pub cm_status: ::std::os::raw::c_int,
    pub wc_status: ::std::os::raw::c_int,
    pub vendor_err: u32,
    pub data: *const ::std::os::raw::c_void,
    pub data_len: usize,
    pub text: [::std::os::raw::c_char; 192usize],
    pub operation: *const ::std::os::raw::c_char,
    pub code: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_buffer {
    pub data: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_handlers {
    pub size: usize,
    pub on_connected:
        ::std::option::Option<unsafe extern "C" fn(ep: *mut rdmamsg_ep)>,
    pub on_message: ::std::option::Option<
        unsafe extern "C" fn(ep: *mut rdmamsg_ep, msg: *mut rdmamsg_msg),
    >,
    pub on_incoming: ::std::option::Option<
        unsafe extern "C" fn(
            ep: *mut rdmamsg_ep,
            len: usize,
            tag: u32,
            dst: *mut rdmamsg_buffer,
        ) -> ::std::os::raw::c_int,
    >,
    pub on_complete: ::std::option::Option<
        unsafe extern "C" fn(
            ep: *mut rdmamsg_ep,
            cookie: *mut ::std::os::raw::c_void,
            status: ::std::os::raw::c_int,
        ),
    >,
    pub on_writable:
        ::std::option::Option<unsafe extern "C" fn(ep: *mut rdmamsg_ep)>,
    pub on_stalled: ::std::option::Option<
        unsafe extern "C" fn(ep: *mut rdmamsg_ep, silent_ms: u32),
    >,
    pub on_resumed:
        ::std::option::Option<unsafe extern "C" fn(ep: *mut rdmamsg_ep)>,
    pub on_closed: ::std::option::Option<
        unsafe extern "C" fn(ep: *mut rdmamsg_ep, why: *const rdmamsg_reason),
    >,
    pub on_written: ::std::option::Option<
        unsafe extern "C" fn(ep: *mut rdmamsg_ep, value: u32),
    >,
    pub on_invalidated: ::std::option::Option<
        unsafe extern "C" fn(ep: *mut rdmamsg_ep, window: *mut rdmamsg_window),
    >,
    pub on_path: ::std::option::Option<
        unsafe extern "C" fn(
            ep: *mut rdmamsg_ep,
            event: *const rdmamsg_path_event,
        ),
    >,
    pub on_disconnected: ::std::option::Option<
        unsafe extern "C" fn(
            ep: *mut rdmamsg_ep,
            event: *const rdmamsg_disconnect_event,
        ),
    >,
}
pub type rdmamsg_ep_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_tuning {
    pub size: usize,
    pub max_copy: u32,
    pub inline_max: u32,
    pub eager_max: u32,
    pub pieces_max: u32,
    pub recv_depth: u32,
    pub send_depth: u32,
    pub max_lent: u32,
    pub ctrl_pool: *mut rdmamsg_pool,
    pub stall_after_ms: u32,
    pub peer_timeout_ms: u32,
    pub fetch_timeout_ms: u32,
    pub ack_timeout: u32,
    pub retry_count: u32,
    pub rnr_retry_count: u32,
    pub min_rnr_timer: u32,
    pub responder_resources: u32,
    pub initiator_depth: u32,
    pub tos: u32,
    pub comp_vector: u32,
    pub create_flags: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_ep_handlers,
    pub flags: u32,
    pub timeout_ms: u32,
    pub source: *const ::std::os::raw::c_char,
    pub device: *const ::std::os::raw::c_char,
    pub path: *const rdmamsg_path,
    pub hello_data: *const ::std::os::raw::c_void,
    pub hello_data_len: usize,
    pub setup_data: *const ::std::os::raw::c_void,
    pub setup_data_len: usize,
    pub max_msg_size: u32,
    pub send_queue: u32,
    pub dead_after_ms: u32,
    pub close_timeout_ms: u32,
    pub failover: *const rdmamsg_failover,
    pub srq: *mut rdmamsg_srq,
    pub recv_pool: *mut rdmamsg_pool,
    pub send_pool: *mut rdmamsg_pool,
    pub pd: *mut rdmamsg_pd,
    pub tuning: *const rdmamsg_ep_tuning,
    pub reconnect: *const rdmamsg_reconnect,
    pub on_demand: *const rdmamsg_on_demand,
    pub dc: *const rdmamsg_ep_dc,
}
pub type rdmamsg_listen_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_listener_handlers {
    pub size: usize,
    pub on_request: ::std::option::Option<
        unsafe extern "C" fn(
            listener: *mut rdmamsg_listener,
            req: *mut rdmamsg_request,
        ),
    >,
    pub on_failed: ::std::option::Option<
        unsafe extern "C" fn(
            listener: *mut rdmamsg_listener,
            error: ::std::os::raw::c_int,
        ),
    >,
    pub on_accept_failed: ::std::option::Option<
        unsafe extern "C" fn(
            listener: *mut rdmamsg_listener,
            why: *const rdmamsg_reason,
        ),
    >,
    pub on_violation: ::std::option::Option<
        unsafe extern "C" fn(
            listener: *mut rdmamsg_listener,
            from: *const sockaddr_storage,
        ),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_listen_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_listener_handlers,
    pub ep: *const rdmamsg_ep_options,
    pub backlog: u32,
    pub device: *const ::std::os::raw::c_char,
    pub max_requests: u32,
    pub max_half_open: u32,
    pub setup_timeout_ms: u32,
    pub max_endpoints: u32,
    pub max_per_source: u32,
    pub slow_ms: u32,
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub key_file: *const ::std::os::raw::c_char,
    pub flags: u32,
    pub dc: *const rdmamsg_listen_dc,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_stats {
    pub size: usize,
    pub msgs_sent: u64,
    pub msgs_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub bytes_copied: u64,
    pub sent_inline: u64,
    pub sent_eager: u64,
    pub sent_rendezvous: u64,
    pub received_rendezvous: u64,
    pub sends_refused: u64,
    pub credit_stalls: u64,
    pub credit_msgs: u64,
    pub keepalives: u64,
    pub pings: u64,
    pub rnr_errors: u64,
    pub stalls: u64,
    pub completions: u64,
    pub wakeups: u64,
    pub endpoints: u64,
    pub msgs_lent: u64,
    pub bytes_registered: u64,
    pub rma_writes: u64,
    pub rma_reads: u64,
    pub rma_atomics: u64,
    pub rma_bytes: u64,
    pub sent_pieces: u64,
    pub received_pieces: u64,
    pub lanes_lost: u64,
    pub lanes_resumed: u64,
    pub msgs_repeated: u64,
    pub ended: [u64; 32usize],
    pub ended_by: [u64; 8usize],
    pub connects_failed: u64,
    pub accepts_failed: u64,
    pub connects_repeated: u64,
    pub requests_rejected: u64,
    pub requests_limited: u64,
    pub requests_unusable: u64,
}
pub type rdmamsg_log_level = ::std::os::raw::c_uint;
pub type rdmamsg_log_fn = ::std::option::Option<
    unsafe extern "C" fn(
        arg: *mut ::std::os::raw::c_void,
        level: rdmamsg_log_level,
        line: *const ::std::os::raw::c_char,
    ),
>;
pub type rdmamsg_name_kind = ::std::os::raw::c_uint;
pub type rdmamsg_state = ::std::os::raw::c_uint;
pub type rdmamsg_atomic = ::std::os::raw::c_uint;
pub type rdmamsg_guard = ::std::os::raw::c_uint;
pub type rdmamsg_way = ::std::os::raw::c_uint;
#[repr(C)]
pub struct rdmamsg_ep_attr {
    pub size: usize,
    pub local: sockaddr_storage,
    pub peer: sockaddr_storage,
    pub device: [::std::os::raw::c_char; 64usize],
    pub port: u32,
    pub qp_num: u32,
    pub peer_qp_num: u32,
    pub mtu: u32,
    pub gid: [u8; 16usize],
    pub inline_max: u32,
    pub eager_max: u32,
    pub max_send: u32,
    pub max_receive: u32,
    pub send_credits: u32,
    pub send_depth: u32,
    pub recv_depth: u32,
    pub responder_resources: u32,
    pub initiator_depth: u32,
    pub max_inline_data: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub version: u32,
    pub session: [u8; 16usize],
    pub bytes_pinned: u64,
    pub bytes_private: u64,
    pub one_sided: u32,
    pub atomic_scope: u32,
    pub send_invalidate: u32,
    pub guard: u32,
    pub pieces_max: u32,
    pub crc: u32,
    pub cq_entries: u32,
    pub comp_vector: u32,
    pub way: u32,
}
pub type rdmamsg_rung = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_reconnect {
    pub size: usize,
    pub flags: u32,
    pub timeout_ms: u32,
    pub first_ms: u32,
    pub max_ms: u32,
}
pub type rdmamsg_reconnect_flag = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_disconnect_event {
    pub size: usize,
    pub why: *const rdmamsg_reason,
    pub in_doubt: u32,
    pub queued: u32,
    pub again_ms: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_on_demand {
    pub size: usize,
    pub flags: u32,
    pub wait_ms: u32,
    pub idle_ms: u32,
    pub announce: *const ::std::os::raw::c_char,
}
pub type rdmamsg_on_demand_flag = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_path_attr {
    pub size: usize,
    pub state: rdmamsg_path_state,
    pub port: u32,
    pub alternate: u32,
    pub peer_alternate: u32,
    pub migrations: u32,
    pub text: [::std::os::raw::c_char; 192usize],
    pub resumes: u32,
    pub down: u32,
    pub standby: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_migrate_options {
    pub size: usize,
    pub port: u32,
    pub lane: u32,
    pub host: *const ::std::os::raw::c_char,
    pub service: *const ::std::os::raw::c_char,
    pub source: *const ::std::os::raw::c_char,
    pub device: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_alternate {
    pub size: usize,
    pub port: u32,
    pub lid: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_ep_flow_attr {
    pub size: usize,
    pub paused: u32,
    pub lent_full: u32,
    pub lent: u64,
    pub waiting: u32,
    pub incoming_tag: u32,
    pub incoming_len: u64,
    pub incoming_arrived: u64,
    pub announced: u32,
    pub announced_bytes: u64,
    pub queued: u32,
    pub queued_bytes: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_listener_stats {
    pub size: usize,
    pub requests: u64,
    pub half_open: u64,
    pub endpoints: u64,
    pub accepted: u64,
    pub rejected_requests: u64,
    pub rejected_half_open: u64,
    pub rejected_endpoints: u64,
    pub rejected_source: u64,
    pub rejected_memory: u64,
    pub slowed: u64,
    pub offences: u64,
    pub setup_timeouts: u64,
    pub unproven: u64,
    pub rejected_draining: u64,
    pub listening: u64,
    pub removed: u64,
    pub members: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_srq_options {
    pub size: usize,
    pub depth: u32,
    pub buffer_size: u32,
    pub floor: u32,
    pub overcommit: u32,
    pub limit: u32,
    pub recv_pool: *mut rdmamsg_pool,
    pub comp_vector: u32,
    pub sge: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_srq_stats {
    pub size: usize,
    pub endpoints: u64,
    pub posted: u64,
    pub promised: u64,
    pub spare: u64,
    pub bytes_pinned: u64,
    pub bytes_private: u64,
    pub ran_empty: u64,
    pub limit_events: u64,
    pub strays: u64,
    pub refused: u64,
    pub comp_vector: u64,
    pub cq_entries: u64,
}
pub type rdmamsg_pool_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_pool_options {
    pub size: usize,
    pub flags: u32,
    pub node: u32,
    pub max_bytes: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_pool_stats {
    pub size: usize,
    pub bytes: u64,
    pub bytes_huge: u64,
    pub bytes_advised: u64,
    pub bytes_node: u64,
    pub buffers: u64,
    pub used: u64,
    pub refused: u64,
    pub received_rendezvous: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_memory_estimate {
    pub size: usize,
    pub pinned_idle: u64,
    pub pinned_most: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_pd_options {
    pub size: usize,
    pub device: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_layout {
    _unused: [u8; 0],
}
pub type rdmamsg_op_kind = ::std::os::raw::c_uint;
pub type rdmamsg_op_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_op {
    pub size: usize,
    pub kind: u32,
    pub flags: u32,
    pub cookie: *mut ::std::os::raw::c_void,
    pub sge: *const rdmamsg_sge,
    pub count: u32,
    pub tag: u32,
    pub imm: u32,
    pub width: u32,
    pub key: *const rdmamsg_key,
    pub offset: u64,
    pub layout: *mut rdmamsg_layout,
    pub len: usize,
    pub operand: *const ::std::os::raw::c_void,
    pub compare: *const ::std::os::raw::c_void,
    pub mask: *const ::std::os::raw::c_void,
    pub compare_mask: *const ::std::os::raw::c_void,
    pub result: *mut ::std::os::raw::c_void,
    pub timeout_ms: u32,
    pub on_late: ::std::option::Option<
        unsafe extern "C" fn(
            ep: *mut rdmamsg_ep,
            cookie: *mut ::std::os::raw::c_void,
            status: ::std::os::raw::c_int,
        ),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_region {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cache {
    _unused: [u8; 0],
}
pub type rdmamsg_access = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_key {
    pub bytes: [u8; 32usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cache_options {
    pub size: usize,
    pub max_bytes: usize,
    pub max_regions: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cache_stats {
    pub size: usize,
    pub bytes: usize,
    pub regions: u32,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_key_attr {
    pub size: usize,
    pub region: u64,
    pub len: u64,
    pub access: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_sge {
    pub data: *mut ::std::os::raw::c_void,
    pub len: usize,
    pub region: *mut rdmamsg_region,
}
pub type rdmamsg_rma_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_masked_attr {
    pub size: usize,
    pub how: u32,
    pub sizes: u32,
    pub max_field: u32,
    pub unit: u32,
    pub reason: [::std::os::raw::c_char; 128usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_timer {
    _unused: [u8; 0],
}
