#!/bin/bash
# needs: python3
# packages: none
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in ; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p tests calendarlib
cat > calendarlib/__init__.py <<'X'
"""Working days of some countries."""
import datetime as dt
import logging

log = logging.getLogger("calendarlib")

FIXED = {
    "DE": [(1, 1), (5, 1), (10, 3), (12, 25), (12, 26)],
    "FR": [(1, 1), (5, 1), (5, 8), (7, 14), (8, 15), (11, 1), (11, 11), (12, 25)],
    "US": [(1, 1), (6, 19), (7, 4), (11, 11), (12, 25)],
    "JP": [(1, 1), (2, 11), (2, 23), (4, 29), (5, 3), (5, 4), (5, 5), (8, 11), (11, 3), (11, 23)],
}


class UnknownCountryError(KeyError):
    pass


def easter(year):
    a, b, c = year % 19, year // 100, year % 100
    d, e = divmod(b, 4)
    f = (b + 8) // 25
    g = (b - f + 1) // 3
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return dt.date(year, month, day + 1)


def holidays(country, year):
    try:
        fixed = FIXED[country]
    except KeyError:
        log.error("unknown country %r, known are %s", country, ", ".join(FIXED))
        raise UnknownCountryError(country) from None
    out = {dt.date(year, m, d) for m, d in fixed}
    if country in ("DE", "FR"):
        out.add(easter(year) + dt.timedelta(days=1))
        out.add(easter(year) + dt.timedelta(days=39))
        # Whit Monday
        out.add(easter(year) + dt.timedelta(days=49 if country == "FR" else 50))
    return out


def is_working_day(country, day):
    if day.weekday() >= 5:
        log.debug("%s is a weekend", day)
        return False
    return day not in holidays(country, day.year)


def add_working_days(country, day, n):
    while n:
        day += dt.timedelta(days=1)
        if is_working_day(country, day):
            n -= 1
    return day
X
cat > tests/__init__.py <<'X'
import logging, sys
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
X
{
cat <<'X'
import datetime as dt
import unittest
import warnings
from calendarlib import UnknownCountryError, add_working_days, easter, holidays, is_working_day


class EasterTest(unittest.TestCase):
X
python - <<'P'
import sys; sys.path.insert(0,'.')
from calendarlib import easter
for y in range(2000, 2060):
    e = easter(y)
    print(f"    def test_easter_{y}(self):\n        self.assertEqual(easter({y}), dt.date({y}, {e.month}, {e.day}))\n")
P
cat <<'X'

class ErrorsTest(unittest.TestCase):
    def test_unknown_country_error(self):
        """an unknown country raises UnknownCountryError"""
        for c in ("XX", "ZZ", "", "de", "UK", "EN"):
            with self.subTest(country=c), self.assertRaises(UnknownCountryError):
                holidays(c, 2024)

    def test_error_names_the_country(self):
        with self.assertRaisesRegex(UnknownCountryError, "XX"):
            holidays("XX", 2024)

    @unittest.expectedFailure
    def test_lunar_calendar_error(self):
        holidays("CN", 2024)

    @unittest.skip("needs the table of 2026")
    def test_failover_to_next_year(self):
        pass


class HolidayTest(unittest.TestCase):
    maxDiff = None

    def test_whit_monday(self):
        for country in ("DE", "FR"):
            for year in range(2020, 2030):
                with self.subTest(country=country, year=year):
                    day = easter(year) + dt.timedelta(days=50)
                    self.assertIn(day, holidays(country, year))
                    self.assertEqual(day.weekday(), 0)

    def test_fixed(self):
        for m, d in ((7, 4), (12, 25)):
            with self.subTest(m=m, d=d):
                self.assertFalse(is_working_day("US", dt.date(2024, m, d)))


class WorkingDayTest(unittest.TestCase):
    def test_add(self):
        warnings.warn("add_working_days() will take a calendar", DeprecationWarning)
        self.assertEqual(add_working_days("DE", dt.date(2024, 12, 24), 1), dt.date(2024, 12, 27))

    def test_add_negative(self):
        with self.assertRaises(OverflowError):
            add_working_days("DE", dt.date(9999, 12, 1), -1)

    def test_table_2024(self):
        got = {c: sorted(d.isoformat() for d in holidays(c, 2024) if d.weekday() < 5) for c in ("US", "JP")}
        self.assertEqual(got["JP"][0], "2024-01-01")
        self.assertEqual(len(got["US"]), 5)


if __name__ == "__main__":
    unittest.main()
X
} > tests/test_calendar.py
run() { python -W default -m unittest -v; rc=$?; python -c "import calendarlib, json; print(json.dumps({c: sorted(d.isoformat() for d in calendarlib.holidays(c, 2024)) for c in calendarlib.FIXED}, indent=1))"; return $rc; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
