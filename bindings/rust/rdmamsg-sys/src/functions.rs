// SPDX-License-Identifier: BSD-2-Clause
//! Made by generate.sh.

use super::*;

extern "C" {
    pub fn rdmamsg_open(
        ret: *mut *mut rdmamsg,
        opts: *const rdmamsg_options,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_shutdown(
        ctx: *mut rdmamsg,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_close(ctx: *mut rdmamsg);
    pub fn rdmamsg_user(ctx: *const rdmamsg) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_fd(ctx: *const rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_process(ctx: *mut rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_poll(ctx: *mut rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_wait(
        ctx: *mut rdmamsg,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_run(ctx: *mut rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_stop(ctx: *mut rdmamsg);
    pub fn rdmamsg_submit(
        ctx: *mut rdmamsg,
        fn_: ::std::option::Option<
            unsafe extern "C" fn(
                ctx: *mut rdmamsg,
                arg: *mut ::std::os::raw::c_void,
            ),
        >,
        arg: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_submit_wait(
        ctx: *mut rdmamsg,
        fn_: ::std::option::Option<
            unsafe extern "C" fn(
                ctx: *mut rdmamsg,
                arg: *mut ::std::os::raw::c_void,
            ),
        >,
        arg: *mut ::std::os::raw::c_void,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_connect(
        ctx: *mut rdmamsg,
        host: *const ::std::os::raw::c_char,
        service: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_ep_options,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_close(ep: *mut rdmamsg_ep);
    pub fn rdmamsg_ep_abort(ep: *mut rdmamsg_ep);
    pub fn rdmamsg_ep_close_with(
        ep: *mut rdmamsg_ep,
        code: u32,
        data: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_abort_with(
        ep: *mut rdmamsg_ep,
        code: u32,
        data: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_user(
        ep: *const rdmamsg_ep,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_ep_set_user(
        ep: *mut rdmamsg_ep,
        user: *mut ::std::os::raw::c_void,
    );
    pub fn rdmamsg_send(
        ep: *mut rdmamsg_ep,
        buf: *const ::std::os::raw::c_void,
        len: usize,
        tag: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_sendv(
        ep: *mut rdmamsg_ep,
        iov: *const iovec,
        iovcnt: ::std::os::raw::c_int,
        tag: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_msg_send(
        ep: *mut rdmamsg_ep,
        msg: *mut rdmamsg_msg,
        tag: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_msg_alloc(
        ep: *mut rdmamsg_ep,
        len: usize,
        ret: *mut *mut rdmamsg_msg,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_msg_free(msg: *mut rdmamsg_msg);
    pub fn rdmamsg_msg_ref(msg: *mut rdmamsg_msg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_msg_data(
        msg: *const rdmamsg_msg,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_msg_len(msg: *const rdmamsg_msg) -> usize;
    pub fn rdmamsg_msg_tag(msg: *const rdmamsg_msg) -> u32;
    pub fn rdmamsg_msg_set_len(
        msg: *mut rdmamsg_msg,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_listen(
        ctx: *mut rdmamsg,
        host: *const ::std::os::raw::c_char,
        service: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_listen_options,
        ret: *mut *mut rdmamsg_listener,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_listener_close(listener: *mut rdmamsg_listener);
    pub fn rdmamsg_listener_user(
        listener: *const rdmamsg_listener,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_listener_port(listener: *const rdmamsg_listener) -> u16;
    pub fn rdmamsg_request_accept(
        req: *mut rdmamsg_request,
        opts: *const rdmamsg_ep_options,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_request_reject(
        req: *mut rdmamsg_request,
        data: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_connect_wait(
        ctx: *mut rdmamsg,
        host: *const ::std::os::raw::c_char,
        service: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_ep_options,
        timeout_ms: ::std::os::raw::c_int,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_listener_accept_wait(
        listener: *mut rdmamsg_listener,
        opts: *const rdmamsg_ep_options,
        timeout_ms: ::std::os::raw::c_int,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_send_wait(
        ep: *mut rdmamsg_ep,
        buf: *const ::std::os::raw::c_void,
        len: usize,
        tag: u32,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_recv_wait(
        ep: *mut rdmamsg_ep,
        timeout_ms: ::std::os::raw::c_int,
        ret: *mut *mut rdmamsg_msg,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_meet_wait(
        ep: *mut rdmamsg_ep,
        point: u32,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_close_wait(
        ep: *mut rdmamsg_ep,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_shutdown_wait(
        ctx: *mut rdmamsg,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_wait_reason(ctx: *const rdmamsg) -> *const rdmamsg_reason;
    pub fn rdmamsg_error() -> *const ::std::os::raw::c_char;
    pub fn rdmamsg_get_stats(
        ctx: *const rdmamsg,
        stats: *mut rdmamsg_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_chain_options,
        ret: *mut *mut rdmamsg_chain,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_destroy(chain: *mut rdmamsg_chain);
    pub fn rdmamsg_chain_user(
        chain: *const rdmamsg_chain,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_chain_path(chain: *const rdmamsg_chain) -> u32;
    pub fn rdmamsg_chain_add(
        chain: *mut rdmamsg_chain,
        queue: u32,
        ep: *mut rdmamsg_ep,
        op: *const rdmamsg_op,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_recv(
        chain: *mut rdmamsg_chain,
        queue: u32,
        ep: *mut rdmamsg_ep,
        buf: *mut ::std::os::raw::c_void,
        len: usize,
        tag: u32,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_wait(
        chain: *mut rdmamsg_chain,
        queue: u32,
        other: u32,
        n: u32,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_enable(
        chain: *mut rdmamsg_chain,
        queue: u32,
        other: u32,
        n: u32,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_calc(
        chain: *mut rdmamsg_chain,
        queue: u32,
        op: rdmamsg_calc_op,
        type_: rdmamsg_calc_type,
        dst: *mut ::std::os::raw::c_void,
        a: *const ::std::os::raw::c_void,
        b: *const ::std::os::raw::c_void,
        count: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_post(
        chain: *mut rdmamsg_chain,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_chain_cancel(chain: *mut rdmamsg_chain);
    pub fn rdmamsg_chain_run(
        chain: *mut rdmamsg_chain,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_team_options,
        eps: *const *mut rdmamsg_ep,
        size: u32,
        rank: u32,
        ret: *mut *mut rdmamsg_team,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_connect(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_team_options,
        addresses: *const *const ::std::os::raw::c_char,
        size: u32,
        rank: u32,
        ret: *mut *mut rdmamsg_team,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_destroy(team: *mut rdmamsg_team);
    pub fn rdmamsg_team_user(
        team: *const rdmamsg_team,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_team_path(team: *const rdmamsg_team) -> u32;
    pub fn rdmamsg_team_barrier(
        team: *mut rdmamsg_team,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_broadcast(
        team: *mut rdmamsg_team,
        buf: *mut ::std::os::raw::c_void,
        len: usize,
        root: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_allreduce(
        team: *mut rdmamsg_team,
        op: rdmamsg_calc_op,
        type_: rdmamsg_calc_type,
        in_: *const ::std::os::raw::c_void,
        out: *mut ::std::os::raw::c_void,
        count: usize,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_wait(
        team: *mut rdmamsg_team,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_team_abort(team: *mut rdmamsg_team);
    pub fn rdmamsg_team_reason(
        team: *const rdmamsg_team,
    ) -> *const rdmamsg_team_failure;
    pub fn rdmamsg_devices(
        list: *mut rdmamsg_device_attr,
        size: usize,
        max: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_query(
        device: *const ::std::os::raw::c_char,
        attr: *mut rdmamsg_device_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_query(
        device: *const ::std::os::raw::c_char,
        port: u32,
        attr: *mut rdmamsg_port_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_has(
        attr: *const rdmamsg_port_attr,
        cap: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_is_usable(
        attr: *const rdmamsg_port_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_gids(
        device: *const ::std::os::raw::c_char,
        port: u32,
        list: *mut rdmamsg_gid_attr,
        size: usize,
        max: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_pkeys(
        device: *const ::std::os::raw::c_char,
        port: u32,
        list: *mut u16,
        max: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_find_pkey(
        device: *const ::std::os::raw::c_char,
        port: u32,
        pkey: u16,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_gid_text(gid: *const u8, text: *mut ::std::os::raw::c_char);
    pub fn rdmamsg_gid_parse(
        text: *const ::std::os::raw::c_char,
        gid: *mut u8,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_has(
        attr: *const rdmamsg_device_attr,
        cap: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_caps(
        device: *const ::std::os::raw::c_char,
        list: *mut rdmamsg_device_cap_attr,
        size: usize,
        max: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_cap_query(
        device: *const ::std::os::raw::c_char,
        id: rdmamsg_cap_id,
        cap: *mut rdmamsg_device_cap_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_watch(
        ctx: *mut rdmamsg,
        device: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_cached(
        ctx: *mut rdmamsg,
        device: *const ::std::os::raw::c_char,
        attr: *mut rdmamsg_device_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_port_cached(
        ctx: *mut rdmamsg,
        device: *const ::std::os::raw::c_char,
        port: u32,
        parts: u32,
        attr: *mut rdmamsg_port_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_device_refresh(
        ctx: *mut rdmamsg,
        device: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_set_log(
        fn_: rdmamsg_log_fn,
        arg: *mut ::std::os::raw::c_void,
        level: rdmamsg_log_level,
    );
    pub fn rdmamsg_dump(
        ctx: *const rdmamsg,
        line: ::std::option::Option<
            unsafe extern "C" fn(
                arg: *mut ::std::os::raw::c_void,
                text: *const ::std::os::raw::c_char,
            ),
        >,
        arg: *mut ::std::os::raw::c_void,
    );
    pub fn rdmamsg_stats_text(
        ctx: *const rdmamsg,
        buf: *mut ::std::os::raw::c_char,
        size: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_name(
        kind: rdmamsg_name_kind,
        value: u32,
    ) -> *const ::std::os::raw::c_char;
    pub fn rdmamsg_version() -> *const ::std::os::raw::c_char;
    pub fn rdmamsg_ep_state(ep: *const rdmamsg_ep) -> rdmamsg_state;
    pub fn rdmamsg_ep_reason(ep: *const rdmamsg_ep) -> *const rdmamsg_reason;
    pub fn rdmamsg_ep_ctx(ep: *const rdmamsg_ep) -> *mut rdmamsg;
    pub fn rdmamsg_ep_peer_data(
        ep: *const rdmamsg_ep,
        ret_len: *mut usize,
    ) -> *const ::std::os::raw::c_void;
    pub fn rdmamsg_ep_hold(ep: *mut rdmamsg_ep);
    pub fn rdmamsg_ep_release(ep: *mut rdmamsg_ep);
    pub fn rdmamsg_ep_query(
        ep: *const rdmamsg_ep,
        attr: *mut rdmamsg_ep_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_device_name(
        ep: *const rdmamsg_ep,
    ) -> *const ::std::os::raw::c_char;
    pub fn rdmamsg_ep_get_stats(
        ep: *const rdmamsg_ep,
        stats: *mut rdmamsg_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_path_query(
        ep: *const rdmamsg_ep,
        attr: *mut rdmamsg_ep_path_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_history(
        ep: *const rdmamsg_ep,
        buf: *mut ::std::os::raw::c_char,
        size: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_migrate(
        ep: *mut rdmamsg_ep,
        opts: *const rdmamsg_migrate_options,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_set_alternate(
        ep: *mut rdmamsg_ep,
        alt: *const rdmamsg_alternate,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_pause(ep: *mut rdmamsg_ep) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_resume(ep: *mut rdmamsg_ep) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_cancel(
        ep: *mut rdmamsg_ep,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cork(ctx: *mut rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_uncork(ctx: *mut rdmamsg) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_flow_query(
        ep: *const rdmamsg_ep,
        attr: *mut rdmamsg_ep_flow_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_join(
        ctx: *mut rdmamsg,
        address: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_group_options,
        ret: *mut *mut rdmamsg_group,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_leave(group: *mut rdmamsg_group);
    pub fn rdmamsg_group_user(
        group: *const rdmamsg_group,
    ) -> *mut ::std::os::raw::c_void;
    pub fn rdmamsg_topics_each(
        pattern: *const ::std::os::raw::c_char,
        on_topic: ::std::option::Option<
            unsafe extern "C" fn(
                name: *const ::std::os::raw::c_char,
                address: *const ::std::os::raw::c_char,
                user: *mut ::std::os::raw::c_void,
            ) -> ::std::os::raw::c_int,
        >,
        user: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_publish(
        group: *mut rdmamsg_group,
        data: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_post(
        group: *mut rdmamsg_group,
        op: *const rdmamsg_op,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_flush(
        group: *mut rdmamsg_group,
        timeout_ms: u32,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_members(
        group: *const rdmamsg_group,
        on_member: ::std::option::Option<
            unsafe extern "C" fn(
                m: *const rdmamsg_group_member,
                user: *mut ::std::os::raw::c_void,
            ) -> ::std::os::raw::c_int,
        >,
        user: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_query(
        group: *const rdmamsg_group,
        attr: *mut rdmamsg_group_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_get_stats(
        group: *const rdmamsg_group,
        stats: *mut rdmamsg_group_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_group_get_sender_stats(
        group: *const rdmamsg_group,
        id: u64,
        stats: *mut rdmamsg_group_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_listener_ctx(
        listener: *const rdmamsg_listener,
    ) -> *mut rdmamsg;
    pub fn rdmamsg_listener_get_stats(
        listener: *const rdmamsg_listener,
        stats: *mut rdmamsg_listener_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_listener_drain(
        listener: *mut rdmamsg_listener,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_request_addrs(
        req: *const rdmamsg_request,
        ret_local: *mut sockaddr_storage,
        ret_peer: *mut sockaddr_storage,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_request_data(
        req: *const rdmamsg_request,
        ret_len: *mut usize,
    ) -> *const ::std::os::raw::c_void;
    pub fn rdmamsg_request_move(
        req: *mut rdmamsg_request,
        ctx: *mut rdmamsg,
        fn_: ::std::option::Option<
            unsafe extern "C" fn(
                ctx: *mut rdmamsg,
                req: *mut rdmamsg_request,
                arg: *mut ::std::os::raw::c_void,
            ),
        >,
        arg: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_srq_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_srq_options,
        ret: *mut *mut rdmamsg_srq,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_srq_destroy(srq: *mut rdmamsg_srq);
    pub fn rdmamsg_srq_get_stats(
        srq: *const rdmamsg_srq,
        stats: *mut rdmamsg_srq_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pool_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_pool_options,
        ret: *mut *mut rdmamsg_pool,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pool_destroy(
        pool: *mut rdmamsg_pool,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pool_alloc(
        pool: *mut rdmamsg_pool,
        ep: *mut rdmamsg_ep,
        len: usize,
        ret: *mut *mut rdmamsg_msg,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pool_get_stats(
        pool: *const rdmamsg_pool,
        stats: *mut rdmamsg_pool_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_estimate(
        opts: *const rdmamsg_ep_options,
        srq: *const rdmamsg_srq_options,
        endpoints: u32,
        ret: *mut rdmamsg_memory_estimate,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pd_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_pd_options,
        ret: *mut *mut rdmamsg_pd,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_pd_destroy(pd: *mut rdmamsg_pd) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_connect(
        ctx: *mut rdmamsg,
        host: *const ::std::os::raw::c_char,
        service: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_ep_options,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_listen(
        ctx: *mut rdmamsg,
        host: *const ::std::os::raw::c_char,
        service: *const ::std::os::raw::c_char,
        opts: *const rdmamsg_listen_options,
        ret: *mut *mut rdmamsg_listener,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_offer(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_ep_options,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_answer(
        ctx: *mut rdmamsg,
        record: *const ::std::os::raw::c_void,
        len: usize,
        opts: *const rdmamsg_ep_options,
        ret: *mut *mut rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_record(
        ep: *const rdmamsg_ep,
        buf: *mut ::std::os::raw::c_void,
        size: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_oob_finish(
        ep: *mut rdmamsg_ep,
        record: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_post(
        ep: *mut rdmamsg_ep,
        op: *const rdmamsg_op,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_create(
        ctx: *mut rdmamsg,
        addr: *mut ::std::os::raw::c_void,
        len: usize,
        access: u32,
        ret: *mut *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_dmabuf(
        ctx: *mut rdmamsg,
        fd: ::std::os::raw::c_int,
        offset: u64,
        len: usize,
        access: u32,
        ret: *mut *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_set_pd(
        region: *mut rdmamsg_region,
        pd: *mut rdmamsg_pd,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_register(
        region: *mut rdmamsg_region,
        ep: *const rdmamsg_ep,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_get_key(
        region: *mut rdmamsg_region,
        ep: *const rdmamsg_ep,
        ret: *mut rdmamsg_key,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_request_get_key(
        req: *mut rdmamsg_request,
        region: *mut rdmamsg_region,
        ret: *mut rdmamsg_key,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_revoke(
        region: *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_region_destroy(
        region: *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_create(
        ctx: *mut rdmamsg,
        opts: *const rdmamsg_cache_options,
        ret: *mut *mut rdmamsg_cache,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_get(
        cache: *mut rdmamsg_cache,
        ep: *const rdmamsg_ep,
        addr: *mut ::std::os::raw::c_void,
        len: usize,
        access: u32,
        ret: *mut *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_put(
        cache: *mut rdmamsg_cache,
        region: *mut rdmamsg_region,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_invalidate(
        cache: *mut rdmamsg_cache,
        addr: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_get_stats(
        cache: *const rdmamsg_cache,
        stats: *mut rdmamsg_cache_stats,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_cache_destroy(
        cache: *mut rdmamsg_cache,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_key_import(
        buf: *const ::std::os::raw::c_void,
        len: usize,
        ret: *mut rdmamsg_key,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_key_query(
        key: *const rdmamsg_key,
        attr: *mut rdmamsg_key_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_write(
        ep: *mut rdmamsg_ep,
        src: *const rdmamsg_sge,
        count: ::std::os::raw::c_int,
        key: *const rdmamsg_key,
        offset: u64,
        flags: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_flush(
        ep: *mut rdmamsg_ep,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_read(
        ep: *mut rdmamsg_ep,
        dst: *const rdmamsg_sge,
        count: ::std::os::raw::c_int,
        key: *const rdmamsg_key,
        offset: u64,
        flags: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_fetch_add(
        ep: *mut rdmamsg_ep,
        key: *const rdmamsg_key,
        offset: u64,
        add: u64,
        result: *mut u64,
        flags: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_compare_swap(
        ep: *mut rdmamsg_ep,
        key: *const rdmamsg_key,
        offset: u64,
        expected: u64,
        desired: u64,
        result: *mut u64,
        flags: u32,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_ep_masked_query(
        ep: *const rdmamsg_ep,
        attr: *mut rdmamsg_masked_attr,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_window_create(
        ep: *mut rdmamsg_ep,
        ret: *mut *mut rdmamsg_window,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_window_bind(
        window: *mut rdmamsg_window,
        region: *mut rdmamsg_region,
        offset: usize,
        len: usize,
        access: u32,
        ret: *mut rdmamsg_key,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_window_invalidate(
        window: *mut rdmamsg_window,
        cookie: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_window_destroy(
        window: *mut rdmamsg_window,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_timer_create(
        ctx: *mut rdmamsg,
        on_timer: ::std::option::Option<
            unsafe extern "C" fn(
                timer: *mut rdmamsg_timer,
                user: *mut ::std::os::raw::c_void,
            ),
        >,
        user: *mut ::std::os::raw::c_void,
        ret: *mut *mut rdmamsg_timer,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_timer_start(
        timer: *mut rdmamsg_timer,
        delay_ms: u32,
        repeat_ms: u32,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_timer_stop(
        timer: *mut rdmamsg_timer,
    ) -> ::std::os::raw::c_int;
    pub fn rdmamsg_timer_destroy(timer: *mut rdmamsg_timer);
}
