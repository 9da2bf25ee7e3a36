# needs: python3
# packages: python3
cat > controller.py <<'PY'
"""A controller's reconcile loop, which logs in the style of klog: items come from files under desired/, actual state is written to actual/."""
import os, sys, json, time, datetime, threading, inspect, random, hashlib
random.seed(5)
def klog(sev, msg, depth=2, **kw):
    f = inspect.stack()[depth-1]; n = datetime.datetime.now()
    line = f"{sev}{n:%m%d %H:%M:%S.%f} {os.getpid():7d} {os.path.basename(f.filename)}:{f.lineno}] "
    print(line + (json.dumps(msg) + ''.join(f' {k}={json.dumps(v)}' for k, v in kw.items()) if kw else msg), file=sys.stderr)
class Conflict(Exception): pass
class Cache:
    def __init__(s): s.synced = set()
    def sync(s, kind):
        for n in range(3):
            klog('I', 'Waiting for caches to sync', kind=kind, attempt=n)
            time.sleep(0.002)
        klog('I', 'Caches are synced', kind=kind); s.synced.add(kind)
os.makedirs('desired'); os.makedirs('actual')
for i in range(1, 91):
    d = {'name': f'web-{i:02d}', 'namespace': ['shop', 'billing', 'error-pages'][i % 3], 'replicas': i % 5, 'config': f'cm-{i % 7}'}
    open(f'desired/{i:02d}.json', 'w').write(json.dumps(d) if i != 38 else json.dumps(d)[:-20])
for i in range(7):
    if i != 5: open(f'actual/cm-{i}', 'w').write('x')
klog('I', 'Starting controller', version='v1.8.2', workers=1, failureThreshold=5)
klog('W', 'Neither --kubeconfig nor --master was specified. Using the in-cluster style directory store. This might not work.')
cache = Cache()
for k in ('Deployment', 'ConfigMap', 'Event'): cache.sync(k)
seen = set()
def apply(key, d):
    if d['replicas'] == 4 and key not in seen:
        seen.add(key); raise Conflict('Operation cannot be fulfilled on deployments.apps "%s": the object has been modified; please apply your changes to the latest version and try again' % d['name'])
    if not os.path.exists('actual/' + d['config']):
        raise FileNotFoundError(f'configmap "{d["config"]}" not found')
    open(f'actual/{d["namespace"]}.{d["name"]}', 'w').write(json.dumps(d))
fails = {}
for rnd in range(2):
    for f in sorted(os.listdir('desired')):
        key = f'sync/{f}'
        klog('I', 'Processing item', key=key, queueLength=90 - len(seen))
        try: d = json.load(open('desired/' + f))
        except json.JSONDecodeError as e:
            klog('E', 'Failed to decode object, dropping it from the queue', key=key, err=str(e)); os.remove('desired/' + f); continue
        try:
            apply(key, d)
            if rnd == 0: klog('I', 'Reconciled', object=d['namespace'] + '/' + d['name'], errors=0)
        except Conflict as e: klog('I', 'Requeueing after conflict', key=key, err=str(e))
        except FileNotFoundError as e:
            fails[d['config']] = fails.get(d['config'], 0) + 1
            klog('E', 'Reconciler error', object=d['namespace'] + '/' + d['name'], err=str(e), retries=rnd)
    klog('I', 'Resync period elapsed', round=rnd, failed=sum(fails.values()))
with open('actual/leader', 'w') as f: pass
for i in range(40): klog('I', 'Lease renewed', holder='controller-0', renewals=i)
klog('I', 'Shutting down workers')
sys.exit(1 if fails else 0)
PY
echo ==OUTPUT==
python3 controller.py 2>&1
