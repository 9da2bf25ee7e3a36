"""An output: its facts, its contents, what can be copied, and the download."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.finding import has, is_in_window, same, says
from web.forms import ALONE, BOTH, SCRIPT
from web.registry import PAGES

LOG = addresses.output(fixtures.MAIN, fixtures.LOG)
REFERENCE = f"ctx://{fixtures.MAIN}/{fixtures.LOG}"


async def facts_of(page):
    """Returns the facts by their names, in lower case."""
    pairs = await page.locator("#facts dt").evaluate_all(
        "all => all.map(one => [one.innerText.toLowerCase().trim(), one.nextElementSibling.innerText])")
    return dict(pairs)


@PAGES.check("output: its facts", BOTH)
async def facts(visit):
    await visit.open(LOG)
    meta = await visit.apart(visit.place.store.meta, f"{fixtures.MAIN}/{fixtures.LOG}")
    found = await facts_of(visit.page)
    wanted = {"tool": "shell/exec", "call": "log", "exit code": "101", "type": "text",
              "lines": f"{contents.LOG_LINES:,}"}
    for name, value in wanted.items():
        has(name, found.get(name, f"no such fact in {sorted(found)}"), value)
    has("states", ("sealed", "complete"), found["state"])
    says("size", found["size"], meta["size"])
    says("tokens", found["tokens"], meta["analysis"]["tokens"])
    has("h1", await visit.page.locator("h1").inner_text(), "log.txt")
    await visit.open(addresses.output(fixtures.MAIN, fixtures.PAINTED))
    found = await facts_of(visit.page)
    has("duration", found.get("duration", str(sorted(found))), "ms")


@PAGES.check("output: errors and sections as a table of contents with line numbers", BOTH)
async def table_of_contents(visit):
    # On a busy machine a page does not wait for the texts of the entries.
    await eventually(lambda: has_texts(visit))
    for number, text in {**contents.SECTIONS, **contents.ERRORS}.items():
        link = visit.page.locator(f'#contents a[data-line="{number}"]').first
        has(f"line {number}", await link.inner_text(), text[:30])
        has(f"the number of line {number}", (await link.inner_text()).replace(",", ""), str(number))
    await visit.page.locator('#contents a[data-line="4410"]').first.click()
    line = visit.page.locator("#L4410")
    await expect(line).to_contain_text(contents.ERRORS[4410])
    await eventually(lambda: is_in_window(line))
    same("fragment", visit.address()[2], "L4410")


async def has_texts(visit):
    await visit.open(LOG)
    await open_contents(visit.page)
    entries = await visit.page.locator("#contents a[data-line]").all_inner_texts()
    return entries and all(len(text) > 10 for text in entries)


async def open_contents(page):
    if not await page.locator("#contents").evaluate("one => one.open"):
        await page.locator("#contents > summary").click()


@PAGES.check("output: copies path, reference, cat command and stand-in", SCRIPT)
async def copy(visit):
    await visit.open(LOG)
    await visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visit.server.base)
    given = visit.place.given[fixtures.LOG]
    wanted = {
        "path": lambda text: text.endswith(f"/{fixtures.MAIN}/{fixtures.LOG}"),
        "reference": lambda text: text == REFERENCE,
        "cat": lambda text: text.startswith("cat ") and f"{fixtures.MAIN}/{fixtures.LOG}" in text,
        "standin": lambda text: text.strip() == given.strip(),
    }
    async with visit.looking.clipboard:
        for what, is_so in wanted.items():
            await visit.page.evaluate("navigator.clipboard.writeText('nothing')")
            await visit.page.locator(f'#copy button[data-copy="{what}"]').click()
            try:
                await eventually(lambda is_so=is_so: copied(visit.page, is_so))
            except Failed:
                text = await visit.page.evaluate("navigator.clipboard.readText()")
                raise Failed(f"{what} copies {text[:300]!r}") from None
    return ", ".join(wanted)


async def copied(page, is_so):
    return is_so(await page.evaluate("navigator.clipboard.readText()"))


@PAGES.check("output: the raw download is every byte", BOTH)
async def download(visit):
    wanted = {fixtures.LOG: contents.log().encode(), fixtures.BINARY: contents.binary()}
    for path, content in wanted.items():
        await visit.open(addresses.output(fixtures.MAIN, path))
        async with visit.page.expect_download() as begun:
            await visit.page.locator("#raw").click()
        file = await (await begun.value).path()
        if file.read_bytes() != content:
            raise Failed(f"{path}: other bytes than stored")


@PAGES.check("output: the download is an attachment, and no page", ALONE)
async def attachment(visit):
    kinds = {fixtures.LOG: "text/plain; charset=utf-8", fixtures.BINARY: "application/octet-stream",
             fixtures.IMAGE: "application/octet-stream"}
    for path, kind in kinds.items():
        answer = await visit.get(addresses.output(fixtures.MAIN, path, "raw"))
        same(f"type of {path}", answer.headers["content-type"], kind)
        has("disposition", answer.headers["content-disposition"], "attachment")
    part = await visit.get(addresses.output(fixtures.MAIN, fixtures.LOG, "raw"), Range="bytes=100-199")
    same("a range", (part.status, part.body), (206, contents.log().encode()[100:200]))
    beyond = await visit.get(addresses.output(fixtures.MAIN, fixtures.LOG, "raw"), Range="bytes=99999999-")
    same("a range beyond the end", beyond.status, 416)
