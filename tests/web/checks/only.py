"""A server of one conversation: nothing of another is seen."""

import re
import socket
import time
import urllib.parse

from hosts.report import Failed
from playwright.async_api import expect

from web import addresses, hostile
from web.finding import attributes, same
from web.forms import ALONE, BOTH
from web.registry import ATTACKS

OWN, OTHER, NOBODY = hostile.OWN, hostile.OTHER, "others-0000"
SECRET = "artifacts/tool/secret.txt"
# Seconds for an event.
PATIENCE = 10


def own_only(path, body):
    # A message of its own conversation names this path.
    body = body.replace(f"/ctx/{OTHER}/{SECRET}".encode(), b"")
    for word in (OTHER, hostile.MARKER, *hostile.CONVERSATIONS[:1]):
        # The page may repeat what it was asked for.
        if word.encode() in body and urllib.parse.quote(word, safe="") not in path and word not in path:
            raise Failed(f"{path} tells of {word}")


@ATTACKS.check("--only: every page that a link leads to tells of its own conversation alone", ALONE, on="only")
def crawl(place):
    waiting, seen, served = ["/", "/saved", "/?sort=bytes", "/?q=others", f"/c/{OWN}?q={hostile.MARKER}"], set(), 0
    while waiting and len(seen) < 400:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = place.server.get_in(path)
        own_only(path, answer.body)
        served += len(answer.body)
        if answer.headers.get("content-type", "").startswith("text/html"):
            links = re.findall(r'(?:href|src)="(/[^"]*)"', answer.body.decode(errors="replace"))
            # Of each kind of page some are enough.
            waiting += [link.replace("&amp;", "&") for link in links if link.count("/o/") == 0 or len(waiting) < 200]
    return f"{len(seen)} addresses, {served:,} bytes"


@ATTACKS.check("--only: another conversation is answered as one that does not exist", ALONE, on="only")
def unknown(place):
    routes = [
        "/c/{}",
        "/c/{}/outputs",
        "/c/{}?part=messages&after=0",
        "/c/{}?part=outputs",
        "/saved?conversation={}",
        "/search/stream?conversation={}&q=MARKER&tab=abcdefgh",
        "/events?watch=c/{}",
        *(
            f"/c/{{}}/{route}/{path}"
            for route in ("o", "raw", "image")
            for path in (SECRET, "artifacts", "manifest.json", "")
        ),
    ]
    routes += ["/c/{}/o/" + SECRET + "?part=" + part for part in ("lines", "json", "hex", "standin")]
    for route in routes:
        if route.startswith("/events"):
            continue
        other, nobody = (place.server.get_in(route.format(name)) for name in (OTHER, NOBODY))
        alike = other.body.replace(OTHER.encode(), NOBODY.encode())
        same(route, (other.status, alike), (nobody.status, nobody.body))
        if "/search" not in route and "/saved" not in route:
            same(f"{route} is missing", other.status, 404)


@ATTACKS.check("--only: paths that lead from its own conversation to another", ALONE, on="only")
def paths(place):
    for path in (
        f"../{OTHER}/{SECRET}",
        f"..%2f{OTHER}%2f{SECRET.replace('/', '%2f')}",
        f"%2e%2e/{OTHER}/{SECRET}",
        f"artifacts/../../{OTHER}/{SECRET}",
        "artifacts/tool/linked.txt",
        f"/{OTHER}/{SECRET}",
        f"ctx:%2f%2f{OTHER}/{SECRET}",
        f"artifacts/tool/%2e%2e%2f%2e%2e%2f%2e%2e%2f{OTHER}%2f{SECRET}",
    ):
        for route in ("o", "raw", "image"):
            answer = place.server.get_in(f"/c/{OWN}/{route}/{path}")
            if hostile.MARKER.encode() in answer.body or answer.status < 300:
                raise Failed(f"{route}/{path}: {answer.status}")
    for query in (
        f"output=../{OTHER}/{SECRET}&q=MARKER",
        f"output={SECRET}&q=MARKER",
        f"conversation={OWN}&conversation={OTHER}&q=MARKER",
    ):
        answer = place.server.get_in(f"/search/stream?conversation={OWN}&tab=abcdefgh&{query}")
        if f"{hostile.MARKER} in an output".encode() in answer.body:
            raise Failed(f"{query}: {answer.body[:200]}")


@ATTACKS.check("--only: no event tells of another conversation", ALONE, on="only")
def events(place):
    cookie, store = place.server.cookie(), place.store
    topics = "&".join(
        f"watch={urllib.parse.quote(topic)}" for topic in (f"c/{OTHER}", f"o/{OTHER}/{SECRET}", "/", f"c/{OWN}")
    )
    with socket.create_connection((place.server.host, place.server.port), PATIENCE) as one:
        one.sendall(f"GET /events?{topics} HTTP/1.1\r\nHost: {place.server.host}:{place.server.port}\r\n"
                    f"Cookie: {cookie['name']}={cookie['value']}\r\n\r\n".encode())
        heard, until = one.recv(1 << 16), time.monotonic() + PATIENCE
        store.say(OTHER, {"role": "user", "content": "more of the other"})
        store.put(OTHER, f"more-{time.time_ns()}", hostile.MARKER)
        store.say(OWN, {"role": "user", "content": "more of its own"})
        while f"c/{OWN}".encode() not in heard and time.monotonic() < until:
            heard += one.recv(1 << 16)
    same("its own event came", f"c/{OWN}".encode() in heard, True)
    same("events of the other", OTHER.encode() in heard, False)


@ATTACKS.check("--only: the pages in a browser", BOTH, on="only")
async def pages(visit):
    await visit.open("/")
    same("conversations", await attributes(visit.page.locator("#conversations tbody tr"), "data-conversation"), [OWN])
    await visit.open("/saved")
    await expect(visit.page.locator("main")).not_to_contain_text(f"tool-{hostile.MARKER}")
    visit.statuses.add(404)
    answer = await visit.open(addresses.conversation(OTHER))
    same("status", answer.status, 404)
