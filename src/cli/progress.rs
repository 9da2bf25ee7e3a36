//! How far a long job has come: a bar on standard error, where that is a terminal.

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// What a bar shows: how much, how fast, and how long still.
const STYLE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
/// Of a job of unknown size.
const OPEN_STYLE: &str = "{msg} {decimal_bytes}, {decimal_bytes_per_sec}";

/// A bar that counts to `total` bytes, if that is known. It goes when it is dropped.
///
/// Nothing is drawn where standard error is no terminal, nor where `silent`.
pub(super) fn bar(what: &str, total: Option<u64>, silent: bool) -> ProgressBar {
    let target = if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = if total.is_some() { STYLE } else { OPEN_STYLE };
    let style = ProgressStyle::with_template(template);
    let style = style.expect("the template is right").progress_chars("=> ");
    ProgressBar::with_draw_target(total, target).with_style(style).with_message(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_styles_can_be() {
        for total in [None, Some(10)] {
            let bar = bar("reading", total, true);
            bar.inc(5);
            assert_eq!((bar.length(), bar.position()), (total, 5));
        }
    }
}
