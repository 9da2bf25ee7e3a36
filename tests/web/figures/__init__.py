"""Times and memory of the pages, in the browser and beside it. Prints tables in Markdown."""

import asyncio
import os
import platform

from hosts.report import say

from web.figures import answers, giant, tabs


async def measure(looking):
    """Prints all tables."""
    program = looking.site.program
    said = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    version = (await said.communicate())[0].decode().strip()
    say(f"\n{version}, Chromium {looking.chromium.version}, Linux {platform.release()}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}")
    for table in (answers.table, giant.table, tabs.table):
        say("")
        async for line in table(looking):
            say(line)
