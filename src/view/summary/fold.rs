use std::collections::HashMap;

use crate::number::grouped;
use ctxfs_core::materialize::LikenessHasher;

// Lines of one form that are shown, and rows of a table, of which the first is its header.
const SHOWN: u32 = 2;
const ROWS: u32 = 3;
// The fewest lines in a row that are folded.
const FEWEST: usize = 3;
// Signs between the cells of a row, and the fewest of them that make a row.
const BETWEEN: [u8; 4] = *b",;\t|";
const CELLS: usize = 3;

/// The forms of the lines that an excerpt has shown.
#[derive(Default)]
pub(super) struct Fold {
    likeness: LikenessHasher,
    shown: HashMap<u64, u32>,
}

impl Fold {
    /// Returns the number of lines in a row, from the first of `lines` on, of whose forms enough
    /// are shown. Returns 0 if there are too few to fold.
    pub(super) fn run<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> usize {
        let count = lines.take_while(|line| self.is_known(line)).count();
        if count < FEWEST { 0 } else { count }
    }

    pub(super) fn show(&mut self, line: &[u8]) {
        *self.shown.entry(self.likeness.of(line)).or_default() += 1;
        if let Some(row) = row(line) {
            *self.shown.entry(row).or_default() += 1;
        }
    }

    fn is_known(&mut self, line: &[u8]) -> bool {
        let shown = |form: u64| self.shown.get(&form).copied().unwrap_or_default();
        shown(self.likeness.of(line)) >= SHOWN || row(line).is_some_and(|row| shown(row) >= ROWS)
    }
}

// The form of a row of a table: its number of cells. A row begins with a letter or digit.
fn row(line: &[u8]) -> Option<u64> {
    let cells = |sign: u8| memchr::memchr_iter(sign, line).count();
    let (count, sign) = BETWEEN.iter().map(|sign| (cells(*sign), *sign)).max()?;
    let begins = line.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'"');
    (begins && count >= CELLS).then(|| (count as u64) << 8 | u64::from(sign))
}

pub(super) fn mark(lines: usize) -> String {
    format!("[... {} lines like these ...]", grouped(lines as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Vec<String> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let (mut fold, mut shown, mut at) = (Fold::default(), Vec::new(), 0);
        while at < lines.len() {
            let run = fold.run(lines[at..].iter().copied());
            if run > 0 {
                shown.push(mark(run));
            } else {
                fold.show(lines[at]);
                shown.push(String::from_utf8(lines[at].to_vec()).unwrap());
            }
            at += run.max(1);
        }
        shown
    }

    #[test]
    fn two_of_a_form_are_shown() {
        let text = "start\nread 1\nread 2\nread 3\nread 4\nread 5\nend\nread 6\nread 7\n";
        let shown = [
            "start",
            "read 1",
            "read 2",
            "[... 3 lines like these ...]",
            "end",
            "read 6",
            "read 7",
        ];
        assert_eq!(folded(text), shown);
        let turns = "open 1\nclose 1\n".repeat(50);
        assert_eq!(folded(&turns).last().unwrap(), "[... 96 lines like these ...]");
    }

    #[test]
    fn rows_are_of_one_form() {
        let names = ["Ann", "Bea", "Cy", "Dan", "Eve"];
        let row = |name: &&str| format!("{name},x{name},1,{name}@b.org");
        let rows = names.iter().map(row).collect::<Vec<String>>().join("\n");
        let shown = folded(&format!("name,login,id,mail address\n{rows}"));
        assert_eq!(shown.len(), 4);
        assert_eq!(shown[3], "[... 3 lines like these ...]");
        let prose = "One, two, three, and four.\nRed, green, blue, and grey.\n";
        assert_eq!(folded(prose).len(), 2);
    }
}
