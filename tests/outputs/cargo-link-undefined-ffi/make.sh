# needs: cargo gcc ar
# packages: none (rust 1.95.0)
set -u
export CARGO_TERM_COLOR=never
mkdir -p src/bin native
cat > Cargo.toml <<'T'
[package]
name = "fastsum"
version = "0.3.0"
edition = "2021"
build = "build.rs"
T
cat > native/sum.c <<'T'
#include <stddef.h>
#include <stdint.h>
uint64_t fs_sum(const uint32_t *p, size_t n) { uint64_t s = 0; while (n--) s += *p++; return s; }
uint64_t fs_error_count(void) { return 0; }
T
cat > build.rs <<'T'
use std::{env, process::Command};
fn main() {
    let out = env::var("OUT_DIR").unwrap();
    println!("cargo:rerun-if-changed=native/sum.c");
    println!("cargo:warning=pkg-config not found, building the bundled native/sum.c");
    println!("cargo:warning=AVX2 kernel disabled: native/avx2.c failed to compile with -mavx512f, using the scalar one");
    assert!(Command::new("cc").args(["-O1", "-c", "native/sum.c", "-o"]).arg(format!("{out}/sum.o")).status().unwrap().success());
    assert!(Command::new("ar").arg("crs").arg(format!("{out}/libfastsum_native.a")).arg(format!("{out}/sum.o")).status().unwrap().success());
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=fastsum_native");
}
T
python3 - <<'P'
s = "extern \"C\" { fn fs_sum(p: *const u32, n: usize) -> u64; fn fs_error_count() -> u64; }\npub fn sum(v: &[u32]) -> u64 { unsafe { fs_sum(v.as_ptr(), v.len()) + fs_error_count() } }\n"
for i in range(24): s += f"pub fn lane_{i:02}(input: &[u32], error: u32) -> u64 {{\n    let lanes = {i};\n    sum(input)\n}}\n"
open("src/lib.rs", "w").write(s)
for b in ["adder", "checker", "mean", "report", "stream"]:
    x = f"fn main() {{\n    let args: Vec<String> = std::env::args().collect();\n    println!(\"{b} {{}}\", fastsum::sum(&[1, 2, 3]));\n}}\n"
    if b == "mean": x = "extern \"C\" { fn fs_mean_f64(p: *const u32, n: usize) -> f64; }\n" + x.replace("fastsum::sum(&[1, 2, 3])", "unsafe { fs_mean_f64([1u32].as_ptr(), 1) }")
    open(f"src/bin/{b}.rs", "w").write(x)
P
echo ==OUTPUT==
cargo build --offline --keep-going -j1 --verbose 2>&1 | sed -e "s#$HOME#/home/dev#g"
exit ${PIPESTATUS[0]}
