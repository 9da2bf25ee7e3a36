"""The table of conversations."""

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, fixtures
from web.browser import eventually
from web.finding import attributes, has, same, says, texts
from web.forms import BOTH, PLAIN, SCRIPT
from web.registry import PAGES
from web.writer import fresh

ROWS = "#conversations tbody tr"
NAMED = '#conversations tr[data-conversation="{}"]'
COLUMNS = ("name", "used", "outputs", "bytes", "stored", "handed", "saved", "errors")


async def names(page):
    return await attributes(page.locator(ROWS), "data-conversation")


@PAGES.check("conversations: a table, the newest first", BOTH)
async def table(visit):
    await visit.open("/")
    heads = await texts(visit.page.locator("#conversations thead th"))
    same("columns", len(heads), len(COLUMNS))
    keys = await attributes(visit.page.locator("#conversations thead th a"), "href")
    for column, key in zip(COLUMNS, keys):
        has("a column", key, f"sort={column}")
    rows = await visit.apart(visit.place.store.json, "ls")
    order = [row["conversation"] for row in sorted(rows, key=lambda row: -row["modifiedAt"])]
    same("order", await names(visit.page), order)
    return f"{len(order)} rows"


@PAGES.check("conversations: the facts of a row are those of `ctxfs ls` and `ctxfs stats`", BOTH)
async def facts(visit):
    await visit.open("/")
    row = visit.page.locator(NAMED.format(fixtures.MAIN))
    await expect(row.locator("th[scope=row] a")).to_have_text(fixtures.MAIN)
    listed = next(
        one for one in (await visit.apart(visit.place.store.json, "ls")) if one["conversation"] == fixtures.MAIN
    )
    counts = (await visit.apart(visit.place.store.json, "stats"))["conversations"][fixtures.MAIN]
    cells = await row.locator("td").all_text_contents()
    used, outputs, size, stored, handed, saved, errors = cells[:7]
    same("outputs", outputs.strip(), str(listed["artifacts"]))
    same("errors", errors.split()[0], str(len(fixtures.FAILED)))
    says("bytes", size, listed["bytes"])
    says("stored", stored, counts["stored"]["tokens"])
    says("handed out", handed, counts["handed"]["tokens"])
    says("saved", saved, counts["savedTokens"])
    if await row.locator("time[datetime]").count() != 1:
        raise Failed(f"no time of the last use: {used!r}")


@PAGES.check("conversations: sorted by each column, both ways", BOTH)
async def sorting(visit):
    await visit.open("/")
    for key in COLUMNS:
        await visit.page.locator(f'#conversations thead a[href*="sort={key}"]').click()
        await visit.address_has(sort=key)
        head = visit.page.locator(
            "#conversations thead th[aria-sort=ascending], #conversations thead th[aria-sort=descending]"
        )
        await expect(head).to_have_count(1)
    for order, wanted in (("asc", sorted), ("desc", lambda found: sorted(found, reverse=True))):
        await visit.open(f"/?sort=name&order={order}")
        found = await names(visit.page)
        same(f"by name, {order}", found, wanted(found))
    await visit.open("/?sort=errors&order=desc")
    same("by errors", (await names(visit.page))[0], fixtures.MAIN)
    return f"{len(COLUMNS)} columns"


@PAGES.check("conversations: filter as you type", SCRIPT)
async def filter_typed(visit):
    await visit.open("/")
    await visit.page.evaluate("window.stayed = true")
    await visit.page.locator("#filter").press_sequentially("backup")
    await expect(visit.page.locator(ROWS)).to_have_count(1)
    same("rows", await names(visit.page), ["nightly-backup"])
    await visit.address_has(q="backup")
    await visit.page.locator("#filter").fill("")
    await expect(visit.page.locator(NAMED.format(fixtures.MAIN))).to_be_visible()
    if not await visit.page.evaluate("window.stayed"):
        raise Failed("the page was loaded anew")


@PAGES.check("conversations: filter without the script", PLAIN)
async def filter_sent(visit):
    await visit.open("/")
    await visit.page.locator("#filter").fill("backup")
    await visit.page.locator("#filter").press("Enter")
    await visit.address_has(q="backup")
    same("rows", await names(visit.page), ["nightly-backup"])
    same("the field", await visit.page.locator("#filter").input_value(), "backup")


@PAGES.check("conversations: the last one, and the line that says why it failed", BOTH)
async def last(visit):
    await visit.open("/")
    name, calls, code = fixtures.OTHERS[-1]
    href = await visit.page.locator("#last-conversation").get_attribute("href")
    same("the last conversation", href, addresses.conversation(name))
    has("the last failure", await visit.page.locator("#last-failure").inner_text(), str(code))
    line = visit.page.locator("#last-failure-line")
    has("its line", await line.inner_text(), f"error: {name} was refused")
    await visit.follow(line)
    path, _, fragment = visit.address()
    same("its address", (path, fragment), (addresses.output(name, f"artifacts/tool/call-{calls - 1}.txt"), "L401"))
    await expect(visit.page.locator("#L401")).to_contain_text("was refused")


@PAGES.check("conversations: 10,000 of them, in pages and by the filter", BOTH, on="many")
async def many(visit):
    await visit.open("/")
    await expect(visit.page.locator(ROWS)).to_have_count(100)
    has("how many", await visit.page.locator("main").inner_text(), f"{fixtures.MANY:,}")
    await visit.page.locator("nav.pager a[rel=next]").first.click()
    await visit.address_has(page=2)
    await visit.open("/?sort=name&order=asc&page=100")
    same("the last row", (await names(visit.page))[-1], f"agent-{fixtures.MANY - 1:05}")
    same("pages after the last", await visit.page.locator("nav.pager a[rel=next]").count(), 0)
    await visit.page.locator("#filter").fill("agent-0777")
    if not visit.form.script:
        await visit.page.locator("#filter").press("Enter")
    await expect(visit.page.locator(ROWS)).to_have_count(10)


@PAGES.check("conversations: a new one comes by itself", SCRIPT, on="live")
async def live(visit):
    await visit.open("/")
    name = fresh("new")
    await visit.apart(visit.place.store.say, name, {"role": "user", "content": "Begin."})
    await expect(visit.page.locator(NAMED.format(name))).to_be_visible()
    await eventually(lambda: is_first(visit.page, name))


async def is_first(page, name):
    # Others may have begun meanwhile.
    return name in (await names(page))[:10]
