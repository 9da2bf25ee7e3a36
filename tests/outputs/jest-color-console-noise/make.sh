#!/bin/bash
# needs: node
# packages: npm:jest@30.5.2
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in jest@30.5.2; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p src test
echo '{"name":"cart","version":"1.0.0","private":true,"jest":{"testEnvironment":"node","testTimeout":400,"testSequencer":"./sequencer.js"}}' > package.json
cat > sequencer.js <<'X'
const Sequencer = require('@jest/test-sequencer').default;
module.exports = class extends Sequencer { sort(tests) { return [...tests].sort((a, b) => (a.path > b.path ? 1 : -1)); } };
X
cat > src/cart.js <<'X'
class CartError extends Error {}

const PRICES = { apple: 120, pear: 95, plum: 40, melon: 310 };

class Cart {
  constructor(log = console) {
    this.log = log;
    this.items = new Map();
  }
  add(name, n = 1) {
    if (!(name in PRICES)) {
      this.log.error(`CartError: unknown item ${name}`);
      throw new CartError(`unknown item ${name}`);
    }
    if (n > 50) this.log.warn(`suspicious amount: ${n} x ${name}, might have failed validation upstream`);
    this.items.set(name, (this.items.get(name) ?? 0) + n);
    return this;
  }
  total() {
    let sum = 0;
    for (const [name, n] of this.items) sum += PRICES[name] * n;
    return this.items.size >= 3 ? Math.round(sum * 0.95) : sum;
  }
  receipt() {
    return {
      lines: [...this.items].map(([name, n]) => ({ name, n, price: PRICES[name], sum: PRICES[name] * n })),
      total: this.total(),
      currency: 'EUR',
      errors: [],
    };
  }
  async submit(gateway) {
    for (let i = 0; i < 3; i++) {
      try {
        return await gateway(this.receipt());
      } catch (e) {
        this.log.error(`submit failed (attempt ${i + 1}), retrying`, e);
      }
    }
    throw new CartError('gateway unavailable');
  }
}
module.exports = { Cart, CartError, PRICES };
X
cat > test/add.test.js <<'X'
const { Cart, CartError } = require('../src/cart');
describe('add', () => {
  test.each(Array.from({ length: 25 }, (_, i) => [i + 1]))('adds %i apples', (n) => {
    expect(new Cart().add('apple', n).items.get('apple')).toBe(n);
  });
  test.each(['kiwi', 'grape', 'toString ', '', 'Apple'])('throws CartError for unknown item "%s"', (name) => {
    expect(() => new Cart().add(name)).toThrow(CartError);
  });
  test.each([51, 60, 99])('warns about %i', (n) => { new Cart().add('plum', n); });
});
X
cat > test/receipt.test.js <<'X'
const { Cart } = require('../src/cart');
describe('receipt', () => {
  test('is empty without items', () => expect(new Cart().receipt().lines).toEqual([]));
  test('has lines and total', () => {
    const r = new Cart().add('apple', 2).add('pear').add('melon').receipt();
    expect(r).toEqual({
      lines: [
        { name: 'apple', n: 2, price: 120, sum: 240 },
        { name: 'pear', n: 1, price: 95, sum: 95 },
        { name: 'melon', n: 1, price: 310, sum: 310 },
      ],
      total: 645,
      currency: 'EUR',
      errors: [],
    });
  });
  test('never reports an error', () => expect(new Cart().receipt().errors).toHaveLength(0));
});
X
cat > test/submit.test.js <<'X'
const { Cart, CartError } = require('../src/cart');
describe('submit', () => {
  test('retries after an error', async () => {
    let n = 0;
    const gateway = async () => { if (n++ < 2) throw new Error('ECONNRESET: socket hang up'); return 'ok'; };
    await expect(new Cart().add('pear').submit(gateway)).resolves.toBe('ok');
  });
  test('gives up with CartError', async () => {
    await expect(new Cart().submit(async () => { throw new TypeError('fetch failed'); })).rejects.toThrow(CartError);
  });
  test('waits for a slow gateway', async () => {
    await new Cart().submit(() => new Promise((r) => setTimeout(r, 1500)));
  });
});
X
for s in alpha beta gamma zeta; do cat > test/$s.test.js <<X
const { PRICES } = require('../src/cart');
describe('$s prices', () => { for (const [k, v] of Object.entries(PRICES)) for (let i = 0; i < 6; i++) test(\`\${k} error margin \${i}\`, () => { expect(v).toBeGreaterThan(i); }); });
X
done
run() { node_modules/.bin/jest --verbose --color --runInBand --ci; rc=$?; echo; echo "--- coverage of the passing suites"; node_modules/.bin/jest --silent --coverage --coverageReporters=text test/add test/alpha test/beta test/gamma 2>/dev/null; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
