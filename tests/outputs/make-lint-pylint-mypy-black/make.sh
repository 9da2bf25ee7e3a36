#!/bin/bash
# needs: make python3
# packages: pip:pylint==4.1.4 pip:mypy==2.4.1 pip:black==26.10.1 pip:isort==9.0.2
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pylint==4.1.4 mypy==2.4.1 black==26.10.1 isort==9.0.2; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p app
touch app/__init__.py
LIB=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
cp $LIB/http/cookiejar.py app/cookiejar.py
cp $LIB/smtplib.py app/mailer.py
cp $LIB/sched.py app/sched.py
cp $LIB/shelve.py app/store.py
cp $LIB/netrc.py app/netrc.py
export PYLINTHOME=$PWD/.pylint; sed -i "s/self._debug_cookie/self._debug/; 1600,1700s/self._policy.set_ok(cookie, request)/policy.set_ok(cookie, request)/" app/cookiejar.py
cat > app/queue.py <<'X'
"""A queue of mails to send."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(order=True)
class Mail:
    """One mail."""

    due: float
    to: str = field(compare=False)
    body: str = field(compare=False, default="")


class MailQueue:
    """Mails by time."""

    def __init__(self) -> None:
        self.heap: list[Mail] = []

    def push(self, mail: Mail) -> None:
        """Adds a mail."""
        heapq.heappush(self.heap, mail)

    def pop(self, now: float) -> Mail:
        """The next mail that is due."""
        if self.heap and self.heap[0].due <= now:
            return heapq.heappop(self.heap)
        return None

    def drain(self, now: str) -> list[str]:
        """Addresses of all that is due."""
        out = []
        while mail := self.pop(now):
            out.append(mail.to)
        return out
X
cat > Makefile <<'X'
lint: isort black pylint mypy
isort:
	isort --check-only --profile black --skip app/cookiejar.py --skip app/mailer.py --skip app/netrc.py app
black:
	-black --check --diff -q app/netrc.py
pylint:
	pylint --disable=R0801 --fail-under=5 --fail-on=E --score=y app
mypy:
	mypy --no-color-output --check-untyped-defs app/queue.py app/sched.py app/store.py app/netrc.py
X
run() { make -k lint; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
