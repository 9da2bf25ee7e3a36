# needs: terraform
# packages: terraform 1.11.4
unset TF_CLI_CONFIG_FILE; export CHECKPOINT_DISABLE=1
cat > main.tf <<'T'
terraform { required_version = ">= 1.4" }
variable "services" { default = { api = 3, web = 4, mail = 1, error-pages = 1, billing = 2, search = 2 } }
variable "region" { default = "eu-central-1" }
locals { instances = merge([for s, n in var.services : { for i in range(n) : "${s}-${i}" => { service = s, index = i } }]...) }
resource "terraform_data" "network" {
  input = { cidr = "10.20.0.0/16", region = var.region }
  provisioner "local-exec" { command = "mkdir -p state && echo network > state/network" }
}
resource "terraform_data" "config" {
  for_each = var.services
  input    = { name = each.key, replicas = each.value, on_error = "continue" }
  triggers_replace = [terraform_data.network.output.cidr]
  provisioner "local-exec" { command = "echo 'writing state/${each.key}.json'; echo '{\"name\":\"${each.key}\"}' > state/${each.key}.json; for i in 1 2 3 4; do echo \"${each.key}: check $i: 0 errors\"; done" }
}
resource "terraform_data" "instance" {
  for_each = local.instances
  input    = each.value
  depends_on = [terraform_data.config]
  provisioner "local-exec" {
    command    = "echo 'warming the cache of ${each.key}'; test ! -f /nonexistent-cache && echo 'warning: cache failed, continuing' >&2; false"
    on_failure = continue
  }
  provisioner "local-exec" {
    interpreter = ["bash", "-c"]
    command = <<-SH
      for i in 1 2; do echo "${each.key}: attempt $i: connection refused, retrying"; done
      grep -q '"name"' state/${each.value.service}.json || exit 4
      if [ "${each.key}" = "billing-1" ]; then echo "billing-1: certificate store.p12 has expired (notAfter=Nov  1 2025)" >&2; exit 7; fi
      echo "${each.key}: ready"
    SH
  }
}
resource "terraform_data" "dns" {
  for_each = terraform_data.instance
  input    = { name = "${each.key}.example.com" }
  depends_on = [terraform_data.config]
}
check "regions" {
  assert {
    condition     = var.region == "eu-west-1"
    error_message = "The region eu-central-1 is about to be given up."
  }
}
output "instances" { value = [for k, v in terraform_data.instance : k] }
T
terraform init -no-color >/dev/null 2>&1
echo ==OUTPUT==
terraform apply -auto-approve -no-color -input=false -parallelism=2 2>&1
