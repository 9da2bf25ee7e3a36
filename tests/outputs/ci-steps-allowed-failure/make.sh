# needs: cargo rustfmt make python3
# packages: none (rust 1.95.0)
set -u
export RUST_BACKTRACE=0 CARGO_TERM_COLOR=never
mkdir -p src tests scripts
printf '[package]\nname = "quota"\nversion = "0.8.0"\nedition = "2021"\n' > Cargo.toml
python3 - <<'P'
s = "pub mod limits;\n\npub fn used(v: &[u64]) -> u64 {\n    v.iter().sum()\n}\n"
open("src/lib.rs", "w").write(s)
l = ""
for i, n in enumerate(["disk", "error_log", "files", "inodes", "memory", "network", "processes", "sockets", "threads", "uploads"]):
    l += f"pub fn {n}(v: u64)->u64 {{ let failed = v;\n    v%{i + 2} }}\n"
open("src/limits.rs", "w").write(l)
t = "use quota::limits::*;\n"
for n in ["disk", "error_log", "files", "inodes", "memory", "network", "processes", "sockets", "threads", "uploads"]:
    for k in ["zero", "one", "failed_lookup", "max"]: t += f"#[test]\nfn {n}_{k}() {{\n    assert!({n}({0 if k == 'zero' else 5}) <= 11);\n}}\n"
t += '#[test]\nfn sockets_are_counted_per_user() {\n    eprintln!("user 7: error: stale socket, skipped");\n    assert_eq!(sockets(19), 3, "sockets of user 7");\n}\n'
open("tests/limits.rs", "w").write(t)
open("scripts/licences.py", "w").write('''import sys
for i, (n, l) in enumerate([("bytes", "MIT"), ("fatal-error", "MIT"), ("hash", "Apache-2.0"), ("panic-hook", "GPL-3.0")] * 6):
    print(f"{n} {i}.0.{i}: {l}" + (" <- not in the list of allowed licences" if l.startswith("GPL") else ""))
print("error: 6 packages with licences to look at (advisory)", file=sys.stderr)
sys.exit(1)
''')
P
cat > ci.sh <<'T'
step() { name=$1; shift; echo "##[group]$name"; echo "\$ $*"; "$@"; s=$?; echo "##[endgroup]"; if [ $s -ne 0 ]; then echo "step '$name' ended with exit code $s"; fi; return $s; }
result=0
step "format (advisory)" cargo fmt -- --check || true
step "lint" cargo clippy --offline --quiet || result=1
step "licences (advisory)" python3 scripts/licences.py || true
step "test" cargo test --offline --no-fail-fast || result=1
step "package" cargo package --offline --allow-dirty --no-verify || result=1
step "docs" cargo doc --offline --no-deps || result=1
echo "##[group]upload logs"
for i in $(seq 1 14); do echo "uploading target/logs/error-$i.log: 200 OK"; done
echo "##[endgroup]"
echo "job finished: result=$result, advisory steps with exit code 1: 2"
exit $result
T
echo ==OUTPUT==
bash ci.sh 2>&1
