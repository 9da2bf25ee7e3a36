#!/bin/bash
# needs: node
# packages: npm:mocha@12.0.3 npm:express@5.3.0 npm:rollup@4.68.7
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in mocha@12.0.3 express@5.3.0 rollup@4.68.7; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
run() { cat node_modules/express/Readme.md node_modules/raw-body/README.md node_modules/http-errors/README.md node_modules/http-errors/HISTORY.md node_modules/finalhandler/HISTORY.md; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
