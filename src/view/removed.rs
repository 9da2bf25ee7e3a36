//! `.summary` of an output whose content was removed to free space, or is temporarily unavailable.

use crate::number::{counted, grouped, rounded};
use crate::summary::also;
use crate::{Title, clean, kind};
use ctxfs_core::model::{Analysis, Place, Record, Removal};

/// Describes a removed output. The text has the time and reason of the removal, the call that
/// produced the output, and the type and size of the output.
pub fn removed(record: &Record, removal: &Removal, place: &Place) -> String {
    let (at, why) = (moment(removal.at), &removal.why);
    let is_renamed = removal.rule == Removal::RENAME;
    let first = if is_renamed {
        format!("[ctxfs] RENAMED: this output has another name since {at}: {why}.")
    } else {
        format!("[ctxfs] REMOVED: this output is no longer stored. It went on {at}: {why}.")
    };
    let again = "again:  whoever needs the output has to make the call again".to_owned();
    text([first], known(record, place), (!is_renamed).then_some(again))
}

/// Describes an output whose bytes are in the bucket that hosts share, and cannot be read now. The
/// text has the reason `why`, the call that produced the output, the type and size of the output,
/// and the other outputs of the same name (`same_name`).
pub fn away(record: &Record, why: &str, place: &Place, same_name: &[String]) -> String {
    let first = "[ctxfs] AWAY: the bytes of this output are in the bucket that hosts share.";
    let why = format!("They cannot be read now: {why}");
    let again = format!("again:  look at {} in a while", place.of_view(".summary").file());
    text([first.to_owned(), why], known(record, place).chain(also(same_name)), Some(again))
}

fn known(record: &Record, place: &Place) -> impl Iterator<Item = String> {
    let tool =
        record.provenance.tool_name().map(|tool| format!("tool: {tool}    ")).unwrap_or_default();
    let digest = record.analysis.as_ref().map(|found| &found.digest);
    let title = Title::of(&record.provenance).map(|title| title.line());
    let lines = [
        title,
        Some(format!("{tool}call: {}    ref: {}", record.call(), place.reference())),
        record.provenance.args.as_ref().map(|args| format!("args: {args}")),
        record.provenance.exit_code.map(|code| format!("exit: {code}")),
        Some(format!("made: {}", moment(record.created))),
        Some(format!("size: {}", size(record.size, record.analysis.as_ref()))),
        digest.filter(|digest| !digest.is_empty()).map(|digest| format!("digest: blake3 {digest}")),
    ];
    lines.into_iter().flatten()
}

fn text(
    first: impl IntoIterator<Item = String>,
    known: impl Iterator<Item = String>,
    last: Option<String>,
) -> String {
    first.into_iter().chain(known).chain(last).map(|line| clean::capped(&line) + "\n").collect()
}

// Formats the size: `412,908 bytes, 8,112 lines, about 103,000 tokens; text`.
fn size(bytes: u64, found: Option<&Analysis>) -> String {
    let bytes = counted(bytes, "byte");
    match found {
        None => bytes,
        Some(found) if found.is_binary() => format!("{bytes}; {}", kind::full(found)),
        Some(found) => {
            let (lines, tokens) = (counted(found.lines, "line"), grouped(rounded(found.tokens)));
            format!("{bytes}, {lines}, about {tokens} tokens; {}", kind::full(found))
        }
    }
}

// Formats milliseconds since the epoch: `2026-01-13 15:30:45 UTC`.
fn moment(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ctxfs_core::model::{Limits, Provenance};

    fn text(fixture: &Fixture) -> String {
        let rule = "keep_conversation".to_owned();
        let why = "the outputs of the conversation passed `keep_conversation`".to_owned();
        let removal = Removal { at: 1_768_318_245_000, rule, why, stays: false };
        removed(&fixture.record, &removal, &fixture.place)
    }

    #[test]
    fn it_says_what_went_and_why() {
        let mut fixture = Fixture::new("a\nb\n").provenance(Provenance {
            tool: Some("exec".to_owned()),
            server: Some("shell".to_owned()),
            args: Some("{\n\"command\": \"make\"}".to_owned()),
            exit_code: Some(2),
            ..Provenance::default()
        });
        fixture.record.size = 4;
        fixture.record.analysis = Some(fixture.analysis.clone());
        let digest = &fixture.analysis.digest;
        let want = format!(
            "[ctxfs] REMOVED: this output is no longer stored. It went on 2026-01-13 15:30:45 UTC: \
             the outputs of the conversation passed `keep_conversation`.\n\
             command: make\n\
             tool: shell/exec    call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
             args: {{\u{240a}\"command\": \"make\"}}\n\
             exit: 2\n\
             made: 2025-11-21 20:00:00 UTC\n\
             size: 4 bytes, 2 lines, about 1 tokens; text\n\
             digest: blake3 {digest}\n\
             again:  whoever needs the output has to make the call again\n"
        );
        assert_eq!(text(&fixture), want);
    }

    #[test]
    fn it_says_what_has_another_name() {
        let fixture = Fixture::new("a\n");
        let removal = Removal::renamed(1_768_318_245_000, "ctx://c7/artifacts/tool/y.txt");
        let text = removed(&fixture.record, &removal, &fixture.place);
        let first = "[ctxfs] RENAMED: this output has another name since 2026-01-13 15:30:45 UTC: it \
                     is ctx://c7/artifacts/tool/y.txt now.\n";
        assert!(text.starts_with(first) && !text.contains("again"), "{text}");
    }

    #[test]
    fn what_is_away_names_the_other_outputs_of_its_name() {
        let fixture = Fixture::new("a\n");
        let also = ["x~3f09ab.txt".to_owned()];
        let text = away(&fixture.record, "no network", &fixture.place, &also);
        let line = "\nalso:   x~3f09ab.txt, another output of this name, from another host\nagain:";
        assert!(text.contains(line), "{text}");
        assert!(!away(&fixture.record, "no network", &fixture.place, &[]).contains("also:"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut fixture = Fixture::new("")
            .provenance(Provenance { args: Some("x".repeat(10_000)), ..Provenance::default() });
        fixture.record.size = 1234;
        let text = text(&fixture);
        assert!(text.contains("\nsize: 1,234 bytes\n"), "{text}");
        assert!(!text.contains("digest") && !text.contains("exit"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= Limits::LINE_CHARS), "{text}");
    }
}
