"""A conversation: its messages, its calls, its outputs, and the search of all of it."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures, texts as contents
from web.browser import eventually
from web.finding import attributes, has, same, says, texts
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES

MAIN = addresses.conversation(fixtures.MAIN)
MESSAGE = "#messages article.message"
CALL = '#messages section.call[data-output="{}"]'
OUTPUTS = "#outputs tbody tr"


@PAGES.check("conversation: its messages in order, as they were written", BOTH)
async def messages(visit):
    await visit.open(MAIN)
    roles = await attributes(visit.page.locator(MESSAGE), "data-role")
    same("the first roles", roles[:3], ["system", "user", "assistant"])
    same(
        "the roles", [role for role in set(roles) if role not in ("system", "user", "assistant", "tool", "output")], []
    )
    said = visit.page.locator(f"{MESSAGE} .said")
    question = visit.page.locator(f"{MESSAGE}[data-role=user] .said").first
    same("the question", (await question.inner_text()).strip(), fixtures.QUESTION)
    await expect(said.filter(has_text="The ledger is locked")).to_contain_text("settle batch 7741 again")
    return f"{len(roles)} messages"


@PAGES.check("conversation: each call with its stand-in, as the model was given it", BOTH)
async def calls(visit):
    await visit.open(MAIN)
    for path, given in visit.place.given.items():
        shown = visit.page.locator(f"{CALL.format(path)} pre.stand-in").first
        same(f"stand-in of {path}", (await shown.text_content()).strip("\n"), given.replace("\r\n", "\n").strip("\n"))
    return f"{len(visit.place.given)} stand-ins"


@PAGES.check("conversation: exit code, duration and size of a call, and the link to its output", BOTH)
async def facts(visit):
    await visit.open(MAIN)
    log = visit.page.locator(CALL.format(fixtures.LOG)).first
    same("exit", await log.get_attribute("data-exit"), "101")
    same("failed", await log.get_attribute("data-failed"), "true")
    head = await log.locator("header").inner_text()
    has("the head of a call", head, "101", "cargo test")
    painted = visit.page.locator(CALL.format(fixtures.PAINTED)).first
    meta = await visit.apart(visit.place.store.meta, f"{fixtures.MAIN}/{fixtures.PAINTED}")
    head = await painted.locator("header").inner_text()
    has("the head of a command", head, "ms", f"{meta['size']:,}")
    await visit.follow(log.locator("a.output").first)
    await expect(visit.page.locator("body")).to_have_attribute("data-page", "output")
    same("its address", visit.address()[0], addresses.output(fixtures.MAIN, fixtures.LOG))


@PAGES.check("conversation: outputs that no message names are in it", BOTH)
async def unnamed(visit):
    await visit.open(MAIN)
    for path in (fixtures.PAINTED, fixtures.IMAGE, fixtures.BINARY):
        await expect(
            visit.page.locator(f"{MESSAGE}[data-role=output] section.call[data-output='{path}']")
        ).to_have_count(1)


@PAGES.check("conversation: the list of its outputs, errors marked", BOTH)
async def outputs(visit):
    await visit.open(MAIN)
    rows = visit.page.locator(OUTPUTS)
    same("outputs", sorted(await attributes(rows, "data-output")), sorted(fixtures.OUTPUTS))
    failed = visit.page.locator(f"{OUTPUTS}[data-failed=true]")
    same("errors", sorted(await attributes(failed, "data-output")), sorted(fixtures.FAILED))
    # Not by colour alone.
    for text in await texts(failed):
        if not any(word in text.lower() for word in ("exit", "fail", "error", "101", " 3")):
            raise Failed(f"nothing but a colour tells of the error: {text!r}")
    big = visit.page.locator(f'{OUTPUTS}[data-output="{fixtures.BIG}"]')
    cells = await big.locator("td").all_text_contents()
    has("tool", " ".join(cells), "shell/exec")
    size = len(contents.big())
    if not any(says_so(cell, size) for cell in cells):
        raise Failed(f"no cell has the size {size:,}: {cells}")


def says_so(cell, number):
    try:
        says("", cell, number)
    except Failed:
        return False
    return True


@PAGES.check("conversation: its outputs sorted, and the errors alone", BOTH)
async def sorting(visit):
    meta = {path: (await visit.apart(visit.place.store.meta, f"{fixtures.MAIN}/{path}")) for path in fixtures.OUTPUTS}
    await visit.open(MAIN)
    for key in ("time", "name", "tool", "size", "exit"):
        await visit.page.locator(f'#outputs thead a[href*="sort={key}"]').click()
        await visit.address_has(sort=key)
    for order in ("asc", "desc"):
        await visit.open(addresses.conversation(fixtures.MAIN, sort="size", order=order))
        found = await attributes(visit.page.locator(OUTPUTS), "data-output")
        same(order, found, sorted(found, key=lambda path: meta[path]["size"], reverse=order == "desc"))
    await visit.open(addresses.conversation(fixtures.MAIN, errors=1))
    found = await attributes(visit.page.locator(OUTPUTS), "data-output")
    same("errors alone", sorted(found), sorted(fixtures.FAILED))


@PAGES.check("conversation: search of all its outputs", SCRIPT)
async def search_typed(visit):
    await visit.open(MAIN)
    await visit.page.locator("#query").press_sequentially("ledger is locked|sdb1")
    hits = visit.page.locator("#results li.hit")
    await expect(hits).to_have_count(len(fixtures.NAMING_ERRORS))
    found = await attributes(hits, "data-output")
    same("where", sorted(found), fixtures.NAMING_ERRORS)
    await visit.address_has(q="ledger is locked|sdb1")
    await opened(visit)


@PAGES.check("conversation: search of all its outputs, without the script", PLAIN)
async def search_sent(visit):
    await visit.open(MAIN)
    await visit.page.locator("#query").fill("ledger is locked|sdb1")
    await visit.page.locator("#query").press("Enter")
    await visit.address_has(q="ledger is locked|sdb1")
    hits = visit.page.locator("#results li.hit")
    same("where", sorted(await attributes(hits, "data-output")), fixtures.NAMING_ERRORS)
    await opened(visit)


async def opened(visit):
    hit = visit.page.locator(f"#results li.hit[data-output='{fixtures.LOG}']")
    has("a hit", await hit.inner_text(), contents.ERRORS[5990])
    same("its line", await hit.get_attribute("data-line"), "5990")
    await visit.follow(hit.locator("a").first)
    await expect(visit.page.locator("#L5990")).to_contain_text("ledger is locked")


@PAGES.check("conversation: older messages, page by page", BOTH)
async def older(visit):
    await visit.open(addresses.conversation(fixtures.TALK))
    said = visit.page.locator(f"{MESSAGE} .said")
    await expect(said.last).to_contain_text(f"message number {fixtures.TALK_MESSAGES - 1}")
    same("a page", await said.count(), 40)
    for _ in range(3):
        first = await said.first.inner_text()
        await visit.page.locator("#messages a.older").click()
        await visit.page.wait_for_load_state("load")
        await eventually(lambda first=first: differs(said, first))
    await expect(said.first).to_contain_text("message number 0")


async def differs(said, text):
    return await said.count() and await said.first.inner_text() != text
