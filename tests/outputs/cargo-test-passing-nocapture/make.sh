# needs: cargo
# packages: none (rust 1.95.0)
set -u
export RUST_BACKTRACE=1 CARGO_TERM_COLOR=never
mkdir -p src tests
cat > Cargo.toml <<'T'
[package]
name = "breaker"
version = "1.0.3"
edition = "2021"
T
cat > src/lib.rs <<'T'
//! A circuit breaker.
use std::fmt;
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError { Refused, Timeout(u64), Status(u16) }
impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Refused => write!(f, "connection refused (os error 111)"),
            CallError::Timeout(ms) => write!(f, "timed out after {ms} ms"),
            CallError::Status(s) => write!(f, "HTTP {s}"),
        }
    }
}
#[derive(Default)]
pub struct Breaker { failures: u32, open: bool }
impl Breaker {
    pub fn call(&mut self, name: &str, r: Result<u32, CallError>) -> Result<u32, CallError> {
        match r {
            Ok(v) => { self.failures = 0; println!("[breaker] {name}: ok ({v} bytes)"); Ok(v) }
            Err(e) => {
                self.failures += 1;
                eprintln!("[breaker] ERROR {name}: call failed: {e} ({} in a row)", self.failures);
                if self.failures >= 3 && !self.open { self.open = true; eprintln!("[breaker] ERROR {name}: circuit opened"); }
                Err(e)
            }
        }
    }
    pub fn is_open(&self) -> bool { self.open }
}
pub fn never() { panic!("entered unreachable state: HalfOpen") }
T
python3 - <<'P'
t = "use breaker::*;\n"
for k in ["billing", "catalog", "error_reports", "images", "payments", "search", "sessions", "shipping"]:
    for j, e in [("refused", "CallError::Refused"), ("timeout", "CallError::Timeout(500)"), ("http_500", "CallError::Status(500)")]:
        t += f'#[test]\nfn {k}_{j}_opens_circuit() {{\n    let mut b = Breaker::default();\n    assert!(b.call("{k}", Ok(120)).is_ok());\n    for _ in 0..3 {{ assert!(b.call("{k}", Err({e})).is_err()); }}\n    assert!(b.is_open());\n}}\n'
t += '#[test]\n#[should_panic(expected = "unreachable state")]\nfn half_open_is_unreachable() { never() }\n#[test]\nfn panics_are_contained() { assert!(std::panic::catch_unwind(never).is_err()); }\n'
open("tests/circuits.rs", "w").write(t)
P
echo ==OUTPUT==
cargo test --offline -- --nocapture --test-threads=1 2>&1
