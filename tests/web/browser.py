"""The browser: one process for all visits, each with cookies and a cache of its own."""

import asyncio
import contextlib
import os
import urllib.parse

from hosts.report import Failed
from playwright.async_api import async_playwright, expect

# Chromium without its own windows: three times as fast, and the same pages.
CHROMIUM = os.environ.get("CTXFS_WEB_BROWSER", "/usr/bin/chromium-headless-shell")
# Milliseconds for a condition to come true.
WAIT = 20_000
# Names below `.test` lead here, as a hostile name server says; nothing else leads anywhere.
RESOLVER = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


@contextlib.asynccontextmanager
async def opened():
    """Starts the browser, and ends it."""
    expect.set_options(timeout=WAIT)
    # Signals end the run first, which then ends the browser.
    no_signals = {"handle_sigint": False, "handle_sigterm": False, "handle_sighup": False}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[f"--host-resolver-rules={RESOLVER}"], **no_signals)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def visit(browser, form, server):
    """Opens a window of a form for a person who has opened the link of the server."""
    context = await browser.new_context(
        viewport={"width": form.width, "height": form.height}, color_scheme=form.scheme,
        java_script_enabled=form.script, reduced_motion="reduce", accept_downloads=True, locale="en-US",
        timezone_id="UTC")
    context.set_default_timeout(WAIT)
    try:
        await context.add_cookies([{**server.cookie(), "url": server.base}])
        yield Visit(form, server, context, await context.new_page())
    finally:
        await context.close()


class Visit:
    """A window, and what the browser complains of in it."""

    def __init__(self, form, server, context, page):
        self.form, self.server, self.context, self.page = form, server, context, page
        self.complaints, self.requests = [], []
        # Statuses that the check asks for.
        self.statuses = set()
        context.on("console", self.said)
        context.on("weberror", lambda one: self.complaints.append(f"error of the script: {one.error}"))
        context.on("dialog", self.asked)
        context.on("request", self.asked_for)
        context.on("requestfailed", self.failed)

    async def open(self, path):
        """Opens a page of the server, and returns its answer."""
        return await self.page.goto(self.server.base + path, wait_until="load")

    async def apart(self, made, *arguments, **named):
        """Calls what takes its time, in a thread, so that others go on."""
        return await asyncio.to_thread(made, *arguments, **named)

    async def get(self, path, **more):
        """Asks the server without the browser, as one who has the cookie."""
        return await self.apart(self.server.get_in, path, **more)

    def said(self, message):
        expected = any(f"status of {status} " in message.text for status in self.statuses)
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(f"console: {message.text} ({message.location.get('url', '')})")

    async def asked(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def asked_for(self, request):
        self.requests.append(request.url)
        if not request.url.startswith((self.server.base + "/", "blob:" + self.server.base, "about:")):
            self.complaints.append(f"a request to {request.url}")

    def failed(self, request):
        # A request is aborted when the page leaves, or asks for something newer.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.url} failed: {request.failure}")

    def end(self):
        """Fails with what the browser complained of."""
        if self.complaints:
            raise Failed("; ".join(self.complaints[:5]))

    def address(self):
        """Returns the path, the parameters and the fragment of the address bar."""
        parts = urllib.parse.urlsplit(self.page.url)
        return parts.path, dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)), parts.fragment

    async def address_has(self, **parameters):
        """Waits until the address has these parameters, and the page is there."""
        wanted = {name: str(value) for name, value in parameters.items()}
        await eventually(lambda: wanted.items() <= self.address()[1].items(), lambda: self.page.url)
        await self.page.wait_for_load_state("load")

    async def follow(self, link):
        """Follows a link to another page, until that is there."""
        async with self.page.expect_navigation(wait_until="load"):
            await link.click()


async def eventually(condition, shown=lambda: ""):
    """Waits until a condition is true; it may be a coroutine."""
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT / 1000
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if loop.time() > until:
            said = shown()
            raise Failed(f"not so within {WAIT} ms: {await said if asyncio.iscoroutine(said) else said}")
        await asyncio.sleep(0.02)
