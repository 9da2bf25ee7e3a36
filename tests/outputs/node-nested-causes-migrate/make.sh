#!/bin/bash
# needs: node make
# packages: none
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in ; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p lib
echo '{"name":"migrate","version":"1.0.0","private":true}' > package.json
cat > lib/db.js <<'X'
'use strict';
const { EventEmitter } = require('node:events');
const net = require('node:net');
class DbError extends Error { constructor(m, o) { super(m, o); this.name = 'DbError'; Object.assign(this, o?.info); } }
exports.DbError = DbError;
exports.bus = new EventEmitter();
exports.connect = (port) => new Promise((ok, no) => { const s = net.connect(port, '127.0.0.1', () => ok(s)); s.on('error', (cause) => no(new DbError(`no connection to replica ${port}`, { cause, info: { port, retryable: true } }))); });
exports.exec = async (sql, n) => {
  exports.bus.on('error', () => {});
  if (n % 9 === 4) throw new DbError(`deadlock detected in statement ${n}`, { info: { code: '40P01', retryable: true } });
  if (n === 37) throw new DbError('column "amount_cents" of relation "invoice" contains null values', { info: { code: '23502', retryable: false, table: 'invoice', statement: sql } });
};
X
cat > migrate.js <<'X'
'use strict';
const { exec, connect, DbError } = require('./lib/db');
const url = require('node:url');
const tables = ['account', 'address', 'audit_error', 'carrier', 'invoice', 'parcel', 'payment', 'refund'];
const tried = new Set();

async function step(n) {
  const sql = `ALTER TABLE ${tables[n % 8]} ALTER COLUMN c${n} SET NOT NULL`;
  for (;;) {
    try {
      await exec(n === 37 ? 'ALTER TABLE invoice ALTER COLUMN amount_cents SET NOT NULL' : sql, tried.has(n) && n !== 37 ? 0 : n);
      console.log(`[migrate] ${String(n).padStart(3)} ok     ${sql}`);
      return;
    } catch (e) {
      if (!e.retryable) throw new Error(`migration ${n} failed`, { cause: e });
      tried.add(n);
      console.error(`[migrate] ${String(n).padStart(3)} ERROR  ${e.message}, retrying`);
      if (n < 14) console.error(e);
    }
  }
}

async function main() {
  url.parse('postgres://app@db:80800/shop');
  for (const port of [1, 2]) await connect(port).catch((e) => console.warn('[migrate] replica is optional:', e));
  for (let n = 1; n <= 60; n++) await step(n);
}

process.on('unhandledRejection', (reason) => {
  console.error('[migrate] unhandled rejection, stopping');
  console.error(reason);
  process.exitCode = 3;
  for (let i = 0; i < 70; i++) console.error(`[pool] connection ${i} closed, 0 errors, last_error=null`);
});
main();
X
cat > Makefile <<'X'
all: migrate report
migrate:
	node --trace-warnings --trace-uncaught migrate.js
report:
	node -p "require('node:util').inspect(process.release, {depth: 3}); 'tables: ' + ['account','audit_error','invoice'].join()"
	node --v8-options | sed -n '1,60p'
X
run() { make -k; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
