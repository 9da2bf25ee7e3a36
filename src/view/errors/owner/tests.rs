use super::*;

fn owner_of(text: &str, own: &str) -> Option<String> {
    owner(&ErrorContext::of(text, own))
}

#[test]
fn owners_are_told_by_other_lines() {
    for (text, own, told) in [
        ("error[E0308]: mismatched\n --> src/a.rs:3:9\n", "error", "src/a.rs:3:9"),
        ("thread 'a' panicked at a.rs:1:2:\nno x\n", "no x", "a, a.rs:1:2"),
        (
            "Traceback (most recent call last):\n  File \"b.py\", line 3, in f\n  File \"<string>\", line 1, in g\n  File \"/v/lib/python3/x.py\", line 9, in h\nKeyError: 1\n",
            "KeyError",
            "File \"b.py\", line 3, in f",
        ),
        (
            "ERROR: test_a (m.T)\n-----\nTraceback (most recent call last):\n  File \"b.py\", line 3\nKeyError: 1\n",
            "KeyError",
            "ERROR: test_a (m.T), File \"b.py\", line 3",
        ),
        (
            "Error: migration failed\n    at m (m.js:1:2) {\n  [cause]: DbError: no x\n      at d (d.js:3:4)\n",
            "DbError",
            "Error: migration failed, d.js:3:4",
        ),
        (
            "  Unhandled rejection in t/a.js\n\n  t/a.js:3\n\n  TypeError: no\n\n  \u{203a} f (file://m.js:3:35)\n",
            "TypeError",
            "t/a.js, t/a.js:3",
        ),
        (
            "kernel: Out of memory: Killed process 8 (shop)\nsystemd[1]: shop.service: killed\n",
            "Out of",
            "shop.service",
        ),
        (
            "Error: no\n\n  with aws_a.b[\"c\"],\n  on main.tf line 3, in x:\n",
            "Error",
            "aws_a.b[\"c\"], on main.tf line 3, in x",
        ),
        ("# --- overlays/eu\nE1123 05:27:19.3 1 run.go:72] failed\n", "E1123", "overlays/eu"),
        ("== build ==\nx\n== test\nmake: no rule\n", "make", "test"),
        (
            "panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\t/usr/lib/go-1.19/src/a.go:1 +0x2\nmain.g()\n\t/app/b.go:3 +0x1\n",
            "panic",
            "/app/b.go:3",
        ),
        (
            "\u{2716} closes (0.3ms)\n  Error [E]: no\n      at a (b.js:1:2)\n",
            "Error",
            "closes, b.js:1:2",
        ),
        (
            "/app/s.js:1\nlog(1\n     ^\n\nSyntaxError: missing )\n    at wrap (node:x:1:2)\n",
            "SyntaxError",
            "/app/s.js:1",
        ),
        (r#"{"file": "a.py", "line": 3, "message": "no"}"#, "no", "a.py:3"),
        (
            "shop/offers.py:1: in <module>\n    from shop.tax import tax\nshop/tax.py:2: in <module>\n    import money\nE   ModuleNotFoundError: No module named 'money'\n",
            "E   ",
            "shop/tax.py:2",
        ),
        (
            "Error: Cannot find module 'redis'\nRequire stack:\n- /app/store.js\n- /app/main.js\n    at x (node:internal/a:1:2)\n",
            "Error",
            "/app/store.js",
        ),
        (
            "+ mkdir -p build\n+ cp a.conf build\ncp: cannot stat 'a.conf'\n",
            "cp:",
            "cp a.conf build",
        ),
    ] {
        assert_eq!(owner_of(text, own).as_deref(), Some(told), "{text}");
    }
}

#[test]
fn other_lines_near_an_error_are_no_owners() {
    for (text, own) in [
        ("ERROR: sched.py is not sorted\nERROR: store.py is not sorted\n", "store"),
        ("==12== Memcheck\n==12== Invalid write of size 8\n", "Invalid"),
        ("--- before\n+++ after\nerror: no\n", "error"),
        ("--- a/x.c\n+++ b/x.c\nerror: no\n", "error"),
        ("=== RUN   TestA\nerror: no\n", "error"),
        ("---\nname: a\nerror: no\n", "error"),
        ("a.js:3\nerror: no\n", "error"),
        ("Killed\nsystemd[1]: shop.service: started\n", "Killed"),
    ] {
        assert_eq!(owner_of(text, own), None, "{text}");
    }
}
