"""Who may come in: the token, the cookie, Host, Origin, methods, and the headers of every answer."""

import contextlib
import socket
import time

from hosts.report import Failed

from web import addresses, fixtures
from web.finding import has, same
from web.forms import ALONE
from web.registry import ATTACKS
from web.server import Server

MAIN = addresses.conversation(fixtures.MAIN)
LOG = addresses.output(fixtures.MAIN, fixtures.LOG)
RAW = addresses.output(fixtures.MAIN, fixtures.LOG, "raw")
ROUTES = [
    "/",
    "/saved",
    MAIN,
    f"{MAIN}/outputs",
    LOG,
    RAW,
    addresses.output(fixtures.MAIN, fixtures.IMAGE, "image"),
    "/events?watch=/",
    f"/search/stream?conversation={fixtures.MAIN}&q=error&tab=abcdefgh",
    "/?part=table",
    "/nothing",
]
STATIC = ["/static/page.css", "/static/page.js"]
POLICY = ("default-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'", "object-src 'none'")
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}


def hardened(path, answer):
    policy = answer.headers.get("content-security-policy", "")
    for part in POLICY:
        has(f"policy of {path}", policy, part)
    for word in ("unsafe", "data:", "http:", "*"):
        if word in policy:
            raise Failed(f"policy of {path}: {policy}")
    for name, value in HEADERS.items():
        same(f"{name} of {path}", answer.headers.get(name), value)
    if answer.headers.get("access-control-allow-origin"):
        raise Failed(f"{path} is open to other origins")


@ATTACKS.check("access: every answer has the headers of security", ALONE)
def headers(place):
    get, get_in = place.server.get, place.server.get_in
    for path in ROUTES:
        if not path.startswith("/events") and "/image/" not in path:
            hardened(path, get_in(path))
        hardened(f"{path}, refused", get(path))
    for path in STATIC:
        hardened(path, get(path))
    hardened("a method", get_in("/", method="POST"))
    hardened("a host", get_in("/", host="attacker.test"))
    image = get_in(addresses.output(fixtures.MAIN, fixtures.IMAGE, "image"))
    has("policy of an image", image.headers["content-security-policy"], "default-src 'none'; sandbox")
    same("what is kept of a page", get_in("/").headers["cache-control"], "no-store")
    same("script and style together are under 40 KB", sum(len(get(path).body) for path in STATIC) < 40_000, True)


def refused(what, answer):
    same(what, answer.status, 401)
    body = answer.body.decode()
    for word in (fixtures.MAIN, "log.txt", "/store", "invoice"):
        if word in body:
            raise Failed(f"{what}: the refusal names {word}")


@ATTACKS.check("access: without the token nothing is told", ALONE)
def without(place):
    server = place.server
    token, cookie = server.token, server.cookie()
    for path in ROUTES:
        refused(path, server.get(path))
    for wrong in (
        "",
        "x",
        token[:-1],
        token + "x",
        token.upper() + token.lower(),
        "a" * len(token),
        "%00",
        token[::-1],
    ):
        refused(f"token {wrong!r}", server.get(f"/?token={wrong}"))
        refused(f"cookie {wrong!r}", server.get("/", Cookie=f"{cookie['name']}={wrong}"))
    same("the cookie is not the token", cookie["value"] != token and token not in cookie["value"], True)
    refused("the token as the cookie", server.get("/", Cookie=f"{cookie['name']}={token}"))
    refused("a cookie by another name", server.get("/", Cookie=f"ctxfs-1={cookie['value']}"))
    refused("a token in a header", server.get("/", Authorization=f"Bearer {token}"))
    return f"a token of {len(token)} characters"


@ATTACKS.check("access: the token of one server is none of another, nor of the next on its port", ALONE)
def others(place):
    first = Server(place.store)
    try:
        cookie, token, port = first.cookie(), first.token, first.port
        refused("a token of another", place.server.get(f"/?token={token}"))
        refused(
            "a cookie of another", place.server.get("/", Cookie=f"{place.server.cookie()['name']}={cookie['value']}")
        )
    finally:
        first.stop()
    again = Server(place.store, "--listen", f"127.0.0.1:{port}")
    try:
        refused("an old token", again.get(f"/?token={token}"))
        refused("an old cookie", again.get("/", Cookie=f"{cookie['name']}={cookie['value']}"))
    finally:
        again.stop()


@ATTACKS.check("access: the link gives a cookie that no script and no other site has, and leaves the address", ALONE)
async def link(visit):
    answer = visit.server.get(f"{LOG}?line=7&token={visit.server.token}")
    same("status", answer.status, 303)
    same("location", answer.headers["location"], f"{LOG}?line=7")
    cookie = answer.headers["set-cookie"]
    has("cookie", cookie, "HttpOnly", "SameSite=Strict", "Path=/")
    if "Domain" in cookie:
        raise Failed(f"it is sent to other hosts: {cookie}")
    await visit.context.clear_cookies()
    await visit.page.goto(visit.server.link)
    same("the address", visit.page.url, f"{visit.server.base}/")
    same("what a script sees", await visit.page.evaluate("document.cookie"), "")


@ATTACKS.check("access: methods other than GET and HEAD are refused", ALONE)
def methods(place):
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "CONNECT", "get", "X"):
        for path in ("/", MAIN, LOG, RAW):
            answer = place.server.get_in(path, method=method)
            if answer.status not in (400, 405, 501) or fixtures.MAIN.encode() in answer.body:
                raise Failed(f"{method} {path}: {answer.status}")
    same("allowed", place.server.get_in("/", method="POST").headers["allow"], "GET, HEAD")
    head = place.server.get_in(LOG, method="HEAD")
    same("HEAD", (head.status, head.body), (200, b""))


@ATTACKS.check("access: hosts that are not this machine, and origins of other pages, are refused", ALONE)
def hosts(place):
    server, port = place.server, place.server.port
    for host in (
        "attacker.test",
        f"attacker.test:{port}",
        f"127.0.0.1.attacker.test:{port}",
        f"localhost.attacker.test:{port}",
        f"attacker.test@127.0.0.1:{port}",
        f"127.0.0.1:{port}.attacker.test",
        "localhostx",
        "",
        " ",
        "0x7f000001.test",
    ):
        answer = server.get_in("/", host=host or " ")
        if answer.status not in (400, 403):
            raise Failed(f"Host {host!r}: {answer.status}")
        with_token = server.get(f"/?token={server.token}", host=host or " ")
        if with_token.status not in (400, 403) or with_token.headers.get("set-cookie"):
            raise Failed(f"Host {host!r} with the token: {with_token.status}")
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        same(host, server.get_in("/", host=host).status, 200)
    for origin in ("http://attacker.test", f"http://127.0.0.1:{port + 1}", "null", f"https://127.0.0.1:{port}",
                   f"http://localhost:{port}", f"http://127.0.0.1:{port}.attacker.test", "http://127.0.0.1", "file://"):
        same(f"Origin {origin}", server.get_in("/", Origin=origin).status, 403)
    same("its own origin", server.get_in("/", Origin=server.base).status, 200)
    for site in ("cross-site", "same-site"):
        same(
            site, server.get_in("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image").status, 403
        )
        same(
            f"a frame, {site}",
            server.get_in("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe").status,
            403,
        )


@ATTACKS.check("access: paths that lead out of the store, and requests that are none", ALONE)
def paths(place):
    server = place.server
    for path in (
        "/../etc/passwd",
        "//etc/passwd",
        "/static/../../etc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        f"{RAW}/../../../../VERSION",
        f"/c/{fixtures.MAIN}/raw/..%2f..%2fVERSION",
        f"/c/{fixtures.MAIN}/raw/%2e%2e/%2e%2e/VERSION",
        f"/c/{fixtures.MAIN}/raw/manifest.jsonl%00.txt",
        "/c/%2e%2e/raw/VERSION",
        "/c/..%2f/raw/VERSION",
        "/c/.ctxfs",
        f"/c/{fixtures.MAIN}/raw/.ctxfs-counts.jsonl",
        "/c//raw//VERSION",
        "/c/%ff%fe",
        "/%00",
        "/c/" + "a" * 60_000,
    ):
        answer = server.get_in(path)
        if answer.status < 400 and not answer.headers.get("location", "x").startswith("/c"):
            raise Failed(f"{path[:80]}: {answer.status}")
        if answer.status >= 500 or b"root:x:" in answer.body:
            raise Failed(f"{path[:80]}: {answer.status}")
    for request in (
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://attacker.test/ HTTP/1.1\r\nHost: attacker.test\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    ):
        with contextlib.suppress(OSError), socket.create_connection((server.host, server.port), 10) as one:
            one.sendall(request)
            one.shutdown(socket.SHUT_WR)
            answer = one.recv(1 << 16)
            if b" 200 " in answer.split(b"\r\n")[0]:
                raise Failed(f"{request[:60]!r}: {answer[:60]!r}")
    same("it still answers", server.get_in("/").status, 200)


@ATTACKS.check("access: clients that send nothing, or read nothing, hold up nobody", ALONE)
def slow(place):
    server, held = place.server, []
    cookie = server.cookie()
    try:
        for number in range(300):
            one = socket.create_connection((server.host, server.port), 10)
            head = f"GET {RAW} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nCookie: {cookie['name']}={cookie['value']}\r\n"
            one.sendall(head.encode() + (b"\r\n" if number % 2 else b"X-More: "))
            held.append(one)
        began = time.monotonic()
        same("status", server.get_in("/").status, 200)
        took = time.monotonic() - began
        if took > 2:
            raise Failed(f"an answer took {took:.1f} s")
    finally:
        for one in held:
            one.close()
    return f"answered in {1000 * took:.0f} ms beside {len(held)} clients"
