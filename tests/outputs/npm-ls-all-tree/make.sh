#!/bin/bash
# needs: node
# packages: npm:jest@30.5.2 npm:eslint@10.15.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in jest@30.5.2 eslint@10.15.0; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
cp "$NODE_TOOLS/package.json" .; cp "$NODE_TOOLS/package-lock.json" .
run() { npm ls --all jest-circus error-ex http-errors finalhandler make-error es-errors serialize-error abort-error minipass; npm ls --depth 2; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
