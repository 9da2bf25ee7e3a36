//! Table of figures.

use std::fmt::Write as _;

/// A column of the table: the measured client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Plain,
    Aws,
    Ctxfs,
}

/// A row: the name of a measurement, and the figures of all rounds.
struct Row {
    what: String,
    unit: &'static str,
    figures: Vec<(Client, f64)>,
}

/// Rows in the order in which they were first measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds the figure of one round.
    pub(crate) fn add(&mut self, what: &str, unit: &'static str, client: Client, figure: f64) {
        let place = self.rows.iter().position(|row| row.what == what).unwrap_or_else(|| {
            self.rows.push(Row { what: what.to_owned(), unit, figures: Vec::new() });
            self.rows.len() - 1
        });
        self.rows[place].figures.push((client, figure));
    }

    /// Formats the table as Markdown, with a line about the machine.
    pub(crate) fn markdown(&self, rounds: usize) -> String {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut text = format!(
            "Linux {}, {cores} cores; medians of {rounds} rounds.\n\n\
             | | plain client | `aws` | ctxfs | to plain | to `aws` |\n\
             |---|---:|---:|---:|---:|---:|\n",
            release.trim()
        );
        for row in &self.rows {
            let [plain, aws, ctxfs] =
                [Client::Plain, Client::Aws, Client::Ctxfs].map(|client| row.median(client));
            let [first, second, third] = [plain, aws, ctxfs].map(|figure| row.text(figure));
            let (to_plain, to_aws) = (ratio(ctxfs, plain), ratio(ctxfs, aws));
            writeln!(
                text,
                "| {} | {first} | {second} | {third} | {to_plain} | {to_aws} |",
                row.what
            )
            .unwrap();
        }
        text
    }
}

impl Row {
    fn median(&self, client: Client) -> Option<f64> {
        let mine = self.figures.iter().filter(|(of, _)| *of == client);
        let mut figures: Vec<f64> = mine.map(|(_, figure)| *figure).collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        match figures.len() {
            0 => None,
            count if count % 2 == 1 => Some(figures[middle]),
            _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
        }
    }

    /// Formats a figure: a count as it is, others with three significant digits.
    fn text(&self, figure: Option<f64>) -> String {
        let Some(figure) = figure else { return String::new() };
        let digits = match figure {
            figure if self.unit.is_empty() || figure >= 100.0 => 0,
            figure if figure >= 10.0 => 1,
            figure if figure >= 1.0 => 2,
            _ => 3,
        };
        format!("{figure:.digits$} {}", self.unit).trim_end().to_owned()
    }
}

fn ratio(figure: Option<f64>, yardstick: Option<f64>) -> String {
    match (figure, yardstick) {
        (Some(figure), Some(yardstick)) if yardstick > 0.0 => {
            let ratio = figure / yardstick;
            let digits = if ratio < 0.1 { 4 } else { 2 };
            format!("{ratio:.digits$}")
        }
        _ => String::new(),
    }
}
