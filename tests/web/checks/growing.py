"""A conversation that grows while it is looked at."""

import re

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, writer
from web.finding import same
from web.forms import PLAIN, SCRIPT
from web.registry import PAGES

MESSAGE = "#messages article.message"


@PAGES.check("conversation: messages and outputs come by themselves, and are told of", SCRIPT, on="live")
async def grows(visit):
    store, name = visit.place.store, writer.fresh("growing")
    await visit.apart(store.say, name, {"role": "user", "content": "Begin, please."})
    await visit.open(addresses.conversation(name))
    await expect(visit.page.locator(MESSAGE)).to_have_count(1)
    await visit.page.evaluate("window.stayed = true")
    await visit.apart(store.say, name, {"role": "assistant", "content": "I begin at once."})
    await expect(visit.page.locator(f"{MESSAGE}[data-role=assistant]")).to_contain_text("I begin at once.")
    await expect(visit.page.get_by_role("status")).to_have_text(re.compile(r"\S"))
    with writer.command(store, name, "work") as live:
        live.count(5)
        await expect(visit.page.locator(f'#outputs tr[data-output="{live.path}"]')).to_have_count(1)
        await expect(visit.page.locator(f'#messages section.call[data-output="{live.path}"]')).to_have_count(1)
        await visit.apart(live.end)
    await expect(visit.page.locator(f'#messages section.call[data-output="{live.path}"]')).to_have_attribute(
        "data-exit", "0"
    )
    await visit.apart(store.put, name, "later", "error: refused\n" * 3000, exit_code=4)
    await expect(visit.page.locator('#outputs tr[data-output="artifacts/tool/later.txt"]')).to_have_attribute(
        "data-failed", "true"
    )
    if not await visit.page.evaluate("window.stayed"):
        raise Failed("the page was loaded anew")
    same("messages", await visit.page.locator(f"{MESSAGE}[data-role=user]").count(), 1)


@PAGES.check("conversation: what came is there when the page is loaded again", PLAIN, on="live")
async def again(visit):
    store, name = visit.place.store, writer.fresh("growing")
    await visit.apart(store.say, name, {"role": "user", "content": "Begin, please."})
    await visit.open(addresses.conversation(name))
    with writer.in_mount(visit.place.mount, name, "made.txt") as file:
        file.write("one line\n")
        await visit.page.reload()
        await expect(visit.page.locator('#outputs tr[data-output="artifacts/tool/made.txt"]')).to_have_count(1)
