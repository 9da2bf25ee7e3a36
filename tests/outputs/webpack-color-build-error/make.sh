#!/bin/bash
# needs: node
# packages: npm:webpack@5.112.2 npm:webpack-cli@7.3.1 npm:esbuild@0.28.2
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in webpack@5.112.2 webpack-cli@7.3.1 esbuild@0.28.2; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p src/pages src/errors
echo '{"name":"shopfront","version":"3.0.0","private":true,"scripts":{"build":"webpack --color","size":"node size.cjs"}}' > package.json
cat > webpack.config.js <<'X'
class Report {
  apply(c) {
    c.hooks.thisCompilation.tap('Report', (k) => { for (let i = 0; i < 60; i++) k.warnings.push(new Error(`locale file messages.${['de', 'fr', 'it', 'pl', 'nl', 'sv'][i % 6]}-${i}.json has 3 untranslated error texts`)); });
  }
}
module.exports = {
  mode: 'production', entry: Object.fromEntries(['home', 'cart', 'errors', 'search', 'account'].map((n) => [n, `./src/pages/${n}.js`])),
  performance: { maxAssetSize: 20000, maxEntrypointSize: 20000 }, optimization: { minimize: false }, plugins: [new Report()],
  stats: { modules: true, modulesSpace: 60, entrypoints: true, reasons: false, errorDetails: true },
};
X
python3 - <<'P'
for n in "home cart errors search account".split():
    open(f"src/pages/{n}.js", "w").write("".join(f"import {{ message{i} }} from '../errors/error{i}.js'\n" for i in range(30)) + f"import {{ render, track }} from '../ui.js'\nconsole.log(render('{n}'), track, " + ", ".join(f"message{i}" for i in range(30)) + ")\n")
for i in range(30):
    open(f"src/errors/error{i}.js", "w").write(f"export const code{i} = 'E{i:03d}'\nexport const message{i} = code{i} + ': {'something failed and cannot be repaired, please retry later. ' * 12}'\n")
open("src/errors/error17.js", "a").write("import dayjs from 'dayjs/plugin/relativeTime'\nexport const when17 = dayjs()\n")
open("src/ui.js", "w").write("import legacy from './legacy.js'\nexport const render = (s) => `<h1>${s}</h1>${legacy}`\n")
open("src/legacy.js", "w").write("export default `v1`\nexport const broken = (a, b => a + b\n")
open("size.cjs", "w").write("const fs = require('fs'); for (let k = 0; k < 3; k++) for (let i = 0; i < 30; i++) console.log(`src/errors/error${i}.js`.padEnd(30), fs.statSync(`src/errors/error${i}.js`).size, 'bytes, 0 errors')\n")
P
run() { FORCE_COLOR=1 npm run build; rc=$?; npm run size; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
