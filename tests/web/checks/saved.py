"""What was saved."""

import contextlib
import re

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures
from web.finding import has, number_in, same, says, texts
from web.forms import BOTH
from web.registry import PAGES


async def totals_of(page):
    pairs = await page.locator("#totals dt").evaluate_all(
        "all => all.map(one => [one.innerText.toLowerCase().trim(), one.nextElementSibling.innerText])")
    return dict(pairs)


def fact(found, word):
    """Returns the fact whose name has a word."""
    for name, value in found.items():
        if word in name:
            return value
    raise Failed(f"no {word} in {sorted(found)}")


@PAGES.check("saved: stored, handed out, read back and net are those of `ctxfs stats`", BOTH)
async def totals(visit):
    await visit.open("/saved")
    counts = (await visit.apart(visit.place.store.json, "stats"))["total"]
    found = await totals_of(visit.page)
    for word, number in (("stored", counts["stored"]["tokens"]), ("handed", counts["handed"]["tokens"]),
                         ("read", counts["read"]["tokens"]), ("net", counts["savedTokens"])):
        says(word, fact(found, word), number)
    hits = number_in(fact(found, "offload"))
    if not 0 < hits <= counts["handed"]["times"]:
        raise Failed(f"{hits} hits, {counts['handed']['times']} outputs were handed out")
    says("average", fact(found, "a call"), counts["savedTokens"] / counts["stored"]["times"])


@PAGES.check("saved: plots over time, by tool and by conversation, a table behind each", BOTH)
async def plots(visit):
    await visit.open("/saved")
    stats = await visit.apart(visit.place.store.json, "stats")
    for figure, table, names in (("over-time", "days", stats["days"]), ("by-tool", "tools", stats["tools"]),
                                 ("by-conversation", "by-conversation-table", stats["conversations"])):
        drawn = visit.page.locator(f"#{figure} svg[role=img]")
        await expect(drawn).to_have_count(1)
        await named(visit.page, drawn)
        if not await drawn.locator("rect, path, polyline, circle, line").count():
            raise Failed(f"#{figure} draws nothing")
        details = visit.page.locator(f"#{figure} details")
        if await details.count() and not await details.first.evaluate("one => one.open"):
            await details.first.locator("summary").click()
        heads = await texts(visit.page.locator(f"#{table} tbody th"))
        counted = [name or "(no tool)" for name, counts in names.items() if is_about_outputs(counts)]
        same(f"rows of #{table}", sorted(heads), sorted(counted))
    row = visit.page.locator("#tools tbody tr").filter(has_text="list_issues")
    cells = await texts(row.locator("td"))
    tool = next(counts for name, counts in stats["tools"].items() if "list_issues" in name)
    for cell in cells:
        with contextlib.suppress(Failed):
            return says("stored by a tool", cell, tool["stored"]["tokens"])
    raise Failed(f"no cell of a tool says {tool['stored']['tokens']:,} tokens: {cells}")


def is_about_outputs(counts):
    return any(counts[what]["times"] for what in ("stored", "handed", "read"))


async def named(page, drawn):
    """An image has a name that a screen reader says."""
    ids = (await drawn.get_attribute("aria-labelledby") or "").split()
    words = [await page.locator(f"[id='{one}']").text_content() for one in ids]
    if not "".join(words).strip():
        raise Failed(f"the plot has no name: {ids}")


@PAGES.check("saved: of one conversation", BOTH)
async def of_one(visit):
    await visit.open("/saved")
    details = visit.page.locator("#by-conversation details")
    if await details.count() and not await details.first.evaluate("one => one.open"):
        await details.first.locator("summary").click()
    await visit.page.locator("#by-conversation-table a").filter(has_text=re.compile(f"^{fixtures.MAIN}$")).first.click()
    path, query, _ = visit.address()
    if path == addresses.conversation(fixtures.MAIN):
        await visit.open(f"/saved?conversation={fixtures.MAIN}")
    else:
        same("the address", (path, query), ("/saved", {"conversation": fixtures.MAIN}))
    counts = (await visit.apart(visit.place.store.json, "stats", fixtures.MAIN))["total"]
    says("stored", fact(await totals_of(visit.page), "stored"), counts["stored"]["tokens"])
    has("the page", await visit.page.locator("body").inner_text(), fixtures.MAIN)
