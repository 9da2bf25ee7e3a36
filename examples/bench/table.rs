//! Table of figures.

use std::fmt::Write as _;

use crate::place::{Kind, has_bindfs};

/// A row: the name of a measurement, and the figures of all rounds by place.
struct Row {
    what: String,
    unit: &'static str,
    figures: Vec<(Kind, f64)>,
}

/// Rows in the order in which they were first measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds the figure of one round.
    pub(crate) fn add(&mut self, what: &str, unit: &'static str, kind: Kind, figure: f64) {
        if !self.rows.iter().any(|row| row.what == what) {
            self.rows.push(Row { what: what.to_owned(), unit, figures: Vec::new() });
        }
        let row = self.rows.iter_mut().find(|row| row.what == what).unwrap();
        row.figures.push((kind, figure));
    }

    /// Formats the table as Markdown, with a line about the machine.
    pub(crate) fn markdown(&self, rounds: usize) -> String {
        let mut text = String::new();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        writeln!(
            text,
            "Linux {}, {cores} cores; medians of {rounds} interleaved rounds. {}\n\n\
             | | plain | bare, passthrough | passthrough | to plain | to bare \
             | bare, cached | cached | to plain | to bare | bindfs |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            release.trim(),
            if has_bindfs() { "" } else { "`bindfs` is not installed here." }
        )
        .unwrap();
        for row in &self.rows {
            let plain = row.median(Kind::Plain);
            write!(text, "| {} | {} |", row.what, row.figure(plain)).unwrap();
            for kind in [Kind::Passthrough, Kind::Cached] {
                let bare = kind.bare().and_then(|kind| row.median(kind));
                let figure = row.median(kind);
                let (bare_text, text_of) = (row.figure(bare), row.figure(figure));
                let (to_plain, to_bare) = (ratio(figure, plain), ratio(figure, bare));
                write!(text, " {bare_text} | {text_of} | {to_plain} | {to_bare} |").unwrap();
            }
            writeln!(text, " {} |", row.figure(row.median(Kind::Bindfs))).unwrap();
        }
        text
    }
}

fn ratio(figure: Option<f64>, yardstick: Option<f64>) -> String {
    figure
        .zip(yardstick)
        .map_or(String::new(), |(figure, yardstick)| format!("{:.2}", figure / yardstick))
}

/// Returns the median of `figures`.
pub(crate) fn median(figures: &[f64]) -> Option<f64> {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        count if count % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

impl Row {
    fn median(&self, kind: Kind) -> Option<f64> {
        let mine = self.figures.iter().filter(|(of, _)| *of == kind);
        median(&mine.map(|(_, figure)| *figure).collect::<Vec<_>>())
    }

    /// Formats a figure with three significant digits.
    fn figure(&self, figure: Option<f64>) -> String {
        let Some(figure) = figure else { return String::new() };
        let digits = match figure {
            figure if figure < 1.0 => 3,
            figure if figure < 10.0 => 2,
            figure if figure < 100.0 => 1,
            _ => 0,
        };
        format!("{figure:.digits$} {}", self.unit)
    }
}
