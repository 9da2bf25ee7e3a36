#!/bin/bash
# needs: node
# packages: npm:prettier@3.10.1 npm:eslint@10.15.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in prettier@3.10.1 eslint@10.15.0; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p test lib
echo '{"name":"limits","version":"1.0.0","private":true,"type":"module","scripts":{"pretest":"prettier --check lib","test":"node --test --test-reporter=tap --test-concurrency=1"}}' > package.json
cat > lib/limit.js <<'X'
export class LimitError extends Error {}
export function take(bucket, n = 1) {
  if (bucket.left < n) throw new LimitError(`limit exceeded: ${bucket.left} left`);
  bucket.left -= n;
  return bucket;
}
export async function guarded(f) {
  try {
    return await f();
  } catch (e) {
    console.error("guarded: call failed:", e);
    return null;
  }
}
X
cat > test/limit.test.js <<'X'
import { describe, it, test } from 'node:test'; import assert from 'node:assert/strict'; import { LimitError, guarded, take } from '../lib/limit.js';
describe('errors', () => { for (let i = 0; i < 14; i++) it(`fails with LimitError for ${i + 1} of ${i}`, () => assert.throws(() => take({ left: i }, i + 1), LimitError)); });
describe('guarded', () => { for (const m of ['ECONNRESET', 'fatal: disk failure', 'not ok']) it(`survives "${m}"`, async () => assert.equal(await guarded(async () => { throw new Error(m); }), null)); });
test('not ok is a TAP word', { skip: 'error in the parser of the reporter' }, () => {});
test('rejects negative amounts', { todo: 'fails until 2.0' }, () => { throw new RangeError('negative amounts are accepted'); });
for (let i = 0; i < 20; i++) test(`take ${i} leaves no error`, () => assert.equal(take({ left: 50 }, i).left, 50 - i));
X
node_modules/.bin/prettier --write lib >/dev/null 2>&1
run() { FORCE_COLOR=0 npm test; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
