"""The end of a live output is followed."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, writer
from web.browser import eventually
from web.checks.output import facts_of
from web.checks.windows import is_shown, shown
from web.finding import has, same
from web.forms import ALONE, PLAIN, SCRIPT
from web.registry import PAGES


@PAGES.check("end: a live log is followed, as its command writes it", SCRIPT, on="live")
async def followed(visit):
    name = writer.fresh("following")
    with writer.command(visit.place.store, name, "work") as live:
        await live.counted(500)
        await visit.open(addresses.output(name, live.path, end=1))
        await eventually(lambda: is_shown(visit.page, 500))
        has("state", (await facts_of(visit.page))["state"], "live")
        for _ in range(3):
            live.count(300)
            await eventually(lambda: is_shown(visit.page, live.lines))
        await visit.apart(live.end)
        await eventually(lambda: is_sealed(visit.page))


async def is_sealed(page):
    return (await facts_of(page))["state"] in ("sealed", "complete")


@PAGES.check("end: a file that is open in a mount is followed", SCRIPT, on="live")
async def followed_in_mount(visit):
    name = writer.fresh("following")
    with writer.in_mount(visit.place.mount, name, "open.txt") as file:
        file.write("".join(f"row {number}\n" for number in range(1, 401)))
        await visit.open(addresses.output(name, "artifacts/tool/open.txt"))
        await visit.page.locator("#text").focus()
        await visit.page.keyboard.press("G")
        await eventually(lambda: is_shown(visit.page, 400))
        file.write("".join(f"row {number}\n" for number in range(401, 900)))
        await eventually(lambda: is_shown(visit.page, 899))


@PAGES.check("end: who reads elsewhere is not moved", SCRIPT, on="live")
async def not_moved(visit):
    name = writer.fresh("reading")
    with writer.command(visit.place.store, name, "work") as live:
        await live.counted(500)
        await visit.open(addresses.output(name, live.path))
        before = await shown(visit.page)
        live.count(500)
        text = visit.page.locator("#text")
        await eventually(lambda: grew(text), lambda: text.get_attribute("data-size"))
        same("the first line", (await shown(visit.page))[0], before[0])
        if not await is_shown(visit.page, 1):
            raise Failed("line 1 is no longer in the window")


async def grew(text):
    """Returns whether the page knows of more bytes than 500 lines have."""
    return int(await text.get_attribute("data-size")) > 500 * len("INFO step 500\n")


@PAGES.check("end: by a link, and what came since by loading it again", PLAIN, on="live")
async def linked(visit):
    name = writer.fresh("following")
    with writer.command(visit.place.store, name, "work") as live:
        await live.counted(500)
        await visit.open(addresses.output(name, live.path))
        await visit.follow(visit.page.locator("nav.pager a.last").first)
        same("the last line", (await shown(visit.page))[-1], 500)
        await live.counted(300)
        await visit.open(addresses.output(name, live.path, end=1))
        same("the last line", (await shown(visit.page))[-1], 800)


@PAGES.check("end: twelve windows follow a log, and other pages are answered meanwhile", ALONE, on="live")
async def many_windows(visit):
    name = writer.fresh("crowd")
    with writer.command(visit.place.store, name, "work") as live:
        await live.counted(300)
        pages = [visit.page, *[await visit.context.new_page() for _ in range(11)]]
        for page in pages:
            await page.goto(visit.server.base + addresses.output(name, live.path, end=1))
        live.count(300)
        for page in pages:
            await eventually(lambda page=page: is_shown(page, 600))
        # More than six windows, each with a stream of its own, would leave none for this.
        other = await visit.context.new_page()
        await other.goto(visit.server.base + "/")
        await expect(other.locator("#conversations")).to_be_visible()
