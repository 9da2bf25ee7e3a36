use super::*;
use crate::grep::corpus::{Corpus, Loaded};
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use proptest::prelude::*;

use crate::CorpusQuery;
use crate::grep::fold;
use crate::grep::tests::{QUERIES, corpus, log, split_notice};
use crate::query::SearchScope;
use ctxfs_core::materialize::is_binary;
use ctxfs_core::model::{Content, Place, RelPath, Root};
use ctxfs_core::redact::{Rule, SecretRules};

/// Artifacts in memory, by name.
#[derive(Default)]
struct Memory {
    artifacts: Vec<(RelPath, Vec<u8>)>,
    /// Treats all artifacts as too large to be read whole.
    large: bool,
}

fn place() -> Place {
    Place::of_conversation(&Root::All("/ctx".to_owned()), "c7")
}

impl Memory {
    fn of(artifacts: &[(&str, &str)]) -> Self {
        Self::new(artifacts.iter().map(|(name, text)| (*name, *text)))
    }

    fn new<N: AsRef<OsStr>, T: Into<Vec<u8>>>(artifacts: impl IntoIterator<Item = (N, T)>) -> Self {
        let owned = |(name, text): (N, T)| (RelPath::new(name).unwrap(), text.into());
        Self { artifacts: artifacts.into_iter().map(owned).collect(), large: false }
    }

    fn render_until(
        &self,
        query: &str,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> (Vec<u8>, Rendered) {
        let query = Query::parse_in(SearchScope::Many, OsStr::new(query)).unwrap();
        let mut out = Vec::new();
        let directory = Directory { place: &place(), corpus: self, redacts: None };
        let rendered = render(&query, &directory, expired, &mut out).unwrap();
        (out, rendered)
    }

    fn bytes(&self, query: &str) -> Vec<u8> {
        let (body, rendered) = self.render_until(query, &|| false);
        assert!(rendered.whole, "{query}");
        [rendered.notice.unwrap_or_default().into_bytes(), body].concat()
    }

    fn text(&self, query: &str) -> String {
        String::from_utf8(self.bytes(query)).unwrap()
    }

    /// Searches each artifact alone and joins the results.
    fn one_by_one(&self, query: &str) -> String {
        let lifted = if query.starts_with("-m") { "" } else { "-m0 " };
        let query = &format!("{lifted}{query}");
        let alone = |artifact: &(RelPath, Vec<u8>)| {
            let text = Self { artifacts: vec![artifact.clone()], large: self.large }.text(query);
            assert!(!text.starts_with("# "), "{text}");
            text
        };
        self.artifacts.iter().map(alone).collect()
    }

    /// Runs the search and each search that a `Go on` notice names, and joins the results.
    fn followed(&self, query: &str) -> String {
        let mut all = String::new();
        let mut next = Some(query.to_owned());
        while let Some(query) = next {
            let (notice, body) = split_notice(&self.text(&query));
            assert!(notice.len() + body.len() <= 48 * 1024);
            all.push_str(&body);
            next = go_on(&notice);
        }
        all
    }
}

fn go_on(notice: &str) -> Option<String> {
    let (_, rest) = notice.split_once("Go on: ")?;
    let path = rest.split("    ").next().unwrap().trim_end();
    Some(path.strip_prefix("/ctx/c7/.grep/").unwrap().to_owned())
}

impl Corpus for Memory {
    fn len(&self) -> usize {
        self.artifacts.len()
    }

    fn path(&self, number: usize) -> &RelPath {
        &self.artifacts[number].0
    }

    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded> {
        let (name, bytes) = &self.artifacts[number];
        match name.to_text().as_str() {
            "gone" => return Ok(Loaded::Gone),
            "locked" => return Err(io::Error::from_raw_os_error(libc::EACCES)),
            _ if is_binary(bytes) => return Ok(Loaded::Binary),
            _ => {}
        }
        if self.large || bytes.len() >= buffer.len() {
            return Ok(Loaded::Opened(Box::new(bytes.clone())));
        }
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(Loaded::Whole(bytes.len()))
    }
}

/// Returns artifacts whose texts are those of the tests of single artifacts, repeated in several
/// folders. They are in the order in which ripgrep sorts their paths.
fn library() -> Memory {
    let mut artifacts = Vec::new();
    for folder in ["", "artifacts/terminal/", "artifacts/tool/", "artifacts/tool/a b/"] {
        let once = |at: &(usize, Vec<u8>)| at.1.len() < 50_000 || folder.is_empty();
        let texts = corpus().into_iter().enumerate().filter(once);
        artifacts.extend(texts.map(|(at, text)| (format!("{folder}{at}.txt"), text)));
    }
    artifacts.sort_by(|(a, _), (b, _)| std::path::Path::new(a).cmp(std::path::Path::new(b)));
    Memory::new(artifacts)
}

#[test]
fn results_are_ripgreps() {
    let mut library = library();
    let dir = tempfile::Builder::new().prefix("ctxfs").tempdir().unwrap();
    for (name, text) in &library.artifacts {
        let path = dir.path().join(name.as_os_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let only_many: [(&str, &[&str]); 3] = [
        ("-l foo", &["-l", "foo"]),
        ("-l -v foo", &["-l", "-v", "foo"]),
        ("-cl foo", &["-lc", "foo"]),
    ];
    for (query, args) in QUERIES.iter().chain(&only_many) {
        let mut rg = Command::new("rg");
        rg.args(["--no-config", "-n", "--sort=path"]).args(*args).current_dir(dir.path());
        let want = rg.stdin(std::process::Stdio::null()).output().unwrap().stdout;
        let endless = if query.contains("-m") || query.starts_with("--") || *query == "-n" {
            (*query).to_owned()
        } else {
            format!("-m0 {query}")
        };
        for large in [false, true] {
            library.large = large;
            let (got, rendered) = library.render_until(&endless, &|| false);
            assert_eq!(rendered.notice, None, "{query}");
            let differs = got.split(|b| *b == b'\n').zip(want.split(|b| *b == b'\n'));
            let differs = differs.into_iter().find(|(got, want)| got != want);
            let differs =
                differs.map(|(a, b)| (a.escape_ascii().to_string(), b.escape_ascii().to_string()));
            assert!(got == want, "{query}, large: {large}: {differs:?}");
        }
    }
}

/// Returns `count` artifacts, some with many matches and some with few.
fn many(count: usize) -> Memory {
    let text = |number: usize| match number % 10 {
        3 => log(200),
        5 => String::new(),
        7 => format!("ERROR alone REQ\n{}", "filler\n".repeat(30)),
        _ => log(number % 30),
    };
    let artifacts =
        (0..count).map(|number| (format!("tool/{number}.txt"), text(number).into_bytes()));
    Memory::new(artifacts)
}

#[test]
fn a_large_result_is_cut_and_says_how_to_go_on() {
    let memory = many(400);
    let all = String::from_utf8(memory.bytes("-m0 GET")).unwrap();
    let (notice, body) = split_notice(&memory.text("GET"));
    assert_eq!((all.lines().count(), body.lines().count()), (11_930, 969));
    assert_eq!(
        notice,
        "# 11,930 lines match in 306 of 400 artifacts; the first 969 follow. \
         Go on: /ctx/c7/.grep/--from=tool%2F33.txt:67 GET    \
         All at once: /ctx/c7/.grep/-m0 GET\n"
    );
    let (next_notice, next) = split_notice(&memory.text("--from=tool%2F33.txt:67 GET"));
    let want = "# 10,961 lines match in 281 of the 367 artifacts from tool/33.txt on; the first ";
    assert!(next_notice.starts_with(want), "{next_notice}");
    assert!(all.starts_with(&(body + &next)));
    let list = many(9000).text("-l GET");
    let (notice, _) = split_notice(&list);
    assert!(notice.starts_with("# 6,900 of 9,000 artifacts match; the first "), "{notice}");
}

#[test]
fn going_on_misses_nothing() {
    let mut memory = many(100);
    for large in [false, true] {
        memory.large = large;
        for query in [
            "REQ",
            "-C2 7[0-9] ",
            "-A9 ERROR",
            "-B5 0 G",
            "-o [0-9]",
            "-v ERROR",
            "-c REQ",
            "-l REQ",
            "-m30 e",
            "-m150 -C1 e",
        ] {
            let all = memory.one_by_one(query).replace("--\n", "");
            let got = memory.followed(query).replace("--\n", "");
            let differs = got.lines().zip(all.lines()).find(|(got, want)| got != want);
            assert!(got == all, "{query}, large: {large}: {differs:?}");
        }
    }
}

#[test]
fn going_on_inside_giant_lines_misses_nothing() {
    let line = "0123456789".repeat(150_000);
    let mut memory = Memory::of(&[("a b%.txt", &line), ("small", "0123\n"), ("c.txt", &line)]);
    let parts = memory.followed("-o .{1,400}");
    let of = |name: &str| -> String {
        let mine = parts.lines().filter_map(|line| line.strip_prefix(name));
        mine.map(|line| line.split_once(':').unwrap().1).collect()
    };
    assert!(of("a b%.txt:") == line && of("c.txt:") == line && of("small:") == "0123");
    memory.artifacts.remove(1);
    let first = memory.text("-o .{1,400}");
    let notice = split_notice(&first).0;
    let want = "# 2 lines match in 2 of 2 artifacts; the first follows, line 1 of a b%.txt up to byte \
                column 47,200. Go on: /ctx/c7/.grep/--from=a%2520b%2525.txt:1@47201 -o .{1,400}    ";
    assert!(notice.starts_with(want), "{notice}");
}

#[test]
fn what_was_not_searched_is_named() {
    let memory = Memory::of(&[
        ("a", "foo\n"),
        ("b.bin", "\x01\0foo\n"),
        ("gone", ""),
        ("c.bin", "foo\x01\0"),
    ]);
    let want = "# 2 artifacts are not text, and not searched: b.bin, c.bin\na:1:foo\n";
    assert_eq!(memory.text("foo"), want);
    let memory = Memory::of(&[("b.bin", "\x01\0foo\n"), ("locked", "foo\n"), ("z", "foo\n")]);
    let (body, rendered) = memory.render_until("foo", &|| false);
    assert_eq!(
        rendered.notice.unwrap(),
        "# 1 artifact is not text, and not searched: b.bin\n\
         # 1 artifact could not be read: locked (Permission denied (os error 13))\n"
    );
    assert_eq!((body.as_slice(), rendered.whole), (&b"z:1:foo\n"[..], false));
    let names = (0..500).map(|number| format!("{number}.bin"));
    let text = Memory::new(names.map(|name| (name, "\0"))).text("foo");
    assert!(text.starts_with("# 500 artifacts are not text, and not searched: 0.bin, 1.bin, "));
    assert!(text.ends_with(" more\n") && text.len() < 2000, "{text}");
}

#[test]
fn nothing_found_is_empty() {
    let memory = Memory::of(&[("a", "foo\n"), ("b", "")]);
    for query in ["bar", "-c bar", "-l bar", "-C3 bar", "--from=b:1 foo", "--from=a:2 foo"] {
        assert_eq!(memory.text(query), "", "{query}");
    }
    assert_eq!(Memory::default().text("foo"), "");
}

#[test]
fn a_mark_may_be_of_what_is_gone() {
    let memory = Memory::of(&[("a", "foo\n"), ("b", "foo\n")]);
    assert_eq!(memory.text("--from=b:1 foo"), "b:1:foo\n");
    let want =
        "# x.txt is not here any more: searched from the newest artifact on\na:1:foo\nb:1:foo\n";
    assert_eq!(memory.text("--from=x.txt:7 foo"), want);
}

#[test]
fn long_lines_and_literals_are_named_once() {
    let line = format!("{}timeout(\n", "a".repeat(1000));
    let memory = Memory::of(&[("s", "timeout(\n"), ("l", &line), ("m", &line)]);
    let window = format!("...{}timeout(", "a".repeat(486));
    let want = format!(
        "# not a regex (unclosed group): searched as text\n\
         # some lines are long: l:1@1001 is line 1 at byte column 1001\n\
         s:1:timeout(\nl:1@1001:{window}\nm:1@1001:{window}\n"
    );
    assert_eq!(memory.text("timeout("), want);
}

/// Uses more artifacts than may wait in memory, both artifacts that are read whole and larger ones.
#[test]
fn results_without_limit_are_whole() {
    let text = "x\n".repeat(100_000);
    let big = "x\n".repeat(600_000);
    let artifacts: Vec<(String, Vec<u8>)> = (0..4)
        .map(|number| {
            (
                format!("artifact-{number}"),
                if number == 2 { &big } else { &text }.clone().into_bytes(),
            )
        })
        .chain([("end".to_owned(), b"x\n".to_vec())])
        .collect();
    let memory = Memory::new(artifacts);
    let got = memory.text("-m0 x");
    let mut want = String::new();
    for (name, text) in &memory.artifacts {
        want.extend((1..=text.len() / 2).map(|line| format!("{name}:{line}:x\n")));
    }
    assert!(got == want);
    assert_eq!(memory.text("-m0 -c x").lines().count(), 5);
    let notice = split_notice(&memory.text("-C1 x")).0;
    assert!(notice.starts_with("# 900,001 lines match in 5 of 5 artifacts; "), "{notice}");
}

#[test]
fn a_search_can_run_out_of_time() {
    let memory = many(400);
    let until = |most: usize| {
        let asked = AtomicUsize::new(0);
        move || asked.fetch_add(1, Relaxed) >= most
    };
    let all = memory.text("-m0 ERROR alone");
    let (body, rendered) = memory.render_until("ERROR alone", &until(100));
    assert!(!rendered.whole);
    let notice = rendered.notice.unwrap();
    assert!(notice.contains(" of 400 artifacts; what was found follows. Go on: "), "{notice}");
    let (rest, _) = memory.render_until(&go_on(&notice).unwrap(), &|| false);
    assert_eq!(String::from_utf8([body, rest].concat()).unwrap(), all);
    let (_, rendered) = memory.render_until("GET", &until(200));
    let notice = rendered.notice.unwrap();
    assert!(
        notice.contains(" artifacts so far; the first ")
            && notice.contains("\n# out of time after ")
    );
    let (body, rendered) = memory.render_until("GET", &|| true);
    let want = "# out of time after 0 of 400 artifacts; what was found follows. \
                Go on: /ctx/c7/.grep/--from=tool%2F0.txt:1 GET\n";
    assert_eq!((body.len(), rendered.notice.unwrap().as_str()), (0, want));
}

/// Content whose reading takes too long from its second MiB on.
struct Slow<'a>(Vec<u8>, &'a AtomicBool);

impl Content for Slow<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.fetch_or(offset > 1 << 20, Relaxed);
        self.0.read_at(offset, buffer)
    }
}

/// A slow artifact followed by another one.
struct SlowFirst(Memory, &'static AtomicBool);

impl Corpus for SlowFirst {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn path(&self, number: usize) -> &RelPath {
        self.0.path(number)
    }

    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded> {
        match number {
            0 => {
                let bytes = self.0.artifacts[0].1.clone();
                Ok(Loaded::Opened(Box::new(Slow(bytes, self.1))))
            }
            _ => self.0.load(number, buffer),
        }
    }
}

#[test]
fn time_can_run_out_inside_an_artifact() {
    static LATE: AtomicBool = AtomicBool::new(false);
    let text = format!("foo\n{}foo\n", "filler\n".repeat(500_000));
    let corpus = SlowFirst(Memory::of(&[("slow", &text), ("last", "foo\n")]), &LATE);
    let query = Query::parse_in(SearchScope::Many, OsStr::new("-m7 foo")).unwrap();
    let mut body = Vec::new();
    let directory = Directory { place: &place(), corpus: &corpus, redacts: None };
    let rendered = render(&query, &directory, &|| LATE.load(Relaxed), &mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert_eq!(body, "slow:1:foo\n");
    let notice = rendered.notice.unwrap();
    assert!(notice.starts_with("# out of time after 0 of 2 artifacts; what was"), "{notice}");
    let next = go_on(&notice).unwrap();
    assert!(next.starts_with("--from=slow:") && next.ends_with("+1 -m7 foo"), "{next}");
    assert_eq!(body + &corpus.0.text(&next), "slow:1:foo\nslow:500002:foo\nlast:1:foo\n");
}

#[test]
fn secrets_are_masked_and_counted() {
    let rule = Rule { name: "ticket".to_owned(), regex: "TICKET-[0-9]{12}".to_owned() };
    let rules = SecretRules::new(&[], &[rule]).unwrap();
    let text = "login TICKET-123456789012 ok\n";
    let many = text.repeat(3000);
    let mut memory = Memory::of(&[("a", text), ("b", "login\n"), ("c", &many)]);
    for large in [false, true] {
        memory.large = large;
        let text = |query: &str| {
            let query = Query::parse_in(SearchScope::Many, OsStr::new(query)).unwrap();
            let directory = Directory { place: &place(), corpus: &memory, redacts: Some(&rules) };
            let mut out = Vec::new();
            let query = CorpusQuery::Grep(query);
            let rendered = query.render(&directory, &|| false, &mut out).unwrap();
            rendered.notice.unwrap_or_default() + str::from_utf8(&out).unwrap()
        };
        let all = text("-m0 login");
        assert!(!all.contains("TICKET") && all.lines().count() == 3003, "large: {large}");
        assert!(all.starts_with(
            "# 3,001 secrets are redacted (ticket 3001)\na:1:login [redacted:ticket]** ok\nb:1:login\n"
        ) || all.starts_with("# 3001 secrets are redacted (ticket 3001)\na:1:login [redacted:ticket]"), "{}", &all[..200]);
        assert_eq!(text("TICKET"), "");
        assert_eq!(text("-m1 -o login"), "a:1:login\nb:1:login\nc:1:login\n");
        let page = text("login");
        assert!(page.len() <= 48 * 1024 && page.contains(" secrets are redacted (ticket "));
        let on = text(&go_on(&page.replacen("login TICKET", "", 1)).unwrap());
        assert!(on.starts_with("# ") && !on.contains("TICKET"), "large: {large}");
    }
}

#[test]
fn memory_for_context_is_bounded() {
    let lines = format!("{}\n", "x".repeat(fold::PIECE - 1)).repeat(80) + "end\n";
    let memory = Memory::of(&[("a", "end\n"), ("wide", &lines)]);
    let (notice, body) = split_notice(&memory.text("-B200 end"));
    let want = "# lines too long for so much context: searched in part only, wide before line ";
    assert!(notice.starts_with(want), "{notice}");
    assert_eq!(body, "a:1:end\n");
}

proptest! {
    #[test]
    fn nothing_panics_and_results_stay_small(
        texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..900), 0..9),
        name in "(-[iSFwvcxol]{1,3} |-[ABCm][0-9]{1,2} |--from=[1-9]:[1-9](@[1-9]{1,3})?(\\+2)? ){0,2}[ -~]{1,12}",
        large in any::<bool>(),
    ) {
        let artifacts = texts.into_iter().enumerate().map(|(at, text)| (at.to_string(), text));
        let memory = Memory { large, ..Memory::new(artifacts) };
        if Query::parse_in(SearchScope::Many, OsStr::new(&name)).is_some() {
            let once = memory.bytes(&name);
            prop_assert!(name.contains("-m0") || once.len() <= 48 * 1024);
            prop_assert_eq!(once, memory.bytes(&name));
        }
    }
}
