"""Keys, as in less."""

from playwright.async_api import expect

from web import addresses, fixtures, texts as contents, writer
from web.browser import eventually
from web.checks.windows import is_shown
from web.finding import has, same
from web.forms import SCRIPT
from web.registry import PAGES

BIG = addresses.output(fixtures.MAIN, fixtures.BIG)
LOG = addresses.output(fixtures.MAIN, fixtures.LOG)


async def top(page):
    """Returns how far the lines are scrolled, and the first line that is held."""
    return await page.evaluate("""() => {
        const text = document.querySelector('#text').getBoundingClientRect();
        const line = [...document.querySelectorAll('#lines .line')]
            .find(one => one.getBoundingClientRect().bottom > Math.max(0, text.top) + 2);
        return line ? Number(line.dataset.line) : null;
    }""")


@PAGES.check("keys: g and G, the beginning and the end", SCRIPT)
async def ends(visit):
    await visit.open(BIG)
    await visit.page.keyboard.press("G")
    await eventually(lambda: is_shown(visit.page, contents.BIG_LINES))
    await visit.page.keyboard.press("g")
    await eventually(lambda: is_shown(visit.page, 1))


@PAGES.check("keys: j and k, a line down and up", SCRIPT)
async def lines(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.BIG, line=1000))
    await eventually(lambda: is_shown(visit.page, 1000))
    before = await top(visit.page)
    for _ in range(5):
        await visit.page.keyboard.press("j")
    # As in less, a wrapped line has several; and one that is cut by the edge may count as shown, or not.
    await eventually(lambda: is_within(visit.page, before + 1, before + 6), lambda: top(visit.page))
    down = await top(visit.page)
    for _ in range(5):
        await visit.page.keyboard.press("k")
    await eventually(lambda: is_within(visit.page, before - 1, down - 1), lambda: top(visit.page))


async def is_within(page, first, last):
    return first <= await top(page) <= last


@PAGES.check("keys: / n N and q, a search", SCRIPT)
async def search(visit):
    await visit.open(LOG)
    await visit.page.keyboard.press("/")
    field = visit.page.locator("#query")
    await expect(field).to_be_focused()
    await visit.page.keyboard.type("locked")
    await expect(visit.page.locator("#results li.hit")).to_have_count(1)
    same("what is typed stays in the field", await field.input_value(), "locked")
    await visit.page.keyboard.press("Escape")
    await expect(field).not_to_be_focused()
    await visit.page.keyboard.press("n")
    await eventually(lambda: is_shown(visit.page, 5990))
    await visit.page.keyboard.press("q")
    await expect(visit.page.locator("#results li.hit")).to_have_count(0)
    await visit.page.keyboard.press("q")
    await expect(visit.page.locator("body")).to_have_attribute("data-page", "conversation")


@PAGES.check("keys: e, the next error", SCRIPT)
async def errors(visit):
    await visit.open(LOG)
    for number in contents.ERRORS:
        await visit.page.keyboard.press("e")
        await eventually(lambda number=number: is_shown(visit.page, number), lambda: visit.page.url)


@PAGES.check("keys: e, each of the errors that are alike, and their marks", SCRIPT, on="live")
async def alike(visit):
    name, numbers = writer.fresh("alike"), range(400, 3001, 400)
    lines = (f"{'ERROR' if number in numbers else 'INFO'} batch {number} took 7 ms\n" for number in range(1, 3001))
    await visit.apart(visit.place.store.put, name, "log", "".join(lines))
    await visit.open(addresses.output(name, "artifacts/tool/log.txt"))
    await expect(visit.page.locator("#marks .mark.error")).to_have_count(len(numbers))
    for number in numbers:
        await visit.page.keyboard.press("e")
        await eventually(lambda number=number: is_shown(visit.page, number), lambda: visit.page.url)


@PAGES.check("keys: w, long lines wrapped or not", SCRIPT)
async def wrapping(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.ISSUES, view="text"))
    height = lambda: visit.page.locator("#lines .line").first.evaluate("one => one.getBoundingClientRect().height")
    before = await height()
    await visit.page.keyboard.press("w")
    await eventually(lambda: is_other(height, before))
    await visit.page.keyboard.press("w")
    await eventually(lambda: is_same(height, before))


async def is_other(height, before):
    return abs(await height() - before) > 20


async def is_same(height, before):
    return abs(await height() - before) < 2


@PAGES.check("keys: ? and q, the help, which names each key", SCRIPT)
async def help_(visit):
    await visit.open(LOG)
    await visit.page.keyboard.press("?")
    dialog = visit.page.locator("#help")
    await expect(dialog).to_be_visible()
    has("help", await dialog.inner_text(), "/", "n", "N", "g", "G", "j", "k", "q", "?")
    await visit.page.keyboard.press("q")
    await expect(dialog).to_be_hidden()
    await visit.page.locator("#help-button").click()
    await expect(dialog).to_be_visible()
    await visit.page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


@PAGES.check("keys: j, k and Enter in lists", SCRIPT)
async def lists(visit):
    await visit.open("/?sort=name&order=asc")
    for key in ("j", "j", "k"):
        await visit.page.keyboard.press(key)
    first = await visit.page.locator("#conversations tbody tr").first.get_attribute("data-conversation")
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.locator("body")).to_have_attribute("data-page", "conversation")
    same("the row that was opened", visit.address()[0], addresses.conversation(first))


@PAGES.check("keys: with Control, or in a field, they are the browser's", SCRIPT)
async def others(visit):
    await visit.open(BIG)
    await visit.page.locator("#query").focus()
    await visit.page.keyboard.type("ggG?qnN")
    same("the field", await visit.page.locator("#query").input_value(), "ggG?qnN")
    await expect(visit.page.locator("#help")).to_be_hidden()
    await visit.page.keyboard.press("Escape")
    await visit.page.keyboard.press("Control+g")
    await visit.page.keyboard.press("Alt+q")
    await expect(visit.page.locator("body")).to_have_attribute("data-page", "output")
