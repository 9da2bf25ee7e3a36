#!/bin/bash
# needs: node
# packages: npm:express@5.3.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in express@5.3.0; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
# the lock file of an application with express alone, from the lock of the tools
node - "$NODE_TOOLS/package-lock.json" <<'X' >package-lock.json
const l = JSON.parse(require('fs').readFileSync(process.argv[2]));
const out = {}, todo = ['express', 'mocha'];
while (todo.length) { const n = todo.pop(), k = `node_modules/${n}`; if (out[k] || !l.packages[k]) continue; out[k] = l.packages[k]; todo.push(...Object.keys(l.packages[k].dependencies ?? {})); }
console.log(JSON.stringify({ name: 'shop', version: '1.0.0', lockfileVersion: 3, requires: true, packages: { '': { name: 'shop', version: '1.0.0', dependencies: { express: '^5.3.0' }, devDependencies: { mocha: '^12.0.3' } }, ...Object.fromEntries(Object.entries(out).sort()) } }, null, 2));
X
run() { cat package-lock.json; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
