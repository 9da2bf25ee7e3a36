#!/bin/bash
# needs: node script
# packages: npm:vite@8.3.8 npm:rollup@4.68.7 npm:esbuild@0.28.2
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in vite@8.3.8 rollup@4.68.7 esbuild@0.28.2; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p src/widgets
echo '{"name":"dash","version":"1.0.0","private":true,"type":"module","scripts":{"build:lib":"rollup -c","build:app":"vite build","build:worker":"esbuild src/worker.js --bundle --outfile=dist/worker.js"}}' > package.json
python3 - <<'P'
for i in range(140):
    open(f"src/widgets/error-badge-{i}.js", "w").write(f"export const badge{i} = (n) => `${{n}} errors in {i}`\n")
open("src/main.js", "w").write("".join(f"import {{ badge{i} }} from './widgets/error-badge-{i}.js'\n" for i in range(140)) + "import { format } from './format.js'\nimport { retry } from './net.js'\ndocument.title = [" + ", ".join(f"badge{i}" for i in range(140)) + "].map((b) => b(0)).join() + format(1) + retry\n")
open("src/format.js", "w").write("import { pad, padEnd } from './strings.js'\nexport const format = (n) => pad(padEnd(String(n)))\n")
open("src/strings.js", "w").write("export const pad = (s) => s.padStart(4)\n")
open("src/net.js", "w").write("export const retry = async (f) => { try { return await f() } catch (error) { console.error('failed', error) } }\n")
open("src/worker.js", "w").write("import { retry } from './net.js'\nimport './widgets/error-badge-3.js'\nself.onmessage = () => retry(() => fetch('/errors'))\n")
open("index.html", "w").write("<!doctype html><script type=module src=/src/main.js></script>\n")
open("rollup.config.js", "w").write("""const slow = { name: 'slow', transform: async (c, id) => { await new Promise((r) => setTimeout(r, 1)); return null; } };
export default Array.from({ length: 60 }, (_, k) => k).map((k) => ({ input: `src/widgets/error-badge-${k}.js`, output: { file: `dist/lib${k}.js`, format: k ? 'es' : 'cjs' }, plugins: [slow] }));
""")
P
cat > build.sh <<'X'
stty cols 110 rows 40
npm run build:lib; npm run build:app; rc=$?; npm run build:worker
npx --no-install vite build --ssr src/worker.js --logLevel info
for i in $(seq 0 70); do node_modules/.bin/esbuild --log-level=info src/widgets/error-badge-$i.js --outfile=dist/e$i.js; done
exit $rc
X
run() { TERM=xterm-256color script -qec 'bash build.sh' /dev/null; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
