//! Artificial secrets for tests: one for each pattern, in all forms in which readers may see a
//! secret.
//!
//! The secrets are assembled from parts so that secret scanners do not report this file.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use proptest::prelude::*;

use crate::materialize::strip_escapes;
use crate::redact::{PatternSet, Rule, SETS, SecretRules};

/// A secret with the text before and after it.
#[derive(Debug, Clone)]
pub struct Sample {
    pub before: String,
    pub secret: String,
    pub after: String,
}

const TEXT: &str = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5kM7oP9rS1uV3xY5zA7cD9fG1iK3lN5";

/// Returns the rules of all sets, and two user-defined rules.
pub fn rules() -> SecretRules {
    let own = |name: &str, regex: &str| Rule { name: name.to_owned(), regex: regex.to_owned() };
    let own = [own("ticket", "TICKET-[0-9]{6,}"), own("pin", "pin (?:is|was) (?<secret>[0-9]{8})")];
    SecretRules::new(&SETS.iter().collect::<Vec<&PatternSet>>(), &own).unwrap()
}

/// Returns a sample for each pattern of [`rules`].
pub fn samples() -> Vec<Sample> {
    let token = |parts: &[&str]| Sample {
        before: " ".to_owned(),
        secret: parts.concat(),
        after: " ".to_owned(),
    };
    let within = |before: &str, secret: &str, after: &str| Sample {
        before: before.to_owned(),
        secret: secret.to_owned(),
        after: after.to_owned(),
    };
    let jwt =
        ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"];
    let (begin, end) = ("-----BEGIN RSA PRIV", "ATE KEY-----");
    let key = format!("{begin}{end}\n{0}/\n+{0}\n-----END RSA PRIV{end}", &TEXT[..62]);
    vec![
        within("key:\n", &key, "\n"),
        token(&["AKI", "AQYLPMN5HHHFPZAM2"]),
        within("aws_secret_access_key = ", &format!("{}/+", &TEXT[..38]), "\n"),
        within("AWS_SESSION_TOKEN=", &TEXT.repeat(3), "\n"),
        token(&["gh", "p_", &TEXT[..36]]),
        token(&["github_", "pat_", &TEXT[..22], "_", &TEXT[..59]]),
        token(&["glp", "at-", &TEXT[..20]]),
        token(&["sk-", "ant-api03-", TEXT, "-_AA"]),
        token(&["sk-", "proj-", TEXT]),
        token(&["sk-", &TEXT[..20], "T3Blbk", "FJ", &TEXT[20..40]]),
        token(&["xox", "b-123456789012-1234567890123-aB3dE5gH7jK9"]),
        token(&["xapp-1-A0123456789-", "1234567890123-", &"0123456789abcdef".repeat(4)]),
        within(
            "https://hooks.slack.com/services/",
            &["T0123ABCD/B0123ABCD", "/aB3dE5gH7jK9mN1pQ3sT5vW7"].concat(),
            " ",
        ),
        token(&["AI", "za", &TEXT[..35]]),
        token(&["ya", "29.", &TEXT[..40]]),
        token(&["GOC", "SPX-", &TEXT[..28]]),
        token(&["sk_", "live_", &TEXT[..24]]),
        token(&["whs", "ec_", &TEXT[..30], "+/=="]),
        token(&["np", "m_", &TEXT[..36]]),
        token(&["pypi-", "AgEIcHlwaS5vcmc", TEXT]),
        token(&["h", "f_", &TEXT[..34]]),
        token(&[&jwt.join(".")]),
        within("Authorization: Basic ", "dXNlcjpwYXNz/w+9==", "\n"),
        within(" Bearer ", &TEXT[..40], " "),
        within("postgres://app:", "correct-horse-battery", "@db:5432/x "),
        within("password=", "hunter2/hunter2-0", " "),
        token(&["TICKET-", "1234567890123456789"]),
        within("pin is ", "90817263", " "),
    ]
}

/// A form in which a program may write a text.
#[derive(Debug, Clone)]
pub enum WrittenForm {
    Plain,
    /// With escape sequences inserted. The number gives the position of a sequence, as a fraction
    /// of the text.
    Coloured(Vec<(f64, &'static str)>),
    /// Escaped as a JSON string, repeatedly. Each inner list belongs to one level, and its numbers
    /// choose the escapes.
    Escaped(Vec<Vec<u8>>),
    /// With control characters that a terminal omits: carriage returns and a bell.
    Overwriting,
}

/// Returns a strategy that generates any form.
pub fn written_form() -> impl Strategy<Value = WrittenForm> {
    let sequence = prop::sample::select(vec![
        "\x1b[01;31m\x1b[K",
        "\x1b[m\x1b[K",
        "\x1b[0m",
        "\x1b[38;5;196m",
        "\x1b]8;;http://x\x1b\\",
        "\x1b]0;title\x07",
    ]);
    let level = prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        1 => Just(WrittenForm::Plain),
        3 => prop::collection::vec((0.0..1.0, sequence), 1..6).prop_map(WrittenForm::Coloured),
        3 => prop::collection::vec(level, 1..4).prop_map(WrittenForm::Escaped),
        1 => Just(WrittenForm::Overwriting),
    ]
}

impl WrittenForm {
    /// Returns `text` encoded as this variant describes.
    pub fn of(&self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured(places) => coloured(text, places),
            Self::Escaped(levels) => {
                levels.iter().fold(text.to_owned(), |text, choices| escaped(&text, choices))
            }
            Self::Overwriting => text.replace('\n', "\r\n").replacen(' ', " \x07", 1),
        }
    }
}

fn coloured(text: &str, places: &[(f64, &'static str)]) -> String {
    let mut coloured = text.to_owned();
    for (part, sequence) in places {
        let at = (coloured.len() as f64 * part) as usize;
        // Do not insert inside another escape sequence.
        let inside = coloured[..at].rfind('\x1b').is_some_and(|start| {
            strip_escapes(&coloured.as_bytes()[start..at])
                == strip_escapes(&coloured.as_bytes()[start..=at])
        });
        if coloured.is_char_boundary(at) && !inside {
            coloured.insert_str(at, sequence);
        }
    }
    coloured
}

fn escaped(text: &str, choices: &[u8]) -> String {
    let mut choices = choices.iter().cycle();
    let escape = |c: char| match (c, choices.next().copied().unwrap_or_default()) {
        ('\n', _) => "\\n".to_owned(),
        ('\r', _) => "\\r".to_owned(),
        ('"' | '\\', _) => format!("\\{c}"),
        ('/', choice) if choice % 2 == 0 => "\\/".to_owned(),
        (c, choice) if c.is_control() || choice % 3 == 0 => format!("\\u{:04X}", c as u32),
        (c, choice) if choice % 7 == 0 => format!("\\u{:04x}", c as u32),
        (c, _) => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Returns the forms of `text` that readers may see: unchanged and without escape sequences, each
/// with its JSON escapes decoded up to five times.
pub(crate) fn seen(text: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut now = vec![text.to_vec()];
    for _ in 0..6 {
        now = now.into_iter().flat_map(|text| [strip_escapes(&text), text]).collect();
        now.dedup();
        seen.extend(now.iter().map(|text| String::from_utf8_lossy(text).into_owned()));
        now.retain(|text| text.contains(&b'\\'));
        now = now.into_iter().map(|text| decoded(&text)).collect();
    }
    seen
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let (mut decoded, mut rest) = (String::new(), &*text);
    while let Some(first) = rest.chars().next() {
        let lengths = if first == '\\' { [2, 6] } else { [0, 0] };
        let value = lengths.into_iter().filter(|length| *length > 0).find_map(|length| {
            let escape = rest.get(..length)?;
            serde_json::from_str::<String>(&format!("\"{escape}\"")).ok().map(|c| (c, length))
        });
        let (value, length) = value.unwrap_or((first.to_string(), first.len_utf8()));
        decoded.push_str(&value);
        rest = &rest[length..];
    }
    decoded.into_bytes()
}

impl Sample {
    /// Returns the secret with the text before and after it.
    pub fn text(&self) -> String {
        [&*self.before, &self.secret, &self.after].concat()
    }

    /// Returns the parts of the secret that no reader may see: its lines, except the first and last
    /// lines of a private key.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.secret.lines().filter(|line| !line.contains("-----"))
    }

    /// Asserts that `shown` does not show the secret in any form.
    #[track_caller]
    pub fn assert_hidden(&self, shown: &[u8], what: &str) {
        for text in seen(shown) {
            for word in self.words() {
                assert!(!text.contains(word), "{what} shows {word}:\n{text:.3000}");
            }
        }
    }
}
