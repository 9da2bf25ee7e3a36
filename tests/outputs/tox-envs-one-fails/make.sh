#!/bin/bash
# needs: python3
# packages: pip:tox==4.67.15 pip:mypy==2.4.1 pip:pytest==9.2.0 pip:hypothesis==6.170.15 pip:flake8==7.5.0 pip:pdoc==16.0.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in tox==4.67.15 mypy==2.4.1 pytest==9.2.0 hypothesis==6.170.15 flake8==7.5.0 pdoc==16.0.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p src/intervals tests
cat > tox.ini <<'X'
[tox]
envlist = lint, type, py311, doctest, docs
no_package = true
skip_missing_interpreters = true

[testenv]
skip_install = true
system_site_packages = true
allowlist_externals = flake8, mypy, pytest, pdoc, sh
set_env =
    PYTHONPATH = {toxinidir}/src
    PYTEST_DISABLE_PLUGIN_AUTOLOAD = 1
pass_env = PATH, PYTHONDONTWRITEBYTECODE

[testenv:lint]
commands = flake8 --max-line-length 90 --exit-zero src tests

[testenv:type]
commands = mypy --strict --no-error-summary --cache-dir=/dev/null src

[testenv:py311]
commands = pytest -v -p _hypothesis_pytestplugin --hypothesis-seed=7 -p no:cacheprovider tests

[testenv:doctest]
commands = pytest -v --doctest-modules -p no:cacheprovider src

[testenv:docs]
commands = pdoc intervals -o {envtmpdir}/html
  sh -c "ls {envtmpdir}/html | head"
X
cat > src/intervals/__init__.py <<'X'
"""Half-open intervals of integers, and sets of them."""
from .core import Interval, EmptyIntervalError
from .sets import IntervalSet
__all__ = ["Interval", "IntervalSet", "EmptyIntervalError"]
X
cat > src/intervals/core.py <<'X'
"""One interval."""
from __future__ import annotations

import dataclasses


class EmptyIntervalError(ValueError):
    """Start is not below end."""


@dataclasses.dataclass(frozen=True, order=True)
class Interval:
    """A half-open interval.

    >>> Interval(1, 4) & Interval(2, 9)
    Interval(start=2, end=4)
    >>> Interval(4, 4)
    Traceback (most recent call last):
      ...
    intervals.core.EmptyIntervalError: [4, 4) is empty
    >>> 3 in Interval(1, 4)
    True
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise EmptyIntervalError(f"[{self.start}, {self.end}) is empty")

    def __contains__(self, n: int) -> bool:
        return self.start <= n < self.end

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.start, other.start), min(self.end, other.end))

    def touches(self, other: Interval) -> bool:
        """True if both together are one interval.

        >>> Interval(1, 4).touches(Interval(4, 5))
        True
        """
        return self.start <= other.end and other.start <= self.end
X
cat > src/intervals/sets.py <<'X'
"""Sets of intervals."""
from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from .core import Interval


class IntervalSet:
    """Sorted, disjoint intervals.

    >>> list(IntervalSet([Interval(1, 3), Interval(3, 5)]))
    [Interval(start=1, end=5)]
    >>> len(IntervalSet([Interval(1, 3), Interval(9, 10)]))
    3
    """

    def __init__(self, parts: Iterable[Interval] = ()) -> None:
        self._parts: list[Interval] = []
        for p in parts:
            self.add(p)

    def add(self, part: Interval) -> None:
        """Merges `part` into its neighbours."""
        i = bisect.bisect_left(self._parts, part)
        while i and self._parts[i - 1].touches(part):
            i -= 1
            old = self._parts.pop(i)
            part = Interval(min(part.start, old.start), max(part.end, old.end))
        if i < len(self._parts) and self._parts[i].touches(part):
            old = self._parts.pop(i)
            part = Interval(min(part.start, old.start), max(part.end, old.end))
        self._parts.insert(i, part)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._parts)

    def __len__(self) -> int:
        return sum(p.end - p.start for p in self._parts)

    def __contains__(self, n: int) -> bool:
        i = bisect.bisect_right(self._parts, n, key=lambda p: p.start)
        return i > 0 and n in self._parts[i - 1]
X
cat > tests/test_sets.py <<'X'
import pytest
from hypothesis import given, settings, strategies as st, Phase
from intervals import EmptyIntervalError, Interval, IntervalSet

settings.register_profile('ci', max_examples=2000, deadline=None)
settings.load_profile('ci')
parts = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda t: Interval(t[0], t[0] + t[1])), max_size=8)

@pytest.mark.parametrize("n", range(40))
def test_contains(n):
    assert (n in Interval(0, 40)) is True

@pytest.mark.parametrize("a,b", [(n, n - k) for n in range(8) for k in range(3)])
def test_empty_interval_error(a, b):
    with pytest.raises(EmptyIntervalError, match="is empty"): Interval(a, b)

@given(parts)
def test_membership(ps):
    s = IntervalSet(ps)
    for n in range(100):
        assert (n in s) == any(n in p for p in ps)

@given(parts)
def test_disjoint(ps):
    s = list(IntervalSet(ps))
    for a, b in zip(s, s[1:]):
        assert a.end < b.start

@given(parts)
def test_len(ps):
    assert len(IntervalSet(ps)) == len({n for p in ps for n in range(p.start, p.end)})

@pytest.mark.parametrize("n", range(30))
def test_merge_neighbours(n):
    s = IntervalSet([Interval(i, i + 1) for i in range(n)])
    assert len(list(s)) == (1 if n else 0)
X
run() { tox run --colored no --root "$PWD" --workdir "$PWD/.tox"; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
