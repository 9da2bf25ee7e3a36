#!/bin/bash
# needs: node
# packages: npm:playwright-core@1.65.1 npm:puppeteer-core@24.43.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in playwright-core@1.65.1 puppeteer-core@24.43.1; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
modules
export PLAYWRIGHT_BROWSERS_PATH=/home/dev/.cache/ms-playwright
echo '{"name":"e2e","version":"1.0.0","private":true,"type":"module"}' > package.json
cat > e2e.js <<'X'
import { createServer } from 'node:http';
import { chromium, errors } from 'playwright-core';
import puppeteer from 'puppeteer-core';

const server = createServer((q, r) => { r.statusCode = q.url.startsWith('/missing') ? 404 : 200; r.end('ok'); }).listen(0, '127.0.0.1');
await new Promise((r) => server.once('listening', r));
const base = `http://127.0.0.1:${server.address().port}`;
let passed = 0, failed = 0;

async function check(name, f) {
  try { await f(); passed++; console.log(`ok   ${name}`); } catch (e) { failed++; throw new Error(`check "${name}" failed`, { cause: e }); }
}

for (let i = 0; i < 120; i++) await check(`GET /page/${i} without error`, async () => { const r = await fetch(`${base}/page/${i}`); if (!r.ok) throw new Error(String(r.status)); });
for (let i = 0; i < 60; i++) await check(`GET /missing/${i} is an error 404`, async () => { const r = await fetch(`${base}/missing/${i}`); if (r.status !== 404) throw new Error(String(r.status)); });

async function launch(name, f) {
  for (let attempt = 1; attempt <= 3; attempt++) {
    try { return await f(); } catch (e) {
      console.error(`${name}: launch attempt ${attempt} failed: ${e.message.split('\n')[0]}`);
      if (attempt === 3) throw e;
    }
  }
}

try {
  const b = await launch('puppeteer', () => puppeteer.launch({ executablePath: '/usr/lib/chromium/chrome-not-installed', headless: true }));
  await b.close();
} catch (e) {
  console.warn(`puppeteer is optional, its checks are skipped (${e.message.trim()})`);
}

process.on('exit', (code) => {
  console.log(`\nreport: ${passed} passed, ${failed} failed, exit code ${code}`);
  for (let i = 0; i < 110; i++) console.log(`  artifact trace-${String(i).padStart(3, '0')}.zip kept, errors: 0`);
});

try {
  await check('home page has a title', async () => {
    const browser = await launch('chromium', () => chromium.launch({ timeout: 3000 }));
    const page = await browser.newPage();
    await page.goto(base);
  });
} finally {
  server.close();
}
X
run() { node --trace-warnings e2e.js; rc=$?; node -e 'const d=require("playwright-core").devices; for (const n of Object.keys(d).slice(0,60)) console.log(n.padEnd(36), d[n].viewport.width+"x"+d[n].viewport.height, d[n].defaultBrowserType)'; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
