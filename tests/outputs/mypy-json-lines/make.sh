#!/bin/bash
# needs: python3
# packages: pip:mypy==2.4.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in mypy==2.4.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
LIB=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p legacy
for m in netrc mailcap nntplib sndhdr crypt pipes telnetlib; do cp $LIB/$m.py legacy/old_$m.py; done
touch legacy/__init__.py
sed -i '0,/^class NNTPError/s//def broken(n: int) -> str:\n    return n + None\n\nclass NNTPError/' legacy/old_nntplib.py
run() { mypy --output json --check-untyped-defs --cache-dir=/dev/null legacy; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
