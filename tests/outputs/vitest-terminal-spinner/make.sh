#!/bin/bash
# needs: node script
# packages: npm:vitest@4.1.12
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in vitest@4.1.12; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
mkdir -p src/units src/search
echo '{"name":"web","version":"1.0.0","type":"module"}' > package.json
cat > src/search/rank.ts <<'X'
export interface Doc { id: string; title: string; body: string; errors?: string[] }
export function tokens(s: string): string[] { return s.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean) }
export function score(q: string, d: Doc): number {
  const want = tokens(q)
  const title = tokens(d.title), body = tokens(d.body)
  return want.reduce((s, w) => s + (title.includes(w) ? 3 : 0) + body.filter((b) => b === w).length, 0)
}
export function rank(q: string, docs: Doc[]): Doc[] {
  return docs.filter((d) => score(q, d) > 0).sort((a, b) => score(q, b) - score(q, a))
}
X
cat > src/search/rank.test.ts <<'X'
import { describe, expect, it } from 'vitest'
import { rank, score, tokens } from './rank'
const docs = Array.from({ length: 8 }, (_, i) => ({ id: `d${i}`, title: i % 2 ? 'Error handling' : 'Timeouts', body: 'failed '.repeat(i) + 'requests are retried' }))
describe('rank', () => {
  it('finds errors in titles', () => expect(rank('error', docs).map((d) => d.id)).toEqual(['d1', 'd3', 'd5', 'd7']))
  it('keeps ties in order', () => expect(rank('failed requests', docs).slice(0, 3)).toMatchObject([{ id: 'd7' }, { id: 'd5' }, { id: 'd6' }]))
  for (let i = 0; i < 8; i++) it(`scores failed x ${i}`, () => expect(score('failed', docs[i])).toBe(i))
  it('splits words', () => expect(tokens('TypeError: x is not a function')).toEqual(['typeerror', 'x', 'is', 'not', 'a', 'function']))
})
X
cat > src/broken.test.ts <<'X'
import { expect, it } from 'vitest'
import { formatMoney } from './units/mony'
it('formats', () => expect(formatMoney(1)).toBe('0.01'))
X
python3 - <<'P'
names = "bytes dates money speed angle area mass volume errors failures".split()
for k, n in enumerate(names):
    open(f"src/units/{n}.ts", "w").write(f"export const {n} = (v: number) => v * {k + 1}\nexport async function slow{n}() {{ await new Promise((r) => setTimeout(r, 120)); console.error('{n}: lookup failed, using default'); return 1 }}\n")
    t = f"import {{ describe, expect, it }} from 'vitest'\nimport {{ {n}, slow{n} }} from './{n}'\ndescribe('{n}', () => {{\n"
    for i in range(9):
        t += f"  it('{n} {i} without error', () => expect({n}({i})).toBe({i * (k + 1)}))\n"
    t += f"  it('{n} slow fallback', async () => expect(await slow{n}()).toBe(1))\n"
    if n == "speed":
        t += "  it('speed in knots', () => expect({ value: speed(3), unit: 'kn', precision: 2 }).toEqual({ value: 12, unit: 'kn', precision: 3 }))\n"
    open(f"src/units/{n}.test.ts", "w").write(t + "})\n")
P
run() { stty cols 100 2>/dev/null; TERM=xterm-256color script -qec 'stty cols 100 rows 40; node_modules/.bin/vitest run --reporter=default --pool=forks --maxWorkers=2' /dev/null; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
