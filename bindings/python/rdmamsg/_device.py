# SPDX-License-Identifier: BSD-2-Clause
"""Devices, ports, capabilities, topics. Any thread, without a context."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ._core import as_dict
from ._errors import check, text_of
from ._listener import c_text
from ._options import new
from ._rdmamsg import ffi, lib

_T = TypeVar("_T")


class How(enum.IntEnum):
    """Capability.how: enum rdmamsg_cap_how."""

    ABSENT = lib.RDMAMSG_CAP_ABSENT
    SOFTWARE = lib.RDMAMSG_CAP_SOFTWARE
    NATIVE = lib.RDMAMSG_CAP_NATIVE


@dataclass(frozen=True, slots=True)
class Capability:
    """An ability of the library on a device."""

    name: str
    how: How
    value: int
    reason: str


def _list(name: str, call: Callable[[Any, int, int], Any],
          convert: Callable[[Any], _T]) -> list[_T]:
    """The converted elements of a call that fills an array of structs."""
    size, room = ffi.sizeof(name), 16
    while True:
        array = ffi.new(name + "[]", room)
        count = check(call(array, size, room))
        if count <= room:
            return [convert(ffi.addressof(array, i)) for i in range(count)]
        room = count


def devices() -> list[dict[str, Any]]:
    """The attributes of all devices: struct rdmamsg_device_attr."""
    return _list("struct rdmamsg_device_attr", lib.rdmamsg_devices, as_dict)


def device(name: str | None = None) -> dict[str, Any]:
    """The attributes of one device."""
    attr = new("struct rdmamsg_device_attr")
    check(lib.rdmamsg_device_query(c_text(name), attr))
    return as_dict(attr)


def port(number: int, name: str | None = None) -> dict[str, Any]:
    """The attributes of a port: struct rdmamsg_port_attr."""
    attr = new("struct rdmamsg_port_attr")
    check(lib.rdmamsg_port_query(c_text(name), number, attr))
    return as_dict(attr)


def gids(number: int, name: str | None = None) -> list[dict[str, Any]]:
    """The GID table of a port: struct rdmamsg_gid_attr."""
    where = c_text(name)
    return _list("struct rdmamsg_gid_attr", lambda array, size, room:
                 lib.rdmamsg_port_gids(where, number, array, size, room),
                 as_dict)


def pkeys(number: int, name: str | None = None) -> list[int]:
    """The P_Key table of a port."""
    where, room = c_text(name), 128
    while True:
        array = ffi.new("uint16_t[]", room)
        count = check(lib.rdmamsg_port_pkeys(where, number, array, room))
        if count <= room:
            return list(array[0:count])
        room = count


def capabilities(name: str | None = None) -> list[Capability]:
    """What the library can do on a device. Tries it, which takes some ms."""
    where = c_text(name)
    return _list("struct rdmamsg_device_cap_attr", lambda array, size, room:
                 lib.rdmamsg_device_caps(where, array, size, room),
                 lambda cap: Capability(text_of(cap.name), How(cap.how),
                                        cap.value, text_of(cap.reason)))


def topics(pattern: str = "*") -> dict[str, str]:
    """Names and addresses of the topics that the pattern matches."""
    where = c_text(pattern)
    return dict(_list("struct pyr_topic", lambda array, size, room:
                      lib.pyr_topics(where, array, room),
                      lambda topic: (text_of(topic.name),
                                     text_of(topic.address))))


def version() -> str:
    """The version of librdmamsg at run time."""
    return text_of(lib.rdmamsg_version())
