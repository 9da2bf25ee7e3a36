# needs: terraform jq
# packages: terraform 1.11.4
unset TF_CLI_CONFIG_FILE; export CHECKPOINT_DISABLE=1
mkdir -p modules/service
cat > modules/service/main.tf <<'T'
variable "name" { type = string }
variable "replicas" { type = number }
resource "terraform_data" "instance" {
  count = var.replicas
  input = { name = "${var.name}-${count.index}", port = 8000 + count.index, on_error = "restart", labels = { tier = "backend", owner = "team-${var.name}" } }
  lifecycle {
    postcondition {
      condition     = self.output.port < 9000
      error_message = "Port is too high."
    }
  }
}
resource "terraform_data" "alarm" {
  input = { name = "${var.name}-errors", metric = "ErrorCount", threshold = 5, status = "failed>5" }
}
output "names" { value = terraform_data.instance[*].output.name }
T
cat > main.tf <<'T'
locals { services = { api = 3, web = 4, mail = 2, billing = 2, search = 3 } }
module "service" {
  for_each = local.services
  source   = "./modules/service"
  name     = each.key
  replicas = each.value
}
resource "terraform_data" "token" { input = sensitive("dummy-value") }
check "error_budget" {
  assert {
    condition     = length(local.services) < 5
    error_message = "More than four services: the error budget is used up."
  }
}
output "services" { value = { for k, m in module.service : k => m.names } }
T
terraform init -no-color >/dev/null 2>&1; terraform apply -auto-approve -no-color -input=false >/dev/null 2>&1
echo ==OUTPUT==
terraform show -json 2>&1 | jq .
exit ${PIPESTATUS[0]}
