#!/bin/bash
# needs: python3
# packages: pip:Django==5.2.19
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in Django==5.2.19; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
{
django-admin startproject site_ .
for a in catalog orders; do python manage.py startapp $a; done
cat >> site_/settings.py <<'X'
INSTALLED_APPS += ["catalog", "orders"]
LOGGING = {"version": 1, "disable_existing_loggers": False,
    "formatters": {"f": {"format": "%(levelname)s %(name)s %(message)s"}},
    "handlers": {"c": {"class": "logging.StreamHandler", "formatter": "f"}},
    "root": {"handlers": ["c"], "level": "INFO"},
    "loggers": {"django.request": {"handlers": ["c"], "propagate": False}}}
ROOT_URLCONF = "site_.urls"
SECRET_KEY = "dummy"
X
cat > catalog/models.py <<'X'
from django.db import models


class Product(models.Model):
    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=80, null=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField(default=0)
X
cat > orders/models.py <<'X'
from django.db import models
from catalog.models import Product


class Order(models.Model):
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    qty = models.PositiveIntegerField()
    state = models.CharField(max_length=12, default="new")
X
cat > orders/views.py <<'X'
import json
import logging

from django.db.models import F
from django.http import Http404, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from catalog.models import Product
from .models import Order

log = logging.getLogger("orders")


@csrf_exempt
def create(request):
    data = json.loads(request.body)
    try:
        product = Product.objects.get(sku=data["sku"])
    except Product.DoesNotExist:
        log.error("order for unknown sku %s", data["sku"])
        raise Http404(data["sku"])
    if product.stock < data["qty"]:
        log.warning("order of %s failed: out of stock (%d < %d)", product.sku, product.stock, data["qty"])
        return JsonResponse({"error": "out of stock"}, status=409)
    order = Order.objects.create(product=product, qty=data["qty"])
    Product.objects.filter(pk=product.pk).update(stock=F("stock") - data["qty"])
    return JsonResponse({"id": order.pk, "total": str(product.price * order.qty)}, status=201)


def total(request, pk):
    order = Order.objects.select_related("product").get(pk=pk)
    rebate = order.product.rebates.filter(active=True).first()
    return JsonResponse({"total": str(order.product.price * order.qty), "rebate": rebate and rebate.percent})
X
cat > site_/urls.py <<'X'
from django.urls import path
from orders import views

urlpatterns = [path("orders", views.create), path("orders/<int:pk>/total", views.total)]
X
cat > orders/tests.py <<'X'
import json
from django.test import TestCase
from catalog.models import Product
from .models import Order


class Base(TestCase):
    @classmethod
    def setUpTestData(cls):
        for i in range(12):
            Product.objects.create(sku=f"S{i}", name=f"Product {i}", price=i + 1, stock=i)

    def post(self, **data):
        return self.client.post("/orders", json.dumps(data), content_type="application/json")


class CreateTest(Base):
    def test_unknown_sku_error_404(self):
        for s in ("X1", "X2", "X3", "X4"):
            self.assertEqual(self.post(sku=s, qty=1).status_code, 404)


class TotalTest(Base):
    def test_total(self):
        pk = self.post(sku="S3", qty=2).json()["id"]
        self.assertEqual(self.client.get(f"/orders/{pk}/total").json()["total"], "8.00")

    def test_total_unknown_order_is_404(self):
        self.assertEqual(self.client.get("/orders/999/total").status_code, 404)
X
python - <<'P' >> orders/tests.py
print("\n\nclass StockTest(Base):")
for i in range(12):
    print(f'''    def test_out_of_stock_error_{i}(self):
        self.assertEqual(self.post(sku="S{i}", qty={i + 1}).status_code, 409)

    def test_in_stock_{i}(self):
        self.assertEqual(self.post(sku="S{i}", qty={i}).status_code, 201)
''')
P
python manage.py makemigrations
} >/dev/null 2>&1
run() {
  python manage.py check --deploy
  python manage.py makemigrations --check --dry-run
  python manage.py test -v 2 --timing; rc=$?
  python manage.py showmigrations
  python manage.py sqlmigrate catalog 0001
  python manage.py diffsettings | grep -v -e PATH -e SECRET
  return $rc
}
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
