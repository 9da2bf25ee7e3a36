#!/bin/bash
# needs: python3
# packages: pip:httpx==0.28.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in httpx==0.28.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p feed
touch feed/__init__.py
cat > feed/sources.py <<'X'
import asyncio
import logging
import random
import ssl

import httpx

log = logging.getLogger("feed.sources")


class FeedError(Exception):
    pass


def handler(request: httpx.Request) -> httpx.Response:
    host, n = request.url.host, int(request.url.params["n"])
    if host == "slow.example" and n % 3 == 0:
        raise httpx.ReadTimeout("timed out", request=request)
    if host == "gone.example" and n > 4:
        return httpx.Response(410, text="gone")
    if host == "odd.example" and n == 8:
        return httpx.Response(200, text='{"items": [1, 2,')
    if host == "busy.example" and n % 2:
        return httpx.Response(503, headers={"retry-after": "1"})
    return httpx.Response(200, json={"items": [f"{host}/{n}/{i}" for i in range(5)]})


async def page(client, host, n):
    for attempt in range(1, 4):
        try:
            r = await client.get(f"https://{host}/feed?n={n}")
            r.raise_for_status()
            return r.json()["items"]
        except httpx.ReadTimeout as e:
            log.error("%s page %d attempt %d: %s", host, n, attempt, e)
            await asyncio.sleep(0)
            n += 1
        except httpx.HTTPStatusError as e:
            if e.response.status_code != 503:
                raise FeedError(f"{host} answered {e.response.status_code} for page {n}") from e
            log.warning("%s is busy (503 Service Unavailable), page %d skipped", host, n)
            return []
    raise FeedError(f"{host}: page {n} not read")


async def crawl(client, host):
    out = []
    for n in range(12):
        out += await page(client, host, n)
        log.info("%s page %2d: %d items", host, n, len(out))
    return out
X
cat > feed/__main__.py <<'X'
import asyncio
import atexit
import logging
import sys

import httpx

from .sources import crawl, handler

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s:%(name)s:%(message)s")
HOSTS = ["slow.example", "busy.example", "gone.example", "fine.example", "odd.example", "calm.example"]


async def main():
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        results = await asyncio.gather(*(guarded(client, h) for h in HOSTS))
    print("feeds:", {h: len(r) for h, r in zip(HOSTS, results)})


async def guarded(client, host):
    """All pages of a host, then its archive."""
    try:
        async with asyncio.TaskGroup() as g:
            a = g.create_task(crawl(client, host), name=f"{host}-feed")
            b = g.create_task(crawl(client, "archive." + host), name=f"{host}-archive")
        return a.result() + b.result()
    except* ValueError as eg:
        logging.getLogger("feed").exception("%s skipped, its answers are no JSON", host)
        return_value.setdefault(host, [])
    return return_value[host]


return_value = {}


@atexit.register
def state():
    print("-- state of the queues --")
    for i in range(60):
        print(f"queue {i:02d} depth={i * 7 % 5} failed=0 last_error=none")


async def nightly():
    async with asyncio.TaskGroup() as g:
        g.create_task(main(), name="main")
        g.create_task(asyncio.sleep(5), name="watchdog")


asyncio.run(nightly())
X
run() { PYTHONUNBUFFERED=1 python -m feed; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
