# needs: cargo cargo-nextest
# packages: cargo-nextest 0.9.143
set -u
export RUST_BACKTRACE=0 CARGO_TERM_COLOR=never
mkdir -p src tests .config
cat > Cargo.toml <<'T'
[package]
name = "mailer"
version = "0.9.1"
edition = "2021"
T
cat > .config/nextest.toml <<'T'
[profile.ci]
retries = 2
fail-fast = false
failure-output = "immediate"
success-output = "never"
status-level = "all"
final-status-level = "flaky"
slow-timeout = { period = "2s", terminate-after = 2 }
T
cat > src/lib.rs <<'T'
use std::collections::BTreeMap;
#[derive(Debug, Clone, PartialEq)]
pub struct Message { pub to: String, pub subject: String, pub headers: BTreeMap<String, String> }
impl Message {
    pub fn new(to: &str, subject: &str) -> Self { Message { to: to.into(), subject: subject.into(), headers: BTreeMap::new() } }
    pub fn header(mut self, k: &str, v: &str) -> Self { self.headers.insert(k.into(), v.into()); self }
    pub fn encode(&self) -> String {
        let mut s = format!("To: {}\nSubject: {}\n", self.to, self.subject);
        for (k, v) in &self.headers { s += &format!("{k}: {}\n", v.replace('\n', " ")); }
        s
    }
    pub fn domain(&self) -> Option<&str> { self.to.split('@').nth(1) }
}
pub fn log(level: &str, what: &str) { println!("2024-05-02T08:11:0{}Z {level:<5} mailer::queue {what}", what.len() % 10); }
T
python3 - <<'P'
s = "use mailer::*;\n"
for k in ["encode", "header", "domain", "queue", "bounce", "dkim", "spf", "template"]:
    for j in ["empty", "ascii", "utf8", "long", "error_reply", "crlf"]:
        s += f'#[test] fn {k}_{j}() {{ log("INFO", "{k} {j}"); assert!(Message::new("a@example.com", "{k}").encode().contains("{k}")); }}\n'
open("tests/messages.rs", "w").write(s)
open("tests/delivery.rs", "w").write('''use mailer::*;
use std::fs;
fn attempt(name: &str) -> u32 {
    let p = std::env::temp_dir().join(format!("nextest-mailer-{name}"));
    let n = fs::read_to_string(&p).ok().and_then(|s| s.parse().ok()).unwrap_or(0) + 1;
    fs::write(&p, n.to_string()).unwrap();
    n
}
#[test]
fn smtp_greylisted() {
    let n = attempt("grey");
    log("WARN", "450 4.2.0 greylisted, try again later");
    assert!(n > 2, "server said: 450 4.2.0 <a@example.com>: Recipient address rejected: Greylisted");
}
#[test]
fn smtp_reconnects() {
    let n = attempt("reconnect");
    for i in 0..8 { log("ERROR", &format!("connection {i} reset by peer, reconnecting")); }
    assert!(n > 1, "Connection refused (os error 111)");
}
#[test]
fn domain_of_quoted_local_part() {
    for i in 0..14 { log("INFO", &format!("case {i}: ok")); }
    log("ERROR", "lookup failed for example.invalid, ignored");
    let m = Message::new("\\"a@b\\"@example.com", "x");
    assert_eq!(m.domain(), Some("example.com"));
}
#[test]
fn queue_drains_on_shutdown() {
    log("INFO", "draining 3 messages");
    log("INFO", "waiting for worker 2");
    std::thread::sleep(std::time::Duration::from_secs(30));
}
''')
u = "use mailer::*;\n"
for k in ["retry", "backoff", "limits", "tls", "auth", "pipelining", "panic_handler", "zones"]:
    for j in ["off", "on", "invalid", "failed_login", "expired"]:
        u += f'#[test] fn {k}_{j}() {{ assert_eq!(Message::new("x@y", "").domain(), Some("y")); }}\n'
open("tests/workers.rs", "w").write(u)
P
rm -f /tmp/nextest-mailer-*
export TMPDIR=$PWD
cargo test --offline --no-run >/dev/null 2>&1
echo ==OUTPUT==
cargo nextest run --offline --profile ci -j1 2>&1
