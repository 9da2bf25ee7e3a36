# needs: kubectl (with kustomize 5.5.0), python3
# packages: kubectl 1.32.4
cat > gen.py <<'PY'
import os
os.makedirs('base')
D='''apiVersion: apps/v1
kind: Deployment
metadata:
  name: {n}
  labels: {{app: {n}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {n}}}}}
  template:
    metadata: {{labels: {{app: {n}}}}}
    spec:
      containers:
      - name: main
        image: registry.example.com/{n}:1.0
        env: [{{name: ON_ERROR, value: continue}}, {{name: LOG_LEVEL, value: error}}]
'''
for n in ('api', 'web', 'error-pages'): open(f'base/{n}.yaml', 'w').write(D.format(n=n))
open('base/kustomization.yaml', 'w').write('resources: [api.yaml, web.yaml, error-pages.yaml]\n')
E = ['ci', 'dev', 'edge', 'eu', 'load', 'prod', 'qa', 'stage', 'us']
for e in E:
    os.makedirs(f'overlays/{e}')
    s = f'resources: [../../base]\nnamespace: {e}\n' + ('commonLabels: {env: %s}\n' % e if e in ('ci', 'qa') else 'labels: [{pairs: {env: %s}}]\n' % e)
    t = 'api' if e != 'load' else 'api-server'
    s += f'patches:\n- target: {{kind: Deployment, name: api}}\n  patch: |-\n    - op: replace\n      path: /spec/replicas\n      value: 3\n' if e != 'load' else 'patchesStrategicMerge: [replicas.yaml]\n'
    if e == 'load': open(f'overlays/{e}/replicas.yaml', 'w').write('apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: api-server\nspec:\n  replicas: 9\n')
    if e == 'eu': s = s.replace('path: /spec/replicas', 'path: /spec/strategy/type')
    if e == 'prod': s += 'configMapGenerator: [{name: settings, files: [settings.properties]}]\n'
    open(f'overlays/{e}/kustomization.yaml', 'w').write(s)
PY
python3 gen.py
echo ==OUTPUT==
rc=0
for d in overlays/*; do echo "# --- $d"; kubectl kustomize "$d" 2>&1 || { rc=1; echo "# $d skipped"; }; done
exit $rc
