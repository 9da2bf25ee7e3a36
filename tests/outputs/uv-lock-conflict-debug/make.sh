#!/bin/bash
# needs: python3
# packages: pip:uv==0.13.9
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in uv==0.13.9 poetry==2.5.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
unset ${!PIP_@} ${!UV_@} VIRTUAL_ENV
export UV_CACHE_DIR=$PWD/.uv UV_NO_CONFIG=1 UV_NO_PROGRESS=1 PIP_CONFIG_FILE=/dev/null
mkdir -p wheels
python - <<'P'
import zipfile, base64, hashlib
def wheel(name, version, requires=(), python=None):
    dist = f"{name}-{version}"
    files = {f"{name}/__init__.py": f'__version__ = "{version}"\n',
        f"{dist}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n" + (f"Requires-Python: {python}\n" if python else "") + "".join(f"Requires-Dist: {r}\n" for r in requires),
        f"{dist}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(f"wheels/{dist}-py3-none-any.whl", "w") as z:
        rec = ""
        for f, t in files.items():
            z.writestr(f, t)
            rec += f"{f},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n"
        z.writestr(f"{dist}.dist-info/RECORD", rec + f"{dist}.dist-info/RECORD,,\n")
for i in range(1, 25):
    wheel("webkit_lite", f"2.{i}.0", (f"httpcore-lite>=1.{i // 4}", "error-pages>=3"), ">=3.9" if i < 20 else ">=3.14")
for i in range(8):
    wheel("httpcore_lite", f"1.{i}.0", ("sockets-ng<5",))
for i in range(12):
    wheel("auth_plugin", f"0.{i}.0", (f"webkit-lite>=2.{6 + i}", "httpcore-lite<1.3", f"crypto-core>=4{i % 3}"))
for i in (40, 41, 42):
    wheel("crypto_core", f"{i}.0.0", ("sockets-ng>=4",))
for v in ("4.0.0", "4.1.0", "5.0.0"):
    wheel("sockets_ng", v)
for v in ("2.9.0", "3.0.0", "3.1.4"):
    wheel("error_pages", v)
for n in range(45):
    wheel(f"svc_{'failover retry errors timeout queue'.split()[n % 5]}_{n}", f"1.{n}.0", ("error-pages>=3",))
P
cat > pyproject.toml <<'X'
[project]
name = "portal"
version = "4.2.0"
requires-python = ">=3.11,<3.14"
dependencies = ["webkit-lite>=2.14", "auth-plugin>=0.8", "error-pages"]

[tool.uv]
package = false
X
python - <<'P' > services.txt
for n in range(45):
    print(f"svc-{'failover retry errors timeout queue'.split()[n % 5]}-{n}")
P
run() {
  uv venv -q --python "$VENV/bin/python" .venv
  uv pip install --offline --no-index --find-links wheels -r services.txt
  uv lock --offline --no-index --find-links wheels -v; rc=$?
  uv pip compile --offline --no-index --find-links wheels services.txt
  uv pip list
  return $rc
}
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
