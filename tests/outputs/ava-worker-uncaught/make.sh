#!/bin/bash
# needs: node
# packages: npm:ava@7.0.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in ava@7.0.0; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p test
echo '{"name":"mailer","version":"1.0.0","type":"module","ava":{"concurrency":1,"timeout":"20s"}}' > package.json
cat > mailer.js <<'X'
export class MailError extends Error {}
export const parse = (a) => { const m = /^([^@\s]+)@([^@\s]+\.[a-z]+)$/.exec(a); if (!m) throw new MailError(`bad address: ${a}`); return { user: m[1], host: m[2] }; };
export const render = (t, v) => t.replace(/\{(\w+)\}/g, (_, k) => { if (!(k in v)) console.warn(`render: no value for ${k}, error text left empty`); return v[k] ?? ''; });
export const headers = (o) => ({ 'X-Priority': o.urgent ? 1 : 3, 'Auto-Submitted': 'auto-generated', 'X-Error-Count': 0, From: 'shop@example.org', To: o.to, Subject: o.subject });
X
cat > test/address.js <<'X'
import test from 'ava'; import { MailError, parse } from '../mailer.js';
for (let i = 0; i < 50; i++) test(`parses user${i}@host`, (t) => t.is(parse(`user${i}@host${i}.org`).host, `host${i}.org`));
for (const a of ['', '@', 'a@', '@b.org', 'a b@c.org', 'a@b']) test(`MailError for "${a}"`, (t) => { const e = t.throws(() => parse(a), { instanceOf: MailError }); t.log(`error as expected: ${e.message}`); });
X
cat > test/headers.js <<'X'
import test from 'ava'; import { headers } from '../mailer.js';
test('has all headers', (t) => t.deepEqual(headers({ to: 'a@b.org', subject: 'Delivery failed' }), { 'X-Priority': 3, 'Auto-Submitted': 'auto-generated', 'X-Error-Count': 0, From: 'shop@example.org', To: 'a@b.org', Subject: 'Delivery failed', 'Message-ID': '<1@example.org>' }));
test('urgent mail has priority 1', (t) => t.is(headers({ urgent: true })['X-Priority'], 1));
test.failing('folds long subjects', (t) => t.true(headers({ subject: 'x'.repeat(100) }).Subject.includes('\n')));
X
cat > test/render.js <<'X'
import test from 'ava'; import { render } from '../mailer.js';
for (let i = 0; i < 30; i++) test(`renders failure notice ${i}`, (t) => t.is(render('Order {no} failed{x}', { no: i }), `Order ${i} failed`));
test('renders in the background', async (t) => { Promise.resolve().then(() => render(undefined, {})); await new Promise((r) => setTimeout(r, 30)); t.pass(); });
X
cat > test/zcodes.js <<'X'
import test from 'ava';
for (let i = 500; i < 560; i++) test(`SMTP error ${i} is permanent`, (t) => t.true(i >= 500));
X
run() { node_modules/.bin/ava; rc=$?; echo; echo "--- smtp codes again, as TAP"; node_modules/.bin/ava --tap test/zcodes.js; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
