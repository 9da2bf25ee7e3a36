# needs: cargo
# packages: none (rust 1.95.0; RUSTC_BOOTSTRAP=1 for libtest's benchmarks)
set -u
export RUSTC_BOOTSTRAP=1 CARGO_TERM_COLOR=never
mkdir -p src benches
cat > Cargo.toml <<'T'
[package]
name = "textscan"
version = "0.5.0"
edition = "2021"
T
cat > src/lib.rs <<'T'
pub fn count(hay: &[u8], needle: u8) -> usize { hay.iter().filter(|b| **b == needle).count() }
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> { hay.windows(needle.len()).position(|w| w == needle) }
pub fn lines(hay: &[u8]) -> usize { hay.split(|b| *b == b'\n').count() }
#[cfg(test)]
mod tests {
    use super::*;
    #[test] fn finds() { assert_eq!(find(b"xxerror", b"error"), Some(2)); }
    #[test] fn error_not_found() { assert_eq!(find(b"xx", b"error"), None); }
}
T
python3 - <<'P'
s = '#![feature(test)]\nextern crate test;\nuse test::{black_box, Bencher};\nuse textscan::*;\nfn text(n: usize) -> Vec<u8> { b"2024-01-01 INFO all well\\n2024-01-01 ERROR failed to open\\n".iter().copied().cycle().take(n).collect() }\n'
for op, e in [("count_newlines", "count(&t, b'\\n')"), ("find_error", 'find(&t, b"error: fatal")'), ("find_missing", 'find(&t, b"zzz")'), ("lines", "lines(&t)"), ("find_failed_prefix", 'find(&t, b"failed to close")'), ("panic_free_split", "lines(&t)")]:
    for n in [0, 64, 256, 1024, 4096, 16384, 65536]:
        for z in ["aligned", "shifted"]:
            s += f"#[bench] fn {op}_{n:05}_{z}(b: &mut Bencher) {{ let v = text({n} + 1); let t = &v[{int(z == 'shifted')}..]; b.bytes = {n}; b.iter(|| {{ let t = black_box(t); {e} }}); }}\n"
open("benches/scan.rs", "w").write(s)
P
echo ==OUTPUT==
cargo bench --offline 2>&1
