#!/bin/bash
# needs: python3
# packages: none
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in ; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p sync
touch sync/__init__.py
cat > sync/client.py <<'X'
import json
import logging
import random

log = logging.getLogger("sync.client")


class ApiError(Exception):
    pass


class TransientApiError(ApiError):
    pass


class SyncError(Exception):
    pass


class FakeTransport:
    """Answers like the partner's API does."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def get(self, path):
        if self.random.random() < 0.4:
            raise ConnectionResetError(104, "Connection reset by peer")
        n = int(path.rsplit("=", 1)[1])
        rows = [{"sku": f"S{n * 10 + i:05d}", "qty": self.random.randint(0, 99), "price": "12.50"} for i in range(10)]
        if n == 61:
            rows[7]["price"] = "12,50"
        return json.dumps({"page": n, "rows": rows})


class Client:
    def __init__(self, transport):
        self.transport = transport

    def page(self, n, attempts=10):
        for attempt in range(1, attempts + 1):
            try:
                return json.loads(self.transport.get(f"/v1/stock?page={n}"))
            except ConnectionResetError as e:
                log.warning("attempt %d/%d for page %d failed: %s, retrying", attempt, attempts, n, e)
                if n % 20 == 0:
                    log.exception("connection lost while reading page %d", n)
        raise TransientApiError(f"page {n}: no answer after {attempts} attempts")
X
cat > sync/store.py <<'X'
import logging
from decimal import Decimal

from .client import SyncError

log = logging.getLogger("sync.store")


def convert(row):
    return {**row, "price": Decimal(row["price"])}


class Store:
    def __init__(self):
        self.rows = {}
        self.rejected = []

    def put(self, page):
        for row in page["rows"]:
            if row["qty"] == 0:
                log.error("row %s rejected: quantity is 0", row["sku"])
                self.rejected.append(row["sku"])
                continue
            try:
                self.rows[row["sku"]] = convert(row)
            except ArithmeticError as e:
                raise ValueError(f"bad price {row['price']!r} in row {row['sku']}") from e
        log.info("page %d stored, %d rows, %d rejected", page["page"], len(self.rows), len(self.rejected))


def run(client, store, pages):
    for n in range(1, pages + 1):
        try:
            store.put(client.page(n))
        except ValueError as e:
            raise SyncError(f"sync stopped at page {n} of {pages}") from e
X
cat > sync/__main__.py <<'X'
import atexit
import logging
import sys

from .client import Client, FakeTransport
from .store import Store, run

logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="2026-03-02 04:%(relativeCreated)06.0f %(levelname)-7s %(name)s %(message)s")
log = logging.getLogger("sync")
store = Store()


@atexit.register
def flush():
    log.info("flushing %d rows to the spool", len(store.rows))
    for i, sku in enumerate(sorted(store.rows)):
        if i % 6 == 0:
            log.info("spooled %s error_count=0 retries=0", sku)
    log.info("spool closed, %d rejected rows written to rejects.csv", len(store.rejected))
    for r in store.rejected:
        log.info("reject %s", r)


run(Client(FakeTransport(3)), store, 80)
X
run() { python -m sync; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
