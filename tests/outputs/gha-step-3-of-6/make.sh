# needs: python3 node npm jq
# packages: python3 nodejs
# A runner as GitHub's: each step's lines get a timestamp, groups and commands are printed with ##[...]; later steps are skipped or run with always().
cat > run.py <<'PY'
import subprocess, datetime, sys, os
out = sys.stdout
def p(s): out.write(datetime.datetime.utcnow().strftime('%Y-%m-%dT%H:%M:%S.%f') + '0Z ' + s + '\n'); out.flush()
failed = False
def step(name, script, always=False, env={}, cont=False):
    global failed
    if failed and not always: return
    p(f'##[group]Run {script.strip().splitlines()[0]}')
    for l in script.strip().splitlines(): p('\x1b[36;1m' + l + '\x1b[0m')
    p('shell: /usr/bin/bash -e {0}')
    if env: p('env:'); [p(f'  {k}: {v}') for k, v in env.items()]
    p('##[endgroup]')
    r = subprocess.Popen(['bash', '-e', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', env={**os.environ, **env})
    for l in r.stdout: p(l.rstrip('\n').replace('::warning::', '##[warning]'))
    c = r.wait()
    if c:
        p(f'##[error]Process completed with exit code {c}.')
        if not cont: failed = True
p("Current runner version: '2.328.0'")
p('##[group]Runner Image'); p('Image: ubuntu-24.04'); p('Version: 20251102.99.1'); p('##[endgroup]')
p('##[group]GITHUB_TOKEN Permissions'); p('Contents: read'); p('Metadata: read'); p('##[endgroup]')
p('Secret source: Actions'); p('Prepare workflow directory'); p('Prepare all required actions'); p('Complete job name: test (3.11)')
E = {'CI': 'true', 'PYTHONHASHSEED': '0'}
step('1 tools', 'python3 make_project.py\nnode --version\njq --version', env=E)
step('2 lint', 'python3 -W always -m compileall -f shop | sed "s/^/  /"\npython3 lint.py shop || echo "::warning::lint found problems, not blocking"', env=E, cont=True)
step('3 test', 'cd shop_pkg 2>/dev/null || true\npython3 -m unittest discover -v -s tests', env=E)
step('4 build', 'python3 -m zipapp shop -m shop.main:main', env=E)
step('5 upload logs', 'mkdir -p logs && for i in $(seq 1 40); do echo "uploading logs/test-error-$i.log (0 errors)"; done; ls logs | wc -l', always=True, env=E)
step('6 cleanup', 'rm -rf logs; for d in .cache .venv build dist node_modules; do echo "removing $d"; rm -rf $d || true; done; cat does-not-exist.lock 2>&1 || echo "no lock file, fine"', always=True, env=E)
p('Post job cleanup.')
for l in ['[command]/usr/bin/git version', 'git version 2.51.0', 'Temporarily overriding HOME before making global git config changes', 'Adding repository directory to the temporary git global config as a safe directory',
          '[command]/usr/bin/git config --local --name-only --get-regexp core\\.sshCommand', '[command]/usr/bin/git submodule foreach --recursive sh -c "git config --local --unset-all core.sshCommand || :"',
          '[command]/usr/bin/git config --local --name-only --get-regexp http\\.https\\:\\/\\/github\\.com\\/\\.extraheader', 'http.https://github.com/.extraheader', 'Cleaning up orphan processes']: p(l)
sys.exit(1 if failed else 0)
PY
cat > lint.py <<'PY'
import ast, pathlib, sys
n = 0
for f in sorted(pathlib.Path(sys.argv[1]).rglob('*.py')):
    for node in ast.walk(ast.parse(f.read_text())):
        if isinstance(node, ast.FunctionDef) and not ast.get_docstring(node):
            n += 1; print(f'{f}:{node.lineno}:{node.col_offset + 1}: D103 Missing docstring in public function `{node.name}`')
        if isinstance(node, ast.ExceptHandler) and node.type is None: n += 1; print(f'{f}:{node.lineno}:1: E722 Do not use bare `except`')
print(f'Found {n} errors.'); sys.exit(n > 0)
PY
cat > make_project.py <<'PY'
import pathlib
for d in ('shop', 'tests'): pathlib.Path(d).mkdir(); (pathlib.Path(d) / '__init__.py').write_text('')
mods = ['cart', 'price', 'stock', 'tax', 'mail', 'invoice', 'errors', 'coupon', 'report', 'search', 'login', 'audit']
for m in mods:
    (pathlib.Path('shop') / f'{m}.py').write_text('import decimal, logging\nlog = logging.getLogger(__name__)\n' + ''.join(
        f'def {m}_{k}(x):\n    """{k}"""\n    return {e}\n' if k != 'retry' else f'def {m}_retry(x):\n    try: raise ConnectionError("connection reset by peer")\n    except: log.error("attempt 1 failed, retrying"); return x\n'
        for k, e in (('double', 'x * 2'), ('half', 'x / 2'), ('retry', 'x'), ('text', 'str(x)'), ('error', '-x'))))
    (pathlib.Path('tests') / f'test_{m}.py').write_text(f'import unittest, logging\nfrom shop import {m}\nlogging.basicConfig(format="%(levelname)s %(name)s: %(message)s")\nclass Test{m.title()}(unittest.TestCase):\n' + ''.join(
        f'    def test_{k}_{i}(self): self.assertEqual({m}.{m}_{k}({i}), {r(i)})\n' for i in range(1, 4) for k, r in (('double', lambda i: i * 2), ('retry', lambda i: i), ('text', lambda i: f"'{i}'"), ('error', lambda i: -i))))
p = pathlib.Path('shop/tax.py'); p.write_text(p.read_text() + 'RATES = {"DE": 19, "FR": 20}\ndef gross(net, country):\n    """gross"""\n    return net + net * RATES[country.upper()] // 100\n')
t = pathlib.Path('tests/test_invoice.py'); t.write_text(t.read_text() + '''    def test_total_france(self):
        from shop.tax import gross
        self.assertEqual(gross(200, "fr"), 240)
    def test_total_poland(self):
        from shop.tax import gross
        self.assertEqual(gross(200, "pl"), 246)
    def test_unknown_country_error(self):
        from shop.tax import gross
        with self.assertRaises(KeyError): gross(1, "xx")
''')
PY
echo ==OUTPUT==
python3 -W ignore run.py 2>&1
