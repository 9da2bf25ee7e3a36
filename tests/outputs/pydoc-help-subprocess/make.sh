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
run() { PAGER=cat python -m pydoc subprocess; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
