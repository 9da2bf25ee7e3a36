#!/bin/bash
# needs: python3 jq
# packages: pip:ruff==0.17.6
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in ruff==0.17.6; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
LIB=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p app; touch app/__init__.py
cp $LIB/sched.py $LIB/shelve.py $LIB/netrc.py $LIB/fnmatch.py $LIB/colorsys.py app/
cat > app/report.py <<'X'
"""Monthly report."""
import os, sys
import json
from collections import OrderedDict


def load(path, cache={}):
    try:
        with open(path) as f:
            return json.load(f)
    except:
        return None


def render(rows):
    l = []
    for row in rows:
        l.append("%s: %s error" % (row["name"], row["failed"]))
    if rows == None:
        raise NotImplemented
    return os.linesep.join(l) + missing_footer(rows)
X
cat > ruff.toml <<'X'
target-version = "py311"
[lint]
select = ["E", "F", "B", "UP", "SIM"]
X
run() { ruff check --no-cache --output-format json app | jq -c .; return ${PIPESTATUS[0]}; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
