# needs: cargo
# packages: none (rust 1.95.0)
set -u
export RUST_BACKTRACE=0
cat > Cargo.toml <<'T'
[workspace]
resolver = "2"
members = ["legacy", "engine", "plugins"]
T
for c in legacy engine plugins; do mkdir -p $c/src; printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n' $c > $c/Cargo.toml; done
echo 'legacy = { path = "../legacy" }' | tee -a engine/Cargo.toml >> plugins/Cargo.toml
python3 - <<'P'
ops = ["open", "close", "read", "write", "flush", "seek", "rename", "remove", "lock", "unlock", "stat", "sync"]
s = "#![allow(dead_code)]\n#[deprecated(since = \"0.1.0\", note = \"use `store_v2` instead\")]\npub fn store_v1(x: u32) -> u32 { x }\npub fn store_v2(x: u32) -> u32 { x }\n\n"
for i, o in enumerate(ops):
    s += f"pub mod {o}_ops {{\n    use std::collections::HashMap;\n    pub fn {o}_error(path: &str) -> Result<u32, String> {{\n        let mut attempts = 3;\n        let _ = path;\n        Ok(crate::store_v1(attempts))\n    }}\n    pub fn {o}_all(list: &[u32]) -> u32 {{\n        let total = list.len();\n        (list.iter().sum())\n    }}\n}}\n"
open("legacy/src/lib.rs", "w").write(s)
e = "use legacy::store_v2;\nmod scheduler;\nmod queue;\npub fn run() -> u32 { scheduler::drain(&mut queue::Queue::default()) + store_v2(1) }\n"
open("engine/src/lib.rs", "w").write(e)
q = "#[derive(Default)]\npub struct Queue { pub jobs: Vec<Job>, pub errors: Vec<String> }\n#[derive(Default)]\npub struct Job { pub id: u32, pub name: String, pub retries: u8 }\n\nimpl Queue {\n"
for o in ops: q += f"    pub fn {o}(&mut self, force: bool) -> usize {{\n        let mut n = self.jobs.len();\n        n\n    }}\n"
q += "    pub fn fail(&mut self, job: &Job, why: &str) { self.errors.push(format!(\"{}: {}\", job.name, why)); }\n}\n"
open("engine/src/queue.rs", "w").write(q)
d = "use crate::queue::{Job, Queue};\n\n"
for i, o in enumerate(ops[:6]): d += f"pub fn before_{o}(q: &Queue, limit: usize) -> usize {{\n    let unused_{o} = {i};\n    q.jobs.len()\n}}\n\n"
d += '''/// Takes all jobs and marks those that failed.
pub fn drain(q: &mut Queue) -> u32 {
    let mut done = 0;
    for job in q.jobs.iter() {
        if job.retries > 3 {
            q.fail(job, "too many retries");
        } else {
            done += job.id;
        }
    }
    done
}

'''
for i, o in enumerate(ops[6:]): d += f"pub fn after_{o}(q: &Queue, limit: usize) -> usize {{\n    let unused_{o} = {i};\n    q.jobs.len()\n}}\n\n"
open("engine/src/scheduler.rs", "w").write(d)
p = ""
for i, o in enumerate(ops):
    p += f"pub fn plugin_{o}(error_code: u32, mut retries: u32) -> u32 {{\n    let failed = legacy::store_v1({i});\n    while true {{ break; }}\n    {i}\n}}\n"
open("plugins/src/lib.rs", "w").write(p)
P
echo ==OUTPUT==
cargo build --offline --workspace --keep-going -j1 --color=always 2>&1
