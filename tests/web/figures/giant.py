"""A log of 10 GB: a window, a scroll, its end, a search, memory; and `less` on the same file."""

import asyncio
import json
import os
import pty
import re
import select
import shutil
import signal
import time

from web import addresses
from web.browser import eventually
from web.checks.windows import shown
from web.figures.numbers import Times, first_byte, mib, ms, peak, private, renderers
from web.forms import ONE
from web.server import Server
from web.store import Store

GIGABYTES = float(os.environ.get("CTXFS_WEB_GIGABYTES", "10"))
BLOCK_LINES = 1_000_000
NAME, PATH = "giant", "artifacts/tool/giant.txt"
WHEELS, WINDOWS = 30, 60
# Seconds that `less` may take.
PATIENCE = 300


def block():
    """Returns a million lines, of which no two are alike."""
    return "".join(
        f"{number:07} INFO request {number * 7919 % 1_000_003} took {number % 977} ms\n"
        for number in range(BLOCK_LINES)
    ).encode()


def line_of(number):
    number = (number - 1) % BLOCK_LINES
    return f"{number:07} INFO request {number * 7919 % 1_000_003} took {number % 977} ms"


def made(looking):
    """Writes the log into a store; its last line is like no other."""
    store = Store(looking.site.program, looking.scratch / "giant")
    store.put(NAME, "small", "one line\n")
    file, lines = store.path / "context" / NAME / PATH, 0
    content = block()
    with file.open("wb") as out:
        while out.tell() + len(content) < GIGABYTES * 1e9:
            out.write(content)
            lines += BLOCK_LINES
        out.write(b"the very last line of all\n")
    return store, file, lines + 1


async def table(looking):
    store, file, lines = await asyncio.to_thread(made, looking)
    size = file.stat().st_size
    server = await asyncio.to_thread(Server, store)
    yield f"A log of {size / 1e9:.1f} GB, {lines:,} lines:\n"
    yield "| what | the page | `less` |\n|---|---|---|"
    try:
        async for row in looked(looking, server, file, size, lines):
            yield row
    finally:
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(shutil.rmtree, store.place)


async def looked(looking, server, file, size, lines):
    before = server.resident()
    less = lambda *words, until: asyncio.to_thread(in_less, file, words, until)
    async with looking.visit(ONE, server) as visit:
        seconds, _, _ = await less(until="0000010 INFO")
        yield f"| opened, its first lines are seen | {ms(await until_lines(visit, {}, line_of(1)))} | {ms(seconds)} |"
        at = size // 2
        seconds = await until_lines(visit, {"at": at}, None)
        beside, _, _ = await less("+50p", until="INFO request")
        yield f"| the middle, by bytes (`less +50p`) | {ms(seconds)} | {ms(beside)} |"
        seconds = await until_lines(visit, {"end": 1}, "the very last line of all")
        beside, memory, _ = await less("-n", "+G", until="the very last line")
        yield f"| the end (`less -n +G`) | {ms(seconds)} | {ms(beside)} |"
        number = lines // 2
        seconds = await until_lines(visit, {"line": number}, line_of(number))
        beside, memory, _ = await less("-N", f"+{number}g", until=line_of(number))
        yield f"| line {number:,}, the first time (`less +{number}g`) | {ms(seconds)} | {ms(beside)} |"
        again = await until_lines(visit, {"line": number + 12345}, line_of(number + 12345))
        yield f"| line {number + 12345:,}, after that | {ms(again)} | |"
        yield f"| a turn of the wheel by some screens, until its lines are there, median | {(await wheel(visit)).median()} | |"
        tabs = [await asyncio.to_thread(private, pid) for pid in await renderers(looking.chromium)]
        yield f"| memory of the tab; of `less` at line {number:,} | {mib(max(tabs))} | {mib(memory)} |"
    windows = await asyncio.to_thread(fragments, server, size)
    yield f"| a window of lines at some place, first byte, median | {windows.median()} | |"
    yield f"| 99 of 100 of these | {windows.cell().split(' | ')[1]} | |"
    found = await asyncio.to_thread(searched, server)
    beside, _, _ = await less("+/very last", until="the very last line")
    told = ms(found) if found else "out of time"
    by_less = f"more than {PATIENCE} s" if beside > PATIENCE else ms(beside)
    yield f"| a search that hits the last line alone (`less +/PATTERN`) | {told} | {by_less} |"
    memory = f"{mib(before)} before, {mib(server.resident())} after"
    yield f"| memory of the server, without that of files | {memory} | |"
    yield f"| its most, with files | {mib(peak(server.process.pid))} | |"


async def until_lines(visit, query, text):
    """Returns the seconds from the request of a page until lines of it are painted."""
    began = time.perf_counter()
    await visit.page.goto(visit.server.base + addresses.output(NAME, PATH, **query), wait_until="commit")
    lines = visit.page.locator("#lines .line code")
    await (lines.filter(has_text=text).first if text else lines.first).wait_for(timeout=120_000)
    return time.perf_counter() - began


async def wheel(visit):
    times = Times()
    await visit.page.goto(visit.server.base + addresses.output(NAME, PATH, line=1_000_000))
    await visit.page.locator("#text").hover()
    for _ in range(WHEELS):
        before = (await shown(visit.page))[-1]
        began = time.perf_counter()
        for _ in range(10):
            await visit.page.mouse.wheel(0, 4000)
        await eventually(lambda before=before: later(visit.page, before))
        times.add(time.perf_counter() - began)
    return times


async def later(page, before):
    numbers = await shown(page)
    return numbers and numbers[-1] > before


def fragments(server, size):
    times = Times()
    for number in range(WINDOWS):
        at = size * number // WINDOWS
        times.add(first_byte(server, addresses.output(NAME, PATH, part="lines", at=at))[0])
    return times


def searched(server):
    """Returns the seconds of a search of all of it; nothing if its time was over."""
    began = time.perf_counter()
    answer = server.get_in(f"/search/stream?conversation={NAME}&output={PATH}&q=very%20last&tab=figures-1")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    if not any(line["kind"] == "match" for line in lines):
        return None
    return time.perf_counter() - began


def in_less(file, words, until):
    """Returns the seconds until `less` shows a text on a terminal, and its memory then."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(
            "less",
            ["less", *words, str(file)],
            {"PATH": os.environ["PATH"], "TERM": "xterm", "LINES": "40", "COLUMNS": "120"},
        )
    seen = b""
    try:
        while (
            until.encode() not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)
            and time.perf_counter() < began + PATIENCE
        ):
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 1 << 16)
        seconds = time.perf_counter() - began
        return seconds, private(pid), seen
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
