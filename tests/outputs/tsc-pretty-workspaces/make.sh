#!/bin/bash
# needs: node
# packages: npm:typescript@6.0.3 npm:@types/node@26.6.6
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in typescript@6.0.3 @types/node@26.6.6; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
echo '{"name":"mono","private":true,"workspaces":["packages/*"]}' > package.json
python3 - <<'P'
import json, os
order = ["errors", "core", "http", "store", "ui", "cli"]
def w(p, s):
    os.makedirs(os.path.dirname(p) or ".", exist_ok=True); open(p, "w").write(s)
for k, n in enumerate(order):
    d = f"packages/{n}"
    w(f"{d}/package.json", json.dumps({"name": f"@mono/{n}", "version": "1.0.0", "scripts": {"build": "tsc -p . --pretty --listEmittedFiles", "lint": "node ../../lint.js"}}))
    w(f"{d}/tsconfig.json", json.dumps({"compilerOptions": {"strict": True, "target": "ES2022", "module": "NodeNext", "outDir": "dist", "rootDir": "src", "declaration": True, "types": ["node"], "skipLibCheck": True, "noEmitOnError": n == "store"}, "include": ["src"]}))
    for i in range(9):
        w(f"{d}/src/error-{n}-{i}.ts", f"export class {n.title()}Error{i} extends Error {{ readonly code = 'E_{n.upper()}_{i}' }}\nexport function fail{i}(why: string): never {{ throw new {n.title()}Error{i}(why) }}\n")
w("packages/store/src/table.ts", '''export interface Row { id: number; name: string; failed?: boolean; tags: readonly string[] }
export interface Query<T> { where?: Partial<T>; order?: keyof T; limit?: number }

export class Table<T extends { id: number }> {
  private rows = new Map<number, T>()
  put(row: T): this { this.rows.set(row.id, row); return this }
  get(id: number): T { return this.rows.get(id) }
  select(q: Query<T>): T[] {
    const out = [...this.rows.values()].filter((r) => Object.entries(q.where ?? {}).every(([k, v]) => r[k] === v))
    if (q.order) out.sort((a, b) => (a[q.order] < b[q.order] ? -1 : 1))
    return out.slice(0, q.limit)
  }
}

export const orders = new Table<Row>()
orders.put({ id: 1, name: 'first', tags: ['a'] }).put({ id: '2', name: 'second', tags: [] })
orders.select({ where: { failed: true }, order: 'nmae' })
''')
w("packages/ui/src/view.ts", '''type Props = { title: string; onError?: (e: Error) => void; rows: ReadonlyArray<{ id: number; label: string; meta: { created: Date; tags: string[] } }> }
export function view(p: Props): string { return p.rows.map((r) => `${r.id} ${r.label}`).join('\\n') }
export const page = view({ title: 'x', rows: [{ id: 1, label: 'one', meta: { created: '2024-01-01', tags: ['a'] } }], onError: (e: string) => console.error(e) })
''')
w("lint.js", "for (let i = 0; i < 24; i++) console.log(`${process.cwd().split('/').pop()}: src/error-${i}.ts 0 errors, 0 warnings`)\n")
P
run() { FORCE_COLOR=1 npm run build --workspaces; rc=$?; npm run lint --workspaces --silent; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
