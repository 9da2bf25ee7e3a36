"""Who does not see the page, and who has no mouse."""

import re

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, writer
from web.browser import eventually
from web.finding import same
from web.forms import BOTH, SCRIPT
from web.registry import PAGES

ANY = re.compile(r"\S")
PAGES_OF = {
    "conversations": "/", "conversation": addresses.conversation(fixtures.MAIN),
    "outputs": f"{addresses.conversation(fixtures.MAIN)}/outputs",
    "output": addresses.output(fixtures.MAIN, fixtures.LOG), "saved": "/saved",
}


@PAGES.check("screen reader: landmarks, one heading of the first level, language, a title", BOTH)
async def landmarks(visit):
    titles = set()
    for name, path in PAGES_OF.items():
        await visit.open(path)
        page = visit.page
        await expect(page.locator("body")).to_have_attribute("data-page", name)
        for role in ("banner", "main", "contentinfo"):
            await expect(page.get_by_role(role)).to_have_count(1)
        await expect(page.get_by_role("heading", level=1)).to_have_count(1)
        await expect(page.get_by_role("navigation", name="Pages", exact=True)).to_have_count(1)
        await expect(page.locator("html[lang=en]")).to_have_count(1)
        titles.add(await page.title())
    same("titles", len(titles), len(PAGES_OF))


@PAGES.check("screen reader: the names of tables, regions, fields and buttons", BOTH)
async def named(visit):
    page = visit.page
    await visit.open("/")
    await expect(page.get_by_role("table")).to_have_accessible_name(ANY)
    await expect(page.get_by_role("searchbox")).to_have_accessible_name(ANY)
    await expect(page.get_by_role("columnheader")).not_to_have_count(0)
    await expect(page.get_by_role("rowheader", name=fixtures.MAIN)).to_have_count(1)
    await visit.open(addresses.conversation(fixtures.MAIN))
    await expect(page.get_by_role("region", name="Messages")).to_have_count(1)
    outputs = page.get_by_role("complementary", name="Outputs").or_(
        page.get_by_role("region", name="Outputs", exact=True)
    )
    await expect(outputs).to_have_count(1)
    await visit.open(addresses.output(fixtures.MAIN, fixtures.LOG))
    await expect(page.get_by_role("region", name="Lines of the output")).to_have_count(1)
    await expect(page.get_by_role("status")).to_have_count(1)
    if visit.form.script:
        await expect(page.get_by_role("slider", name="Position in the output")).to_have_count(1)


@PAGES.check("screen reader: what comes and what was found is said", SCRIPT, on="live")
async def said(visit):
    store, name = visit.place.store, writer.fresh("said")
    await visit.apart(store.put, name, "one", "".join(f"row {number}\n" for number in range(1, 3001)))
    await visit.open(addresses.output(name, "artifacts/tool/one.txt"))
    status = visit.page.get_by_role("status")
    await visit.page.locator("#query").fill("row 77$")
    await expect(status).to_contain_text("1")
    await visit.open(addresses.conversation(name))
    before = await status.inner_text()
    await visit.apart(store.say, name, {"role": "assistant", "content": "It is done."})
    await eventually(lambda: differs(status, before))


async def differs(status, before):
    return await status.inner_text() != before


@PAGES.check("keyboard alone: the first key leads past the header, and the focus can be seen", BOTH)
async def keyboard(visit):
    for path in PAGES_OF.values():
        await visit.open(path)
        await visit.page.keyboard.press("Tab")
        skip = visit.page.locator("a.skip")
        await expect(skip).to_be_focused()
        await expect(skip).to_be_in_viewport()
        await visit.page.keyboard.press("Tab")
        if not await visit.page.evaluate(VISIBLE_FOCUS):
            raise Failed(f"{path}: the focus is not seen")


# An outline, a border or a shadow that the element has only while it has the focus.
VISIBLE_FOCUS = """() => {
    const one = document.activeElement;
    const look = () => { const style = getComputedStyle(one);
        return [style.outlineStyle, style.outlineWidth, style.boxShadow, style.borderColor, style.backgroundColor].join(); };
    const focused = look();
    one.blur();
    const blurred = look();
    one.focus();
    return one !== document.body && focused !== blurred;
}"""


@PAGES.check("keyboard alone: every link and button is reached, and nothing holds the focus", SCRIPT)
async def reached(visit):
    await visit.open(addresses.output(fixtures.MAIN, fixtures.SHORT))
    wanted = await visit.page.evaluate(FOCUSABLE)
    seen = set()
    for _ in range(wanted + 20):
        await visit.page.keyboard.press("Tab")
        seen.add(await visit.page.evaluate("() => [...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    if len(seen) < wanted:
        raise Failed(f"{len(seen)} of {wanted} are reached")
    return f"{wanted} reached"


FOCUSABLE = """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
    .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled && one.tabIndex >= 0).length"""
