#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0 pip:pytest-cov==7.1.0 pip:SQLAlchemy==2.1.9
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 pytest-cov==7.1.0 SQLAlchemy==2.1.9; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p fail2ban tests; touch fail2ban/__init__.py
cat > fail2ban/parse.py <<'X'
import re
import warnings


class ParseError(Exception):
    pass


class FatalError(ParseError):
    pass


PATTERN = re.compile(r"^(?P<level>[A-Z]+): (?P<text>.*?)( from (?P<host>[0-9.]+))?$")


def parse(line):
    m = PATTERN.match(line)
    if not m:
        raise ParseError(f"bad line: {line!r}")
    if m["level"] == "FATAL":
        raise FatalError(m["text"])
    if m["level"] == "FAILURE":
        warnings.warn("level FAILURE is deprecated, use ERROR", DeprecationWarning, stacklevel=2)
    return m.groupdict()


def count(lines):
    out = {}
    for line in lines:
        try:
            host = parse(line)["host"]
        except FatalError:
            raise
        except ParseError as e:
            print("skipped:", e)
            continue
        out[host] = out.get(host, 0) + 1
    return out
X
cat > tests/test_parse.py <<'X'
import logging
import pytest
from fail2ban.parse import FatalError, ParseError, count, parse

LEVELS = ["ERROR", "FAILED", "FAILURE", "CRITICAL", "PANIC", "EXCEPTION", "TIMEOUT"]
TEXTS = ["Connection refused", "Segmentation fault", "No such file or directory", "Permission denied", "Traceback (most recent call last)", "assertion failed"]

@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("level", LEVELS)
def test_failed_login(level, text):
    assert parse(f"{level}: {text} from 10.0.0.1")["text"] == text

@pytest.mark.parametrize("line", ["", "error", "error: x", "E", "ERROR x", "Error: failed"])
def test_raises_parse_error(line):
    with pytest.raises(ParseError):
        parse(line)

def test_fatal_error():
    logging.getLogger("fail2ban").critical("FATAL: this is a test")
    with pytest.raises(FatalError):
        count(["FATAL: disk failure"])

@pytest.mark.xfail(reason="error in the regular expression for IPv6", strict=True)
@pytest.mark.parametrize("host", ["::1", "fe80::1"])
def test_ipv6_error(host):
    assert parse(f"ERROR: x from {host}")["host"] == host

@pytest.mark.skip(reason="fails without network: OSError: [Errno 101] Network is unreachable")
def test_remote_errors():
    pass

@pytest.mark.parametrize("n", range(50))
def test_count_errors(n):
    print("ERROR: printed by a passing test")
    assert count([f"ERROR: x from 10.0.0.{i % 5}" for i in range(n)] + ["garbage"] ).get("10.0.0.0", 0) == (n + 4) // 5
X
run() { pytest -v -rA --cov=fail2ban --cov-report=term-missing -p pytest_cov -p no:cacheprovider -o pythonpath=. tests; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
