#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/"${p%%==*}-${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
clean() { sed -u -e "s#$VENV#/home/dev/venv#g" -e "s#$PWD#/home/dev/shop#g" -e "s#$HOME/#/home/dev/#g" -e 's# in [0-9.]*s # in 1.00s #'; }
mkdir -p shop tests
touch shop/__init__.py
echo 'def total(items): return sum(items)' > shop/cart.py
printf 'from shop import cart\nfrom decimal_money import Money\n\ndef price(net): return Money(net)\n' > shop/pricing.py
printf 'from shop.pricing import price\n' > shop/offers.py
printf 'from shop.cart import total\nfrom shop.offers import price\n\ndef test_price(): assert price(3)\n' > tests/test_pricing.py
printf 'import pytest\nfrom shop.cart import total\n\n@pytest.mark.parametrize("count", range(1, 121))\ndef test_no_error_in_the_total(count): assert total([2] * count) == 2 * count\n' > tests/test_cart.py
echo ==OUTPUT==
"$VENV/bin/python" -m pytest -v --continue-on-collection-errors -p no:cacheprovider -o pythonpath=. tests 2>&1 | clean
exit "${PIPESTATUS[0]}"
