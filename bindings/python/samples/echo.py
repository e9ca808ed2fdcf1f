# SPDX-License-Identifier: BSD-2-Clause
"""An echo server: echo.py PORT"""
import asyncio
import sys

import rdmamsg


async def handler(ep: rdmamsg.aio.Endpoint) -> None:
    async for message in ep:
        await ep.send(message, tag=message.tag)


async def main() -> None:
    async with rdmamsg.serve(handler, None, sys.argv[1]) as server:
        print(f"listening on port {server.port}", flush=True)
        await server.serve_forever()

asyncio.run(main())
