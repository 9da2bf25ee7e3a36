//! Kinds of outputs. Words, names and numbers in them vary as in real outputs.

use std::fs;
use std::path::Path;

/// Function that returns part `number` of an output.
type Sample = fn(number: u64) -> Vec<u8>;

pub(super) const ALL: [(&str, Sample); 17] = [
    ("access log", |n| text(access(n))),
    ("JSON lines", |n| text(json_line(n, false))),
    ("JSON lines with errors", |n| text(json_line(n, true))),
    ("log of an application, failures on a third of its lines", |n| text(application(n))),
    ("calm log", |n| text(calm(n))),
    ("compiler", |n| text(compiler(n))),
    ("stack traces", |n| text(trace(n))),
    ("source code", source),
    ("test run", |n| text(test(n))),
    ("CSV", |n| text(csv(n))),
    ("base64", base64),
    ("hex dump", |n| text(hex_dump(n))),
    ("JSON on one line", |n| text(json_item(n))),
    ("minified JavaScript", |n| text(minified(n))),
    ("UTF-16", utf16),
    ("progress bar with carriage returns", |n| text(progress(n))),
    ("colours", |n| text(coloured(n))),
];

/// Returns an output of `size` bytes.
pub(super) fn of_size(sample: Sample, size: usize) -> Vec<u8> {
    let mut output = Vec::with_capacity(size + (1 << 20));
    for number in 0.. {
        output.extend(sample(number));
        if output.len() >= size {
            break;
        }
    }
    output.truncate(size);
    output
}

fn text(text: String) -> Vec<u8> {
    text.into_bytes()
}

/// Returns a pseudorandom number, computed by the finalizer of splitmix64.
fn random(number: u64, salt: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn pick<'a>(number: u64, salt: u64, of: &[&'a str]) -> &'a str {
    of[random(number, salt) as usize % of.len()]
}

const WORDS: [&str; 32] = [
    "order",
    "cart",
    "invoice",
    "user",
    "session",
    "payment",
    "stock",
    "queue",
    "worker",
    "index",
    "backup",
    "thumbnail",
    "report",
    "mail",
    "token",
    "profile",
    "search",
    "export",
    "import",
    "cache",
    "shard",
    "replica",
    "timeout",
    "gateway",
    "coupon",
    "refund",
    "address",
    "parcel",
    "return",
    "review",
    "price",
    "tax",
];

fn word(number: u64, salt: u64) -> &'static str {
    pick(number, salt, &WORDS)
}

fn time(number: u64) -> String {
    let second = number / 50;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        number % 1000
    )
}

fn access(n: u64) -> String {
    let status = pick(n, 1, &["200", "200", "200", "200", "304", "302", "404", "500", "502"]);
    let agent =
        pick(n, 2, &["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Go-http-client/1.1"]);
    format!(
        "10.{}.{}.{} - {} [23/Nov/2026:{} +0000] \"{} /{}/{}/{:x} HTTP/1.1\" {status} {} \"-\" \"{agent}\" status={status}\n",
        random(n, 3) % 256,
        random(n, 4) % 256,
        random(n, 5) % 256,
        word(n, 6),
        time(n),
        pick(n, 7, &["GET", "POST", "PUT"]),
        word(n, 8),
        word(n, 9),
        random(n, 10),
        random(n, 11) % 90_000,
    )
}

fn json_line(n: u64, errors: bool) -> String {
    let level = if errors { pick(n, 1, &["info", "warn", "error"]) } else { "info" };
    let error = if errors && level == "error" {
        format!("\"{} {} failed: connection refused\"", word(n, 2), word(n, 3))
    } else {
        "null".to_owned()
    };
    format!(
        "{{\"time\":\"2026-11-23T{}Z\",\"level\":\"{level}\",\"msg\":\"{} {} {}\",\"id\":\"{:x}\",\"took\":{}.{},\"error\":{error}}}\n",
        time(n),
        word(n, 4),
        word(n, 5),
        word(n, 6),
        random(n, 7),
        random(n, 8) % 900,
        random(n, 9) % 1_000_000,
    )
}

fn application(n: u64) -> String {
    let (one, two) = (word(n, 1), word(n, 2));
    let told = match n % 3 {
        0 => format!(
            "ERROR [{one}-{}] {two} {} failed: {} refused",
            n % 16,
            random(n, 3) % 9999,
            word(n, 4)
        ),
        1 => format!(
            "INFO  [{one}-{}] {two} {} took {} ms",
            n % 16,
            random(n, 3) % 9999,
            random(n, 5) % 900
        ),
        _ => format!("DEBUG [{one}-{}] {two} of {} in {}", n % 16, word(n, 4), word(n, 6)),
    };
    format!("2026-11-23 {} {told}\n", time(n))
}

fn calm(n: u64) -> String {
    format!(
        "2026-11-23 {} INFO {} {} of {} in {} ms\n",
        time(n),
        word(n, 1),
        random(n, 2) % 9999,
        word(n, 3),
        n % 97
    )
}

fn compiler(n: u64) -> String {
    let (one, two, line) = (word(n, 1), word(n, 2), random(n, 3) % 900 + 1);
    match n % 4 {
        0 => format!("src/{one}/{two}.c: In function '{two}_{one}':\n"),
        1 => format!(
            "src/{one}/{two}.c:{line}:9: warning: unused variable '{one}' [-Wunused-variable]\n"
        ),
        2 => format!("{line:5} |     int {one} = {two}({line});\n      |         ^~~~\n"),
        _ => format!(
            "src/{one}/{two}.c:{line}:5: error: '{one}_{two}' undeclared (first use in this function)\n"
        ),
    }
}

fn trace(n: u64) -> String {
    let (one, two) = (word(n, 1), word(n, 2));
    let frame = |frame| {
        let (class, method) = (word(n, 4 + frame), word(n, 40 + frame));
        let line = random(n, frame) % 900;
        format!("\tat com.example.{class}.{method}({class}.java:{line})")
    };
    let frames: Vec<String> = (0..12).map(frame).collect();
    let (number, frames) = (random(n, 3), frames.join("\n"));
    format!(
        "java.lang.IllegalStateException: {one} {number} is no {two}\n{frames}\n\
         Caused by: java.io.IOException: {two} refused\n\t... 7 more\n"
    )
}

/// Returns the source code of ctxfs, followed by a comment with `n`.
fn source(n: u64) -> Vec<u8> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    let mut open = vec![top];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all.extend(fs::read(&path).unwrap());
            }
        }
    }
    all.extend(format!("// {n}\n").into_bytes());
    all
}

fn test(n: u64) -> String {
    let (one, two, three) = (word(n, 1), word(n, 2), word(n, 3));
    match random(n, 4) % 40 {
        0 => format!("test {one}::{two}::rejects_{three}_{n} ... FAILED\n"),
        _ => format!("test {one}::{two}::handles_{three}_errors_{n} ... ok\n"),
    }
}

fn csv(n: u64) -> String {
    format!(
        "{n},{},{},2026-11-23,{},{}.{:02},\"{} of {}\"\n",
        word(n, 1),
        word(n, 2),
        random(n, 3) % 500,
        random(n, 4) % 900,
        n % 100,
        word(n, 5),
        word(n, 6)
    )
}

fn base64(n: u64) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut line: Vec<u8> = (0..76).map(|at| LETTERS[random(n, at) as usize % 64]).collect();
    line.push(b'\n');
    line
}

fn hex_dump(n: u64) -> String {
    let words: Vec<String> = (0..8).map(|at| format!("{:04x}", random(n, at) & 0xffff)).collect();
    format!("{:08x}: {}  ................\n", n * 16, words.join(" "))
}

fn json_item(n: u64) -> String {
    let begin = if n == 0 { "[" } else { "," };
    format!(
        "{begin}{{\"id\":{n},\"name\":\"{} {}\",\"state\":\"{}\",\"tags\":[\"{}\",\"{}\"],\"error\":null}}",
        word(n, 1),
        word(n, 2),
        word(n, 3),
        word(n, 4),
        word(n, 5)
    )
}

fn minified(n: u64) -> String {
    let (one, two) = (word(n, 1), word(n, 2));
    format!(
        "function {one}{n}(e,t){{if(!(e instanceof t))throw new TypeError(\"no {two}\");return e.{two}||(e.{two}=t({n}))}}"
    )
}

fn utf16(n: u64) -> Vec<u8> {
    calm(n).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn progress(n: u64) -> String {
    let end = if n % 100 == 99 { "\n" } else { "\r" };
    format!(
        "{}: {:3}% [{:<50}] {} KB/s{end}",
        word(n / 100, 1),
        n % 100,
        "#".repeat(n as usize % 100 / 2),
        random(n, 2) % 9999
    )
}

fn coloured(n: u64) -> String {
    let colour = n % 7 + 31;
    format!(
        "\x1b[{colour}m{}\x1b[0m {} \x1b[1m{}\x1b[22m {}\n",
        word(n, 1),
        time(n),
        word(n, 2),
        application(n).trim_end()
    )
}
