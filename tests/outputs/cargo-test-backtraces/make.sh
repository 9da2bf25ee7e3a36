# needs: cargo
# packages: none (rust 1.95.0)
set -u
export RUST_BACKTRACE=1 CARGO_TERM_COLOR=never
mkdir -p src tests
cat > Cargo.toml <<'T'
[package]
name = "pool"
version = "0.2.0"
edition = "2021"
T
cat > src/lib.rs <<'T'
//! A pool of connections.
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

#[derive(Debug)]
pub enum PoolError { Exhausted(usize), Closed, Timeout(std::time::Duration) }
impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Exhausted(n) => write!(f, "pool exhausted: {n} connections in use"),
            PoolError::Closed => write!(f, "pool closed"),
            PoolError::Timeout(d) => write!(f, "timed out after {d:?}"),
        }
    }
}
impl std::error::Error for PoolError {}

#[derive(Debug)]
pub struct Conn { pub id: usize }

#[derive(Default)]
pub struct Pool { idle: RefCell<VecDeque<Conn>>, made: RefCell<usize>, max: usize }

impl Pool {
    pub fn new(max: usize) -> Self { Pool { max, ..Pool::default() } }
    pub fn get(&self) -> Result<Conn, PoolError> {
        if let Some(c) = self.idle.borrow_mut().pop_front() { return Ok(c); }
        let mut made = self.made.borrow_mut();
        if *made >= self.max { return Err(PoolError::Exhausted(*made)); }
        *made += 1;
        Ok(Conn { id: *made })
    }
    pub fn put(&self, c: Conn) { self.idle.borrow_mut().push_back(c); }
    /// Drops the idle connections that `keep` refuses.
    pub fn prune(&self, keep: &dyn Fn(&Conn) -> bool) {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|c| keep(c));
    }
    pub fn idle(&self) -> usize { self.idle.borrow().len() }
    pub fn with<T>(&self, f: impl FnOnce(&Conn) -> T) -> Result<T, PoolError> {
        let c = self.get()?;
        let r = f(&c);
        self.put(c);
        Ok(r)
    }
}
pub fn checked(id: usize) -> usize { if id == 0 { panic!("connection 0 is reserved") } id }
T
python3 - <<'P'
h = "use pool::*;\nuse std::panic;\n\n"
t = ""
for i, k in enumerate(["lease", "return", "recycle", "timeout", "closed", "exhausted", "poisoned", "reopen"]):
    for j in range(4):
        t += f"#[test]\nfn {k}_{['one', 'two_error', 'many', 'failed_then_ok'][j]}() {{\n    let p = Pool::new({j + 1});\n    let c = p.get().unwrap();\n    p.put(c);\n    assert_eq!(p.idle(), 1);\n}}\n\n"
t += '''#[test]
#[should_panic(expected = "reserved")]
fn zero_is_reserved() {
    checked(0);
}

#[test]
fn worker_panic_is_contained() {
    for i in 0..6 {
        let r = panic::catch_unwind(|| if i % 2 == 0 { panic!("worker {i} failed: broken pipe") });
        eprintln!("worker {i}: {}", if r.is_err() { "restarted after error" } else { "ok" });
    }
    let p = Pool::new(1);
    let a = p.get().unwrap();
    let b = p.get();
    assert!(matches!(b, Err(PoolError::Exhausted(1))));
    drop(a);
    let c = p.with(|c| c.id).expect("a dropped connection must be given back");
    assert_eq!(c, 1);
}

#[test]
fn prune_sees_idle_count() {
    let p = Pool::new(4);
    let all: Vec<_> = (0..4).map(|_| p.get().unwrap()).collect();
    for c in all { p.put(c); }
    eprintln!("pruning, 4 idle");
    p.prune(&|c| c.id < 3 || p.idle() < 2);
    assert_eq!(p.idle(), 2);
}
'''
open("tests/lifecycle.rs", "w").write(h + t)
u = "use pool::*;\n\n"
for k in ["fifo", "lifo", "least_used", "random", "sticky", "error_budget", "round_robin", "weighted"]:
    for j in ["empty", "single", "full", "after_panic"]:
        u += f"#[test]\nfn {k}_{j}() {{ assert_eq!(checked(3), 3); }}\n"
open("tests/order.rs", "w").write(u)
P
echo ==OUTPUT==
cargo test --offline --no-fail-fast 2>&1
