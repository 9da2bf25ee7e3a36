#!/bin/bash
# needs: node
# packages: npm:mocha@12.0.3
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in mocha@12.0.3; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p test lib
echo '{"name":"queue","version":"1.0.0","scripts":{"test":"mocha --recursive","posttest":"node lib/stats.js"}}' > package.json
cat > lib/queue.js <<'X'
'use strict';
const EventEmitter = require('node:events');
class QueueError extends Error { constructor(message, options) { super(message, options); this.name = 'QueueError'; } }
class Queue extends EventEmitter {
  constructor(limit = 16) { super(); this.limit = limit; this.items = []; this.dead = []; }
  push(item) {
    if (this.items.length >= this.limit) throw new QueueError(`queue is full (${this.limit})`);
    this.items.push({ item, tries: 0 });
    return this.items.length;
  }
  async drain(worker) {
    const done = [];
    while (this.items.length) {
      const job = this.items.shift();
      try { done.push(await worker(job.item)); } catch (e) {
        console.error('job %s failed (try %d): %s', job.item, ++job.tries, e.message);
        if (job.tries < 3) this.items.unshift(job); else { this.dead.push(job.item); this.emit('dead', job.item); }
      }
    }
    return done;
  }
}
module.exports = { Queue, QueueError };
X
cat > lib/store.js <<'X'
'use strict';
const fs = require('node:fs');
exports.open = (path) => {
  try { return fs.openSync(path, 'r'); } catch (cause) { throw new Error(`cannot open the job store ${path}`, { cause }); }
};
X
cat > lib/stats.js <<'X'
console.log('stats: 0 errors in 48 suites');
X
cat > test/01-limits.js <<'X'
const assert = require('node:assert'); const { Queue, QueueError } = require('../lib/queue');
describe('limits', () => {
  for (let n = 1; n <= 40; n++) it(`raises QueueError at ${n} items`, () => {
    const q = new Queue(n); for (let i = 0; i < n; i++) q.push(i);
    assert.throws(() => q.push('x'), QueueError);
  });
});
X
cat > test/02-drain.js <<'X'
const assert = require('node:assert'); const { Queue } = require('../lib/queue');
describe('drain', () => {
  for (let n = 1; n <= 12; n++) it(`retries failed jobs, ${n} failures`, async () => {
    const q = new Queue(); for (let i = 0; i < 6; i++) q.push(i);
    let k = n; const done = await q.drain(async (i) => { if (k-- > 0) throw new Error(`worker crashed on ${i}`); return i; });
    assert.ok(done.length >= 2);
  });
  describe('order', () => {
    it('keeps the order of jobs', async () => {
      const q = new Queue(); [3, 1, 2].forEach((i) => q.push(i));
      assert.deepStrictEqual(await q.drain(async (i) => ({ job: i, state: 'done', meta: { tries: 0, error: null } })), [
        { job: 3, state: 'done', meta: { tries: 0, error: null } }, { job: 1, state: 'done', meta: { tries: 1, error: null } }, { job: 2, state: 'done', meta: { tries: 0, error: null } }]);
    });
    it('emits dead jobs', (done) => {
      const q = new Queue(); q.push('a'); q.on('dead', () => {});
      q.drain(async () => { throw new Error('no route to worker'); }).then(() => { setTimeout(() => { throw new RangeError('dead letter index out of range'); }, 5); });
      setTimeout(done, 200);
    });
  });
});
X
cat > test/03-store.js <<'X'
const assert = require('node:assert'); const store = require('../lib/store');
describe('store', () => {
  describe('recovery', () => {
    before('open the store', () => { store.open('/var/lib/queue/jobs.db'); });
    for (let n = 0; n < 5; n++) it(`recovers job ${n} after an error`, () => {});
  });
  it('is closed twice without error');
});
X
cat > test/04-zz.js <<'X'
const assert = require('node:assert');
describe('error codes', () => { for (const c of ['E_FULL', 'E_DEAD', 'E_TIMEOUT', 'E_FATAL', 'E_PANIC', 'E_ABORT']) for (let i = 0; i < 8; i++) it(`${c}-${i} is an error`, () => assert.match(c, /^E_/)); });
X
run() { npm test; rc=$?; npm run --silent posttest; echo; echo "> audit of licenses"; node -e '
const fs = require("fs"); for (const d of fs.readdirSync("node_modules").filter((d) => !/^[.@]/.test(d)).slice(0, 150)) { try { const p = JSON.parse(fs.readFileSync(`node_modules/${d}/package.json`)); console.log(`${p.name}@${p.version}`.padEnd(48), p.license); } catch {} }'; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
