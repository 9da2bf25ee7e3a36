#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0 pip:pytest-json-report==1.5.0 pip:pytest-metadata==3.1.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 pytest-json-report==1.5.0 pytest-metadata==3.1.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p tests
cat > tests/test_slots.py <<'X'
import logging
import pytest

def slot(hour, minute):
    if not 0 <= hour < 24:
        raise ValueError(f"bad hour {hour}")
    return hour * 4 + minute // 15

@pytest.mark.parametrize("h", range(24))
def test_slot(h):
    logging.getLogger("slots").error("log of a passing test, nothing failed")
    assert slot(h, 0) == h * 4

@pytest.mark.parametrize("h", [-1, 24, 99])
def test_bad_hour_error(h):
    with pytest.raises(ValueError):
        slot(h, 0)

@pytest.mark.parametrize("m,want", [(0, 0), (14, 0), (15, 1), (59, 3), (60, 3)])
def test_minute(m, want):
    assert slot(0, m) == want
X
run() { pytest -q -p pytest_jsonreport -p pytest_metadata.plugin -p no:cacheprovider --json-report --json-report-file=report.json --json-report-omit=environment tests >/dev/null; rc=$?; cat report.json; echo; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
