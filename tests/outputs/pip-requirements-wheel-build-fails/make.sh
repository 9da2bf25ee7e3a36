#!/bin/bash
# needs: python3 gcc
# packages: pip:wheel==0.45.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in wheel==0.45.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
unset ${!PIP_@}
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1
mkdir -p wheels src
python - <<'P'
import zipfile, base64, hashlib, os, tarfile, io
def wheel(name, version, requires=()):
    dist = f"{name}-{version}"
    files = {f"{name}/__init__.py": f'__version__ = "{version}"\n',
        f"{dist}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {name} for the shop\n" + "".join(f"Requires-Dist: {r}\n" for r in requires),
        f"{dist}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(f"wheels/{dist}-py3-none-any.whl", "w") as z:
        rec = ""
        for f, t in files.items():
            z.writestr(f, t)
            rec += f"{f},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n"
        z.writestr(f"{dist}.dist-info/RECORD", rec + f"{dist}.dist-info/RECORD,,\n")
for n, v, r in [("shop_errors", "2.0.1", ()), ("shop_core", "1.4.0", ("shop_errors>=2",)), ("shop_web", "3.1.0", ("shop_core>=1.2",)),
                ("failover", "0.9.2", ()), ("retrying_client", "4.2.0", ("failover<1",)), ("exception_report", "1.0.0", ()),
                ("geo_types", "5.0.0", ()), ("tabular", "0.8.0", ("shop_core",)), ("exporter", "7.1.0", ("tabular", "retrying_client"))]:
    wheel(n, v, r)
c = ['#define PY_SSIZE_T_CLEAN', '#include <Python.h>', '#include <math.h>', '']
for i in range(26):
    c += [f'static int grid_error_{i}(double lat, double lon) {{', f'    int unused_{i};', '    unsigned int n = (unsigned int) lat;', '    if (n < -1) return 1;', '    return 0;', '}', '']
    if i == 13:
        c += ['static double project(double lat, double lon) {', '    return proj_trans_lat(PJ_DEFAULT_CTX, lat, lon);', '}', '']
c += ['static struct PyModuleDef mod = {PyModuleDef_HEAD_INIT, "fastgeo._grid", 0, -1, 0};', 'PyMODINIT_FUNC PyInit__grid(void) { project(1, 2); return PyModule_Create(&mod); }', '']
setup = '''from setuptools import Extension, find_packages, setup
setup(name="fastgeo", version="2.3.0", packages=find_packages(), ext_modules=[Extension("fastgeo._grid", ["fastgeo/_grid.c"], extra_compile_args=["-Wall", "-Wextra"])])
'''
mods = {f"fastgeo-2.3.0/fastgeo/{m}.py": f'"""{m}"""\n' for m in ("__init__", "errors", "grid", "project", "ellipsoid", "utm", "failsafe", "exceptions", "io_error_codes", "cli")}
with tarfile.open("wheels/fastgeo-2.3.0.tar.gz", "w:gz") as t:
    for f, s in {"fastgeo-2.3.0/setup.py": setup, "fastgeo-2.3.0/README.md": "fastgeo\n", "fastgeo-2.3.0/fastgeo/_grid.c": "\n".join(c), "fastgeo-2.3.0/PKG-INFO": "Metadata-Version: 2.1\nName: fastgeo\nVersion: 2.3.0\n", **mods}.items():
        i = tarfile.TarInfo(f); i.size = len(s.encode()); t.addfile(i, io.BytesIO(s.encode()))
P
cat > requirements.txt <<'X'
shop-web==3.1.0
exporter>=7
exception-report
geo-types
fastgeo==2.3.0
X
python -m venv .env >/dev/null 2>&1
cp -r "$VENV"/lib/python3.11/site-packages/wheel "$VENV"/lib/python3.11/site-packages/wheel-*.dist-info .env/lib/python3.11/site-packages/
run() {
  .env/bin/python -m pip install --no-index --find-links wheels shop-core tabular
  .env/bin/python -m pip install --no-index --find-links wheels --no-build-isolation --no-use-pep517 -r requirements.txt; rc=$?
  .env/bin/python -m pip install --no-index --find-links wheels $(grep -v fastgeo requirements.txt)
  .env/bin/python -m pip check
  .env/bin/python -m pip list -v
  return $rc
}
echo ==OUTPUT==
run 2>&1 | clean | sed -u -e 's#/tmp/pip-[a-z]*-[a-z0-9_]*/#/tmp/pip-install-x/#g'
exit ${PIPESTATUS[0]}
