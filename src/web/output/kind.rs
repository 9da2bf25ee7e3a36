//! The ways to look at an output, and the one that fits.

use std::path::Path;

use maud::{Markup, html};

use crate::address::query;
use crate::output::Output;
use ctxfs_core::materialize;
use ctxfs_core::materialize::SNIFFED;
use ctxfs_core::model::Json;
use ctxfs_engine::LookFacts;

/// Images that browsers show, and that cannot hold scripts.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A way to look at an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Its lines.
    Text,
    /// Its lines as a terminal shows them.
    Screen,
    /// Its lines as they are stored, where those of the text are not.
    Raw,
    /// A tree of JSON.
    Json,
    /// Its bytes.
    Hex,
    /// An image.
    Image,
}

impl View {
    const ALL: [Self; 6] =
        [Self::Image, Self::Json, Self::Screen, Self::Text, Self::Raw, Self::Hex];

    /// Returns the way that `name` means, or the one that fits the output best.
    pub(super) fn of(name: &str, output: &Output<'_>) -> Self {
        let asked = Self::ALL.into_iter().find(|view| view.name() == name);
        let fits = || Self::ALL.into_iter().filter(|view| view.fits(output));
        asked.filter(|view| view.fits(output)).unwrap_or_else(|| {
            let mut fitting = fits();
            let first = fitting.next().unwrap_or(Self::Hex);
            // A link to a line wants lines.
            let wants_lines = output.names_a_place() && first == Self::Json;
            if wants_lines { fitting.next().unwrap_or(first) } else { first }
        })
    }

    /// Returns its name in addresses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Screen => "screen",
            Self::Raw => "raw",
            Self::Json => "json",
            Self::Hex => "hex",
            Self::Image => "image",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Text => "Text",
            Self::Screen => "As on the terminal",
            Self::Raw => "With escapes",
            Self::Json => "Tree",
            Self::Hex => "Bytes",
            Self::Image => "Image",
        }
    }

    /// Returns true if it shows lines.
    pub(super) fn has_lines(self) -> bool {
        matches!(self, Self::Text | Self::Screen | Self::Raw)
    }

    fn fits(self, output: &Output<'_>) -> bool {
        let is_binary = is_binary(output);
        match self {
            Self::Hex => true,
            Self::Image => image_type(&output.facts).is_some(),
            Self::Text => !is_binary,
            Self::Screen | Self::Raw => !is_binary && is_for_terminal(output),
            Self::Json => !is_binary && is_json(output),
        }
    }
}

/// Returns the links to all ways that fit.
pub(super) fn links(output: &Output<'_>, now: View) -> Markup {
    let address = output.address();
    html! {
        nav #views aria-label="Ways to look" {
            @for view in View::ALL.into_iter().filter(|view| view.fits(output)) {
                a href={ (address) (query(&[("view", view.name())])) }
                    aria-current=[(view == now).then_some("page")] { (view.title()) }
                " "
            }
        }
    }
}

/// Returns the type of an image that is shown.
pub(crate) fn image_type(facts: &LookFacts) -> Option<&'static str> {
    let mime = &facts.analysis.as_ref()?.mime;
    IMAGES.iter().find(|known| *known == mime).copied()
}

/// Returns true if it was made for a terminal.
pub(super) fn is_for_terminal(output: &Output<'_>) -> bool {
    if let Some(found) = &output.facts.analysis {
        return found.plain.is_some();
    }
    let start = output.look.bytes(0, SNIFFED).unwrap_or_default();
    output.facts.is_log || materialize::is_for_terminal(&start)
}

fn is_binary(output: &Output<'_>) -> bool {
    match &output.facts.analysis {
        Some(found) => found.is_binary(),
        None => materialize::is_binary(&output.look.bytes(0, SNIFFED).unwrap_or_default()),
    }
}

/// Returns true for JSON and JSON Lines; of what was not analysed, for what begins so.
fn is_json(output: &Output<'_>) -> bool {
    if let Some(found) = &output.facts.analysis {
        return matches!(found.json, Json::Document { .. } | Json::Lines { .. });
    }
    let start = output.look.bytes(0, 64).unwrap_or_default();
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_named_so = Path::new(output.look.path()).extension().is_some_and(|end| end == "json");
    is_named_so && matches!(first, Some(b'{' | b'['))
}
