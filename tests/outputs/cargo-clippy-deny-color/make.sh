# needs: cargo clippy
# packages: none (rust 1.95.0)
set -u
mkdir -p src/handlers
cat > Cargo.toml <<'T'
[package]
name = "inbox"
version = "1.3.0"
edition = "2021"

[lints.clippy]
unwrap_used = "deny"
T
python3 - <<'P'
names = ["archive", "compose", "delete", "draft", "error_page", "filter", "forward", "label", "move_to", "reply", "search", "snooze"]
open("src/lib.rs", "w").write("//! Inbox.\npub mod handlers;\npub mod rules;\npub mod zone;\n")
open("src/handlers/mod.rs", "w").write("".join(f"pub mod {n};\n" for n in names))
for i, n in enumerate(names):
    s = f'''use std::collections::HashMap;

pub fn {n}(ids: &Vec<u32>, failed: &mut Vec<u32>) -> Result<usize, String> {{
    let mut moved = 0;
    for i in 0..ids.len() {{
        if ids[i] % 2 == 0 {{
            failed.push(ids[i].clone());
        }} else {{
            moved += 1;
        }}
    }}
    if failed.len() == 0 {{
        return Ok(moved);
    }}
    let text = format!("error: {{}} failed", failed.len());
    return Err(text);
}}

pub fn {n}_index(map: &HashMap<u32, String>, id: u32) -> String {{
    match map.get(&id) {{
        Some(v) => v.to_string(),
        None => "".to_string(),
    }}
}}
'''
    if n == "label":
        s += '''
/// Counts the labels of every message until the first that is empty.
pub fn label_run(labels: &[&str]) -> usize {
    let mut n = 0;
    for l in labels {
        if l.is_empty() {
            n += 0;
            break;
        }
        n += 1;
    }
    let first = labels.first().unwrap();
    n + first.len()
}
'''
    open(f"src/handlers/{n}.rs", "w").write(s)
open("src/rules.rs", "w").write('''use std::f64;
pub fn circle(r: f64) -> f64 { 3.14 * r * r }
pub fn once(v: &[u32]) -> u32 {
    if let Some(x) = v.get(0) {
        return *x;
    }
    0
}
pub fn same(a: u32) -> bool { a == a }
''')
open("src/zone.rs", "w").write("".join(f"pub fn zone_{i}(x: Option<u32>) -> u32 {{ if let Some(_) = x {{ return {i}; }} else {{ return 0; }} }}\n" for i in range(8)))
P
echo ==OUTPUT==
cargo clippy --offline --all-targets --color=always 2>&1
