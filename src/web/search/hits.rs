//! The lines that a search prints, taken apart: they are those of ripgrep.

use maud::{Markup, html};
use serde_json::json;

use crate::shown;
use ctxfs_engine::LookText;

/// The kind of a line of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HitKind {
    /// It matches.
    Match,
    /// It stands beside one that matches.
    Context,
    /// Lines are left out here.
    Gap,
    /// A count or a name.
    Other,
}

/// A line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) kind: HitKind,
    /// The path of its output, where several are searched.
    pub(super) output: Option<String>,
    pub(super) line: Option<u64>,
    /// The byte column of the text, if the line is long.
    pub(super) column: Option<u64>,
    pub(super) text: String,
}

impl Hit {
    /// Reads a line of the search of one output: `12:text`, `12-text`, `12@5120:text`, `--`.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        Self::gap(line).or_else(|| Self::numbered(line, None)).or_else(|| Some(Self::other(line)))
    }

    /// Reads a line of the search of many outputs: the same after the path of one.
    pub(super) fn of_many(line: &str, is_output: &dyn Fn(&str) -> bool) -> Option<Self> {
        let ends = line.match_indices([':', '-']).map(|(at, _)| at);
        let named = ends.filter(|at| is_output(&line[..*at])).filter_map(|at| {
            let own = Self::numbered(&line[at + 1..], Some(&line[..at]))?;
            let mark = &line[at..=at];
            let is_same = (mark == ":") == (own.kind == HitKind::Match);
            is_same.then_some(own)
        });
        // The longest path that an output has.
        Self::gap(line).or_else(|| named.last()).or_else(|| Some(Self::other(line)))
    }

    fn gap(line: &str) -> Option<Self> {
        (line == "--").then(|| Self { kind: HitKind::Gap, ..Self::other("") })
    }

    fn other(line: &str) -> Self {
        let text = line.to_owned();
        Self { kind: HitKind::Other, output: None, line: None, column: None, text }
    }

    fn numbered(text: &str, output: Option<&str>) -> Option<Self> {
        let (line, rest) = digits(text)?;
        let (column, rest) = match rest.strip_prefix('@') {
            Some(rest) => digits(rest).map(|(column, rest)| (Some(column), rest))?,
            None => (None, rest),
        };
        let (mark, text) = rest.split_at_checked(1)?;
        let kind = match mark {
            ":" => HitKind::Match,
            "-" => HitKind::Context,
            _ => return None,
        };
        let (output, text) = (output.map(str::to_owned), text.to_owned());
        Some(Self { kind, output, line: Some(line), column, text })
    }

    /// Returns it as a line of JSON.
    pub(super) fn json(&self, link: &str) -> String {
        let kind = match self.kind {
            HitKind::Match => "match",
            HitKind::Context => "context",
            HitKind::Gap => "gap",
            HitKind::Other => "other",
        };
        let Self { output, line, column, text, .. } = self;
        let value = json!({"kind": kind, "output": output, "line": line, "column": column,
            "text": text, "href": link});
        value.to_string() + "\n"
    }

    /// Returns it as an item of a list.
    pub(super) fn item(&self, link: &str) -> Markup {
        let class = match self.kind {
            HitKind::Match => "hit",
            HitKind::Context => "context",
            HitKind::Gap => return html! { li.gap aria-hidden="true" {} },
            HitKind::Other => "other",
        };
        html! {
            li class=(class) data-line=[self.line] data-output=[self.output.as_deref()] {
                @if self.line.is_some() {
                    a href=(link) {
                        @if let Some(output) = &self.output { span.of { (shown::text(output)) } " " }
                        span.number { @if let Some(line) = self.line { (line) } }
                    }
                    " "
                }
                code { (shown::text(&self.text)) }
            }
        }
    }
}

fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Returns what a notice says, without the ways to go on, which are paths of files.
pub(super) fn notes(notice: &str) -> Vec<String> {
    let line = |line: &str| {
        let text = line.trim_start_matches("# ");
        let end =
            ["Go on: ", "All at once: ", "Again: "].iter().filter_map(|way| text.find(way)).min();
        text[..end.unwrap_or(text.len())].trim().trim_end_matches('.').to_owned()
    };
    notice.lines().map(line).filter(|line| !line.is_empty()).collect()
}

/// Returns the name of the search that goes on where `found` ends.
pub(super) fn rest(found: &LookText) -> Option<String> {
    const WAYS: [&str; 2] = ["Go on: ", "Again: "];
    let line = |line: &str| {
        let way = WAYS.iter().find_map(|way| line.split_once(*way).map(|(_, path)| path))?;
        let name = way.strip_prefix(&*found.searches)?;
        Some(name.split("    All at once: ").next().unwrap_or(name).to_owned())
    };
    found.notice.lines().find_map(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ripgrep_are_taken_apart() {
        let hit = Hit::of_line("12:text: more").unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Match, Some(12), "text: more"));
        let hit = Hit::of_line("13-12:30 began").unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Context, Some(13), "12:30 began"));
        let hit = Hit::of_line("1@88213:...x...").unwrap();
        assert_eq!((hit.line, hit.column), (Some(1), Some(88213)));
        assert_eq!(Hit::of_line("--").unwrap().kind, HitKind::Gap);
        assert_eq!(Hit::of_line("212").unwrap().kind, HitKind::Other);
    }

    #[test]
    fn paths_with_marks_in_them_are_known() {
        let is_output =
            |path: &str| ["artifacts/tool/a-1-b.txt", "artifacts/tool/a"].contains(&path);
        let hit = Hit::of_many("artifacts/tool/a-1-b.txt:7:x", &is_output).unwrap();
        assert_eq!((hit.output.as_deref(), hit.line), (Some("artifacts/tool/a-1-b.txt"), Some(7)));
        let hit = Hit::of_many("artifacts/tool/a-1-text", &is_output).unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Context, Some(1), "text"));
        assert_eq!(Hit::of_many("--", &is_output).unwrap().kind, HitKind::Gap);
        assert_eq!(Hit::of_many("gone.txt:1:x", &is_output).unwrap().kind, HitKind::Other);
    }

    #[test]
    fn notices_say_how_to_go_on() {
        let found = LookText {
            notice: "# 9 of 12 lines match; the first 2 follow. Go on: /ctx/c7/a b.txt.grep/--from=3 -i x    \
                     All at once: /ctx/c7/a b.txt.grep/-i -m0 x\n# some lines are long\n"
                .to_owned(),
            text: Vec::new(),
            whole: true,
            searches: "/ctx/c7/a b.txt.grep/".to_owned(),
        };
        assert_eq!(rest(&found).as_deref(), Some("--from=3 -i x"));
        assert_eq!(
            notes(&found.notice),
            ["9 of 12 lines match; the first 2 follow", "some lines are long",]
        );
        assert_eq!(rest(&LookText { searches: "/other/".to_owned(), ..found }), None);
    }
}
