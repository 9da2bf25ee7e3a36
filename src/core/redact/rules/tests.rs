use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::syntax;

use super::*;
use crate::redact::SETS;
use crate::redact::sets::SecretPattern;

/// Maximum number of bytes that a search examines, and of positions that it tries, per byte of any
/// text. The most hostile text in these tests needs about a hundred.
const MOST_WORK: usize = 400;

fn own(name: &str, regex: &str) -> Rule {
    Rule { name: name.to_owned(), regex: regex.to_owned() }
}

fn rules(own: &[Rule]) -> SecretRules {
    SecretRules::new(&[], own).unwrap()
}

#[test]
fn a_match_is_masked_or_its_group() {
    let whole = rules(&[own("ticket", "TICKET-[0-9]{6,20}")]);
    assert_eq!(whole.mask_text("see TICKET-1234567890123!"), "see [redacted:ticket]***!");
    let group = rules(&[own("pin", "(?i)pin of (card|key) is (?<secret>[0-9]{4,20})")]);
    assert_eq!(group.mask_text("PIN of key is 1234567890123"), "PIN of key is [redacted]***");
    let first = rules(&[own("pin", "pin=([0-9]+)")]);
    assert_eq!(first.mask_text("pin=1234567890123;"), "pin=[redacted]***;");
    assert_eq!(first.mask_text("pin=1234;"), "[redact];");
}

#[test]
fn the_first_match_wins_and_the_first_rule_among_equals() {
    let both = rules(&[own("b", "secret-[a-z]+"), own("a", "secret-[a-z0-9]+")]);
    assert_eq!(both.mask_text("secret-abcdef0"), "[redacted:b]*0");
    assert_eq!(both.names, ["b", "a"]);
}

#[test]
fn lines_have_beginnings_and_ends() {
    let line = rules(&[own("line", "^KEY [a-z]{8,}$")]);
    assert_eq!(line.mask_text("x\nKEY abcdefghijk\ny"), "x\n[redacted:line]\ny");
    assert_eq!(line.mask_text("x KEY abcdefghij"), "x KEY abcdefghij");
}

#[test]
fn invalid_rules_are_refused() {
    let why = |name: &str, regex: &str| {
        let error = SecretRules::new(&[], &[own("fine", "x"), own(name, regex)]).unwrap_err();
        assert_eq!(error.rule(), Some(1));
        error.to_string()
    };
    assert_eq!(why("", "x"), "a rule's name is 1 to 32 letters, digits, `-` and `_`");
    assert_eq!(why("a b", "x"), "a rule's name is 1 to 32 letters, digits, `-` and `_`");
    assert_eq!(why("a", "x("), "the regex is not valid: unclosed group");
    assert_eq!(why("a", "x*"), "the regex matches the empty text");
    let large = why("a", "(?:[a-z]{1000}){1000}");
    assert!(large.starts_with("the regex is not valid: "), "{large}");
}

#[test]
fn a_pattern_that_matches_nothing_somewhere_ends() {
    let edges = rules(&[own("edge", r"\b")]);
    assert_eq!(edges.mask_text("some words"), "some words");
}

#[test]
fn all_sets_fit_into_one() {
    let all: Vec<&PatternSet> = SETS.iter().collect();
    let rules = SecretRules::new(&all, &[own("mine", "MINE-[0-9]+")]).unwrap();
    let text = "MINE-1234567890123 postgres://app:correct-horse-battery@db";
    let want = "[redacted:mine]*** postgres://app:[redacted:url-password]@db";
    let want = want.replace("[redacted:url-password]", "[redacted]***********");
    assert_eq!(rules.mask_text(text), want);
}

/// A regex that measures how far an anchored search looks.
struct Probe {
    automaton: DFA,
    cache: Cache,
}

impl Probe {
    fn new(regex: &str) -> Self {
        let syntax = syntax::Config::new().utf8(false).multi_line(true);
        let automaton = DFA::builder().syntax(syntax).build(regex).unwrap();
        Self { cache: automaton.create_cache(), automaton }
    }

    /// Returns the number of bytes that a search from `start` examines.
    fn looked(&mut self, bytes: &[u8], start: usize) -> usize {
        let Self { automaton, cache } = self;
        let input = Input::new(bytes).range(start..).anchored(Anchored::Yes);
        let mut state = automaton.start_state_forward(cache, &input).unwrap();
        let rest = &bytes[start..];
        let is_last = |byte: &u8| {
            state = automaton.next_state(cache, state, *byte).unwrap();
            state.is_dead()
        };
        rest.iter().position(is_last).map_or(rest.len(), |at| at + 1)
    }
}

/// All patterns, with a probe for the regex of each pattern.
struct Probes {
    rules: SecretRules,
    patterns: Vec<Probe>,
    body: Probe,
}

impl Probes {
    fn new() -> Self {
        let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
        let patterns: Vec<&SecretPattern> = SETS.iter().flat_map(|set| set.patterns).collect();
        let patterns = patterns.iter().map(|pattern| Probe::new(pattern.regex)).collect();
        Self { rules, patterns, body: Probe::new(KEY_BODY.as_str()) }
    }

    /// Returns the cost of a search of `text`: the number of positions where a match may begin,
    /// plus the number of bytes that the search examines from these positions.
    fn work(&mut self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let (mut at, mut runs) = (0, KnownRuns::default());
        let candidates = self.rules.known.candidates(bytes, 0);
        let mut work = candidates.len();
        for candidate in candidates {
            if candidate.start < at {
                continue;
            }
            work += self.patterns[candidate.pattern].looked(bytes, candidate.start);
            let Some(found) = self.rules.known.find(bytes, candidate, &mut runs) else { continue };
            work += found.inner.len();
            if self.rules.patterns[found.rule].check == SecretCheck::Key {
                work +=
                    self.body.looked(&bytes[found.end..bytes.len().min(found.start + REACH)], 0);
            }
            at = self.rules.secret(bytes, &found, &mut runs).1;
        }
        work + runs.looked()
    }
}

#[test]
fn no_text_makes_a_search_slow() {
    let length = 100_000;
    let text = |unit: &str| unit.repeat(length / unit.len());
    let header = "-eyJ".repeat(240);
    let mut random = 1_u64;
    let mut letter = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
                [(random >> 58) as usize],
        )
    };
    let mut token = || (0..800).map(|_| letter()).collect::<String>();
    let tokens: Vec<String> =
        (0..length / 820).map(|_| format!("{{\"data\":\"eyJ{}\"}}\n", token())).collect();
    let tokens = tokens.concat();
    let mut probes = Probes::new();
    assert_eq!(probes.work(&text("some text here, 12 words of it\n")), 0);
    for hostile in [
        tokens,
        text("password="),
        text("token=$x"),
        text(&format!("{} ", "token=".repeat(160))),
        text("-eyJ"),
        text("eyJaaaaaaaaaaaa."),
        text(&format!("{header}.eyJ{}!", "a".repeat(3900))),
        text(&format!("{header}.eyJ{}.aaa!", "a".repeat(3900))),
        text("a.a.a.a.a.a.a.a.a.a://x:"),
        text(&format!("a.a.a.a.a.a.a.a.a.a://{}:{} ", "u".repeat(100), "p".repeat(200))),
        text("sk-"),
        text("bearer a"),
        text("authorization: basic "),
        text("session_token="),
        text("secret_access_key="),
        text("hooks.slack.com/services/"),
        text("-----BEGIN PRIVATE KEY-----"),
        text("-----BEGIN PRIVATE KEY-----\nVersion: "),
        text("-----BEGIN -----END "),
    ] {
        let (work, start) = (probes.work(&hostile), &hostile[..30]);
        assert!(work < MOST_WORK * hostile.len(), "{start:?}: {work} for {} bytes", hostile.len());
    }
    // An automaton that exhausts the memory for its states stays slow for all later text.
    for (probe, pattern) in probes.patterns.iter().zip(SETS.iter().flat_map(|set| set.patterns)) {
        assert_eq!(probe.cache.clear_count(), 0, "{}", pattern.label);
    }
    assert_eq!(probes.body.cache.clear_count(), 0);
}

#[test]
fn text_does_not_make_later_searches_with_own_rules_slow() {
    let rules = rules(&[own("own", "z[a-z0-9_-]{3,900}z!")]);
    let states = |matches: &Matches<'_, '_>| matches.own_cache.as_ref().unwrap().memory_usage();
    let fresh = states(&Matches::new(&rules, b"", 0));
    let text = "za-z!".repeat(1000);
    let mut hostile = Matches::new(&rules, text.as_bytes(), 0);
    assert!(hostile.next(0).is_none());
    assert!(states(&hostile) > fresh, "the search makes states");
    drop(hostile);
    assert_eq!(states(&Matches::new(&rules, b"", 0)), fresh, "the next search has its own");
}

#[test]
fn a_key_without_its_last_line_ends_no_other() {
    let all: Vec<&PatternSet> = SETS.iter().collect();
    let rules = SecretRules::new(&all, &[]).unwrap();
    let (first, last) = ("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----");
    // The last line of the key is near the first line, missing, or too far away.
    let near = REACH - first.len() - first.len() - last.len() - "\n? \n".len() - 60;
    let gaps = (near - 1..=near + 1).chain(near + last.len() - 1..=near + last.len() + 1);
    for gap in gaps.chain([1, REACH / 2, REACH, REACH + 40]) {
        let text = format!("{first}{}\n{first}? {}\n{last}\n", ".".repeat(gap), "x".repeat(60));
        let found: Vec<Range<usize>> =
            rules.find(text.as_bytes(), 0).map(|secret| secret.range).collect();
        let start = if gap <= near { 0 } else { first.len() + gap + 1 };
        let secret = start..text.len() - 1;
        assert_eq!(found, std::slice::from_ref(&secret), "{gap}");
    }
}
