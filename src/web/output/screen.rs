//! Shows the lines of a log as the terminal showed them in the end, with colours and without
//! overwritten text.
//!
//! The terminal emulation starts a few lines before the window and ends a few lines after it, so
//! memory and time do not depend on the length of the log. A row belongs to the line that started
//! on it.

use avt::{Color, Line, Observation, Observer, Pen, ScreenKind, Terminal};
use maud::{Markup, PreEscaped, html};

use crate::output::window::{RequestedOutput, RowWindow, ShownRow};
use crate::{Result, display};
use ctxfs_engine::LineRow;

/// The size of the terminal. It is wide, because programs may format their columns for a wide
/// terminal. Folded lines are joined again.
const COLUMNS: usize = 240;
const ROWS: usize = 50;
/// Number of rows kept above the screen. It is limited, because a program that clears the screen
/// repeatedly could fill any number of rows.
const KEPT: usize = 2000;

pub(super) fn rows(output: &RequestedOutput<'_>, window: &RowWindow) -> Result<Vec<ShownRow>> {
    let before = output.look.rows_before(window.start)?.rows;
    let after = output.look.rows_from(window.end)?.rows;
    if before.iter().chain(&window.rows).chain(&after).all(is_plain) {
        return Ok(window.text_rows(false));
    }
    let mut screen = Emulation::new();
    for row in &before {
        screen.feed(row);
    }
    let starts: Vec<(usize, &LineRow, Option<u64>)> = window
        .numbered()
        .map(|(row, line)| {
            let at = screen.row();
            screen.feed(row);
            (at, row, line)
        })
        .collect();
    let end = screen.row();
    for row in &after {
        screen.feed(row);
    }
    Ok(shown_rows(&starts, end, &screen))
}

/// Returns true if a terminal shows the row unchanged, because nothing in it moves the cursor or
/// sets a colour. Such rows need no terminal emulation, which takes ten times as long.
fn is_plain(row: &LineRow) -> bool {
    let bytes = row.bytes.strip_suffix(b"\r").unwrap_or(&row.bytes);
    String::from_utf8_lossy(bytes).chars().all(|c| !c.is_control() || c == '\t')
}

/// Returns the terminal rows between the start and the end of the window, each with the first line
/// that started on it.
fn shown_rows(
    starts: &[(usize, &LineRow, Option<u64>)],
    end: usize,
    screen: &Emulation,
) -> Vec<ShownRow> {
    let Some((first, ..)) = starts.first() else { return Vec::new() };
    // If the last line has no newline, it is on the row where the window ends.
    let ends_line = starts.last().is_some_and(|(_, row, _)| row.ends_line);
    let end = end + usize::from(!ends_line);
    let rows = screen.rows();
    let row_at = |at: usize| rows.get(at.checked_sub(screen.gone.0)?).copied();
    let mut shown = Vec::new();
    let mut next = starts.iter().peekable();
    for at in *first..end.max(*first) {
        while next.next_if(|(start, ..)| *start < at).is_some() {}
        let own = next.peek().filter(|(start, ..)| *start == at).copied();
        let Some((_, row, line)) = own else {
            // The row continues the row above.
            let folded = at > 0 && row_at(at - 1).is_some_and(Line::is_wrapped);
            if let (Some(ShownRow { text, .. }), Some(more)) = (shown.last_mut(), row_at(at)) {
                *text = html! { (text) @if !folded { "\n" } (line_text(more)) };
            }
            continue;
        };
        let text = row_at(at).map(line_text).unwrap_or_default();
        shown.push(ShownRow { offset: row.offset, line: *line, column: row.column, text });
    }
    shown
}

// Counts the rows that were dropped from the top.
#[derive(Debug, Default)]
struct Gone(usize);

impl Observer for Gone {
    type Output = ();

    fn evicted(&mut self, _: &mut Observation<'_>, _: &Line) {
        self.0 += 1;
    }

    fn end(&mut self, _: &mut Observation<'_>) {}
}

struct Emulation {
    terminal: Terminal,
    gone: Gone,
    // The row of the last line that started on the primary screen.
    at: usize,
}

impl Emulation {
    fn new() -> Self {
        let terminal = Terminal::with_scrollback(COLUMNS, ROWS, Some(KEPT));
        Self { terminal: terminal.expect("it has a size"), gone: Gone::default(), at: 0 }
    }

    fn feed(&mut self, row: &LineRow) {
        self.terminal.feed_with(&*String::from_utf8_lossy(&row.bytes), &mut self.gone);
        if row.ends_line {
            self.terminal.feed_with("\r\n", &mut self.gone);
        }
    }

    // Returns the row of the cursor, counted from the very first row.
    fn row(&mut self) -> usize {
        let position = self.terminal.cursor_position();
        if position.screen == ScreenKind::Primary {
            let all = self.terminal.primary_screen().all_lines().count();
            let above = self.gone.0 + all.saturating_sub(ROWS);
            self.at = above.saturating_add_signed(position.row);
        }
        self.at
    }

    fn rows(&self) -> Vec<&Line> {
        self.terminal.primary_screen().all_lines().collect()
    }
}

fn line_text(line: &Line) -> Markup {
    let cells = line.cells();
    let used = cells.iter().rposition(|cell| cell.char() != ' ' || !classes(cell.pen()).is_empty());
    let used = if line.is_wrapped() { cells.len() } else { used.map_or(0, |last| last + 1) };
    let cells = &cells[..used];
    let mut markup = String::new();
    for run in cells.chunk_by(|a, b| a.pen() == b.pen()) {
        let text: String =
            run.iter().filter(|cell| cell.width() > 0).map(avt::Cell::char).collect();
        let text = display::text(&text);
        let classes = run.first().map(|cell| classes(cell.pen())).unwrap_or_default();
        let span = if classes.is_empty() {
            text
        } else {
            html! { span class=(classes) { (text) } }
        };
        markup.push_str(&span.0);
    }
    PreEscaped(markup)
}

const SIXTEEN: [u32; 16] = [
    0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5,
    0x7f_7f7f, 0xff_0000, 0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
];

// Returns the names of styles, separated by spaces. The result is empty for plain text.
fn classes(pen: &Pen) -> String {
    let colours = [pen.foreground().map(|c| ('f', c)), pen.background().map(|c| ('b', c))];
    let mut names: Vec<String> = colours
        .into_iter()
        .flatten()
        .map(|(of, colour)| format!("{of}{}", nearest(colour)))
        .collect();
    let styles = [
        (pen.is_bold(), "bold"),
        (pen.is_faint(), "dim"),
        (pen.is_italic(), "italic"),
        (pen.is_underline(), "underline"),
        (pen.is_strikethrough(), "strike"),
        (pen.is_inverse(), "inverse"),
    ];
    names.extend(styles.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned()));
    names.join(" ")
}

fn nearest(colour: Color) -> usize {
    let (red, green, blue) = match colour {
        Color::Indexed(number @ 0..16) => return usize::from(number),
        Color::Indexed(number @ 16..232) => {
            let part = |value: u8| if value == 0 { 0 } else { 55 + value * 40 };
            let number = number - 16;
            (part(number / 36), part(number / 6 % 6), part(number % 6))
        }
        Color::Indexed(number) => {
            let grey = 8 + (number - 232) * 10;
            (grey, grey, grey)
        }
        Color::RGB(rgb) => (rgb.r, rgb.g, rgb.b),
    };
    let distance = |other: u32| {
        let [_, r, g, b] = other.to_be_bytes();
        let apart = |a: u8, b: u8| i32::from(a.abs_diff(b)).pow(2);
        apart(red, r) + apart(green, g) + apart(blue, b)
    };
    let best = SIXTEEN.iter().enumerate().min_by_key(|(_, other)| distance(**other));
    best.map_or(7, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(Option<u64>, String)> {
        let lines: Vec<LineRow> = text
            .split_inclusive('\n')
            .map(|line| LineRow {
                offset: 0,
                column: Some(0),
                bytes: line.trim_end_matches('\n').into(),
                ends_line: line.ends_with('\n'),
            })
            .collect();
        let mut screen = Emulation::new();
        let mut number = 0;
        let starts: Vec<_> = lines
            .iter()
            .map(|row| {
                let at = screen.row();
                screen.feed(row);
                number += 1;
                (at, row, Some(number))
            })
            .collect();
        let end = screen.row();
        let rows = shown_rows(&starts, end, &screen);
        rows.into_iter().map(|row| (row.line, row.text.into_string())).collect()
    }

    #[test]
    fn a_row_is_plain_if_a_terminal_shows_it_as_it_is() {
        let row = |text: &str| LineRow {
            offset: 0,
            column: Some(0),
            bytes: text.into(),
            ends_line: true,
        };
        assert!(["", "a\tb", "a\r", "\u{e9}"].into_iter().all(|text| is_plain(&row(text))));
        for text in ["a\rb", "a\x08", "\x1b[1m", "\u{9b}1m", "a\r\r"] {
            assert!(!is_plain(&row(text)), "{text:?}");
        }
    }

    #[test]
    fn colours_are_styles_and_nothing_else() {
        assert_eq!(
            shown("\x1b[1;31mred\x1b[0m <b>\n"),
            [(Some(1), "<span class=\"f1 bold\">red</span> &lt;b&gt;".to_owned())]
        );
        let hostile =
            shown("\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\\x1b]0;title\x07\n");
        assert_eq!(hostile, [(Some(1), "link".to_owned())]);
    }

    #[test]
    fn what_was_overwritten_is_gone() {
        assert_eq!(
            shown("10%\r50%\r100% done\nend"),
            [(Some(1), "100% done".to_owned()), (Some(2), "end".to_owned()),]
        );
        // Three progress bars that are redrawn in place.
        let again = "\x1b[3A\x1b[2Ka 2\n\x1b[2Kb 2\n\x1b[2Kc 2\n";
        let rows = shown(&format!("a 1\nb 1\nc 1\n{again}done\n"));
        let texts: Vec<_> = rows.iter().map(|(_, text)| &**text).collect();
        assert_eq!(texts, ["a 2", "b 2", "c 2", "done"]);
        assert_eq!(rows[0].0, Some(1));
    }

    #[test]
    fn a_screen_that_is_cleared_again_and_again_is_bounded() {
        let rows = shown(&"\x1b[9999A\x1b[9999Bx\x1b[2J\n".repeat(600));
        assert!(rows.len() <= 600);
        let mut screen = Emulation::new();
        let row = LineRow {
            offset: 0,
            column: Some(0),
            bytes: b"\x1b[9999Bx\x1b[2J".to_vec(),
            ends_line: true,
        };
        (0..600).for_each(|_| screen.feed(&row));
        assert!(screen.gone.0 > 0);
        assert!(screen.rows().len() <= KEPT + ROWS);
    }

    #[test]
    fn long_logs_and_long_lines_keep_their_numbers() {
        let lines: Vec<_> = (1..=300).map(|line| format!("line {line}\n")).collect();
        let rows = shown(&lines.concat());
        assert_eq!(rows.len(), 300);
        assert_eq!(rows[299], (Some(300), "line 300".to_owned()));
        let long = "x".repeat(1000);
        let rows = shown(&format!("{long}\nnext\n"));
        assert_eq!((rows.len(), rows[1].1.as_str()), (2, "next"));
        assert_eq!(rows[0].1, long);
    }

    #[test]
    fn all_colours_become_one_of_sixteen() {
        assert_eq!(nearest(Color::Indexed(9)), 9);
        assert_eq!(nearest(Color::Indexed(196)), 9, "bright red of 256");
        assert_eq!(nearest(Color::Indexed(255)), 7);
        assert_eq!(nearest(Color::rgb(0, 200, 10)), 2);
        for number in 0..=255 {
            assert!(nearest(Color::Indexed(number)) < 16);
        }
        assert_eq!(classes(&Pen::default()), "");
    }
}
