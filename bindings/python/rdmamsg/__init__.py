# SPDX-License-Identifier: BSD-2-Clause
"""Whole messages over RDMA connections.

With asyncio::

    async with rdmamsg.connect("host", 7000) as ep:
        await ep.send(b"hello", tag=1)
        answer = await ep.recv()

    async def handler(ep):
        async for message in ep:
            await ep.send(message)

    async with rdmamsg.serve(handler, None, 7000) as server:
        await server.serve_forever()

Without a loop::

    with rdmamsg.Context() as ctx, ctx.connect("host", 7000) as ep:
        ep.send(b"hello")
        answer = ep.recv(timeout=5)

Options and fields have the names of the C interface, whose manual describes
them: see rdmamsg(7).
"""

from . import _check  # noqa: F401  isort: skip
from . import aio
from ._blocking import Context, Endpoint, Group, Listener, Team
from ._device import (
    Capability, How, capabilities, device, devices, gids, pkeys, port, topics,
    version,
)
from ._endpoint import EndpointFlag, PathChange, PathEvent, Rung
from ._errors import (
    AuthFailed, Canceled, Cause, Closed, ClosedError, Disconnected, Error,
    Forked, InDoubt, InvalidArgument, MisuseError, NoDevice, NoPermission,
    NoResources, Reason, Refused, Rejected, TimedOut, TooLarge, Unreachable,
    Unsupported, Who, WrongThread,
)
from ._group import (
    Backlog, Flushed, Gap, GroupFlag, GroupFlow, Published,
)
from ._listener import ListenFlag, Request
from ._message import Message, OutMessage
from ._onesided import Access, Key, Region
from ._options import (
    NONE, ContextOptions, EndpointOptions, Failover, GroupOptions,
    ListenOptions, Tuning,
)
from ._team import Op, TeamOptions
from .aio import connect, join, serve

__version__ = "0.1.0"

__all__ = [
    "NONE", "Access", "AuthFailed", "Backlog", "Canceled", "Capability",
    "Cause", "Closed", "ClosedError", "Context", "ContextOptions",
    "Disconnected", "Endpoint", "EndpointFlag", "EndpointOptions", "Error",
    "Failover", "Flushed", "Forked", "Gap", "Group", "GroupFlag", "GroupFlow",
    "GroupOptions", "How", "InDoubt", "InvalidArgument", "Key", "ListenFlag",
    "ListenOptions", "Listener", "Message", "MisuseError", "NoDevice",
    "NoPermission", "NoResources", "Op", "OutMessage", "PathChange",
    "PathEvent", "Published", "Reason", "Refused", "Region", "Rejected",
    "Request", "Rung", "Team", "TeamOptions", "TimedOut", "TooLarge", "Tuning",
    "Unreachable", "Unsupported", "Who", "WrongThread", "aio", "capabilities",
    "connect", "device", "devices", "gids", "join", "pkeys", "port", "serve",
    "topics", "version",
]
