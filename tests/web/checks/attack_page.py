"""A page of an attacker, in the browser of one who is logged in."""

import asyncio

from hosts.report import Failed
from playwright.async_api import Error

from web import addresses, attacker, hostile
from web.checks.hostile import unchanged
from web.finding import same
from web.forms import ALONE
from web.registry import ATTACKS

OWN = addresses.conversation(hostile.OWN)
OUTPUT = addresses.output(hostile.OWN, "artifacts/tool/p-script.txt")
TARGETS = [
    "/",
    OWN,
    OUTPUT,
    addresses.output(hostile.OWN, "artifacts/tool/code.js", "raw"),
    addresses.output(hostile.OWN, "artifacts/tool/both.gif", "image"),
    "/events?watch=/",
    f"/search/stream?conversation={hostile.OWN}&q=a&tab=abcdefgh",
    "/static/page.js",
    "/static/page.css",
    "/saved",
]
# Where the page of the attacker is: elsewhere, and on another port of this machine, to which cookies are sent.
ORIGINS = ("http://attacker.test", "http://127.0.0.1")


def add(origin):
    @ATTACKS.check(f"attack page on {origin}: learns nothing", ALONE, on="hostile")
    async def learns(visit):
        with attacker.listening() as port:
            page, statuses = await begun(visit, f"{origin}:{port}/")
            names = await page.evaluate("names")
            for target in TARGETS:
                learned = await page.evaluate(
                    "([names, url]) => attack(names, url)", [names, visit.server.base + target]
                )
                same(f"learned of {target}", learned, {})
            for frame in page.frames[1:]:
                text = await frame.evaluate("document.body?.innerText || ''")
                if hostile.OWN in text or "output" in text:
                    raise Failed(f"a frame shows {text[:200]!r}")
            same("requests of the page were seen", len(statuses) > len(TARGETS), True)
            same("requests of the page that were answered", [one for one in statuses if one[1] < 400], [])
            visit.complaints = [one for one in visit.complaints if "dialog" in one]
        return f"{len(names)} ways, {len(TARGETS)} addresses"

    @ATTACKS.check(f"attack page on {origin}: changes nothing", ALONE, on="hostile")
    async def changes(visit):
        with attacker.listening() as port:
            page, statuses = await begun(visit, f"{origin}:{port}/")
            for target in TARGETS[:3]:
                await page.evaluate("url => change(url)", visit.server.base + target)
            taken = [one for one in statuses if one[1] < 400]
            same("requests that were taken", taken, [])
        await unchanged(visit)
        visit.complaints.clear()

    @ATTACKS.check(f"attack page on {origin}: a window that it opens is out of its hands", ALONE, on="hostile")
    async def window(visit):
        with attacker.listening() as port:
            page, _ = await begun(visit, f"{origin}:{port}/")
            async with visit.context.expect_page() as opened:
                await page.evaluate("url => { window.other = open(url); }", visit.server.base + "/")
            other = await opened.value
            await other.wait_for_load_state()
            same("its opener", await other.evaluate("window.opener"), None)
            same("what the opener holds", await page.evaluate("window.other.closed"), True)
            visit.complaints.clear()


for one in ORIGINS:
    add(one)


async def begun(visit, url):
    """Logs in by the link, as a person does, and opens the page of the attacker beside it."""
    await visit.context.clear_cookies()
    await visit.page.goto(visit.server.link)
    statuses = []
    page = await visit.context.new_page()

    def answered(answer):
        if answer.url.startswith(visit.server.base) and page_of(answer.request) is page:
            statuses.append((answer.url, answer.status))

    visit.context.on("response", answered)
    await page.goto(url)
    await asyncio.wait_for(page.wait_for_function("window.names"), 10)
    return page, statuses


def page_of(request):
    """Returns the page that asks. A window that is only just opened has none yet."""
    try:
        return request.frame.page
    except Error:
        return None
