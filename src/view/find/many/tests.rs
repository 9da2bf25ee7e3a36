use super::*;
use std::ffi::OsStr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::{Corpus, CorpusQuery};
use ctxfs_core::materialize::is_binary;
use ctxfs_core::model::{Place, RelPath, Root};
use ctxfs_core::redact::{Rule, SecretRules};

/// Artifacts in memory, newest first.
struct Memory(Vec<(RelPath, Vec<u8>)>);

fn place() -> Place {
    Place::of_conversation(&Root::All("/ctx".to_owned()), "c7")
}

impl Memory {
    fn of<T: AsRef<[u8]>>(artifacts: &[(&str, T)]) -> Self {
        let owned =
            |(name, text): &(&str, T)| (RelPath::new(name).unwrap(), text.as_ref().to_vec());
        Self(artifacts.iter().map(owned).collect())
    }

    fn render(&self, words: &str, expired: &(dyn Fn() -> bool + Sync)) -> (String, bool) {
        self.render_with(words, None, expired)
    }

    fn render_with(
        &self,
        words: &str,
        redacts: Option<&SecretRules>,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> (String, bool) {
        let words = Words::parse(OsStr::new(words)).unwrap();
        let directory = Directory { place: &place(), corpus: self, redacts };
        let mut out = Vec::new();
        let query = CorpusQuery::Find(words);
        let rendered = query.render(&directory, expired, &mut out).unwrap();
        let text = rendered.notice.unwrap_or_default() + &String::from_utf8(out).unwrap();
        assert!(text.len() <= reply::max_bytes(false), "{} bytes", text.len());
        (text, rendered.whole)
    }

    fn text(&self, words: &str) -> String {
        let (text, whole) = self.render(words, &|| false);
        assert!(whole, "{text}");
        text
    }
}

impl Corpus for Memory {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn path(&self, number: usize) -> &RelPath {
        &self.0[number].0
    }

    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded> {
        let (name, bytes) = &self.0[number];
        match name.to_text().as_str() {
            "gone" => return Ok(Loaded::Gone),
            "closed" => return Ok(Loaded::Closed),
            "locked" => return Err(io::Error::from_raw_os_error(libc::EACCES)),
            _ if is_binary(bytes) => return Ok(Loaded::Binary),
            _ => {}
        }
        if bytes.len() >= buffer.len() {
            return Ok(Loaded::Opened(Box::new(bytes.clone())));
        }
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(Loaded::Whole(bytes.len()))
    }
}

#[test]
fn the_best_of_all_artifacts_come_first() {
    let memory = Memory::of(&[
        ("c.txt", "the pod is fine\nall is well\n"),
        ("b.txt", "evicting the pod web-7\n"),
        ("a.txt", "a pod web-7 was evicted\nthe end\n"),
    ]);
    let want = "\
# pod web-7 evicted: 3 of 3 words; the best 2 of 3 passages in 3 of 3 artifacts follow, lines as in .grep/. All lines: /ctx/c7/.grep/-i pod|web-7|evict
a.txt:1:a pod web-7 was evicted
a.txt-2-the end
--
b.txt:1:evicting the pod web-7
";
    assert_eq!(memory.text("why was the pod web-7 evicted?"), want);
}

#[test]
fn the_newest_come_first_among_equals() {
    let line = |number: usize| format!("{}\ndisk full {number}\n", "fine\n".repeat(40));
    let texts: Vec<String> = (0..9).map(line).collect();
    let names: Vec<String> = (0..9).map(|number| format!("{number}.txt")).collect();
    let artifacts: Vec<(&str, &String)> = names.iter().map(String::as_str).zip(&texts).collect();
    let text = Memory::of(&artifacts).text("full disk");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("disk full ")).collect();
    assert_eq!(lines, ["0.txt:42:disk full 0", "1.txt:42:disk full 1", "2.txt:42:disk full 2"]);
    assert_eq!(text, Memory::of(&artifacts).text("full disk"));
}

#[test]
fn the_same_text_is_shown_once() {
    let memory = Memory::of(&[("b.txt", "disk full\n"), ("a.txt", "disk full\n")]);
    let text = memory.text("disk");
    assert_eq!(text.matches("disk full").count(), 1, "{text}");
    assert!(text.contains("\nb.txt:1:disk full\n"));
}

#[test]
fn large_artifacts_and_tables_take_part() {
    let log = format!("{}the needle is here\n", "hay hay hay\n".repeat(200_000));
    let memory = Memory::of(&[("log.txt", log.as_str()), ("t.csv", "id,kind\n1,pin\n2,needles\n")]);
    let text = memory.text("needle");
    assert!(text.contains("\nlog.txt:200001:the needle is here\n"), "{text}");
    assert!(text.contains("\nt.csv-1-id,kind\nt.csv:3:2,needles\n"), "{text}");
}

#[test]
fn what_is_left_out_is_said() {
    let memory = Memory::of(&[
        ("closed", "x"),
        ("gone", "x"),
        ("bin", "disk\x01\0\0"),
        ("a.txt", "disk full\n"),
    ]);
    let text = memory.text("disk");
    assert!(text.contains("\n# 1 artifact is closed to you, and not searched\n"), "{text}");
    assert!(text.contains("\n# 1 artifact is not text, and not searched: bin\n"), "{text}");
    let (text, whole) =
        Memory::of(&[("locked", "x"), ("a.txt", "disk\n")]).render("disk", &|| false);
    assert!(text.contains("\n# 1 artifact could not be read: locked ("), "{text}");
    assert!(!whole);
}

#[test]
fn nothing_found_says_so() {
    let memory = Memory::of(&[("a.txt", "ERROR of com.shop.Cart\nERROR of com.shop.Cart\n")]);
    let want = "# kernel panic: none of the words occurs in /ctx/c7 (1 artifact). \
                The most telling words there are: com.shop.Cart, ERROR\n";
    assert_eq!(memory.text("kernel panic"), want);
    assert_eq!(
        Memory::of::<&str>(&[]).text("x1"),
        "# x1: the word does not occur in /ctx/c7 (0 artifacts)\n"
    );
    assert_eq!(memory.text("?"), "# no words to look for: a word has letters or digits\n");
}

#[test]
fn time_can_run_out() {
    let names: Vec<String> = (0..50).map(|number| format!("{number}.txt")).collect();
    let artifacts: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "disk full\n")).collect();
    let memory = Memory::of(&artifacts);
    for most in [0, 20, 130, 180, 240] {
        let calls = AtomicUsize::new(0);
        let (text, whole) = memory.render("disk", &|| calls.fetch_add(1, Relaxed) >= most);
        assert!(!whole && text.contains("# out of time after "), "{most} {text}");
    }
}

#[test]
fn secrets_are_masked_before_they_are_searched() {
    let rule = Rule { name: "ticket".to_owned(), regex: "TICKET-[0-9]{12}".to_owned() };
    let rules = SecretRules::new(&[], &[rule]).unwrap();
    let memory = Memory::of(&[("a.txt", "the code is TICKET-123456789012\n")]);
    let (text, _) = memory.render_with("code 123456789012", Some(&rules), &|| false);
    assert!(!text.contains("TICKET-1") && text.contains("(not there: 123456789012)"), "{text}");
    assert!(text.starts_with("# 1 secret is redacted (ticket 1)\n"), "{text}");
}
