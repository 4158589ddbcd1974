# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads a line from who speaks first, by the loop's own resolver and connections to either family at once."""

import asyncio
import os


async def main():
    reader, _writer = await asyncio.open_connection(os.environ["HOST"], 2222, happy_eyeballs_delay=0.25)
    print(await asyncio.wait_for(reader.readuntil(b"\n"), 30))


asyncio.run(main())
