"""The ways to look at an output: JSON, terminals, images, other binaries."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.finding import attributes, has, same
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES

ISSUES = addresses.output(fixtures.MAIN, fixtures.ISSUES)
PAINTED = addresses.output(fixtures.MAIN, fixtures.PAINTED)
NODE = '#tree [role=treeitem][data-path="{}"]'


def node(page, path):
    return page.locator(NODE.format(path.replace('"', '\\"')))


@PAGES.check("JSON: a tree that opens on demand", SCRIPT)
async def tree(visit):
    await visit.open(ISSUES)
    await expect(visit.page.locator("#tree")).to_be_visible()
    items = node(visit.page, ".items")
    await expect(items).to_contain_text("250")
    same("members before it is opened", await node(visit.page, ".items[0]").count(), 0)
    await opened(items)
    await expect(node(visit.page, ".items[0]")).to_have_count(1)
    same("members at a time", await visit.page.locator("#tree [data-path^='.items['][role=treeitem]").count(), 100)
    first = node(visit.page, ".items[3]")
    await opened(first)
    await opened(node(visit.page, ".items[3].user"))
    await expect(node(visit.page, ".items[3].user.name")).to_contain_text("user-3")
    await items.locator("a.more, a.next").last.click()
    await expect(node(visit.page, ".items[100]")).to_have_count(1)


async def opened(item):
    """Opens a node as a person with a keyboard or a mouse does: by what it shows first."""
    if await item.get_attribute("aria-expanded") != "true":
        await item.locator("a, button, summary, .key").first.click()
    await expect(item).to_have_attribute("aria-expanded", "true")


@PAGES.check("JSON: a node by its address, and the copy of its filter", SCRIPT)
async def tree_address(visit):
    path = ".items[7].user"
    await visit.open(addresses.output(fixtures.MAIN, fixtures.ISSUES, view="json", json=path))
    await expect(node(visit.page, f"{path}.name")).to_contain_text("user-7")
    await visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visit.server.base)
    async with visit.looking.clipboard:
        await node(visit.page, path).locator(".copy-path").first.click()
        await eventually(lambda: holds(visit.page, path))


async def holds(page, text):
    return await page.evaluate("navigator.clipboard.readText()") == text


@PAGES.check("JSON: each node by a link", PLAIN)
async def tree_links(visit):
    await visit.open(ISSUES)
    await node(visit.page, ".items").locator("a").first.click()
    await visit.address_has(json=".items")
    await expect(node(visit.page, ".items[0]")).to_have_count(1)
    await visit.follow(node(visit.page, ".items[0]").locator("a").first)
    await expect(node(visit.page, ".items[0].title")).to_contain_text("Issue 0")


@PAGES.check("terminal: colours, attributes, and what was overwritten is gone", BOTH)
async def painted(visit):
    await visit.open(PAINTED)
    rows = [text.rstrip() for text in await visit.page.locator("#lines .line code").all_inner_texts()]
    has("rows", "\n".join(rows), "red bold green blue inverse", "download 100%", "error: disk sdb1 is full")
    if any("10%\r" in row or "download 55%" in row or "\x1b" in row for row in rows):
        raise Failed(f"what was overwritten is there: {rows}")
    background = await visit.page.evaluate("() => getComputedStyle(document.querySelector('#lines')).color")
    colours = {}
    for name, text in (("f1", "red"), ("f2", "bold green"), ("inverse", "inverse"), ("underline", "blue")):
        part = visit.page.locator(f"#lines .{name}").filter(has_text=text).first
        colours[text] = await part.evaluate(
            "one => { const style = getComputedStyle(one); return ["
            "style.color, style.backgroundColor, style.textDecorationLine, style.fontWeight]; }"
        )
    if colours["red"][0] in (background, colours["bold green"][0]) or int(colours["bold green"][3]) < 600:
        raise Failed(f"colours: {colours}, of the text {background}")
    has("underline", colours["blue"][2], "underline")


@PAGES.check("terminal: as text, its lines without escapes", BOTH)
async def painted_text(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.PAINTED, view="text"))
    text = await visit.page.locator("#lines").inner_text()
    has("text", text, "download 100%", "error: disk sdb1 is full")
    if "\x1b" in text:
        raise Failed(f"an escape is in the text: {text!r}")


@PAGES.check("image: it is shown, with a text for who does not see it", BOTH)
async def image(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.IMAGE))
    picture = visit.page.locator("main img")
    await expect(picture).to_have_count(1)
    size = lambda: picture.evaluate("one => [one.naturalWidth, one.naturalHeight]")
    await eventually(lambda: is_size(size))
    if not (await picture.get_attribute("alt") or "").strip():
        raise Failed("it has no text")


async def is_size(size):
    return await size() == list(contents.IMAGE)


@PAGES.check("binary: its type, and its bytes as hex", BOTH)
async def binary(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.BINARY))
    await expect(visit.page.locator("#hex")).to_be_visible()
    has("the page", (await visit.page.locator("main").inner_text()).lower(), "7f 45 4c 46", "application/x-executable")
    rows = visit.page.locator("#hex tbody tr")
    same("rows", await rows.count(), 256)
    await visit.page.locator("nav.pager a.next").first.click()
    await visit.address_has(at=4096)
    first = (await rows.first.inner_text()).lower()
    has(
        "the first row of the next window",
        first,
        "1000",
        " ".join(f"{byte:02x}" for byte in contents.binary()[4096:4104]),
    )


@PAGES.check("ways to look: links, of which one is current", BOTH)
async def views(visit):
    for url, view in ((ISSUES, "json"), (PAINTED, "screen"), (addresses.output(fixtures.MAIN, fixtures.BINARY), "hex"),
                      (addresses.output(fixtures.MAIN, fixtures.IMAGE), "image"),
                      (addresses.output(fixtures.MAIN, fixtures.LOG), "text")):
        await visit.open(url)
        current = visit.page.locator("#views [aria-current=page]")
        await expect(current).to_have_count(1)
        has("the current way", await current.get_attribute("href") + " " + (await current.inner_text()).lower(), view)
    await visit.open(ISSUES)
    await visit.page.locator('#views a[href*="view=text"]').click()
    await expect(visit.page.locator("#lines .line").first).to_contain_text('"total"')
    same("views", len(await attributes(visit.page.locator("#views a"), "href")) >= 2, True)
