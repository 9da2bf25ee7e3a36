#!/bin/bash
# needs: python3
# packages: pip:celery==5.7.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in celery==5.7.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p broker
cat > tasks.py <<'X'
import logging
import random

from celery import Celery
from celery.utils.log import get_task_logger

app = Celery("shop", broker="filesystem://", backend="cache+memory://")
app.conf.update(
    broker_transport_options={"data_folder_in": "broker", "data_folder_out": "broker", "control_folder": "control"},
    task_default_queue="shop", worker_hijack_root_logger=True, worker_enable_remote_control=False, task_publish_retry=False,
    worker_cancel_long_running_tasks_on_connection_loss=True, broker_connection_retry_on_startup=True,
)
log = get_task_logger(__name__)


class GatewayTimeout(Exception):
    pass


class TemplateMissing(LookupError):
    pass


TEMPLATES = {"welcome": "Hello {name}", "invoice": "Invoice {no} for {name}", "reminder": "Please pay {no}, {name}"}


@app.task(bind=True, max_retries=5, default_retry_delay=0)
def capture(self, order):
    if (order * 7 + self.request.retries) % 5 == 0:
        try:
            raise GatewayTimeout(f"gateway.example: no answer for order {order}")
        except GatewayTimeout as e:
            raise self.retry(exc=e, countdown=0)
    log.info("order %d captured (%d errors before)", order, self.request.retries)
    return order


@app.task
def mail(template, **values):
    try:
        text = TEMPLATES[template]
    except KeyError as e:
        raise TemplateMissing(f"no template {template!r}") from e
    log.info("mail %s sent: %s", template, text.format(**values))
    return len(text)


@app.task
def stock(sku, n):
    if n > 8:
        log.error("stock of %s is wrong by %d, corrected", sku, n)
    return n
X
cat > send.py <<'X'
import tasks
for i in range(28):
    tasks.capture.delay(1000 + i)
    tasks.stock.delay(f"S{i:03d}", i % 10)
    tasks.mail.delay(["welcome", "invoice", "reminder"][i % 3], name=f"customer {i}", no=5000 + i)
    if i == 12:
        tasks.mail.delay("refund", name="customer 12", no=5012)
X
python send.py >/dev/null 2>&1
run() { timeout -s TERM 14 celery --no-color -A tasks worker -l INFO -P solo -n worker@web1 -Q shop --without-gossip --without-mingle --without-heartbeat; return 0; }
echo ==OUTPUT==
run 2>&1 | clean | sed -u -e "s#$(hostname)#web1#g; s#Linux-[^ ]*#Linux-6.1.0-28-amd64-x86_64-with-glibc2.36#"
exit ${PIPESTATUS[0]}
