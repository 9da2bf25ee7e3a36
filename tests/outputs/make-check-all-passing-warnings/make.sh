#!/bin/bash
# needs: make python3
# packages: pip:mypy==2.4.1 pip:pylint==4.1.4 pip:pytest==9.2.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in mypy==2.4.1 pylint==4.1.4 pytest==9.2.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
export PYLINTHOME=$PWD/.pylint
LIB=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p app tests; touch app/__init__.py
cp $LIB/sched.py $LIB/shelve.py $LIB/netrc.py $LIB/fnmatch.py $LIB/colorsys.py $LIB/bisect.py $LIB/textwrap.py app/
cat > tests/test_app.py <<'X'
import io
import os
import tempfile
import unittest
import warnings
from app import fnmatch, netrc, textwrap


class NetrcErrorTest(unittest.TestCase):
    def parse(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".netrc") as f:
            f.write(text); f.flush()
            return netrc.netrc(f.name)


def make(i):
    def test(self):
        """a bad token raises NetrcParseError"""
        warnings.warn("parser error messages will change, failed files are reported by name", FutureWarning)
        with self.assertRaises(netrc.NetrcParseError):
            self.parse("machine a login b error%d\n" % i)
    return test


for i in range(45):
    setattr(NetrcErrorTest, "test_parse_error_%02d" % i, make(i))
    setattr(NetrcErrorTest, "test_match_failed_%02d" % i, lambda self, i=i: self.assertFalse(fnmatch.fnmatch("error%d" % i, "ok*")))

if __name__ == "__main__":
    unittest.main()
X
cat > Makefile <<'X'
check: lint type test
lint:
	pylint --disable=all --enable=W,R --fail-under=0 --exit-zero app
type:
	mypy --cache-dir=/dev/null app/bisect.py app/sched.py app/colorsys.py
test:
	python -m unittest -v tests.test_app
X
run() { make check; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
