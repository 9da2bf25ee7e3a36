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
mkdir -p render
touch render/__init__.py
cat > render/tiles.py <<'X'
import logging
import struct
import zlib

log = logging.getLogger("tiles")


class TileError(Exception):
    def __init__(self, zoom, x, y, why):
        super().__init__(zoom, x, y, why)
        self.zoom, self.x, self.y, self.why = zoom, x, y, why

    def __str__(self):
        return f"tile {self.zoom}/{self.x}/{self.y}: {self.why}"


def encode(zoom, x, y):
    raw = struct.pack("<HHB", x * 7, y * 7, zoom) * 50
    return zlib.compress(raw)


def decode(blob, zoom, x, y):
    raw = zlib.decompress(blob)
    return struct.unpack("<HHB", raw[:5])


def render(job):
    zoom, x, y = job
    blob = encode(zoom, x, y)
    if (x, y) == (11, 3):
        blob = blob[:6] + b"\0\0" + blob[8:]
    try:
        out = decode(blob, zoom, x, y)
    except zlib.error as e:
        raise TileError(zoom, x, y, "corrupt layer 'roads'") from e
    if (x + y) % 9 == 0:
        log.warning("tile %d/%d/%d has no data, error tile used instead", zoom, x, y)
    log.info("tile %d/%d/%d %d bytes", zoom, x, y, len(blob))
    return out
X
cat > render/__main__.py <<'X'
import logging
import multiprocessing as mp
import sys

from .tiles import render


def init():
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="[%(processName)s] %(levelname)s %(message)s", force=True)


def main():
    init()
    jobs = [(4, x, y) for x in range(16) for y in range(16)]
    ctx = mp.get_context("fork")
    with ctx.Pool(2, init) as pool:
        for n, _ in enumerate(pool.imap(render, jobs, chunksize=4), 1):
            if n % 64 == 0:
                logging.info("%d of %d tiles", n, len(jobs))


if __name__ == "__main__":
    try:
        main()
    finally:
        import json
        logging.info("summary follows")
        print(json.dumps({"layers": [{"name": n, "tiles": 256, "errors": 0, "skipped": i} for i, n in enumerate(["water", "roads", "rail", "labels", "parks"])]}, indent=2), file=sys.stderr)
X
run() { python -m render; rc=$?; ls -la --time-style=+%F render | sed 's/root root/dev dev/'; python -m pydoc multiprocessing.pool.Pool | head -120; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
