use bstr::ByteSlice as _;

use crate::clean::clean;
use crate::errors::Finding;
use crate::errors::nearby::NearbyLine;
use crate::number::grouped;

const BYTES: usize = 480;
const CHARS: usize = 240;
const CUT: &str = "...";

/// Returns an error in one line: `117: 93:16 error 'document' is not defined (x 3)
/// [lint/html.js]`.
pub(crate) fn error_line(finding: &Finding) -> String {
    let owner = finding.owner.as_deref().map(|owner| format!("  [{owner}]")).unwrap_or_default();
    let times = match finding.at.times {
        1 => String::new(),
        times => format!(" (x {})", grouped(times)),
    };
    let number = format!("{}: ", finding.at.line);
    let room = BYTES.saturating_sub(number.len() + owner.len() + times.len() + CUT.len());
    let message = clean(finding.message.as_bytes(), CHARS, room);
    let cut = if message.used < finding.message.len() { CUT } else { "" };
    let owner = clean(owner.as_bytes(), CHARS, BYTES).text;
    format!("{number}{}{cut}{times}{owner}", message.text)
}

/// Returns the facts that `lines`, among which an error is shown, do not tell: `in lint/html.js, x
/// 3`.
pub(super) fn heading(finding: &Finding, lines: &[NearbyLine]) -> Option<String> {
    let told = |owner: &&str| lines.iter().any(|line| line.text.contains_str(owner));
    let owner = finding.owner.as_deref().filter(|owner| !told(owner));
    let owner = owner.map(|owner| format!("in {}", clean(owner.as_bytes(), CHARS, BYTES).text));
    let times = finding.at.times;
    let times = (times > 1).then(|| format!("x {}", grouped(times)));
    let parts: Vec<String> = owner.into_iter().chain(times).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
