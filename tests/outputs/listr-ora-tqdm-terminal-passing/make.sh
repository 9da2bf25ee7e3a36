#!/bin/bash
# needs: node python3 script
# packages: npm:listr2@9.0.5 npm:ora@9.4.1
# packages: pip:tqdm==4.70.1 pip:rich==15.0.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in listr2@9.0.5 ora@9.4.1; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in tqdm==4.70.1 rich==15.0.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
modules
clean() { sed -u -e "s#$VENV#/home/dev/venv#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
echo '{"name":"release","version":"1.0.0","private":true,"type":"module"}' > package.json
cat > release.js <<'X'
import { Listr } from 'listr2';
import ora from 'ora';
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
await new Listr([
  { title: 'Check error budget', task: async (_, t) => { for (let i = 0; i < 5; i++) { await wait(60); t.output = `service ${i}: 0 errors of 1000`; } } },
  { title: 'Build', task: (_, t) => t.newListr(['core', 'errors', 'web'].map((n) => ({ title: `build ${n}`, task: async (_, u) => { for (let i = 0; i < 4; i++) { await wait(70); u.output = `${n}: chunk ${i}`; } } })), { concurrent: true }) },
  { title: 'Flaky upload', retry: { tries: 3, delay: 20 }, task: async (_, t) => { await wait(90); if (t.isRetrying()?.count === undefined || t.isRetrying().count < 2) throw new Error('socket hang up'); } },
], { rendererOptions: { collapseErrors: false } }).run();
const s = ora('Uploading 0 of 20').start();
for (let i = 1; i <= 20; i++) { await wait(70); s.text = `Uploading ${i} of 20, 0 failed`; }
s.succeed('Uploaded 20 files, 0 failed');
ora('2 old error reports removed').info();
X
cat > verify.py <<'X'
import time
from rich.progress import track
from tqdm import tqdm
for f in tqdm(range(60), desc="verify", unit="file", ncols=80):
    time.sleep(0.02)
    if f == 30:
        tqdm.write("file 30: checksum failed, downloaded again: ok")
for i in track(range(30), description="sign"):
    time.sleep(0.04)
print("release 1.0.0 is complete: 60 files, 0 errors")
X
run() { TERM=xterm-256color script -qec 'stty cols 90 rows 30; node release.js && python verify.py' /dev/null; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
