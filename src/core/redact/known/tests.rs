//! Checks that the patterns find the same matches as a single regex of all patterns.

use proptest::prelude::*;

use super::*;
use crate::redact::{SETS, samples};

/// The patterns that have a tail, as plain regexes.
const JWT: &str = r"(?-u)(?:\b|\\[nrt])(eyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,})";
const VALUE_END: &str = r#"([^\s"'<>\\,;(){}\[\]]{8,1000})(?:[\s"'<>\\,;)}\]]|$)"#;

/// Returns the complete regex of each pattern.
fn regexes() -> Vec<String> {
    let whole = |pattern: &SecretPattern| match pattern.tail {
        PatternTail::None => pattern.regex.to_owned(),
        PatternTail::Jwt => JWT.to_owned(),
        PatternTail::Value => {
            let (head, _) = pattern.regex.rsplit_once("([").unwrap();
            head.to_owned() + VALUE_END
        }
    };
    SETS.iter().flat_map(|set| set.patterns).map(whole).collect()
}

/// Returns all matches that the patterns find. `after` gives the position from which the next match
/// is searched.
fn found(known: &KnownPatterns, bytes: &[u8], after: impl Fn(&Match) -> usize) -> Vec<Match> {
    let (mut at, mut runs) = (0, KnownRuns::default());
    let mut all = Vec::new();
    for candidate in known.candidates(bytes, 0) {
        if candidate.start >= at
            && let Some(found) = known.find(bytes, candidate, &mut runs)
        {
            at = after(&found);
            all.push(found);
        }
    }
    all
}

/// Returns the matches that a single regex of all patterns finds.
fn expected(regex: &Regex, bytes: &[u8], after: impl Fn(&Match) -> usize) -> Vec<Match> {
    let (mut at, mut groups) = (0, regex.create_captures());
    let mut all = Vec::new();
    while at <= bytes.len() {
        regex.search_captures(&Input::new(bytes).range(at..), &mut groups);
        let (Some(found), Some(rule)) = (groups.get_match(), groups.pattern()) else { break };
        let secret = group(regex, rule).and_then(|group| groups.get_group(group));
        let inner = secret.map_or(found.range(), |span| span.range());
        let found = Match { rule: rule.as_usize(), start: found.start(), inner, end: found.end() };
        at = after(&found);
        all.push(found);
    }
    all
}

/// Text that matches a pattern completely or in part.
fn piece() -> impl Strategy<Value = String> {
    let known = [
        "eyJ",
        "-eyJ",
        "eyJhbGciOiJIUzI1NiJ9",
        ".eyJ",
        ".",
        "-",
        "_",
        "\\n",
        "\\",
        "\\t",
        "\"",
        "'",
        " ",
        "    ",
        "     ",
        "\n",
        "\r\n",
        ":",
        "=",
        ":=",
        "=>",
        "::",
        "token",
        "TOKEN=",
        "secret",
        "secret_access_key",
        "SecretAccessKey",
        "password",
        "passwd:",
        "passphrase",
        "api-key",
        "apikey",
        "access_key",
        "sessiontoken=",
        "authorization:",
        "Authorization: Bearer ",
        "bearer ",
        "basic ",
        "https://",
        "://",
        "a+b.c-d://",
        "user:",
        "@",
        "$",
        "%",
        "{",
        "(",
        "[",
        ")",
        "<",
        ",",
        ";",
        "aB3dE5g",
        "abcdefgh",
        "12345678",
        "0",
        "\u{20ac}",
        "\u{e9}",
        "AKIA",
        "ASIAQYLPMN5HHHFPZAM2",
        "ghp_",
        "github_pat_",
        "glpat-",
        "sk-",
        "sk-ant-api03-",
        "sk-proj-",
        "T3BlbkFJ",
        "xoxb-",
        "xapp-1-",
        "hooks.slack.com/services/",
        "AIza",
        "ya29.",
        "GOCSPX-",
        "sk_live_",
        "whsec_",
        "npm_",
        "pypi-AgE",
        "hf_",
        "-----BEGIN ",
        "RSA ",
        "PRIVATE KEY",
        "-----",
        "-----END PRIVATE KEY-----",
    ];
    let run = ("[A-Za-z0-9]{1,3}", prop::sample::select(vec![1_usize, 7, 20, 300, 1400]))
        .prop_map(|(unit, times)| unit.repeat(times));
    let secret = prop::sample::select(samples::samples()).prop_map(|sample| sample.text());
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        2 => "[A-Za-z0-9+/=_-]{1,60}",
        1 => "\\PC{0,8}",
        1 => run,
        1 => secret,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn they_find_what_one_regex_of_all_finds(pieces in prop::collection::vec(piece(), 0..40)) {
        let regexes = regexes();
        let regex = compile(&regexes.iter().map(String::as_str).collect::<Vec<&str>>()).unwrap();
        let patterns: Vec<_> = SETS.iter().flat_map(|set| set.patterns).collect();
        let known = KnownPatterns::new(&patterns).unwrap();
        let text = pieces.concat();
        // Continue as after a secret, and as after a match that is not a secret.
        let accepted = |found: &Match| found.end.max(found.start + 1);
        let refused = |found: &Match| found.inner.start.max(found.start + 1);
        let bytes = text.as_bytes();
        prop_assert_eq!(found(&known, bytes, accepted), expected(&regex, bytes, accepted));
        prop_assert_eq!(found(&known, bytes, refused), expected(&regex, bytes, refused));
    }
}

#[test]
fn limits_of_length_are_those_of_the_regexes() {
    let regexes = regexes();
    let regex = compile(&regexes.iter().map(String::as_str).collect::<Vec<&str>>()).unwrap();
    let patterns: Vec<_> = SETS.iter().flat_map(|set| set.patterns).collect();
    let known = KnownPatterns::new(&patterns).unwrap();
    let accepted = |found: &Match| found.end.max(found.start + 1);
    let a = |count: usize| "a".repeat(count);
    for near in 0..3 {
        for text in [
            format!("eyJ{}.eyJ{}.{}", a(999 + near), a(20), a(20)),
            format!("x-eyJ-eyJ{}.eyJ{}.{}", a(995 + near), a(20), a(20)),
            format!("eyJ{}.eyJ{}.{}", a(20), a(3999 + near), a(20)),
            format!("eyJ{}.eyJ{}.{}", a(8 + near), a(20), a(20)),
            format!("eyJ{}.eyJ{}.{}", a(20), a(8 + near), a(20)),
            format!("eyJ{}.eyJ{}.{}", a(20), a(20), a(8 + near)),
            format!("eyJ{}.eyJ{}", a(20), a(20)),
            format!("token={} ", a(999 + near)),
            format!("token:={} ", a(6 + near)),
            format!("token={}", a(6 + near)),
            format!("token={}(", a(20)),
            format!("tokentoken={}", a(989 + near)),
            format!("{}://u:abc@", a(19 + near)),
            format!("b.{}://u:abc@", a(18 + near)),
        ] {
            let bytes = text.as_bytes();
            let want = expected(&regex, bytes, accepted);
            assert_eq!(found(&known, bytes, accepted), want, "{text}");
        }
    }
}
