// SPDX-License-Identifier: BSD-2-Clause
//! Made by generate.sh.

use super::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_device_attr {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub kind: [::std::os::raw::c_char; 16usize],
    pub firmware: [::std::os::raw::c_char; 64usize],
    pub node_guid: u64,
    pub ports: u32,
    pub ports_active: u32,
    pub max_qp: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_qp_wr: u32,
    pub max_sge: u32,
    pub max_read_responder: u32,
    pub max_read_initiator: u32,
    pub max_mr_size: u64,
    pub error: i32,
    pub node_type: i32,
    pub transport: i32,
    pub vectors: u32,
    pub node: [::std::os::raw::c_char; 64usize],
    pub board: [::std::os::raw::c_char; 64usize],
    pub node_guid_text: [::std::os::raw::c_char; 20usize],
    pub image_guid_text: [::std::os::raw::c_char; 20usize],
    pub node_guid_wire: [u8; 8usize],
    pub image_guid_wire: [u8; 8usize],
    pub image_guid: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_version: u32,
    pub cap_flags: u32,
    pub cap_flags_ex: u64,
    pub page_sizes: u64,
    pub atomic_cap: u32,
    pub max_pd: u32,
    pub max_sge_rd: u32,
    pub max_read_total: u32,
    pub max_mw: u32,
    pub max_ah: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_pkeys: u32,
    pub max_mcast_groups: u32,
    pub max_mcast_attach: u32,
    pub max_mcast_attach_total: u32,
    pub ack_delay: u32,
    pub max_ee: u32,
    pub max_ee_rd_atom: u32,
    pub max_ee_init_rd_atom: u32,
    pub max_rdd: u32,
    pub max_raw_ipv6_qp: u32,
    pub max_raw_ethy_qp: u32,
    pub max_fmr: u32,
    pub max_map_per_fmr: u32,
    pub odp_general: u64,
    pub odp_rc: u32,
    pub odp_uc: u32,
    pub odp_ud: u32,
    pub odp_xrc: u32,
    pub timestamp_mask: u64,
    pub core_clock_khz: u64,
    pub max_dm_size: u64,
    pub max_tso: u32,
    pub tso_qps: u32,
    pub rss_qps: u32,
    pub max_rwq_tables: u32,
    pub max_rwq_table_size: u32,
    pub rx_hash_functions: u32,
    pub rx_hash_fields: u64,
    pub max_wq: u32,
    pub raw_packet_caps: u32,
    pub rate_min_kbps: u32,
    pub rate_max_kbps: u32,
    pub rate_qps: u32,
    pub tm_max_header: u32,
    pub tm_max_tags: u32,
    pub tm_max_ops: u32,
    pub tm_max_sge: u32,
    pub tm_flags: u32,
    pub cq_moderation_count: u32,
    pub cq_moderation_usec: u32,
    pub pci_fetch_add: u32,
    pub pci_swap: u32,
    pub pci_compare_swap: u32,
    pub pieces_max: u32,
    pub ports_ex: u32,
}
pub type rdmamsg_port_field = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_port_attr {
    pub size: usize,
    pub port: u32,
    pub valid: u32,
    pub state: u32,
    pub link_layer: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub max_msg_size: u32,
    pub link_mbps: u32,
    pub gid_count: u32,
    pub pkey_count: u32,
    pub cap_flags: u32,
    pub cap_flags2: u32,
    pub flags: u32,
    pub lid: u32,
    pub lmc: u32,
    pub sm_lid: u32,
    pub sm_sl: u32,
    pub max_vl_num: u32,
    pub vls: u32,
    pub subnet_timeout: u32,
    pub init_type_reply: u32,
    pub phys_state: u32,
    pub active_width: u32,
    pub active_speed: u32,
    pub bad_pkeys: u32,
    pub bad_qkeys: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_gid_attr {
    pub size: usize,
    pub index: u32,
    pub type_: u32,
    pub gid: [u8; 16usize],
    pub text: [::std::os::raw::c_char; 48usize],
    pub ifindex: u32,
    pub netdev: [::std::os::raw::c_char; 16usize],
}
pub type rdmamsg_cap_id = ::std::os::raw::c_uint;
pub type rdmamsg_cap_how = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cap_dc {
    pub initiator_depth: u32,
    pub responder_resources: u32,
    pub violations: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cap_umr {
    pub parts: u32,
    pub depth: u32,
    pub dims: u32,
    pub entries: u32,
    pub blocks: u32,
    pub max_step: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cap_ext_atomics {
    pub sizes: u32,
    pub max_field: u32,
    pub unit: u32,
    pub max_inline: u32,
    pub swapped: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_cap_chains {
    pub types: u32,
    pub sizes: u32,
    pub int_ops: u32,
    pub uint_ops: u32,
    pub double_ops: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdmamsg_device_cap_attr {
    pub size: usize,
    pub id: u32,
    pub how: u32,
    pub tried: u32,
    pub name: [::std::os::raw::c_char; 28usize],
    pub value: u64,
    pub reason: [::std::os::raw::c_char; 256usize],
    pub limits: rdmamsg_device_cap_attr__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union rdmamsg_device_cap_attr__bindgen_ty_1 {
    pub dc: rdmamsg_cap_dc,
    pub umr: rdmamsg_cap_umr,
    pub ext_atomics: rdmamsg_cap_ext_atomics,
    pub chains: rdmamsg_cap_chains,
    pub room: [u32; 16usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdmamsg_event {
    pub size: usize,
    pub type_: ::std::os::raw::c_int,
    pub name: *const ::std::os::raw::c_char,
    pub device: *const ::std::os::raw::c_char,
    pub port: u32,
    pub ep: *mut rdmamsg_ep,
    pub qp: *mut rdmamsg_qp,
}
pub type rdmamsg_port_part = ::std::os::raw::c_uint;
