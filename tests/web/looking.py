"""What a check is given: a visit, and the place that it looks at."""

import asyncio

from web import browser


class Looking:
    """Makes checks: opens a visit for each."""

    def __init__(self, site, chromium, axe, scratch):
        self.site, self.chromium, self.axe, self.scratch = site, chromium, axe, scratch
        # The clipboard is one for all windows.
        self.clipboard = asyncio.Lock()

    async def at(self, check, form, place):
        """Makes a check, and then asks what the browser complained of. One that needs no browser is made in a thread."""
        if not asyncio.iscoroutinefunction(check.made):
            return await asyncio.to_thread(check.made, place)
        async with browser.visit(self.chromium, form, place.server) as visit:
            visit.place, visit.looking = place, self
            found = await check.made(visit)
            visit.end()
        return found

    async def place(self, name):
        return await asyncio.to_thread(self.site.place, name)

    def visit(self, form, server):
        """Opens one more visit."""
        return browser.visit(self.chromium, form, server)
