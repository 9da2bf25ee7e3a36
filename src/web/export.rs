//! Exports a conversation as files that can be opened from disk, without a server or scripts.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{DOCTYPE, Markup, html};

use crate::{AccessGate, OutputRow, Result, Site, WebError, conversation, display, shell};
use ctxfs_core::materialize::{SNIFFED, reading, strip_escapes};
use ctxfs_core::model::{Component, visible};
use ctxfs_engine::{Engine, LineRow, LoggedMessage, Look, MessageRange};
use ctxfs_view::View;

/// The target of an export. It creates the exported files.
pub trait Shelf {
    /// Creates the file at `path`, such as `outputs/0001-x.html`.
    fn file(&mut self, path: &str) -> io::Result<Box<dyn Write>>;
}

/// Writes the conversation `id` to `shelf`: `index.html` with all messages and calls, one or more
/// pages for each output, the bytes of each output, and the style.
pub fn export(engine: Arc<Engine>, id: &Component, shelf: &mut dyn Shelf) -> Result<()> {
    // Nothing is served, so the gate admits no request.
    let site = Site::new(engine, AccessGate::new(Vec::new(), "", 0));
    let id = site.conversation(&id.to_text())?;
    shelf.file("page.css")?.write_all(shell::STYLE.text.as_bytes())?;
    let outputs = site.catalog.outputs(&id)?;
    let oldest_first = outputs.rows.iter().rev().enumerate();
    let exported: Vec<ExportedOutput<'_>> =
        oldest_first.map(|(number, row)| ExportedOutput::new(number + 1, row)).collect();
    for output in &exported {
        output.write(&site, &id, shelf)?;
    }
    ExportIndex::new(&site, &id, &exported).write(shelf)
}

const MESSAGES: usize = 200;
const TITLES: [&str; 5] = ["Output", "Tool", "Size", "End", "Time"];

struct ExportIndex<'a> {
    site: &'a Arc<Site>,
    id: &'a Component,
    outputs: &'a [ExportedOutput<'a>],
    by_path: HashMap<&'a str, &'a ExportedOutput<'a>>,
}

impl<'a> ExportIndex<'a> {
    fn new(site: &'a Arc<Site>, id: &'a Component, outputs: &'a [ExportedOutput<'a>]) -> Self {
        let by_path = outputs.iter().map(|output| (&*output.row.path, output)).collect();
        Self { site, id, outputs, by_path }
    }

    fn write(&self, shelf: &mut dyn Shelf) -> Result<()> {
        let mut out = shelf.file("index.html")?;
        let name = self.id.to_text();
        out.write_all(page_head(&name, "").as_bytes())?;
        out.write_all(html! { h1 { (display::text(&name)) } (self.list()) }.0.as_bytes())?;
        out.write_all(b"<section id=\"messages\" aria-label=\"Messages\">")?;
        self.write_messages(&mut *out)?;
        out.write_all(b"</section>")?;
        out.write_all(page_foot().as_bytes())?;
        Ok(out.flush()?)
    }

    fn list(&self) -> Markup {
        html! {
            section #outputs aria-label="Outputs" {
                h2 { "Outputs" }
                div.scrolls role="region" aria-label="Table of outputs" tabindex="0" {
                    table {
                        caption { (display::counted(self.outputs.len() as u64, "output")) }
                        thead { tr { @for title in TITLES { th scope="col" { (title) } } } }
                        tbody { @for output in self.outputs { (output.table_row()) } }
                    }
                }
            }
        }
    }

    /// Writes the messages in order. An output that no message names is written before the first
    /// message with the same or a later time.
    fn write_messages(&self, out: &mut dyn Write) -> Result<()> {
        let named = self.named()?;
        let is_named = |output: &ExportedOutput<'_>| named.contains(&*output.row.path);
        let mut others = self.outputs.iter().filter(|output| !is_named(output)).peekable();
        self.each_message(&mut |logged| {
            let time = conversation::time_of(logged);
            let is_due = |other: &&ExportedOutput<'_>| time.is_some_and(|t| other.row.created <= t);
            while let Some(other) = others.next_if(is_due) {
                out.write_all(other.article(self.site, self.id)?.0.as_bytes())?;
            }
            let article = message_article(logged, self.output_of(logged));
            Ok(out.write_all(article.0.as_bytes())?)
        })?;
        for other in others {
            out.write_all(other.article(self.site, self.id)?.0.as_bytes())?;
        }
        Ok(())
    }

    fn named(&self) -> Result<HashSet<&'a str>> {
        let mut named = HashSet::new();
        self.each_message(&mut |message| {
            named.extend(self.output_of(message).map(|output| &*output.row.path));
            Ok(())
        })?;
        Ok(named)
    }

    fn each_message(&self, take: &mut dyn FnMut(&LoggedMessage) -> Result<()>) -> Result<()> {
        let mut from = 0;
        loop {
            let page = self.site.engine.messages(self.id, MessageRange::From(from), MESSAGES)?;
            if page.messages.is_empty() {
                return Ok(());
            }
            from = page.end;
            page.messages.iter().try_for_each(&mut *take)?;
        }
    }

    fn output_of(&self, message: &LoggedMessage) -> Option<&'a ExportedOutput<'a>> {
        let path = message.output.as_ref()?.0.to_text();
        self.by_path.get(&*path).copied()
    }
}

fn message_article(logged: &LoggedMessage, output: Option<&ExportedOutput<'_>>) -> Markup {
    let message = match &logged.message {
        Ok(message) => message,
        Err(line) => {
            return html! {
                article.message data-role="none" {
                    header { span.role { "not a message" } } pre { (display::text(line)) }
                }
            };
        }
    };
    let said = display::text(&message.said());
    html! {
        article.message id={ "m-" (logged.offset) } data-role=(message.role) {
            header {
                span.role { (display::text(&message.role)) } " "
                @if let Some(time) = conversation::time_of(logged) { (display::time(time)) }
            }
            @match output {
                Some(output) => (output.section(&said)),
                None => div.said { (said) },
            }
            @for call in message.calls() {
                p.asked data-call=(call.id) {
                    code { (display::text(&call.name)) } " " code.faint { (display::text(&call.arguments)) }
                }
            }
        }
    }
}

// Maximum number of lines per page, and the number of bytes after which a page ends at the next
// line.
const LINES: u64 = 5000;
const BYTES: u64 = 4 << 20;
const BLOCK: usize = 256 << 10;
// Maximum length of a file name in characters.
const NAME: usize = 80;
const PATIENCE: Duration = Duration::from_secs(5);

struct ExportedOutput<'a> {
    row: &'a OutputRow,
    // The common start of the output's file names, such as `0001-x`.
    stem: String,
}

#[derive(Clone, Copy)]
struct Reached {
    offset: u64,
    line: u64,
}

impl<'a> ExportedOutput<'a> {
    fn new(number: usize, row: &'a OutputRow) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = row.name().chars().map(|c| if is_plain(c) { c } else { '_' });
        let name: String = name.take(NAME).collect();
        Self { row, stem: format!("{number:04}-{name}") }
    }

    fn table_row(&self) -> Markup {
        let row = self.row;
        html! {
            tr data-output=(row.path) data-failed=(row.has_failed()) {
                th scope="row" {
                    a href=(self.link()) { (display::text(&row.title)) }
                    @if row.title != row.name() { br; span.faint { (display::text(row.name())) } }
                }
                td { (row.tool) }
                td.number { (display::size(row.size)) }
                td { (end(row)) }
                td { (display::time(row.created)) }
            }
        }
    }

    // Returns the output as an article with its stand-in, for an output that no message names.
    fn article(&self, site: &Arc<Site>, id: &Component) -> Result<Markup> {
        let given = match site.look(id, &self.row.path) {
            Ok(look) => {
                let began = Instant::now();
                let text = look.view(&View::Summary, &|| began.elapsed() > PATIENCE)?;
                display::bytes(&[text.notice.as_bytes(), &text.text].concat())
            }
            Err(WebError::Missing) => html! {},
            Err(error) => return Err(error),
        };
        Ok(html! {
            article.message data-role="output" {
                header { span.role { "output" } " " (display::time(self.row.created)) }
                (self.section(&given))
            }
        })
    }

    // Returns the output as a call, with `given`, the text that the model got.
    fn section(&self, given: &Markup) -> Markup {
        let row = self.row;
        html! {
            section.call data-call=(row.call) data-output=(row.path) data-failed=(row.has_failed()) {
                header {
                    code { (display::text(&row.title)) } " " span.faint { (row.arguments) } " " (end(row)) " "
                    (display::size(row.size)) " "
                    a.output href=(self.link()) { (display::text(row.name())) }
                }
                pre.stand-in tabindex="0" { (given) }
            }
        }
    }

    /// Writes the bytes and the pages of the output. If the output was removed during the export,
    /// the page says so.
    fn write(&self, site: &Arc<Site>, id: &Component, shelf: &mut dyn Shelf) -> Result<()> {
        let look = match site.look(id, &self.row.path) {
            Ok(look) => look,
            Err(WebError::Missing) => return self.write_note("It was removed meanwhile.", shelf),
            Err(error) => return Err(error),
        };
        self.write_bytes(&look, shelf)?;
        let start = look.bytes(0, SNIFFED)?;
        let is_log = look.path().contains("artifacts/terminal/");
        let Some(reading) = reading(&start, is_log) else {
            let kind =
                look.facts(true)?.analysis.map(|found| found.mime.clone()).unwrap_or_default();
            return self
                .write_note(&format!("Not text: {kind}. The download has its bytes."), shelf);
        };
        let strips = reading.strips;
        let (mut reached, mut number) = (Reached { offset: 0, line: 1 }, 1);
        loop {
            reached = self.write_page(number, &look, reached, strips, shelf)?;
            if reached.offset >= look.text_size() {
                return Ok(());
            }
            number += 1;
        }
    }

    fn write_bytes(&self, look: &Look, shelf: &mut dyn Shelf) -> Result<()> {
        let mut raw = shelf.file(&format!("raw/{}", self.stem))?;
        let mut at = 0;
        while at < look.size() {
            let bytes = look.bytes(at, BLOCK)?;
            if bytes.is_empty() {
                break;
            }
            raw.write_all(&bytes)?;
            at += bytes.len() as u64;
        }
        Ok(raw.flush()?)
    }

    fn write_note(&self, note: &str, shelf: &mut dyn Shelf) -> Result<()> {
        let mut out = shelf.file(&self.link())?;
        out.write_all(self.head(1).as_bytes())?;
        out.write_all(html! { p { (note) } }.0.as_bytes())?;
        out.write_all(page_foot().as_bytes())?;
        Ok(out.flush()?)
    }

    fn write_page(
        &self,
        number: u32,
        look: &Look,
        from: Reached,
        strips: bool,
        shelf: &mut dyn Shelf,
    ) -> Result<Reached> {
        let mut out = shelf.file(&format!("outputs/{}", self.page_name(number)))?;
        out.write_all(self.head(number).as_bytes())?;
        out.write_all(b"<div class=\"text\" role=\"region\" aria-label=\"Lines\" tabindex=\"0\">")?;
        let reached = write_rows(look, from, strips, &mut *out)?;
        out.write_all(b"</div>")?;
        let pager = self.pager(number, reached.offset < look.text_size());
        out.write_all(pager.0.as_bytes())?;
        out.write_all(page_foot().as_bytes())?;
        out.flush()?;
        Ok(reached)
    }

    fn link(&self) -> String {
        format!("outputs/{}", self.page_name(1))
    }

    fn page_name(&self, number: u32) -> String {
        match number {
            1 => format!("{}.html", self.stem),
            _ => format!("{}.{number}.html", self.stem),
        }
    }

    fn head(&self, number: u32) -> String {
        let name = self.row.name();
        let facts = html! {
            h1 { (display::text(name)) @if number > 1 { ", page " (number) } }
            p {
                code { (display::text(&self.row.title)) } " " (end(self.row)) " "
                (display::size(self.row.size)) " "
                (display::time(self.row.created)) " "
                a #raw href={ "../raw/" (self.stem) } download { "Download" }
            }
        };
        page_head(name, "../") + &facts.0
    }

    fn pager(&self, number: u32, has_next: bool) -> Markup {
        html! {
            nav.pager aria-label="Windows" {
                @if number > 1 { a.previous href=(self.page_name(number - 1)) { "Before" } " " }
                @if has_next { a.next href=(self.page_name(number + 1)) { "After" } }
            }
        }
    }
}

fn write_rows(look: &Look, from: Reached, strips: bool, out: &mut dyn Write) -> Result<Reached> {
    let Reached { mut offset, mut line } = from;
    let is_full = |offset, line| line >= from.line + LINES || offset >= from.offset + BYTES;
    while offset < look.text_size() && !is_full(offset, line) {
        let window = look.rows_from(offset)?;
        if window.rows.is_empty() {
            // The file has become shorter.
            return Ok(Reached { offset: look.text_size(), line });
        }
        for row in &window.rows {
            out.write_all(shown_row(row, line, strips).0.as_bytes())?;
            line += u64::from(row.ends_line);
        }
        offset = window.end;
    }
    Ok(Reached { offset, line })
}

fn shown_row(row: &LineRow, line: u64, strips: bool) -> Markup {
    let bytes = row.bytes.strip_suffix(b"\r").unwrap_or(&row.bytes);
    let text = if strips { display::bytes(&strip_escapes(bytes)) } else { display::bytes(bytes) };
    let is_start = row.column == Some(0);
    html! {
        div.line id=[is_start.then(|| format!("L{line}"))] data-line=(line) {
            a.number href={ "#L" (line) } { (line) } code { (text) }
        }
    }
}

fn end(row: &OutputRow) -> Markup {
    html! {
        @if row.is_incomplete { span.failed { "incomplete" } }
        @else if let Some(code) = row.exit { span .failed[code != 0] { "exit " (code) } }
    }
}

// Allows only the style and images next to the page.
const POLICY: &str =
    "default-src 'none'; style-src 'self' file:; img-src 'self' file:; base-uri 'none'";

// `up` is the path from the page to the directory of the style: empty, or `../`.
fn page_head(title: &str, up: &str) -> String {
    let page = html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (visible::whole(title)) " - ctxfs" }
            link rel="stylesheet" href={ (up) "page.css" };
        }
    };
    let trail = html! {
        @if !up.is_empty() {
            header.top { nav aria-label="Pages" { a href={ (up) "index.html" } { "The conversation" } } }
        }
    };
    format!(
        "{}<html lang=\"en\">{}<body data-page=\"export\">{}<main id=\"main\">",
        DOCTYPE.into_string(),
        page.into_string(),
        trail.into_string()
    )
}

fn page_foot() -> String {
    let footer = html! { footer { p { "exported by ctxfs " (env!("CARGO_PKG_VERSION")) } } };
    format!("</main>{}</body></html>\n", footer.into_string())
}
