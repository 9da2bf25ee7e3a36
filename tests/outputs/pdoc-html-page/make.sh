#!/bin/bash
# needs: python3
# packages: pip:pdoc==16.0.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pdoc==16.0.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p retryable
cat > retryable/__init__.py <<'X'
"""Calls that may fail, again.

# Errors

A call that raises `TransientError` is repeated, one that raises `FatalError` is not:

```python
from retryable import Retry, FatalError
with Retry(3) as r:
    r(lambda: 1 / 0)   # ZeroDivisionError: division by zero
```
"""
class TransientError(Exception):
    """Failed now, may succeed later."""
class FatalError(Exception):
    """Failed for good. error: do not retry."""
class Retry:
    """Repeats a failing call."""
    def __init__(self, attempts: int = 3, timeout: float | None = None):
        """`attempts` failures are tolerated, then the last error is raised."""
        self.attempts = attempts
    def __call__(self, f, *args: object) -> object:
        """Calls `f(*args)`; raises FatalError after `attempts` errors."""
        last = None
        for _ in range(self.attempts):
            try:
                return f(*args)
            except TransientError as e:
                last = e
        raise FatalError("gave up") from last
X
pdoc -o html ./retryable >/dev/null 2>&1
run() { cat html/retryable.html; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
