"""Each page in each form: no wider than its window, and without a finding of axe-core."""

import dataclasses
import json

from hosts.report import Failed

from web import addresses, fixtures
from web.finding import same
from web.forms import EACH, HUGE, SCHEMES, Form
from web.registry import LOOKS


def output(path, **query):
    return addresses.output(fixtures.MAIN, path, **query)


CONVERSATION = addresses.conversation(fixtures.MAIN)
VIEWS = {
    "conversations": "/",
    "no conversation is left by the filter": "/?q=nothing+has+this+name",
    "a conversation": CONVERSATION,
    "a conversation that is searched": addresses.conversation(fixtures.MAIN, q="error"),
    "outputs": f"{CONVERSATION}/outputs",
    "an output": output(fixtures.LOG, line=4400) + "#L4410",
    "an output that is searched": output(fixtures.LOG, q="-C1 checkpoint"),
    "a long line": output(fixtures.LONG),
    "a terminal": output(fixtures.PAINTED),
    "JSON": output(fixtures.ISSUES, view="json", json=".items[3].user"),
    "hex": output(fixtures.BINARY),
    "an image": output(fixtures.IMAGE),
    "what was saved": "/saved",
    "a page that is missing": "/c/no-such-conversation",
}
# Elements that stick out of the window, unless something around them scrolls or cuts them.
STICKING_OUT = """() => {
    const edge = document.documentElement.clientWidth + 1;
    const cut = one => { for (let up = one; up && up !== document.body; up = up.parentElement)
        if (/auto|scroll|hidden|clip/.test(getComputedStyle(up).overflowX)) return true; return false; };
    return [...document.body.querySelectorAll('*')]
        .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > edge && !cut(one))
        .map(one => one.outerHTML.slice(0, 80)).slice(0, 3);
}"""
AXE = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations'], rules: {}});
    return found.violations.map(one => ({rule: one.id, help: one.help, times: one.nodes.length,
        first: one.nodes[0].target.join(' '), why: one.nodes[0].failureSummary}));
}"""


def add(name, path):
    @LOOKS.check(f"looks: {name}", (*EACH, *(Form(*HUGE, scheme) for scheme in SCHEMES)))
    async def look(visit):
        visit.statuses.add(404)
        await visit.open(path)
        await settled(visit)
        await fits(visit)
        await accessible(visit)


for one in VIEWS.items():
    add(*one)


@LOOKS.check("looks: the help", [form for form in EACH if form.script])
async def help_(visit):
    await visit.open("/")
    await visit.page.keyboard.press("?")
    await fits(visit)
    await accessible(visit)


@LOOKS.check("looks: what is refused", EACH)
async def refused(visit):
    visit.statuses.add(401)
    await visit.context.clear_cookies()
    answer = await visit.open("/")
    same("status", answer.status, 401)
    await fits(visit)
    await accessible(visit)


async def settled(visit):
    """Waits until a search has ended, and pictures are there."""
    await visit.page.wait_for_load_state("load")
    if "q=" in visit.page.url and visit.form.script and "/o/" in visit.page.url:
        await visit.page.locator("#results li.hit").first.wait_for()


async def fits(visit):
    wide = await visit.page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    if wide > 0:
        raise Failed(f"{wide} pixels wider than the window: {await visit.page.evaluate(STICKING_OUT)}")


async def accessible(visit):
    if visit.form.script:
        found = await findings(visit.page, visit.looking.axe)
    else:
        # axe-core needs timers, which a window without scripts does not have: here the script of the page is empty.
        async with visit.looking.visit(dataclasses.replace(visit.form, script=True), visit.server) as other:
            await other.page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
            await other.page.goto(visit.page.url)
            found = await findings(other.page, visit.looking.axe)
    if found:
        raise Failed(f"axe-core: {json.dumps(found)[:1000]}")


async def findings(page, axe):
    await page.evaluate(axe)
    return await page.evaluate(AXE)
