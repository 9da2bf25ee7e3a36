"""The address bar says what is on the screen, so that a link can be sent."""

from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.checks.keys import top
from web.checks.windows import is_shown, shown
from web.finding import has, same
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES

LINE = 50_123


def big(**query):
    return addresses.output(fixtures.MAIN, fixtures.BIG, **query)


@PAGES.check("addresses: every line has one, which leads to it", BOTH)
async def lines(visit):
    await visit.open(big(line=LINE - 10))
    number = visit.page.locator(f"#L{LINE} a.number")
    has("its address", await number.get_attribute("href"), f"line={LINE}", f"#L{LINE}")
    await number.click()
    await eventually(lambda: visit.address()[2] == f"L{LINE}", lambda: visit.page.url)
    link = visit.page.url
    other = await visit.context.new_page()
    await other.goto(link)
    await eventually(lambda: is_shown(other, LINE))
    await expect(other.locator(f"#L{LINE} code")).to_contain_text(contents.big_line(LINE))
    mark = (
        "one => getComputedStyle(one).backgroundColor + getComputedStyle(one).outline + getComputedStyle(one).boxShadow"
    )
    marked, plain = [await other.locator(f"#L{number}").evaluate(mark) for number in (LINE, LINE + 3)]
    same("the line of the address is marked", marked != plain, True)


@PAGES.check("addresses: a scrolled window is in the address, and comes back by it", SCRIPT)
async def scrolled(visit):
    await visit.open(big(line=LINE))
    await eventually(lambda: has_moved(visit), lambda: visit.page.url)
    await eventually(lambda: says_what_is_seen(visit), lambda: visit.page.url)
    line = int(visit.address()[1]["line"])
    for _ in range(3):
        await visit.page.reload()
        await eventually(lambda: is_shown(visit.page, line))
    same("the line in the address", int(visit.address()[1]["line"]), line)


async def says_what_is_seen(visit):
    return abs(await top(visit.page) - int(visit.address()[1]["line"])) <= 1


async def has_moved(visit):
    """Turns the wheel, and returns whether the address tells of it."""
    await visit.page.locator("#text").hover()
    await visit.page.mouse.wheel(0, 400)
    return int(visit.address()[1].get("line", 0)) > LINE + 20


@PAGES.check("addresses: a line that scrolled by is not in the history", SCRIPT)
async def history(visit):
    await visit.open("/")
    await visit.open(big(line=LINE))
    await eventually(lambda: has_moved(visit), lambda: visit.page.url)
    await visit.page.go_back()
    await expect(visit.page.locator("#conversations")).to_be_visible()


@PAGES.check("addresses: a window by the offset of a byte", BOTH)
async def by_offset(visit):
    offset = sum(len(contents.big_line(number)) + 1 for number in range(1, 5000))
    await visit.open(big(at=offset))
    line = visit.page.locator("#lines .line").filter(has_text=contents.big_line(5000))
    await expect(line).to_have_count(1)
    same("its offset", await line.get_attribute("data-offset"), str(offset))


@PAGES.check("addresses: a line beyond the end, and none at all, are answered", BOTH)
async def beyond(visit):
    answer = await visit.open(big(line=10 ** 12))
    same("status", answer.status, 200)
    visit.statuses.add(404)
    for path in ("/nothing", "/c/no-such", addresses.output(fixtures.MAIN, "artifacts/tool/no-such.txt")):
        answer = await visit.open(path)
        same(path, answer.status, 404)
        await expect(visit.page.locator("[data-page=missing]")).to_be_visible()
    for query in ("line=x", "line=-1", "at=99999999999999999999", "view=nothing", "column=0", "json=%00", "q=%FF"):
        answer = await visit.get(f"{big()}?{query}")
        same(f"{query} is answered", answer.status < 500, True)


@PAGES.check("addresses: the trail leads back to the conversation and to all of them", BOTH)
async def trail(visit):
    await visit.open(big())
    await visit.page.locator(f".trail a[href='{addresses.conversation(fixtures.MAIN)}']").click()
    await expect(visit.page.locator("#messages")).to_be_visible()
    await visit.page.locator("nav[aria-label=Pages] a[href='/']").first.click()
    await expect(visit.page.locator("#conversations")).to_be_visible()
    await visit.page.locator("nav[aria-label=Pages] a[href='/saved']").first.click()
    await expect(visit.page.locator("#totals")).to_be_visible()


@PAGES.check("addresses: what is shown without the script is in each link", PLAIN)
async def kept(visit):
    await visit.open(big(line=LINE, q="took 976 ms"))
    await visit.follow(visit.page.locator("nav.pager a.next").first)
    same("the search is kept", visit.address()[1].get("q"), "took 976 ms")
    same("the window is another", (await shown(visit.page))[0] > LINE, True)
