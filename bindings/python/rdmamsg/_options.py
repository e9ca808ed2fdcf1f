# SPDX-License-Identifier: BSD-2-Clause
"""Options, with the names of the C structs and the defaults of the library.

A field that is None has the library's default, which the comment of the C
struct gives. NONE means none, off or zero, where that has a meaning.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from ._rdmamsg import ffi, lib

NONE: int = lib.RDMAMSG_NONE
_T = TypeVar("_T")


@dataclass(kw_only=True)
class ContextOptions:
    """struct rdmamsg_options."""

    spin_us: int | None = None  #: poll so long before sleeping
    submit_depth: int | None = None
    max_registered: int | None = None
    max_send_registered: int | None = None
    group_rate: int | None = None  #: datagrams a second
    key: bytes | None = None  #: pre-shared, 16 to 4096 bytes
    key_file: str | None = None


@dataclass(kw_only=True)
class Tuning:
    """struct rdmamsg_ep_tuning."""

    max_copy: int | None = None
    inline_max: int | None = None
    eager_max: int | None = None
    pieces_max: int | None = None
    recv_depth: int | None = None
    send_depth: int | None = None
    max_lent: int | None = None
    stall_after_ms: int | None = None
    peer_timeout_ms: int | None = None
    fetch_timeout_ms: int | None = None
    ack_timeout: int | None = None
    retry_count: int | None = None
    rnr_retry_count: int | None = None
    min_rnr_timer: int | None = None
    responder_resources: int | None = None
    initiator_depth: int | None = None
    tos: int | None = None
    comp_vector: int | None = None
    create_flags: int | None = None


@dataclass(kw_only=True)
class Failover:
    """struct rdmamsg_failover."""

    port: int | None = None
    rungs: int | None = None  #: Rung
    timeout_ms: int | None = None
    keep_bytes: int | None = None
    host: str | None = None
    service: str | None = None
    source: str | None = None
    device: str | None = None
    announce: str | None = None
    flags: int | None = None
    lid: int | None = None


@dataclass(kw_only=True)
class EndpointOptions:
    """struct rdmamsg_ep_options. Both sides of a connection have some."""

    flags: int | None = None  #: EndpointFlag
    timeout_ms: int | None = None
    source: str | None = None
    device: str | None = None
    hello_data: bytes | None = None
    setup_data: bytes | None = None
    max_msg_size: int | None = None
    send_queue: int | None = 256  #: sends kept before send() waits
    dead_after_ms: int | None = None
    close_timeout_ms: int | None = None
    failover: Failover | None = None
    tuning: Tuning | None = None


@dataclass(kw_only=True)
class ListenOptions:
    """struct rdmamsg_listen_options."""

    backlog: int | None = None
    device: str | None = None
    max_requests: int | None = None
    max_half_open: int | None = None
    setup_timeout_ms: int | None = None
    max_endpoints: int | None = None
    max_per_source: int | None = None
    slow_ms: int | None = None
    key: bytes | None = None
    key_file: str | None = None
    flags: int | None = None


@dataclass(kw_only=True)
class GroupOptions:
    """struct rdmamsg_group_options."""

    flags: int | None = None  #: GroupFlag
    source: str | None = None
    device: str | None = None
    timeout_ms: int | None = None
    max_message: int | None = None
    max_held: int | None = None
    max_senders: int | None = None
    recv_depth: int | None = None
    send_depth: int | None = None
    rate: int | None = None
    history: int | None = None
    history_bytes: int | None = None
    history_ms: int | None = None
    linger_ms: int | None = None
    backlog: int | None = None
    backlog_bytes: int | None = None
    backlog_ms: int | None = None
    flow: int | None = None  #: GroupFlow
    flow_quorum: int | None = None
    flow_window: int | None = None
    flow_limit_ms: int | None = None
    tag: int | None = None
    key: bytes | None = None  #: pre-shared, of all members
    key_file: str | None = None
    parity: int | None = None


_STRUCTS: dict[type, str] = {
    ContextOptions: "struct rdmamsg_options",
    Tuning: "struct rdmamsg_ep_tuning",
    Failover: "struct rdmamsg_failover",
    EndpointOptions: "struct rdmamsg_ep_options",
    ListenOptions: "struct rdmamsg_listen_options",
    GroupOptions: "struct rdmamsg_group_options",
}


class Filled:
    """A C struct, and what its pointers need."""

    def __init__(self, name: str) -> None:
        self.at: Any = new(name)
        self.keep: list[Any] = []

    def set(self, name: str, value: Any) -> None:
        """Sets a field from an int, str, bytes or options."""
        try:
            self._set(name, value)
        except (TypeError, OverflowError) as err:
            raise type(err)(f"option {name}: {err}") from None

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            value = value.encode()
            if b"\0" in value:
                raise TypeError("a str with a NUL")
            value = ffi.new("char[]", value)
        elif isinstance(value, bytes | bytearray):
            setattr(self.at, name + "_len", len(value))
            value = ffi.new("char[]", bytes(value))
        elif dataclasses.is_dataclass(value):
            inner = fill(value)
            self.keep.append(inner)
            value = inner.at
        self.keep.append(value)
        setattr(self.at, name, value)


def new(name: str) -> Any:
    """A zeroed struct with its size."""
    struct = ffi.new(name + " *")
    struct.size = ffi.sizeof(name)
    return struct


def fill(options: Any) -> Filled:
    """The C struct of options."""
    filled = Filled(_STRUCTS[type(options)])
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value is not None:
            filled.set(field.name, value)
    return filled


def chosen(kind: type[_T], options: _T | None) -> _T:
    """The options, or all defaults; anything else is a mistake."""
    if options is None:
        return kind()
    if type(options) is not kind:
        raise TypeError(f"options must be rdmamsg.{kind.__name__}, not "
                        f"{type(options).__name__}")
    return options
