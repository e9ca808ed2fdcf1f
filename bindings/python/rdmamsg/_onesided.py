# SPDX-License-Identifier: BSD-2-Clause
"""Regions, keys, and one-sided operations."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._buffer import Buffer, readable, writable
from ._core import Core, as_dict
from ._errors import ClosedError, check
from ._options import new
from ._rdmamsg import ffi, lib

if TYPE_CHECKING:
    from ._core import Operation
    from ._endpoint import EndpointBase


class Access(enum.IntFlag):
    """What a region permits: enum rdmamsg_access."""

    NONE = 0  #: only the source of write()
    READ = lib.RDMAMSG_ACCESS_READ
    WRITE = lib.RDMAMSG_ACCESS_WRITE
    ATOMIC = lib.RDMAMSG_ACCESS_ATOMIC
    LOCAL_WRITE = lib.RDMAMSG_ACCESS_LOCAL_WRITE
    WINDOW = lib.RDMAMSG_ACCESS_WINDOW


class Key:
    """What a peer needs to reach a region. Send ``bytes(key)``."""

    __slots__ = ("_key",)

    def __init__(self, data: Buffer) -> None:
        memory = readable(data)
        self._key = ffi.new("struct rdmamsg_key *")
        check(lib.rdmamsg_key_import(memory, len(memory), self._key))

    def __bytes__(self) -> bytes:
        return bytes(ffi.buffer(self._key.bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def _attr(self) -> dict[str, Any]:
        attr = new("struct rdmamsg_key_attr")
        check(lib.rdmamsg_key_query(self._key, attr))
        return as_dict(attr)

    def __len__(self) -> int:
        length: int = self._attr()["len"]
        return length

    @property
    def access(self) -> Access:
        """What the key permits."""
        return Access(self._attr()["access"])

    def __repr__(self) -> str:
        return f"<rdmamsg.Key of {len(self)} bytes, {self.access!r}>"


class Region:
    """Memory for one-sided operations. Context.region() makes it."""

    def __init__(self, core: Core, access: Access, memory: Any,
                 begin: Callable[[Any], Any], size: int) -> None:
        self._core = core
        self._memory = memory  # holds the export until destroy()
        self._size = size
        self._access = access
        ret = ffi.new("struct rdmamsg_region **")
        check(begin(ret))
        self._region: Any = ret[0]
        self._used_by: set[int] = set()  # endpoints, by number
        core._regions.add(self)

    def _handle(self) -> Any:
        if self._region is not None:
            self._core._handle()
        if self._region is None:
            raise ClosedError(9, "the region is destroyed")
        return self._region

    def __len__(self) -> int:
        return self._size

    @property
    def access(self) -> Access:
        """What the region permits."""
        return self._access

    def register(self, ep: EndpointBase) -> None:
        """Registers with the device of the endpoint, which takes long.

        The first operation that needs it does this by itself.
        """
        check(lib.rdmamsg_region_register(self._handle(), ep._handle()))
        self._used_by.add(ep._id)

    def _entry(self, ep: Any, at: int, size: int) -> Any:
        """A gather entry of the region for an operation of the endpoint."""
        handle = self._handle()
        if at < 0 or size < 0 or at + size > len(self):
            raise IndexError(f"bytes {at} to {at + size} are outside of the "
                             f"region's {len(self)}")
        if ep._id not in self._used_by:
            self.register(ep)
        sge = ffi.new("struct rdmamsg_sge *")
        base = self._memory if self._memory is not None else ffi.NULL
        sge.data = ffi.cast("char *", base) + at
        sge.len, sge.region = size, handle
        return sge

    def key(self, ep: EndpointBase) -> Key:
        """A key for peers that are connected through the device of ep."""
        key = Key.__new__(Key)
        key._key = ffi.new("struct rdmamsg_key *")
        check(lib.rdmamsg_region_get_key(self._handle(), ep._handle(),
                                         key._key))
        return key

    def revoke(self) -> None:
        """Ends all registrations: earlier keys do not work any more."""
        self._used_by.clear()
        check(lib.rdmamsg_region_revoke(self._handle()))

    def destroy(self) -> None:
        """Revokes the region and gives its memory back. May be repeated."""
        if self._region is None:
            return
        check(lib.rdmamsg_region_destroy(self._handle()))
        self._forget()

    def _forget(self) -> None:
        self._region = self._memory = None
        self._core._regions.discard(self)

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._core.closed:
            self.destroy()


class OneSided:
    """Begins one-sided operations. None: no room, on_writable follows."""

    if TYPE_CHECKING:
        _core: Core

        def _post(self, keep: object,
                  call: Callable[[Any, Any], Any]) -> Operation | None: ...

    def _write_attempt(self, key: Key, source: Region | Buffer, at: int,
                       size: int | None, offset: int, notify: int | None
                       ) -> Callable[[], Operation | None]:
        """The attempt to write a region, or a copy of other memory."""
        if isinstance(source, Region):
            count = len(source) - at if size is None else size
            return lambda: self._post_write(key, source, at, count, offset,
                                            notify)
        if at or size is not None:
            raise TypeError("'at' and 'size' are for regions: give a slice")
        memory = readable(source)
        return lambda: self._post_copy(key, memory, offset, notify)

    def _post_read(self, key: Key, region: Region, at: int, size: int,
                   offset: int) -> Operation | None:
        sge = _region(region)._entry(self, at, size)
        return self._post((region, region._memory), lambda ep, cookie:
                          lib.rdmamsg_read(ep, sge, 1, _key(key), offset, 0,
                                           cookie))

    def _post_write(self, key: Key, region: Region, at: int, size: int,
                    offset: int, notify: int | None) -> Operation | None:
        sge = _region(region)._entry(self, at, size)
        return self._post_op((region, region._memory), key, sge, offset,
                             notify)

    def _post_copy(self, key: Key, data: Any, offset: int,
                   notify: int | None) -> Operation | None:
        """A small write of memory without a region."""
        sge = ffi.new("struct rdmamsg_sge *")
        sge.data, sge.len = data, len(data)
        return self._post_op(data, key, sge, offset, notify)

    def _post_op(self, keep: object, key: Key, sge: Any, offset: int,
                 notify: int | None) -> Operation | None:
        op = new("struct rdmamsg_op")
        op.kind, op.sge, op.count = lib.RDMAMSG_OP_WRITE, sge, 1
        op.key, op.offset = _key(key), offset
        if notify is not None:
            op.flags, op.imm = lib.RDMAMSG_OP_NOTIFY, notify

        def post(ep: Any, cookie: Any) -> int:
            op.cookie = cookie
            result: int = lib.rdmamsg_post(ep, op)
            return result
        return self._post(keep, post)

    def _post_fetch_add(self, key: Key, offset: int, add: int,
                        result: Any) -> Operation | None:
        return self._post(result, lambda ep, cookie:
                          lib.rdmamsg_fetch_add(
                              ep, _key(key), offset, add % (1 << 64), result,
                              0, cookie))

    def _post_compare_swap(self, key: Key, offset: int, expected: int,
                           desired: int, result: Any) -> Operation | None:
        return self._post(result, lambda ep, cookie:
                          lib.rdmamsg_compare_swap(
                              ep, _key(key), offset, expected, desired, result,
                              0, cookie))

    def _post_flush(self) -> Operation | None:
        return self._post(None, lib.rdmamsg_flush)


def _key(key: Key) -> Any:
    if not isinstance(key, Key):
        raise TypeError(f"give a rdmamsg.Key, not {type(key).__name__}: "
                        "Key(data) makes one of the peer's bytes")
    return key._key


def _region(region: Region) -> Region:
    if not isinstance(region, Region):
        raise TypeError(f"give a rdmamsg.Region, not {type(region).__name__}: "
                        "Context.region(memory) makes one")
    return region


def region_of(core: Core, memory: Buffer, access: Access) -> Region:
    """Declares the memory of the program."""
    remote = Access.WRITE | Access.ATOMIC | Access.LOCAL_WRITE
    held = writable(memory) if access & remote else readable(memory)
    return Region(core, access, held, lambda ret: lib.rdmamsg_region_create(
        core._handle(), held, len(held), access, ret), len(held))


def region_dmabuf(core: Core, fd: int, offset: int, size: int,
                  access: Access) -> Region:
    """Declares memory of another device."""
    return Region(core, access, None, lambda ret: lib.rdmamsg_region_dmabuf(
        core._handle(), fd, offset, size, access, ret), size)
