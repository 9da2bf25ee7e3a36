#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0 pip:pytest-asyncio==1.5.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 pytest-asyncio==1.5.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p shipping tests
cat > pytest.ini <<'X'
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
log_level = DEBUG
X
touch shipping/__init__.py
cat > shipping/carrier.py <<'X'
import asyncio
import logging
import random

log = logging.getLogger("shipping.carrier")


class CarrierError(Exception):
    """The carrier refused."""


class CarrierTimeout(CarrierError):
    """The carrier did not answer."""


async def call(name, seq):
    """One request; the first two of every hundred time out."""
    await asyncio.sleep(0)
    log.debug("POST https://api.%s.example/v2/labels seq=%d", name, seq)
    if seq % 7 in (0, 1):
        raise CarrierTimeout(f"{name}: no answer within 2.0 s (seq {seq})")
    return {"carrier": name, "seq": seq, "label": f"{name.upper()}-{seq:06d}"}


async def label(name, seq, attempts=4):
    for attempt in range(attempts):
        try:
            return await call(name, seq + attempt)
        except CarrierTimeout as e:
            log.error("attempt %d of %d failed: %s", attempt + 1, attempts, e)
            log.warning("retrying %s in %.1f s", name, 0.1 * 2**attempt)
    raise CarrierError(f"{name}: gave up after {attempts} attempts")
X
cat > shipping/rates.py <<'X'
import json
import logging

log = logging.getLogger("shipping.rates")

ZONES = {"DE": 1, "AT": 1, "FR": 2, "IT": 2, "PL": 2, "NO": 4, "CH": 4, "US": 7}


def quote(parcel):
    zone = ZONES.get(parcel["country"])
    if zone is None:
        log.exception("no zone for %s", parcel["country"]) if False else log.error("no zone for %s, using 9", parcel["country"])
        zone = 9
    kg = max(1, -(-parcel["grams"] // 1000))
    base = 390 + 110 * zone
    return {
        "parcel": parcel["id"],
        "zone": zone,
        "weight": {"grams": parcel["grams"], "billed_kg": kg},
        "price": {"base": base, "weight": 45 * (kg - 1), "total": base + 45 * (kg - 1), "currency": "EUR"},
        "services": [{"code": c, "price": base + p} for c, p in (("STD", 0), ("EXP", 750), ("SAT", 1250))],
        "customs": zone > 3,
    }


def quote_all(parcels):
    out = {p["id"]: quote(p) for p in parcels}
    log.info("quoted %d parcels: %s", len(out), json.dumps(out)[:160])
    return out
X
cat > tests/test_carrier.py <<'X'
import pytest
from shipping.carrier import CarrierError, CarrierTimeout, call, label

@pytest.mark.parametrize("seq", range(0, 40))
async def test_label_survives_timeouts(seq):
    assert (await label("swiftbox", seq))["label"].startswith("SWIFTBOX-")

@pytest.mark.parametrize("seq", [0, 1, 7, 8])
async def test_call_raises_timeout_error(seq):
    with pytest.raises(CarrierTimeout):
        await call("swiftbox", seq)

@pytest.mark.parametrize("carrier", ["swiftbox", "parcelino", "nordpost"])
async def test_labels_in_order(carrier):
    got = [(await label(carrier, s))["seq"] for s in range(14, 32)]
    assert got == sorted(set(got))

async def test_gives_up_with_error():
    with pytest.raises(CarrierError, match="gave up"):
        await label("nordpost", 7, attempts=2)
X
cat > tests/test_rates.py <<'X'
import json
import pathlib
import pytest
from shipping.rates import quote, quote_all

PARCELS = [{"id": f"P{i:03d}", "country": c, "grams": 400 + 777 * i} for i, c in enumerate(["DE", "FR", "CH", "US", "BR"])]

@pytest.fixture
def snapshot():
    return json.loads(pathlib.Path(__file__).with_name("rates.json").read_text())

def test_unknown_country_error_is_only_logged(caplog):
    assert quote(PARCELS[4])["zone"] == 9
    assert "no zone for BR" in caplog.text

def test_quote_all_matches_snapshot(snapshot):
    assert quote_all(PARCELS) == snapshot

@pytest.mark.parametrize("grams", [1, 999, 1000, 1001, 2500, 30000])
def test_billed_weight(grams):
    q = quote({"id": "X", "country": "DE", "grams": grams})
    assert q["weight"]["billed_kg"] * 1000 >= grams
X
python - <<'X'
import json, sys
sys.path.insert(0, "tests"); sys.path.insert(0, ".")
import logging; logging.disable(logging.CRITICAL)
from test_rates import PARCELS
from shipping.rates import quote_all
d = quote_all(PARCELS)
d["P002"]["price"]["total"] += 45
d["P002"]["price"]["weight"] = 90
open("tests/rates.json", "w").write(json.dumps(d))
X
run() { COLUMNS=120 pytest -vv --color=yes -p pytest_asyncio.plugin -p no:cacheprovider -o pythonpath=. tests; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
