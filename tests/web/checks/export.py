"""A conversation as files, which a browser opens without a server."""

import asyncio
import pathlib
import urllib.parse

from hosts.report import Failed

from web import fixtures, texts as contents
from web.finding import has, same
from web.forms import PLAIN, SCRIPT
from web.registry import PAGES
from web.writer import fresh


async def exported(visit):
    """Returns the file that the command names."""
    place = visit.looking.scratch / fresh("export")
    words = ("web", "--export", place, fixtures.MAIN)
    return (await asyncio.to_thread(visit.place.store.ctxfs, *words)).decode().strip()


@PAGES.check("export: messages, stand-ins and outputs, without a server and without a script", (SCRIPT[0], *PLAIN))
async def files(visit):
    index = await exported(visit)
    page = await visit.context.new_page()
    visit.complaints.clear()
    await page.goto(f"file://{index}")
    text = await page.locator("body").inner_text()
    has("the conversation", text, *fixtures.QUESTION.split("\n"), "The ledger is locked by pid 4431.",
        visit.place.given[fixtures.LOG].splitlines()[0])
    same("scripts", await page.locator("script").count(), 0)
    async with page.expect_navigation():
        await page.locator("a[href*='log.txt'][href$='.html']").first.click()
    has("an output", await page.locator("body").inner_text(), contents.ERRORS[4410])
    asked = [one for one in visit.requests if not one.startswith("file:")]
    same("requests to servers", asked, [])
    visit.complaints = [one for one in visit.complaints if "request to file:" not in one]


@PAGES.check("export: links are relative, and the bytes are whole", (SCRIPT[0],))
async def whole(visit):
    place = pathlib.Path(await exported(visit)).parent
    raw = next(place.glob("raw/*log.txt"))
    if raw.read_bytes() != contents.log().encode():
        raise Failed(f"{raw.name}: other bytes than stored")
    for page in place.rglob("*.html"):
        for attribute in ('href="', 'src="'):
            for part in page.read_text().split(attribute)[1:]:
                target = part.split('"')[0].split("#")[0]
                if target and not (page.parent / urllib.parse.unquote(target)).exists():
                    raise Failed(f"{page.name} links to {target}, which is not there")
