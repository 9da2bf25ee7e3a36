//! Progress bars for long jobs, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The template of a bar: amount, speed and remaining time.
const STYLE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
/// The template for a job of unknown size.
const OPEN_STYLE: &str = "{msg} {decimal_bytes}, {decimal_bytes_per_sec}";

/// Returns a bar that counts to `total` bytes, if that is known. It disappears when it is dropped.
///
/// It is drawn as [`target`] says.
pub(super) fn bar(what: &str, total: Option<u64>, silent: bool) -> ProgressBar {
    let template = if total.is_some() { STYLE } else { OPEN_STYLE };
    let style = ProgressStyle::with_template(template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    ProgressBar::with_draw_target(total, target(silent))
        .with_style(style)
        .with_message(what.to_owned())
}

/// Returns a bar that counts to `total` things, which `unit` names. It draws as [`bar`] does.
#[cfg(feature = "remote")]
pub(super) fn count(what: &str, total: usize, unit: &str, silent: bool) -> ProgressBar {
    let template = format!("{{msg}} [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}");
    let style = ProgressStyle::with_template(&template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(Some(total as u64), target(silent));
    bar.with_style(style).with_message(what.to_owned())
}

/// Returns where bars are drawn: nowhere if standard error is not a terminal, or if `silent` is set.
pub(super) fn target(silent: bool) -> ProgressDrawTarget {
    if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_templates_are_valid() {
        for total in [None, Some(10)] {
            let bar = bar("reading", total, true);
            bar.inc(5);
            assert_eq!((bar.length(), bar.position()), (total, 5));
        }
    }
}
