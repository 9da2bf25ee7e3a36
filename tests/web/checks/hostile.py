"""Outputs, names and messages that an attacker has written: nothing of them is more than text."""

import asyncio
import urllib.parse

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, hostile
from web.browser import eventually
from web.finding import has, same
from web.forms import ALONE, PLAIN, SCRIPT
from web.registry import ATTACKS

OWN = addresses.conversation(hostile.OWN)
FORMS = (*SCRIPT, PLAIN[0])
DANGEROUS = """() => {
    const found = [];
    if (window.pwned !== undefined) found.push('it ran: ' + window.pwned);
    const leads = new Set(['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'poster', 'ping', 'background']);
    for (const one of document.querySelectorAll('*')) {
        for (const {name, value} of one.attributes) {
            if (/^on/i.test(name) || name === 'srcdoc' || name === 'srcset') found.push(name + ' of ' + one.tagName);
            if (leads.has(name) && new URL(value, location).origin !== location.origin) found.push(name + '=' + value);
        }
        if (/^(iframe|frame|object|embed|base|style|applet)$/i.test(one.tagName)) found.push(one.tagName);
        if (one.tagName === 'SCRIPT' && (new URL(one.src, location).pathname !== '/static/page.js' || one.textContent))
            found.push('a script: ' + one.outerHTML.slice(0, 80));
        if (one.tagName === 'META' && /refresh/i.test(one.httpEquiv)) found.push('a refresh');
    }
    return found.slice(0, 5);
}"""
CONTROLS = r"""() => {
    const text = document.documentElement.textContent + document.title;
    const found = text.match(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g) || [];
    return [...new Set(found)].map(one => one.codePointAt(0).toString(16));
}"""


def output(path, **query):
    return addresses.output(hostile.OWN, f"artifacts/tool/{path}", **query)


async def harmless(visit, path, within=10):
    """Opens a page: nothing runs, nothing leads elsewhere, and no character deceives."""
    visit.statuses.update({400, 403, 404})
    async with asyncio.timeout(within):
        answer = await visit.open(path)
    if answer.status >= 500:
        raise Failed(f"{path}: status {answer.status}")
    for what, script in (("there is", DANGEROUS), ("characters", CONTROLS)):
        if found := await visit.page.evaluate(script):
            raise Failed(f"{path}: {what} {found}")
    if visit.complaints:
        raise Failed(f"{path}: {visit.complaints[:3]}")


async def unchanged(visit):
    """Fails if the store is not as it was when it was filled."""
    before, now = visit.place.before, await asyncio.to_thread(hostile.digest, visit.place.store)
    others = [name for name in {*before, *now} if before.get(name) != now.get(name)]
    same("files that have changed", others, [])


@ATTACKS.check("hostile: outputs with script, event handlers and links", FORMS, on="hostile")
async def outputs(visit):
    for query in (
        {},
        {"view": "screen"},
        {"view": "json"},
        {"view": "hex"},
        {"end": 1},
        {"q": "-F <script>"},
        {"q": "pwned"},
    ):
        await harmless(visit, output("everything.txt", **query))
    for kind, payload in hostile.PAYLOADS.items():
        await harmless(visit, output(f"p-{kind}.txt"))
        line = visit.page.locator("#L1 code")
        has(kind, (await line.inner_text()).replace("\n", ""), payload)
        await line.hover()
        await line.click()
        await visit.page.keyboard.press("Tab")
        same(f"after looking at {kind}", await visit.page.evaluate(DANGEROUS), [])
    await unchanged(visit)
    return f"{len(hostile.PAYLOADS)} outputs"


@ATTACKS.check("hostile: a conversation, its list, its search, and what was saved", FORMS, on="hostile")
async def conversation(visit):
    for path in (
        "/",
        "/saved",
        OWN,
        f"{OWN}/outputs",
        f"{OWN}?q=pwned",
        f"{OWN}?q=%3Cscript%3E",
        f"/saved?conversation={hostile.OWN}",
        "/?q=%22%3E%3Cscript%3Ewindow.pwned%3D60%3C%2Fscript%3E",
        f"{OWN}?sort=%22onclick%3D1&order=%3Cb%3E",
    ):
        await harmless(visit, path)
        await visit.page.mouse.move(200, 300)
    await visit.open(OWN)
    while await (older := visit.page.locator("#messages a.older")).count():
        first = visit.page.locator("#messages article.message").first
        before = await first.get_attribute("id")
        await older.click()
        await eventually(lambda: differs(first, before))
        same("what there is", await visit.page.evaluate(DANGEROUS), [])
    await unchanged(visit)


@ATTACKS.check("hostile: names of files and of conversations", FORMS, on="hostile")
async def names(visit):
    for kind, name in hostile.NAMES.items():
        path = output(name)
        await harmless(visit, path)
        await expect(visit.page.locator("#lines"), f"the file with a name of the kind {kind}").to_contain_text(
            f"kind {kind}"
        )
    for name in hostile.CONVERSATIONS:
        await harmless(visit, addresses.conversation(name))
        await expect(visit.page.locator("main")).not_to_have_class("missing")
    for name in ("passwd.txt", "linked.txt", "pipe.txt"):
        answer = await visit.get(output(name))
        if answer.status != 404 or b"root:" in answer.body or hostile.MARKER.encode() in answer.body:
            raise Failed(f"{name} is answered with {answer.status}")
    await unchanged(visit)
    return f"{len(hostile.NAMES)} names"


@ATTACKS.check("hostile: names that were planted in the store", FORMS, on="hostile")
async def planted(visit):
    for path in ("/", OWN, f"{OWN}/outputs"):
        await harmless(visit, path)
    for name in hostile.PLANTED:
        await harmless(
            visit, f"/c/{hostile.OWN}/o/artifacts/tool/{urllib.parse.quote(name.decode(errors='backslashreplace'))}"
        )
    await unchanged(visit)


@ATTACKS.check("hostile: characters that turn the direction are shown by their codes", FORMS, on="hostile")
async def bidi(visit):
    await harmless(visit, output("bidi.txt"))
    text = await visit.page.locator("#L1 code").inner_text()
    for code in hostile.BIDI:
        has("the line", text, f"U+{code:04X}")
    same("marked", await visit.page.locator("#L1 .hidden-char").count(), len(hostile.BIDI))
    await harmless(visit, output(hostile.NAMES["bidi"]))
    has("a name", (await visit.page.locator("h1").inner_text()).lower(), "202e")


@ATTACKS.check("hostile: escape sequences", FORMS, on="hostile")
async def ansi(visit):
    for view in ("text", "screen"):
        await harmless(visit, output("moving.txt", view=view), within=20)
        await harmless(visit, output("ansi.txt", view=view), within=20)
        text = await visit.page.locator("#lines").inner_text()
        has(view, text, "click here", "<script>window.pwned=31</script>")
        same("the title", "owned" in await visit.page.title(), False)
        for link in await visit.page.locator("#lines code a").all():
            raise Failed(f"a link: {await link.get_attribute('href')}")
        await visit.page.get_by_text("click here").first.click()
    await harmless(visit, output("overwritten.txt", view="text"))
    has("what is concealed", await visit.page.locator("#lines").inner_text(), "concealed words")
    raw = await visit.get(addresses.output(hostile.OWN, "artifacts/tool/overwritten.txt", "raw"))
    same("what was overwritten is in the download", hostile.HIDDEN.encode() in raw.body, True)


@ATTACKS.check("hostile: a million tags, on one line and on many", FORMS, on="hostile")
async def tags(visit):
    for name in ("tags-one-line", "tags-many-lines"):
        for query in ({}, {"end": 1}, {"view": "screen"}, {"q": "-F <b>"}, {"line": hostile.TAGS}):
            await harmless(visit, output(f"{name}.txt", **query), within=30)
            same(
                "elements of the output",
                await visit.page.locator("#lines b, #lines i, #results b, #results i").count(),
                0,
            )
        held = await visit.page.evaluate("() => document.querySelectorAll('*').length")
        if held > 20_000:
            raise Failed(f"{name}: {held:,} elements")


@ATTACKS.check("hostile: JSON, nested deep, with keys that are no names", FORMS, on="hostile")
async def json_(visit):
    for name in ("hostile-json.json", "deep.json", "deep.txt"):
        await harmless(visit, output(name), within=30)
        await harmless(visit, output(name, view="json"), within=30)
    await visit.open(output("hostile-json.json", view="json"))
    has("the tree", await visit.page.locator("#tree").inner_text(), "__proto__", "<script>", "constructor")
    for path in (
        ".",
        "..",
        ".items[",
        '."',
        "[999999999999]",
        "' or 1",
        ".__proto__",
        "$(id)",
        "." * 5000,
        "[0]" * 2000,
    ):
        await harmless(visit, output("hostile-json.json", view="json", json=path))


@ATTACKS.check("hostile: no download and no image is a page", ALONE, on="hostile")
async def downloads(visit):
    for name in ("page.html", "picture.svg", "code.js", "both.gif", "page.xhtml", "page.pdf"):
        raw = await visit.get(addresses.output(hostile.OWN, f"artifacts/tool/{name}", "raw"))
        if raw.headers["content-type"] not in ("text/plain; charset=utf-8", "application/octet-stream"):
            raise Failed(f"{name} is sent as {raw.headers['content-type']}")
        has(name, raw.headers["content-disposition"], "attachment")
        same(name, raw.headers["x-content-type-options"], "nosniff")
        image = await visit.get(addresses.output(hostile.OWN, f"artifacts/tool/{name}", "image"))
        if image.status != 404 and (
            image.headers["content-type"] != "image/gif" or "sandbox" not in image.headers["content-security-policy"]
        ):
            raise Failed(f"{name} is shown as {image.headers['content-type']}")
    await harmless(visit, addresses.output(hostile.OWN, "artifacts/tool/both.gif", "image"))
    await harmless(visit, output("both.gif"))


@ATTACKS.check("hostile: the name of a download stays one, and its header one line", ALONE, on="hostile")
async def download_names(visit):
    for kind, name in hostile.NAMES.items():
        answer = await visit.get(addresses.output(hostile.OWN, f"artifacts/tool/{name}", "raw"))
        same(kind, answer.status, 200)
        said = answer.headers["content-disposition"]
        if not said.startswith("attachment") or "\u202e" in said or "/" in said.split("''")[0]:
            raise Failed(f"{kind}: {said}")


async def differs(first, before):
    return await first.get_attribute("id") != before
