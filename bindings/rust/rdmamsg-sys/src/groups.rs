// SPDX-License-Identifier: BSD-2-Clause
//! Made by generate.sh.

use super::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_chain {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_team {
    _unused: [u8; 0],
}
pub type rdmamsg_chain_path = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_chain_end {
    pub size: usize,
    pub status: ::std::os::raw::c_int,
    pub step: u32,
    pub text: [::std::os::raw::c_char; 256usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_chain_handlers {
    pub size: usize,
    pub on_done: ::std::option::Option<
        unsafe extern "C" fn(
            chain: *mut rdmamsg_chain,
            end: *const rdmamsg_chain_end,
        ),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_chain_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_chain_handlers,
    pub timeout_ms: u32,
    pub path: u32,
}
pub type rdmamsg_calc_op = ::std::os::raw::c_uint;
pub type rdmamsg_calc_type = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_team_handlers {
    pub size: usize,
    pub on_done: ::std::option::Option<
        unsafe extern "C" fn(
            team: *mut rdmamsg_team,
            cookie: *mut ::std::os::raw::c_void,
            status: ::std::os::raw::c_int,
        ),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_team_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_team_handlers,
    pub path: u32,
    pub ep: *const rdmamsg_ep_options,
    pub timeout_ms: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_team_failure {
    pub size: usize,
    pub rank: u32,
    pub told_by: u32,
    pub error: ::std::os::raw::c_int,
    pub who: rdmamsg_who,
    pub cause: rdmamsg_cause,
    pub text: [::std::os::raw::c_char; 192usize],
}
pub type rdmamsg_failover_flag = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_failover {
    pub size: usize,
    pub port: u32,
    pub rungs: u32,
    pub timeout_ms: u32,
    pub keep_bytes: u32,
    pub host: *const ::std::os::raw::c_char,
    pub service: *const ::std::os::raw::c_char,
    pub source: *const ::std::os::raw::c_char,
    pub device: *const ::std::os::raw::c_char,
    pub announce: *const ::std::os::raw::c_char,
    pub flags: u32,
    pub lid: u32,
}
pub type rdmamsg_path_state = ::std::os::raw::c_uint;
pub type rdmamsg_path_change = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_path_event {
    pub size: usize,
    pub change: rdmamsg_path_change,
    pub port: u32,
    pub alternate: u32,
    pub text: *const ::std::os::raw::c_char,
    pub ms: u32,
    pub repeated: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group {
    _unused: [u8; 0],
}
pub type rdmamsg_group_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_sender {
    pub id: u64,
    pub gid: [u8; 16usize],
    pub qp_num: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_message {
    pub data: *const ::std::os::raw::c_void,
    pub len: usize,
    pub number: u32,
    pub sender: *const rdmamsg_group_sender,
    pub has_imm: ::std::os::raw::c_int,
    pub imm: u32,
    pub grh: *const ::std::os::raw::c_void,
    pub is_backlog: ::std::os::raw::c_int,
}
pub type rdmamsg_group_flow = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_member {
    pub size: usize,
    pub id: u64,
    pub gid: [u8; 16usize],
    pub qp_num: u32,
    pub lag: u32,
    pub lost: u32,
    pub rtt_us: u32,
    pub age_ms: u32,
    pub is_laggard: ::std::os::raw::c_int,
    pub tag: u64,
    pub receives: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_flushed {
    pub size: usize,
    pub end: u32,
    pub members: u32,
    pub behind: u32,
    pub gone: u32,
    pub uncounted: ::std::os::raw::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_handlers {
    pub size: usize,
    pub on_joined:
        ::std::option::Option<unsafe extern "C" fn(group: *mut rdmamsg_group)>,
    pub on_lost: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            why: *const rdmamsg_reason,
        ),
    >,
    pub on_message: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            msg: *const rdmamsg_group_message,
        ),
    >,
    pub on_gap: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            sender: *const rdmamsg_group_sender,
            first: u32,
            last: u32,
        ),
    >,
    pub on_writable:
        ::std::option::Option<unsafe extern "C" fn(group: *mut rdmamsg_group)>,
    pub on_closed: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            why: *const rdmamsg_reason,
        ),
    >,
    pub on_sent: ::std::option::Option<
        unsafe extern "C" fn(group: *mut rdmamsg_group, n: u64),
    >,
    pub on_flushed: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            flushed: *const rdmamsg_group_flushed,
        ),
    >,
    pub on_backlog: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            sender: *const rdmamsg_group_sender,
            first: u32,
            count: u32,
            less: ::std::os::raw::c_int,
        ),
    >,
    pub on_laggard: ::std::option::Option<
        unsafe extern "C" fn(
            group: *mut rdmamsg_group,
            m: *const rdmamsg_group_member,
        ),
    >,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_options {
    pub size: usize,
    pub user: *mut ::std::os::raw::c_void,
    pub handlers: *const rdmamsg_group_handlers,
    pub flags: u32,
    pub source: *const ::std::os::raw::c_char,
    pub device: *const ::std::os::raw::c_char,
    pub timeout_ms: u32,
    pub max_message: u32,
    pub max_held: u32,
    pub max_senders: u32,
    pub recv_depth: u32,
    pub send_depth: u32,
    pub rate: u32,
    pub history: u32,
    pub history_bytes: u32,
    pub history_ms: u32,
    pub linger_ms: u32,
    pub pkey: u32,
    pub backlog: u32,
    pub backlog_bytes: u32,
    pub backlog_ms: u32,
    pub flow: u32,
    pub flow_quorum: u32,
    pub flow_window: u32,
    pub flow_limit_ms: u32,
    pub tag: u64,
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub key_file: *const ::std::os::raw::c_char,
    pub parity: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_attr {
    pub size: usize,
    pub joined: ::std::os::raw::c_int,
    pub id: u64,
    pub mgid: [u8; 16usize],
    pub mlid: u16,
    pub sl: u8,
    pub port: u8,
    pub qkey: u32,
    pub qp_num: u32,
    pub mtu: u32,
    pub rate: u32,
    pub device: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_group_stats {
    pub size: usize,
    pub joins: u64,
    pub sent_messages: u64,
    pub sent_bytes: u64,
    pub sent_datagrams: u64,
    pub sent_repeated: u64,
    pub sent_failed: u64,
    pub refused: u64,
    pub requests: u64,
    pub requests_dropped: u64,
    pub received_messages: u64,
    pub received_bytes: u64,
    pub received_datagrams: u64,
    pub received_repeated: u64,
    pub gaps: u64,
    pub lost_messages: u64,
    pub asked: u64,
    pub dropped_own: u64,
    pub dropped_double: u64,
    pub dropped_late: u64,
    pub dropped_malformed: u64,
    pub dropped_forged: u64,
    pub dropped_large: u64,
    pub dropped_memory: u64,
    pub dropped_senders: u64,
    pub senders: u64,
    pub dropped_key: u64,
    pub dropped_unproven: u64,
    pub sent_parity: u64,
    pub recovered: u64,
}
pub type rdmamsg_path_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_path {
    pub size: usize,
    pub flags: u32,
    pub port: u32,
    pub gid_index: u32,
    pub pkey: u32,
    pub pkey_index: u32,
    pub service_level: u32,
    pub src_path_bits: u32,
    pub traffic_class: u32,
    pub flow_label: u32,
    pub hop_limit: u32,
    pub mtu: u32,
    pub psn: u32,
}
