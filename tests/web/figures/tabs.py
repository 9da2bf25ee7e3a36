"""What many windows that follow live logs cost those who look at something else."""

import asyncio
import contextlib
import socket
import threading
import time
import urllib.parse

from web import addresses, writer
from web.figures.numbers import Times, cpu, first_byte, mib

TABS, LOGS, SECONDS, ASKED = 50, 5, 10, 200
HEAD = """\
| windows that follow | a page, first byte, median | 99 of 100 | processor of the server | its memory |
|---|---|---|---|---|"""


async def table(looking):
    place = await looking.place("live")
    yield HEAD
    yield f"| none | {await asyncio.to_thread(asked, place.server)} |"
    with contextlib.ExitStack() as stack:
        name = writer.fresh("crowd")
        logs = [stack.enter_context(writer.command(place.store, name, f"work-{number}")) for number in range(LOGS)]
        for log in logs:
            log.count(100)
        heard = [stack.enter_context(following(place.server, name, logs[number % LOGS].path)) for number in range(TABS)]
        stop = threading.Event()
        stack.callback(stop.set)
        threading.Thread(target=write, args=(logs, stop), daemon=True).start()
        await asyncio.sleep(1)
        yield f"| {TABS} windows of {LOGS} logs, each written 20 times a second | {await asyncio.to_thread(asked, place.server)} |"
        yield f"\nEvents that each of them heard: {min(map(len, heard))} to {max(map(len, heard))}"


def write(logs, stop):
    while not stop.wait(0.05):
        for log in logs:
            log.count(3)


def asked(server):
    times, used, until = Times(), cpu(server.process.pid), time.monotonic() + SECONDS
    began = time.monotonic()
    while time.monotonic() < until:
        times.add(first_byte(server, "/")[0])
        time.sleep(SECONDS / ASKED)
    share = (cpu(server.process.pid) - used) / (time.monotonic() - began)
    return f"{times.cell()} | {100 * share:.1f} % | {mib(server.resident())}"


@contextlib.contextmanager
def following(server, name, path):
    """Listens to the events of an output, and asks for its end at each, as the script does. Yields what was heard."""
    cookie, heard = server.cookie(), []
    topic = urllib.parse.quote(f"o/{name}/{path}")
    one = socket.create_connection((server.host, server.port))
    one.sendall(f"GET /events?watch={topic} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
                f"Cookie: {cookie['name']}={cookie['value']}\r\n\r\n".encode())

    def listen():
        with contextlib.suppress(OSError):
            while content := one.recv(1 << 16):
                if b"changed" in content:
                    heard.append(content)
                    server.get_in(addresses.output(name, path, part="lines", end=1))

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield heard
    finally:
        one.shutdown(socket.SHUT_RDWR)
        one.close()
