# needs: terraform
# packages: terraform 1.11.4
unset TF_CLI_CONFIG_FILE; export CHECKPOINT_DISABLE=1
cat > make.py <<'PY'
import os
envs = ['dev', 'test', 'stage', 'prod', 'eu', 'us', 'dr', 'sandbox', 'errors', 'audit']
for e in envs:
    os.makedirs(f'env/{e}')
    bad = ''
    if e == 'us': bad = 'resource "terraform_data" "cache" {\n  input = { size = var.cache_size }\n}\n'
    if e == 'dr': bad = 'output "primary" {\n  value = terraform_data.node["a"].outputs\n}\n'
    s = f'variable "name" {{\n  type    = string\n  default = "{e}"\n}}\nlocals {{\n  nodes = toset(["a", "b", "c", "error-handler"])\n}}\nresource "terraform_data" "node" {{\n  for_each = local.nodes\n  input    = "${{var.name}}-${{each.key}}"\n}}\n{bad}' + \
        ''.join(f'output "error_{i}" {{\n  value = terraform_data.node["{k}"].output\n}}\n' for i, k in enumerate('abc'))
    if e == 'stage': s = s.replace('type    = string', 'type    = strng')
    if e in ('test', 'errors', 'audit'): s += 'resource "terraform_data" "old" {\n  input = 1\n  lifecycle {\n    ignore_changes = [output]\n  }\n}\n'
    open(f'env/{e}/main.tf', 'w').write(s if e != 'prod' else s.replace('for_each = local.nodes', 'for_each = local.nodes,'))
PY
python3 make.py
cat > check.sh <<'S'
rc=0
for d in env/*/; do
  echo "==> $d"
  terraform -chdir=$d init -no-color -input=false -backend=false || { rc=1; continue; }
  terraform -chdir=$d validate -no-color || rc=1
  terraform -chdir=$d fmt -check -diff -no-color >/dev/null || echo "note: $d is not formatted (no error)"
  terraform -chdir=$d plan -no-color -input=false | tail -n 14 || true
done
echo "checked $(ls env | wc -l) environments"
exit $rc
S
echo ==OUTPUT==
bash check.sh 2>&1
