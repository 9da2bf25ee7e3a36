//! The values of settings: their kinds, parsing, printing and origins.

use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fmt};

use serde::Serialize;
use toml::de::DeValue;

use crate::{Failure, logging};

/// The value of a setting. For some kinds, a number counts bytes or seconds. A word, such as `off`,
/// may take the place of a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum SettingValue {
    Path(PathBuf),
    Text(String),
    Switch(bool),
    Number(u64),
    Word(&'static str),
}

/// The kind of value of a setting. The kinds with words also accept these words in place of a
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    // A path. In a settings file, a relative path is resolved from the directory of the file.
    Path,
    Text,
    Log,
    Switch,
    Choice(&'static [&'static str]),
    Count(&'static [&'static str]),
    Whole(&'static [&'static str]),
    Size(&'static [&'static str]),
    Age(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidValue;

impl ValueKind {
    pub(crate) fn of_text(self, text: &OsStr) -> Result<SettingValue, InvalidValue> {
        if self == Self::Path {
            return if text.is_empty() {
                Err(InvalidValue)
            } else {
                Ok(SettingValue::Path(text.into()))
            };
        }
        let text = text.to_str().ok_or(InvalidValue)?;
        match self {
            Self::Switch => match text {
                "true" | "1" => Ok(SettingValue::Switch(true)),
                "false" | "0" => Ok(SettingValue::Switch(false)),
                _ => Err(InvalidValue),
            },
            Self::Count(words) => word(text, words).or_else(|| whole(text, 1)).ok_or(InvalidValue),
            Self::Whole(words) => word(text, words).or_else(|| whole(text, 0)).ok_or(InvalidValue),
            _ => self.of_str(text),
        }
    }

    pub(crate) fn of_toml(self, value: &DeValue<'_>) -> Result<SettingValue, InvalidValue> {
        match (self, value) {
            (Self::Switch, DeValue::Boolean(on)) => Ok(SettingValue::Switch(*on)),
            (Self::Count(_), DeValue::Integer(number)) => integer(number)
                .filter(|count| *count > 0)
                .map(SettingValue::Number)
                .ok_or(InvalidValue),
            (Self::Size(_) | Self::Whole(_), DeValue::Integer(number)) => {
                integer(number).map(SettingValue::Number).ok_or(InvalidValue)
            }
            (Self::Switch, _) => Err(InvalidValue),
            (_, DeValue::String(text)) => self.of_str(text),
            _ => Err(InvalidValue),
        }
    }

    fn of_str(self, text: &str) -> Result<SettingValue, InvalidValue> {
        match self {
            Self::Path | Self::Text | Self::Log | Self::Switch if text.is_empty() => {
                Err(InvalidValue)
            }
            Self::Path => Ok(SettingValue::Path(text.into())),
            Self::Text => Ok(SettingValue::Text(text.to_owned())),
            Self::Log => logging::check(text)
                .map(|()| SettingValue::Text(text.to_owned()))
                .or(Err(InvalidValue)),
            Self::Choice(words) if words.contains(&text) => Ok(SettingValue::Text(text.to_owned())),
            Self::Count(words) | Self::Whole(words) => word(text, words).ok_or(InvalidValue),
            Self::Size(words) => word(text, words).or_else(|| size(text)).ok_or(InvalidValue),
            Self::Age(words) => word(text, words).or_else(|| age(text)).ok_or(InvalidValue),
            Self::Choice(_) | Self::Switch => Err(InvalidValue),
        }
    }

    // Describes the allowed values: `a positive whole number, "never" or "mirror"`.
    pub(crate) fn allowed(self) -> String {
        let quoted = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect();
        let mut choices: Vec<String> = match self {
            Self::Path | Self::Text => vec!["a non-empty text".to_owned()],
            Self::Log => vec!["a level such as \"info\"".to_owned(), "directives".to_owned()],
            Self::Switch => vec!["true".to_owned(), "false".to_owned()],
            Self::Choice(words)
            | Self::Count(words)
            | Self::Whole(words)
            | Self::Size(words)
            | Self::Age(words) => quoted(words),
        };
        match self {
            Self::Count(_) => choices.insert(0, "a positive whole number".to_owned()),
            Self::Whole(_) => choices.insert(0, "a whole number".to_owned()),
            Self::Size(_) => {
                choices.insert(0, "a number of bytes".to_owned());
                choices.insert(1, "a text such as \"64 MiB\"".to_owned());
            }
            Self::Age(_) => choices.insert(0, "a duration such as \"30d\" or \"12h\"".to_owned()),
            _ => {}
        }
        let last = choices.pop().unwrap_or_default();
        if choices.is_empty() { last } else { format!("{} or {last}", choices.join(", ")) }
    }

    pub(crate) fn to_toml(self, value: &SettingValue) -> String {
        match (self, value) {
            (Self::Size(_), SettingValue::Number(bytes)) => in_units(*bytes),
            (Self::Age(_), SettingValue::Number(seconds)) => in_days(*seconds),
            (_, value) => value.to_string(),
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(&quoted(&path.to_string_lossy())),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Switch(on) => on.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.write_str(&quoted(word)),
        }
    }
}

// Every JSON string is also a TOML string, except that JSON does not escape DEL.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}

fn word(text: &str, words: &[&'static str]) -> Option<SettingValue> {
    words.iter().find(|word| **word == text).map(|word| SettingValue::Word(word))
}

fn whole(text: &str, least: u64) -> Option<SettingValue> {
    let number = text.parse().ok().filter(|number| (least..=MOST).contains(number));
    number.map(SettingValue::Number)
}

fn size(text: &str) -> Option<SettingValue> {
    let size: bytesize::ByteSize = text.parse().ok()?;
    (size.as_u64() <= MOST).then_some(SettingValue::Number(size.as_u64()))
}

// Parses an age and returns it in seconds. A day has 24 hours. Months are refused.
fn age(text: &str) -> Option<SettingValue> {
    let span: jiff::Span = text.parse().ok()?;
    let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    let seconds = u64::try_from(length.as_secs()).ok()?;
    (seconds > 0).then_some(SettingValue::Number(seconds))
}

const MOST: u64 = i64::MAX as u64;

fn integer(number: &toml::de::DeInteger<'_>) -> Option<u64> {
    let digits = number.as_str().replace('_', "");
    i64::from_str_radix(&digits, number.radix()).ok().and_then(|number| number.try_into().ok())
}

// Formats a size as `"64 MiB"` if that is exact, and as a number otherwise.
fn in_units(bytes: u64) -> String {
    let units = [("GiB", bytesize::GIB), ("MiB", bytesize::MIB), ("KiB", bytesize::KIB)];
    let exact = units.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    exact.map_or(bytes.to_string(), |(name, unit)| format!("\"{} {name}\"", bytes / unit))
}

// Formats a duration as `"30d"`, in the largest unit in which it is exact.
fn in_days(seconds: u64) -> String {
    let units = [("d", 24 * 60 * 60), ("h", 60 * 60), ("m", 60)];
    let exact = units.iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    exact.map_or(format!("\"{seconds}s\""), |(name, unit)| format!("\"{}{name}\"", seconds / unit))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Setting<T = SettingValue> {
    pub(crate) value: T,
    pub(crate) origin: SettingOrigin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum SettingOrigin {
    Default,
    File(FileLine),
    Environment { variable: &'static str },
    Flag { flag: &'static str },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileLine {
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
}

const HINT: &str = "`ctxfs config --defaults` prints every setting and its allowed values";

impl SettingOrigin {
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let text = match self {
            Self::File(line) => format!("{}: {what}", line.text()),
            Self::Environment { .. } | Self::Flag { .. } | Self::Default => what.to_owned(),
        };
        Failure::usage(text, HINT)
    }
}

impl FileLine {
    pub(crate) fn new(path: &Path, line: usize) -> Self {
        Self { path: path.to_owned(), line, tool: None }
    }

    fn text(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

// Formats the origin: `default`, `/etc/x/ctxfs.toml:3`, `TOOL_OUTPUT_DIR` or `--quota`.
impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line @ FileLine { tool: None, .. }) => f.write_str(&line.text()),
            Self::File(line @ FileLine { tool: Some(tool), .. }) => {
                write!(f, "for {tool:?}, {}", line.text())
            }
            Self::Environment { variable } => f.write_str(variable),
            Self::Flag { flag } => f.write_str(flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["never", "mirror"];

    fn toml(kind: ValueKind, text: &str) -> Result<SettingValue, InvalidValue> {
        kind.of_toml(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn sizes_have_units() {
        let read = |text: &str| toml(ValueKind::Size(WORDS), text);
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("0x10", 16),
            ("1_000", 1000),
            ("\"64 MiB\"", 64 << 20),
            ("\"64MiB\"", 64 << 20),
            ("\"1GB\"", 1_000_000_000),
            ("\"1.5 KiB\"", 1536),
            ("\"2k\"", 2000),
            ("\"12\"", 12),
        ];
        for (text, bytes) in cases {
            assert_eq!(read(text), Ok(SettingValue::Number(bytes)), "{text}");
        }
        for text in ["-1", "1.5", "true", "\"\"", "\"64 furlongs\"", "\"-1\"", "\"99 EiB\""] {
            assert_eq!(read(text), Err(InvalidValue), "{text}");
        }
        assert_eq!(read("\"never\""), Ok(SettingValue::Word("never")));
    }

    #[test]
    fn ages_have_units() {
        let read = |text: &str| toml(ValueKind::Age(&["off"]), text);
        for (text, seconds, printed) in [
            ("\"30d\"", 2_592_000, "\"30d\""),
            ("\"30 days\"", 2_592_000, "\"30d\""),
            ("\"1w\"", 604_800, "\"7d\""),
            ("\"1h30m\"", 5400, "\"90m\""),
            ("\"2s\"", 2, "\"2s\""),
        ] {
            assert_eq!(read(text), Ok(SettingValue::Number(seconds)), "{text}");
            assert_eq!(ValueKind::Age(&[]).to_toml(&SettingValue::Number(seconds)), printed);
        }
        for text in ["30", "\"30\"", "\"0s\"", "\"-1d\"", "\"1 month\"", "\"soon\"", "\"\""] {
            assert_eq!(read(text), Err(InvalidValue), "{text}");
        }
        assert_eq!(read("\"off\""), Ok(SettingValue::Word("off")));
    }

    #[test]
    fn counts_begin_at_one() {
        let read = |text: &str| toml(ValueKind::Count(WORDS), text);
        assert_eq!(read("2000"), Ok(SettingValue::Number(2000)));
        assert_eq!(read("\"mirror\""), Ok(SettingValue::Word("mirror")));
        for text in ["0", "-1", "\"2000\"", "\"off\"", "1e3", "[1]"] {
            assert_eq!(read(text), Err(InvalidValue), "{text}");
        }
        assert_eq!(toml(ValueKind::Whole(&[]), "0"), Ok(SettingValue::Number(0)));
        assert_eq!(ValueKind::Whole(&[]).of_text(OsStr::new("0")), Ok(SettingValue::Number(0)));
        let read = |text: &str| ValueKind::Count(WORDS).of_text(OsStr::new(text));
        assert_eq!(read("2000"), Ok(SettingValue::Number(2000)));
        assert_eq!(read("never"), Ok(SettingValue::Word("never")));
        for text in ["0", "-1", "", "x", "9223372036854775808"] {
            assert_eq!(read(text), Err(InvalidValue), "{text}");
        }
    }

    #[test]
    fn switches_words_and_texts() {
        assert_eq!(toml(ValueKind::Switch, "true"), Ok(SettingValue::Switch(true)));
        assert_eq!(toml(ValueKind::Switch, "\"true\""), Err(InvalidValue));
        assert_eq!(ValueKind::Switch.of_text(OsStr::new("0")), Ok(SettingValue::Switch(false)));
        assert_eq!(ValueKind::Switch.of_text(OsStr::new("maybe")), Err(InvalidValue));
        let choice = ValueKind::Choice(&["head", "tail"]);
        assert_eq!(toml(choice, "\"tail\""), Ok(SettingValue::Text("tail".to_owned())));
        assert_eq!(toml(choice, "\"both\""), Err(InvalidValue));
        assert_eq!(toml(ValueKind::Text, "\"\""), Err(InvalidValue));
        assert_eq!(
            toml(ValueKind::Log, "\"warn,ctxfs=debug\""),
            Ok(SettingValue::Text("warn,ctxfs=debug".to_owned()))
        );
        assert_eq!(toml(ValueKind::Log, "\"ctxfs=loud\""), Err(InvalidValue));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let size = ValueKind::Size(&["off"]);
        for (value, text) in [
            (SettingValue::Number(0), "0"),
            (SettingValue::Number(12288), "\"12 KiB\""),
            (SettingValue::Number(51201), "51201"),
            (SettingValue::Number(3 << 30), "\"3 GiB\""),
            (SettingValue::Word("off"), "\"off\""),
        ] {
            assert_eq!(size.to_toml(&value), text);
            assert_eq!(toml(size, text), Ok(value));
        }
        let path = SettingValue::Path(PathBuf::from("/a \"b\"\\\u{e9}"));
        assert_eq!(toml(ValueKind::Path, &path.to_string()), Ok(path));
    }

    #[test]
    fn allowed_values_are_described() {
        let said = "a number of bytes, a text such as \"64 MiB\", \"never\" or \"mirror\"";
        assert_eq!(ValueKind::Size(WORDS).allowed(), said);
        assert_eq!(ValueKind::Switch.allowed(), "true or false");
        assert_eq!(ValueKind::Count(&[]).allowed(), "a positive whole number");
        assert_eq!(ValueKind::Text.allowed(), "a non-empty text");
    }
}
