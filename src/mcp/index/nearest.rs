//! Names that are like another one.

/// The least likeness of two names, from 0 to 1.
const ALIKE: f64 = 0.7;
/// The most names that are compared, and the most bytes of one.
const MOST_COMPARED: usize = 10_000;
const MOST_BYTES: usize = 200;

/// Returns the names most like `name` among `known`, at most `count`, the most alike first.
pub(super) fn nearest<'n>(
    name: &str,
    known: impl Iterator<Item = &'n str>,
    count: usize,
) -> Vec<String> {
    if name.len() > MOST_BYTES {
        return Vec::new();
    }
    let name = name.to_lowercase();
    let known = known.filter(|known| known.len() <= MOST_BYTES).take(MOST_COMPARED);
    let alike = known.map(|known| (likeness(&name, known), known));
    let mut alike: Vec<_> = alike.filter(|(alike, _)| *alike >= ALIKE).collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    alike.truncate(count);
    alike.into_iter().map(|(_, known)| known.to_owned()).collect()
}

/// A name with its prefix is compared without it too, as models leave it out.
fn likeness(name: &str, known: &str) -> f64 {
    let known = known.to_lowercase();
    let without = known.split_once("__").map_or(&*known, |(_, without)| without);
    strsim::jaro_winkler(name, &known).max(strsim::jaro_winkler(name, without))
}
