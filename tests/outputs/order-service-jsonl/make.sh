# needs: python3 sqlite3 (python module)
# packages: python3
cat > service.py <<'PY'
"""A small order service: workers take orders from a queue, talk to a payment server over HTTP, and store them in SQLite."""
import http.server, itertools, json, os, queue, random, sqlite3, sys, threading, time, traceback, urllib.request, urllib.error, datetime
FORMAT = sys.argv[1]
random.seed(21)
lock = threading.Lock()
def log(level, msg, **kw):
    rec = {'ts': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z'), 'level': level, 'logger': kw.pop('logger', 'orders'), 'msg': msg, **kw}
    with lock:
        if FORMAT == 'json': print(json.dumps(rec), flush=True)
        else: print(' '.join(f'{k}={json.dumps(v) if isinstance(v, str) and (" " in v or chr(34) in v or "=" in v) else v}' for k, v in rec.items() if k != 'stack'), flush=True)
class Pay(http.server.BaseHTTPRequestHandler):
    n = itertools.count(1)
    def do_POST(s):
        body = json.loads(s.rfile.read(int(s.headers['Content-Length']))); n = next(Pay.n)
        if n % 13 == 0: time.sleep(0.12)
        code = 503 if n % 11 == 0 else 402 if body['amount'] > 470 else 200
        s.send_response(code); s.send_header('Content-Length', '2'); s.end_headers()
        try: s.wfile.write(b'{}')
        except BrokenPipeError: pass
    def log_message(s, *a): pass
    def handle(s):
        try: super().handle()
        except ConnectionError: pass
srv = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Pay); srv.daemon_threads = True
threading.Thread(target=srv.serve_forever, daemon=True).start()
URL = f'http://127.0.0.1:{srv.server_port}/charge'
class PaymentDeclined(Exception): pass
class Unavailable(Exception): pass
def charge(oid, amount):
    for attempt in range(1, 4):
        try:
            req = urllib.request.Request(URL, json.dumps({'order': oid, 'amount': amount}).encode(), method='POST')
            with urllib.request.urlopen(req, timeout=0.08): return attempt
        except urllib.error.HTTPError as e:
            if e.code == 402: raise PaymentDeclined(f'card declined for order {oid}')
            log('warning', 'payment attempt failed, retrying', logger='payments', order=oid, attempt=attempt, error=f'HTTP Error {e.code}: {e.reason}')
        except OSError as e:
            log('warning', 'payment attempt failed, retrying', logger='payments', order=oid, attempt=attempt, error=str(e))
        time.sleep(0.01)
    raise Unavailable('payment provider unavailable after 3 attempts')
class Pool:
    """Two connections; one is lost for good when its holder dies in `vacuum`."""
    def __init__(s, n):
        s.q = queue.Queue()
        for i in range(n): s.q.put(sqlite3.connect('orders.db', check_same_thread=False, timeout=0.2))
    def get(s):
        try: return s.q.get(timeout=0.03)
        except queue.Empty: raise Unavailable('no database connection available within 30 ms (pool size 1)') from None
    def put(s, c): s.q.put(c)
pool = Pool(1)
c = pool.get(); c.execute('create table orders(id int primary key, amount int, state text)'); c.commit(); pool.put(c)
def store(oid, amount):
    c = pool.get()
    try: c.execute('insert into orders values(?,?,?)', (oid, amount, 'paid')); c.commit()
    finally: pool.put(c)
def archive():
    c = pool.get()                       # the bug: not given back when the archive directory cannot be written
    rows = c.execute("select * from orders where state='paid'").fetchall()
    with open('archive/orders.jsonl', 'a') as f:
        for r in rows: f.write(json.dumps(r) + '\n')
    pool.put(c)
log('info', 'service started', version='2.14.0', workers=1, pool=1, error_reporting='off')
stats = {'ok': 0, 'declined': 0, 'failed': 0}
for oid in range(5031, 5136):
    amount = random.randint(5, 500)
    log('debug', 'order received', order=oid, amount=amount)
    if oid == 5094:
        try: archive()
        except Exception as e: log('error', 'nightly archive failed', logger='archive', error=f'{type(e).__name__}: {e}', stack=traceback.format_exc())
    try:
        attempts = charge(oid, amount); store(oid, amount)
        stats['ok'] += 1; log('info', 'order stored', order=oid, attempts=attempts, errors=0)
    except PaymentDeclined as e: stats['declined'] += 1; log('info', 'order rejected', order=oid, reason=str(e))
    except Exception as e:
        stats['failed'] += 1
        log('error', 'order failed', order=oid, error=f'{type(e).__name__}: {e}', stack=traceback.format_exc())
    if oid % 40 == 0: log('info', 'health', **stats, error_rate=round(stats['failed'] / sum(stats.values()), 3))
log('info', 'queue drained, stopping', **stats)
srv.shutdown()
log('info', 'stopped')
sys.exit(0)
PY
echo ==OUTPUT==
python3 service.py json 2>&1
