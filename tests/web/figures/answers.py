"""How soon pages begin, and how soon they are seen."""

import asyncio
import json

from web import addresses, fixtures
from web.figures.numbers import Times, first_byte, mib
from web.forms import ONE
from web.server import Server
from web.store import Store

ASKED, SEEN = 100, 15
# Outputs of the large store: so many conversations, and so many outputs of each.
CONVERSATIONS, OUTPUTS = 100, 1000
SEEN_SCRIPT = """() => new Promise(end => {
    const look = () => { const one = performance.getEntriesByName('first-contentful-paint')[0];
        one ? end(one.startTime / 1000) : setTimeout(look, 10); };
    look();
})"""
HEAD = """\
| store | page | first byte, median | 99 of 100 | bytes | first paint, median | 99 of 100 |
|---|---|---|---|---|---|---|"""


def output(path, **query):
    return addresses.output(fixtures.MAIN, path, **query)


WARM = {
    "conversations": "/",
    "a conversation": addresses.conversation(fixtures.MAIN),
    "an output": output(fixtures.LOG),
    "a log of 100,000 lines": output(fixtures.BIG, line=50_000),
    "JSON": output(fixtures.ISSUES),
    "a terminal": output(fixtures.PAINTED),
    "a search": output(fixtures.LOG, q="checkpoint"),
    "what was saved": "/saved",
}
LARGE = {"conversations": "/", "a conversation of 1,000": "/c/work-000", "its outputs": "/c/work-000/outputs",
         "an output": "/c/work-000/o/artifacts/tool/n-0500.txt", "what was saved": "/saved"}


async def table(looking):
    yield HEAD
    still, many = [await looking.place(name) for name in ("still", "many")]
    async for line in rows(looking, "the tests'", still.server, WARM):
        yield line
    async for line in rows(
        looking, "10,000 conversations", many.server, {"conversations": "/", "a filter": "/?q=agent-0777"}
    ):
        yield line
    server = await asyncio.to_thread(large, looking)
    try:
        async for line in rows(looking, "100,000 outputs", server, LARGE):
            yield line
        yield f"\nMemory of the server of 100,000 outputs: {mib(server.resident())}"
    finally:
        await asyncio.to_thread(server.stop)


async def rows(looking, store, server, pages):
    for name, path in pages.items():
        began, seen, size = Times(), Times(), 0
        await asyncio.to_thread(first_byte, server, path)
        for _ in range(ASKED):
            seconds, size = await asyncio.to_thread(first_byte, server, path)
            began.add(seconds)
        async with looking.visit(ONE, server) as visit:
            for _ in range(SEEN):
                await visit.open(path)
                seen.add(await visit.page.evaluate(SEEN_SCRIPT))
        yield f"| {store} | {name} | {began.cell()} | {size:,} | {seen.cell()} |"


def large(looking):
    """Fills a store with 100,000 outputs: one by the program, the others as its copies, with records of their own."""
    store = Store(looking.site.program, looking.scratch / "large")
    store.put("work-000", "first", "".join(f"row {number}\n" for number in range(100)))
    first = store.path / "context/work-000"
    content = (first / "artifacts/tool/first.txt").read_bytes()
    record = json.loads((first / "manifest.jsonl").read_text().splitlines()[-1])
    with (first / "manifest.jsonl").open("a") as manifest:
        for number in range(OUTPUTS):
            name = f"n-{number:04}"
            (first / f"artifacts/tool/{name}.txt").write_bytes(content)
            modified = (first / f"artifacts/tool/{name}.txt").stat().st_mtime_ns
            own = {**record, "path": f"artifacts/tool/{name}.txt", "call": name, "modified": modified}
            manifest.write(json.dumps(own, separators=(",", ":")) + "\n")
    fixtures.copies(first, (f"work-{number:03}" for number in range(1, CONVERSATIONS)))
    return Server(store)
