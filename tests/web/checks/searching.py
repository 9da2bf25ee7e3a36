"""Search in an output: hits, options, context, next and previous, marks."""

import re

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.checks.windows import is_shown
from web.finding import attributes, has, same
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES

LOG = addresses.output(fixtures.MAIN, fixtures.LOG)
HITS = "#results li.hit"
PATTERN = r"worker-3.*invoice 9\d{4}$"


async def search(visit, query):
    """Searches as a person does in this form."""
    field = visit.page.locator("#query")
    await field.fill(query)
    if not visit.form.script:
        await field.press("Enter")
    await visit.address_has(q=query)


async def lines_of(visit):
    return [int(line) for line in await attributes(visit.page.locator(HITS), "data-line")]


async def finds(visit, query, wanted):
    await search(visit, query)

    async def found():
        return await lines_of(visit) == wanted

    async def shown():
        return f"{query!r} finds {(await lines_of(visit))[:30]}"

    await eventually(found, shown)


@PAGES.check("search: hits with their lines, as ripgrep finds them", BOTH)
async def hits(visit):
    await visit.open(LOG)
    await finds(visit, contents.RARE, contents.RARE_LINES)
    texts = await visit.page.locator(HITS).all_inner_texts()
    has("a hit", texts[0], contents.log_line(500))
    await finds(visit, PATTERN, await expected(visit))


async def expected(visit):
    """Returns the lines that the view of a search has, which the tests of the program compare with ripgrep."""
    view = await visit.apart(visit.place.store.view, f"{fixtures.MAIN}/{fixtures.LOG}.grep/{PATTERN}")
    return [int(line.split(":")[0]) for line in view.splitlines() if not line.startswith("# ")]


@PAGES.check("search: ripgrep's options, and a pattern that is none", BOTH)
async def options(visit):
    await visit.open(LOG)
    await finds(visit, "-i CHECKPOINT", contents.RARE_LINES)
    await finds(visit, "-F (", [])
    await finds(visit, "-w settle", [5990])
    await search(visit, "locked by (")
    await expect(visit.page.locator("main")).to_contain_text("searched as text")
    await search(visit, "no such word at all")
    await expect(visit.page.locator(HITS)).to_have_count(0)
    await expect(visit.page.locator("main")).to_contain_text(re.compile(r"\b(no|0) match", re.IGNORECASE))


@PAGES.check("search: context around the hits", BOTH)
async def context(visit):
    await visit.open(LOG)
    await search(visit, "-C2 settle batch")
    results = visit.page.locator("#results")
    for number in range(5988, 5993):
        await expect(results).to_contain_text(contents.log_line(number))


@PAGES.check("search: next and previous hit, marks on the lines and beside the position", SCRIPT)
async def walking(visit):
    await visit.open(LOG)
    await finds(visit, contents.RARE, contents.RARE_LINES)
    marks = visit.page.locator("#marks .mark:not(.error)")
    await expect(marks).to_have_count(len(contents.RARE_LINES))
    same("marks", [int(line) for line in await attributes(marks, "data-line")], contents.RARE_LINES)
    places = await marks.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.top, box.left])"
    )
    if places != sorted(places) or len({tuple(place) for place in places}) < len(places) / 2:
        raise Failed(f"the marks do not stand in their order: {places}")
    await visit.page.keyboard.press("Escape")
    await visit.page.locator("#text").focus()
    seen = []
    for key in ("n", "n", "N"):
        await visit.page.keyboard.press(key)
        seen.append(await current(visit))
    same("n, n, N", seen, [500, 1000, 500] if seen[0] == 500 else [1000, 1500, 1000])
    mark = visit.page.locator("#lines mark").filter(has_text=contents.RARE).first
    await expect(mark).to_be_visible()


async def current(visit):
    """Waits until a hit is shown that was not, and returns its line."""
    before = getattr(visit, "hit", None)

    async def other():
        fragment = visit.address()[2]
        line = int(fragment[1:]) if fragment.startswith("L") else None
        return line if line != before and line in contents.RARE_LINES and await is_shown(visit.page, line) else None

    visit.hit = await eventually(other, lambda: f"no hit but {before}: {visit.page.url}")
    return visit.hit


@PAGES.check("search: a new one ends the one before, and each address brings its hits back", SCRIPT)
async def again(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.BIG))
    field = visit.page.locator("#query")
    await field.press_sequentially("took 9")
    await field.fill("request 7919 took")
    await eventually(lambda: hits_are(visit, [1]))
    await visit.page.reload()
    same("the field", await field.input_value(), "request 7919 took")
    await eventually(lambda: hits_are(visit, [1]))


async def hits_are(visit, wanted):
    return await lines_of(visit) == wanted


@PAGES.check("search: on from where a long list of hits ends", PLAIN)
async def on(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.BIG, q="request"))
    first = await lines_of(visit)
    await visit.follow(visit.page.locator("#results a.more"))
    second = await lines_of(visit)
    same("the next hit", second[0], first[-1] + 1)
