"""The whole of an output: a window over its lines."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.finding import attributes, has, is_in_window, same
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES

BIG = addresses.output(fixtures.MAIN, fixtures.BIG)
# The most lines of a window.
WINDOW = 200
# The most lines on the page at a time, whatever was scrolled by.
HELD = 10 * WINDOW
# Bytes that may come over the wire for a look at a few windows of a log of 4 MB.
FETCHED = 1_000_000


def big(**query):
    return addresses.output(fixtures.MAIN, fixtures.BIG, **query)


async def shown(page):
    """Returns the numbers of the lines on the page."""
    return [int(number) for number in await attributes(page.locator("#lines .line"), "data-line") if number]


async def is_shown(page, number):
    line = page.locator(f'#lines .line[data-line="{number}"]')
    return await line.count() and await is_in_window(line.first)


@PAGES.check("whole: a window over the lines, with their numbers and text", BOTH)
async def window(visit):
    await visit.open(BIG)
    numbers = await shown(visit.page)
    same("lines", numbers, list(range(1, len(numbers) + 1)))
    if not 20 <= len(numbers) <= HELD or not visit.form.script and len(numbers) > WINDOW:
        raise Failed(f"{len(numbers)} lines")
    found = await visit.page.locator("#lines .line code").all_inner_texts()
    same("texts", [text.rstrip("\n") for text in found[:50]], [contents.big_line(number) for number in range(1, 51)])
    text = visit.page.locator("#text")
    same("lines in all", await text.get_attribute("data-lines"), str(contents.BIG_LINES))


@PAGES.check("whole: scrolled to its end, only what is on the screen is fetched and held", SCRIPT)
async def scrolled(visit):
    sizes = []
    visit.page.on("response", lambda answer: sizes.append(answer))
    await visit.open(BIG)
    text = visit.page.locator("#text")
    for _ in range(60):
        # The page scrolls too where the next rows are not there yet, and the text from under the pointer.
        await text.hover()
        before = (await shown(visit.page))[-1]
        if before > 2 * WINDOW:
            break
        await visit.page.mouse.wheel(0, 4000)
        await eventually(lambda before=before: moved(visit.page, before), lambda before=before: f"at line {before}")
    else:
        raise Failed(f"60 turns of the wheel lead to line {before}")
    if len(await shown(visit.page)) > HELD:
        raise Failed(f"{len(await shown(visit.page))} lines are held")
    await text.press("G")
    await eventually(lambda: is_shown(visit.page, contents.BIG_LINES))
    await expect(visit.page.locator("#lines")).to_have_attribute("data-at-end", "true")
    await text.press("g")
    await eventually(lambda: is_shown(visit.page, 1))
    fetched = sum(
        [len(await answer.body()) for answer in sizes if answer.request.resource_type in ("document", "fetch", "xhr")]
    )
    if fetched > FETCHED:
        raise Failed(f"{fetched:,} bytes were fetched of a log of {len(contents.big()):,}")
    return f"{fetched:,} bytes of {len(contents.big()):,}"


async def moved(page, before):
    """Returns whether the window has moved on; a turn of the wheel within it takes effect at once."""
    numbers = await shown(page)
    at = await page.evaluate("() => document.scrollingElement.scrollTop + document.querySelector('#text').scrollTop")
    was = getattr(page, "was", None)
    page.was = at
    return numbers[-1] != before or at != was


@PAGES.check("whole: the position leads to the middle, and says where one is", SCRIPT)
async def position(visit):
    await visit.open(BIG)
    slider = visit.page.locator("#position")
    await slider.evaluate("""one => {
        one.value = (Number(one.min || 0) + Number(one.max || 100)) / 2;
        one.dispatchEvent(new Event('input', {bubbles: true}));
        one.dispatchEvent(new Event('change', {bubbles: true}));
    }""")
    middle = contents.BIG_LINES // 2
    await eventually(lambda: near(visit.page, middle))
    await visit.open(big(line=contents.BIG_LINES * 3 // 4))
    part = await slider.evaluate("one => (one.value - (one.min || 0)) / ((one.max || 100) - (one.min || 0))")
    if abs(part - 0.75) > 0.02:
        raise Failed(f"the position at three quarters is {part:.2f}")


async def near(page, number):
    numbers = await shown(page)
    return numbers and abs(numbers[0] - number) < contents.BIG_LINES * 0.02


@PAGES.check("whole: by links, window after window", PLAIN)
async def linked(visit):
    await visit.open(BIG)
    first = await shown(visit.page)
    await visit.follow(visit.page.locator("nav.pager a.next").first)
    second = await shown(visit.page)
    same("the next window begins", second[0], first[-1] + 1)
    await visit.follow(visit.page.locator("nav.pager a.previous").first)
    same("the previous window", (await shown(visit.page))[0], 1)
    await visit.follow(visit.page.locator("nav.pager a.last").first)
    same("the last line", (await shown(visit.page))[-1], contents.BIG_LINES)
    await visit.follow(visit.page.locator("nav.pager a.first").first)
    same("the first line", (await shown(visit.page))[0], 1)
    await visit.open(big(line=23_456))
    same("a line by its number", (await shown(visit.page))[0], 23_456)
    has("its text", await visit.page.locator("#L23456 code").inner_text(), contents.big_line(23_456))


@PAGES.check("whole: the second line of two million characters, in pieces, wrapped", BOTH)
async def long_line(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.LONG, line=2))
    line = visit.page.locator('#lines .line[data-line="2"]').first
    has("its beginning", await line.inner_text(), contents.WORDS)
    size = len(await visit.page.locator("#lines").inner_text())
    if size > 200_000:
        raise Failed(f"{size:,} characters are on the page")
    wide = await visit.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        raise Failed(f"the page is {wide} pixels wider than the window")
    column = visit.page.locator('#lines .line[data-line="2"][data-column]')
    await eventually(lambda: beyond(column))
    piece, before = [int(await column.nth(1).get_attribute(name)) for name in ("data-offset", "data-column")]
    await visit.follow(visit.page.locator(f'.line[data-offset="{piece}"] a.number'))
    text = await visit.page.locator(f'.line[data-offset="{piece}"] code').inner_text()
    has("a piece by its address", text, contents.long_line().split("\n")[1][before:before + 60].strip())


async def beyond(column):
    return any(int(one or 0) > 1000 for one in await attributes(column, "data-column"))
