#!/bin/bash
# needs: node
# packages: npm:eslint@10.15.0 npm:@eslint/js@10.0.1 npm:prettier@3.10.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in eslint@10.15.0 @eslint/js@10.0.1 prettier@3.10.1; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p src/server src/client
echo '{"name":"site","version":"1.0.0","type":"module","scripts":{"lint":"eslint src","format":"prettier --check src"}}' > package.json
cat > eslint.config.js <<'X'
import js from '@eslint/js';
const globals = Object.fromEntries(['console', 'process', 'setTimeout', 'fetch', 'URL'].map((g) => [g, 'readonly']));
export default [{ ...js.configs.recommended, languageOptions: { globals } }, { rules: { 'no-console': 'warn', eqeqeq: 'warn', 'no-unused-vars': 'warn', 'prefer-const': 'warn', 'no-var': 'warn' } }];
X
python3 - <<'P'
for k, n in enumerate("auth billing cache errors failover geo health index jobs keys logs mail".split()):
    s = f"var last = null;\nexport class {n.title()}Error extends Error {{}}\n"
    for i in range(7):
        s += f"export function {n}{i}(value, error) {{\n  let out = value == null ? [] : [value];\n  if (out.length == 0) console.error('{n}{i} failed', value);\n  last = out;\n  return last;\n}}\n"
    if n == "failover":
        s += "export function next(hosts) {\n  for (const h of hosts) {\n    if (h.up = true) return h;\n  }\n  return pickRandom(hosts);\n}\n"
    if n == "jobs":
        s += "export async function run(job) {\n  switch (job.kind) {\n    case 'mail':\n      const to = job.to;\n      return to;\n    case 'mail':\n      return null;\n  }\n}\n"
    if k % 3 == 0:
        s = s.replace("  let out", "   let  out")
    open(f"src/{'server' if k % 2 else 'client'}/{n}.js", "w").write(s)
P
run() { rc=0; FORCE_COLOR=0 npm run lint || rc=$?; FORCE_COLOR=0 npm run format || rc=$?; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
