//! The change of a file as people read it.

use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

/// The lines around a change that are shown.
const AROUND: usize = 1;
/// The most characters of a line that are shown.
const WIDEST: usize = 300;
/// The time to look for the smallest difference.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the change as a unified diff, with long lines cut.
pub(super) fn diff(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let texts = (before.unwrap_or_default(), after.unwrap_or_default());
    let found = TextDiff::configure().timeout(PATIENCE).diff_lines(texts.0, texts.1);
    let mut shown = found.unified_diff();
    shown.context_radius(AROUND).missing_newline_hint(false);
    shown.header(&name(before), &name(after));
    shown.to_string().lines().map(cut).collect()
}

fn cut(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    match line.char_indices().nth(WIDEST) {
        None => format!("{line}\n"),
        Some((at, _)) => format!("{}... ({} bytes)\n", &line[..at], line.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_change_are_shown() {
        let text = diff(Path::new("/f"), Some("a\nb\nc\nd\n"), Some("a\nb\nx\nc\nd\n"));
        assert_eq!(text, "--- /f\n+++ /f\n@@ -2,2 +2,3 @@\n b\n+x\n c\n");
        let text = diff(Path::new("/f"), None, Some("a"));
        assert_eq!(text, "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn long_lines_are_cut() {
        let text = diff(Path::new("/f"), None, Some(&"x".repeat(5000)));
        assert!(text.ends_with("... (5001 bytes)\n") && text.len() < 400, "{text}");
    }
}
