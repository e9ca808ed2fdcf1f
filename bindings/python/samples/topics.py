# SPDX-License-Identifier: BSD-2-Clause
"""Publishes to all subscribers of a group: topics.py ADDRESS [MESSAGE...]

Without a message it subscribes, and prints what comes.
"""

import asyncio
import sys

import rdmamsg
from rdmamsg import GroupFlag


def lost(gap: rdmamsg.Gap) -> None:
    """A group promises nothing, and tells of what is missing."""
    print(f"lost: {gap.last - gap.first + 1} messages of {gap.sender:x}")


async def subscribe(address: str) -> None:
    """Prints messages until Ctrl-C."""
    flags = GroupFlag.SUBSCRIBE | GroupFlag.REPAIR
    async with rdmamsg.join(address, flags=flags) as group:
        group.on_gap = lost
        print("joined", flush=True)
        async for message in group:
            print(f"{message.sender:x} {message.number}: "
                  f"{message.data.decode()}", flush=True)


async def publish(address: str, messages: list[str]) -> None:
    """Sends each message once."""
    flags = GroupFlag.PUBLISH | GroupFlag.REPAIR
    async with rdmamsg.join(address, flags=flags) as group:
        for message in messages:
            await group.publish(message.encode())


if __name__ == "__main__":
    try:
        if len(sys.argv) > 2:
            asyncio.run(publish(sys.argv[1], sys.argv[2:]))
        else:
            asyncio.run(subscribe(sys.argv[1]))
    except KeyboardInterrupt:
        pass
