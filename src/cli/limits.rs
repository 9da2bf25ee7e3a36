//! The limits of stand-ins: the environment over the defaults.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use crate::cli::env;
use crate::cli::env::ToolOutput;
use crate::cli::outcome::Failure;
use crate::model::Direction;
use crate::model::Limits;

/// The directions by the words of the protocol.
const DIRECTIONS: [(&str, Direction); 3] =
    [("head", Direction::Head), ("tail", Direction::Tail), ("head_tail", Direction::HeadTail)];

/// The limits, or what is wrong with a variable.
pub(super) fn limits(said: &ToolOutput) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(value) = &said.max_lines {
        limits.max_lines = number(env::TOOL_OUTPUT_MAX_LINES, value, 1)?;
    }
    if let Some(value) = &said.max_bytes {
        limits.max_bytes = number(env::TOOL_OUTPUT_MAX_BYTES, value, 1)?;
    }
    if let Some(value) = &said.direction {
        limits.direction = direction(value)?;
    }
    if let Some(value) = &said.dir {
        limits.dir = PathBuf::from(value);
    }
    if let Some(value) = &said.retention_days {
        limits.retention_days = number(env::TOOL_OUTPUT_RETENTION_DAYS, value, 0)?;
    }
    Ok(limits)
}

fn number<T>(name: &str, value: &OsStr, least: T) -> Result<T, Failure>
where
    T: FromStr + PartialOrd + Display + Copy,
{
    let parsed = value.to_str().and_then(|text| text.parse::<T>().ok());
    let wanted = format!("a whole number, {least} or more");
    parsed.filter(|number| *number >= least).ok_or_else(|| wrong(name, value, &wanted))
}

fn direction(value: &OsStr) -> Result<Direction, Failure> {
    let found = DIRECTIONS.iter().find(|(word, _)| value == *word);
    found.map(|(_, direction)| *direction).ok_or_else(|| {
        let name = env::TOOL_OUTPUT_TRUNCATE_DIRECTION;
        wrong(name, value, "`head`, `tail` or `head_tail`")
    })
}

fn wrong(name: &str, value: &OsStr, wanted: &str) -> Failure {
    let value = value.to_string_lossy();
    Failure::usage(format!("{name} is `{value}`"), format!("give {wanted}, or unset {name}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn said(values: [&str; 5]) -> ToolOutput {
        let [max_lines, max_bytes, direction, dir, retention_days] =
            values.map(|value| (!value.is_empty()).then(|| OsString::from(value)));
        ToolOutput { max_lines, max_bytes, direction, dir, retention_days }
    }

    #[test]
    fn the_environment_wins_over_the_defaults() {
        assert_eq!(limits(&ToolOutput::default()), Ok(Limits::default()));
        let limits = limits(&said(["10", "100", "head_tail", "/out", "0"])).unwrap();
        assert_eq!((limits.max_lines, limits.max_bytes), (10, 100));
        assert_eq!(limits.direction, Direction::HeadTail);
        assert_eq!((limits.dir, limits.retention_days), (PathBuf::from("/out"), 0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (["0", "", "", "", ""], "TOOL_OUTPUT_MAX_LINES is `0`"),
            (["ten", "", "", "", ""], "TOOL_OUTPUT_MAX_LINES is `ten`"),
            (["", "-1", "", "", ""], "TOOL_OUTPUT_MAX_BYTES is `-1`"),
            (["", "99999999999999999999", "", "", ""], "TOOL_OUTPUT_MAX_BYTES is"),
            (["", "", "Head", "", ""], "TOOL_OUTPUT_TRUNCATE_DIRECTION is `Head`"),
            (["", "", "", "", "1.5"], "TOOL_OUTPUT_RETENTION_DAYS is `1.5`"),
        ];
        for (values, text) in cases {
            let failure = limits(&said(values)).unwrap_err();
            assert!(failure.message.starts_with(text), "{failure:?}");
            assert!(failure.hint.unwrap().contains("or unset TOOL_OUTPUT_"));
        }
    }
}
