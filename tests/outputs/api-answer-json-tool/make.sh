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
python - <<'P'
import json, random
r = random.Random(11)
states = ["succeeded", "succeeded", "succeeded", "failed", "running", "error"]
msgs = ["", "", "exit code 137: container was killed (out of memory)", "Error: connect ETIMEDOUT 10.2.0.7:5432", "assertion failed: total >= 0", "permission denied: /srv/cache"]
items = []
for i in range(130):
    s = r.choice(states)
    items.append({"id": f"run_{i:05d}", "workflow": r.choice(["nightly", "release", "error-budget", "failover-drill"]), "status": s, "attempt": r.randint(1, 3), "error": {"code": r.randint(1, 255), "message": r.choice(msgs[2:])} if s in ("failed", "error") else None,
        "labels": r.sample(["prod", "eu", "gpu", "retry"], 2), "duration_ms": r.randint(900, 99000), "links": {"self": f"https://ci.example.com/v1/runs/run_{i:05d}", "errors": f"https://ci.example.com/v1/runs/run_{i:05d}/errors"}})
json.dump({"object": "list", "has_more": True, "next_page": "c2VjdGlvbjEzMA", "total": 8213, "errors": [], "data": items}, open("runs.json", "w"))
P
run() { python -m json.tool --indent 2 runs.json; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
