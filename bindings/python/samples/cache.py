# SPDX-License-Identifier: BSD-2-Clause
"""A cache that clients read one-sided: cache.py HOST

The server writes entries of fixed size: a checksum, a length, the data. A client
reads an entry without the server's program. A read may bring old and new bytes
in any mixture, so the client reads again if the checksum is wrong.
"""

import asyncio
import struct
import sys
import zlib

import rdmamsg
from rdmamsg import Access, aio

ENTRY = 256
HEAD = struct.Struct("=II")
ENTRIES = 1024


class Cache:
    """The server's memory."""

    def __init__(self) -> None:
        self.memory = bytearray(ENTRY * ENTRIES)

    def put(self, index: int, data: bytes) -> None:
        """Writes an entry."""
        if len(data) > ENTRY - HEAD.size:
            raise ValueError("the value is too long")
        entry = HEAD.pack(zlib.crc32(data), len(data)) + data
        at = index * ENTRY
        self.memory[at:at + len(entry)] = entry


class Client:
    """Reads entries of a server."""

    def __init__(self, ep: aio.Endpoint, key: rdmamsg.Key,
                 region: rdmamsg.Region, memory: bytearray) -> None:
        self._ep, self._key = ep, key
        self._region, self._memory = region, memory

    @classmethod
    async def make(cls, ep: aio.Endpoint) -> "Client":
        """The server's first message is the key."""
        key = rdmamsg.Key((await ep.recv()).data)
        memory = bytearray(ENTRY)
        region = await aio.region(memory, Access.LOCAL_WRITE)
        return cls(ep, key, region, memory)

    async def get(self, index: int) -> bytes:
        """An entry that is whole."""
        while True:
            await self._ep.read(self._key, self._region,
                                offset=index * ENTRY)
            checksum, length = HEAD.unpack_from(self._memory)
            data = bytes(self._memory[HEAD.size:HEAD.size + length])
            if zlib.crc32(data) == checksum:
                return data


async def main(host: str) -> None:
    """Has both sides in one process."""
    cache = Cache()

    async def handler(ep: aio.Endpoint) -> None:
        # the key goes to the peer, who reads without this program
        region = await aio.region(cache.memory, Access.READ)
        await ep.send(bytes(region.key(ep)))
        await ep.wait_closed()
        region.destroy()
    for index in range(ENTRIES):
        cache.put(index, b"value %d" % index)
    async with rdmamsg.serve(handler, host) as server, \
            rdmamsg.connect(host, server.port) as ep:
        client = await Client.make(ep)
        for index in range(0, ENTRIES, 100):
            assert await client.get(index) == b"value %d" % index
        cache.put(7, b"changed")
        print("cache: entry 7 is", (await client.get(7)).decode())

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
