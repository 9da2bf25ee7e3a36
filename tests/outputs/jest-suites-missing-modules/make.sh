#!/bin/bash
# needs: node
# packages: npm:jest@30.5.2
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in jest@30.5.2; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$PWD#/home/dev/app#g" -e "s#$NODE_TOOLS#/home/dev/app#g"; }
modules
mkdir -p src test
echo '{"name":"cart","version":"1.0.0","private":true}' > package.json
echo "const rates = require('tax-tables'); exports.tax = (land, net) => net * rates[land];" > src/tax.js
echo "exports.total = (items) => items.reduce((sum, item) => sum + item.price, 0);" > src/total.js
echo "const { tax } = require('../src/tax'); test('taxes a net price', () => { expect(tax('de', 100)).toBe(19); });" > test/tax.test.js
echo "const { total } = require('../src/total');" > test/total.test.js
for i in $(seq 1 260); do echo "test('adds $i items and reports no error', () => { expect(total(Array($i).fill({ price: 2 }))).toBe($((2 * i))); });"; done >> test/total.test.js
echo ==OUTPUT==
node_modules/.bin/jest --verbose --runInBand --ci 2>&1 | clean
exit "${PIPESTATUS[0]}"
