#!/bin/bash
# needs: make python3
# packages: pip:pytest==9.2.0 pip:pytest-cov==7.1.0 pip:ruff==0.17.6 pip:coverage==7.17.3
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 pytest-cov==7.1.0 ruff==0.17.6 coverage==7.17.3; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p billing tests
cat > Makefile <<'X'
ci: lint test coverage packages
.PHONY: lint test coverage packages
lint:
	ruff check billing
	ruff format --check billing || true
test:
	-pytest -v --cov=billing --cov-report= -p pytest_cov -p no:cacheprovider
coverage:
	coverage report -m
packages:
	pip list --format=columns --disable-pip-version-check
	@test -f .failed && exit 1 || true
X
cat > billing/__init__.py <<'X'
"""Billing."""
X
cat > billing/money.py <<'X'
"""Money in minor units."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal


class CurrencyError(ValueError):
    """Two currencies do not go together."""


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"

    def __add__(self, other: "Money") -> "Money":
        if other.currency != self.currency:
            raise CurrencyError(f"cannot add {other.currency} to {self.currency}")
        return Money(self.amount + other.amount, self.currency)

    def rounded(self) -> "Money":
        cents = self.amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
        return Money(cents, self.currency)


def parse(text: str) -> Money:
    """`12.50 EUR` to Money."""
    number, _, currency = text.partition(" ")
    if not currency:
        raise CurrencyError(f"no currency in {text!r}")
    return Money(Decimal(number), currency)
X
cat > billing/tax.py <<'X'
"""Rates by country."""

from decimal import Decimal

from .money import Money

RATES = {"DE": "0.19", "FR": "0.20", "AT": "0.20", "CH": "0.077", "PL": "0.23", "IT": "0.22"}
REDUCED = {"DE": "0.07", "FR": "0.055", "AT": "0.10", "CH": "0.025", "PL": "0.08"}


def rate(country: str, reduced: bool = False) -> Decimal:
    table = REDUCED if reduced else RATES
    return Decimal(table[country])


def tax(net: Money, country: str, reduced: bool = False) -> Money:
    return Money(net.amount * rate(country, reduced), net.currency).rounded()
X
cat > billing/invoice.py <<'X'
"""Invoices."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from .money import Money, parse
from .tax import tax

log = logging.getLogger(__name__)


@dataclass
class Invoice:
    number: str
    country: str
    lines: list[tuple[str, Money, bool]] = field(default_factory=list)

    def add(self, label: str, price: str, reduced: bool = False) -> None:
        try:
            self.lines.append((label, parse(price), reduced))
        except ValueError:
            log.error("line %s of %s rejected: bad price %r", label, self.number, price)
            raise

    def total(self) -> Money:
        out = parse("0 EUR")
        for _label, net, reduced in self.lines:
            out = out + net + tax(net, self.country, reduced)
        return out
X
cat > tests/test_money.py <<'X'
from decimal import Decimal
import pytest
from billing.money import CurrencyError, Money, parse

@pytest.mark.parametrize("cents", range(60))
def test_parse_roundtrip(cents):
    assert parse(f"{cents / 100:.2f} EUR").amount == Decimal(cents) / 100

@pytest.mark.parametrize("text", ["12", "", "EUR", "12.5", "-3"])
def test_parse_error_without_currency(text):
    with pytest.raises(CurrencyError):
        parse(text)

@pytest.mark.parametrize("a,b", [("EUR", "USD"), ("CHF", "EUR"), ("PLN", "GBP")])
def test_add_raises_currency_error(a, b):
    with pytest.raises(CurrencyError, match="cannot add"):
        Money(Decimal(1), a) + Money(Decimal(1), b)
X
cat > tests/test_invoice.py <<'X'
import logging
import pytest
from billing.invoice import Invoice

@pytest.mark.parametrize("country", ["AT", "CH", "DE", "FR", "IT", "PL"])
@pytest.mark.parametrize("reduced", [False, True], ids=["full", "reduced"])
def test_total_positive(country, reduced):
    inv = Invoice("R-1", country)
    inv.add("book", "10.00 EUR", reduced)
    assert inv.total().amount > 10

def test_error_is_logged(caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError):
        Invoice("R-2", "DE").add("pen", "1.20")
    assert "bad price" in caplog.text

@pytest.mark.parametrize("n", range(1, 41))
def test_many_lines(n):
    inv = Invoice(f"R-{n}", "DE")
    for i in range(n):
        inv.add(f"item {i}", "1.00 EUR")
    assert len(inv.lines) == n
X
cat > tests/test_tax.py <<'X'
from decimal import Decimal
import pytest
from billing.money import Money
from billing.tax import tax

@pytest.mark.parametrize("net,want", [("10.50", "2.00"), ("0.50", "0.10"), ("99.99", "19.00"), ("0.13", "0.02"), ("0.50", "0.09")])
def test_tax_rounding(net, want):
    if (net, want) == ("0.50", "0.09"):
        pytest.skip("half even, to be decided with accounting")
    assert tax(Money(Decimal(net)), "DE").amount == Decimal(want)

@pytest.mark.parametrize("n", range(50))
def test_tax_is_linear_enough(n):
    one = tax(Money(Decimal(100)), "FR").amount
    assert tax(Money(Decimal(100 * n)), "FR").amount == one * n
X
sed -i 's/("0.50", "0.10"), //' tests/test_tax.py
echo > tests/__init__.py
touch .failed
run() { make -k ci COLUMNS=100; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
