#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0 pip:SQLAlchemy==2.1.9
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 SQLAlchemy==2.1.9; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p shop tests
touch shop/__init__.py
cat > shop/models.py <<'X'
from sqlalchemy import ForeignKey, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80))
    orders: Mapped[list["Order"]] = relationship(back_populates="customer")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    state: Mapped[str] = mapped_column(String(20), default="new")
    customer: Mapped[Customer] = relationship(back_populates="orders")


def engine(url="sqlite://"):
    return create_engine(url)
X
cat > tests/conftest.py <<'X'
import pytest
from sqlalchemy.orm import Session
from shop.models import Base, engine

@pytest.fixture
def db():
    e = engine()
    Base.metadata.create_all(e)
    with Session(e) as s:
        yield s

@pytest.fixture
def customer(db):
    from shop.models import Customer
    c = Customer(name="Ada")
    db.add(c)
    db.flush()
    return c
X
cat > tests/test_orders.py <<'X'
import pytest

def test_new_customer(customer):
    assert customer.id

@pytest.mark.parametrize("state", ["new", "paid", "failed"])
def test_order_state(db, customer, state):
    from shop.models import Order
    o = Order(customer=customer, state=state)
    db.add(o)
    db.flush()
    assert o.state == state

def test_payment_error_keeps_order(db, customer):
    assert customer.orders == []
X
cat > tests/test_codes.py <<'X'
import pytest

CODES = [f"{s}-{n:03d}" for s in ("OK", "ERROR", "FATAL", "TIMEOUT") for n in range(30)]

@pytest.mark.parametrize("code", CODES)
def test_code_format(code):
    word, _, number = code.partition("-")
    assert word.isupper() and len(number) == 3
X
cat > tests/test_zzz_pricing.py <<'X'
import warnings
import pytest

@pytest.mark.parametrize("n", range(60))
def test_discount(n):
    if n % 20 == 7:
        warnings.warn(f"legacy discount table used for {n} pieces: failed lookups fall back to 0", UserWarning)
    assert round(n * 0.9, 2) <= n
X
run() { pytest -v --tb=short -ra --maxfail=0 -p no:cacheprovider -o pythonpath=. tests; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
