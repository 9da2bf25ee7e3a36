#!/bin/bash
# needs: python3
# packages: pip:nbconvert==7.17.2 pip:ipykernel==7.4.0 pip:pandas==3.1.1
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in nbconvert==7.17.2 ipykernel==7.4.0 pandas==3.1.1; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
python - <<'P'
import nbformat as nf
nb = nf.v4.new_notebook()
c = nf.v4.new_code_cell
nb.cells = [
    nf.v4.new_markdown_cell("# Errors per week\nFailed deliveries by depot."),
    c("import pandas as pd\nimport numpy as np\nimport warnings\nrng = np.random.default_rng(1)"),
    c("df = pd.DataFrame({'depot': rng.choice(['BER', 'HAM', 'MUC', 'CGN'], 400), 'week': rng.integers(1, 13, 400), 'failed': rng.integers(0, 9, 400), 'error': rng.choice(['none', 'address', 'timeout'], 400)})\ndf.head(30)"),
    c("for w in range(1, 13):\n    print(f'week {w}: {df[df.week == w].failed.sum()} failed')"),
    c("try:\n    df['cost']\nexcept KeyError as e:\n    print('no cost yet:', repr(e))"),
    c("pivot = df.pivot_table(index='week', columns='depot', values='failed', aggfunc='sum')\npivot"),
    c("rate = pivot.div(df.groupby('week').parcels.sum(), axis=0)\nrate.round(3)"),
    c("rate.to_csv('rate.csv')"),
]
nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
nf.write(nb, "weekly.ipynb")
nb.cells = nb.cells[:6]
nf.write(nb, "overview.ipynb")
P
mkdir -p .k; export JUPYTER_DATA_DIR=$PWD/.k JUPYTER_RUNTIME_DIR=$PWD/.k JUPYTER_CONFIG_DIR=$PWD/.k IPYTHONDIR=$PWD/.k JUPYTER_PLATFORM_DIRS=1 PYDEVD_DISABLE_FILE_VALIDATION=1
run() {
  rc=0
  for n in overview weekly overview; do
    echo "--- $n.ipynb"
    jupyter nbconvert --execute --to markdown --stdout $n.ipynb || rc=$?
  done
  return $rc
}
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
