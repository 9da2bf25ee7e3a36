//! The words and names in a text, split into parts and folded: `payment` and `gateway` of
//! `paymentGateway`. A folded word stands for all its forms: it has no case, accents and simple
//! endings.

use unicode_normalization::char::decompose_compatible;

// The fewest characters of a stem.
const SHORTEST: usize = 3;
// The fewest before an ending that often belongs to the word: `state`.
const SHORTEST_LATIN: usize = 4;
// Of endings that end alike, the longest first.
const ENDINGS: [(&str, usize); 26] = [
    ("fully", SHORTEST_LATIN),
    ("ation", SHORTEST_LATIN),
    ("ating", SHORTEST_LATIN),
    ("ated", SHORTEST_LATIN),
    ("ator", SHORTEST_LATIN),
    ("ment", SHORTEST_LATIN),
    ("able", SHORTEST_LATIN),
    ("ible", SHORTEST_LATIN),
    ("ness", SHORTEST_LATIN),
    ("ance", SHORTEST_LATIN),
    ("ence", SHORTEST_LATIN),
    ("ate", SHORTEST_LATIN),
    ("ion", SHORTEST_LATIN),
    ("ive", SHORTEST_LATIN),
    ("ful", SHORTEST_LATIN),
    ("ous", SHORTEST_LATIN),
    ("ity", SHORTEST_LATIN),
    ("est", SHORTEST_LATIN),
    ("ing", SHORTEST),
    ("ed", SHORTEST),
    ("er", SHORTEST),
    ("or", SHORTEST_LATIN),
    ("al", SHORTEST_LATIN),
    ("ly", SHORTEST_LATIN),
    ("ic", SHORTEST_LATIN),
    ("en", SHORTEST_LATIN),
];

/// Appends the letters that stand for `c` without case and accent. Appends nothing for a combining
/// accent.
pub(super) fn push_folded(c: char, into: &mut String) {
    if c.is_ascii() {
        into.push(c.to_ascii_lowercase());
        return;
    }
    for lower in c.to_lowercase() {
        match lower {
            '\u{df}' => into.push_str("ss"),
            '\u{e6}' => into.push_str("ae"),
            '\u{153}' => into.push_str("oe"),
            '\u{f8}' => into.push('o'),
            '\u{111}' | '\u{f0}' => into.push('d'),
            '\u{142}' => into.push('l'),
            '\u{131}' => into.push('i'),
            _ => decompose_compatible(lower, |part| {
                if !is_accent(part) {
                    into.extend(part.to_lowercase());
                }
            }),
        }
    }
}

// A mark that is written over or under the letter before it.
pub(super) fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Returns the beginning that all forms of `word` share: `evict` for `evicted` and `eviction`,
/// `retr` for `retry`. `word` has to be folded and to consist of letters.
pub(super) fn stem(word: &str) -> &str {
    if !word.is_ascii() {
        return word;
    }
    let singular = match word.strip_suffix('s') {
        Some(stem) if stem.len() >= SHORTEST && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    };
    let mut stem = singular;
    for (ending, shortest) in ENDINGS {
        // Not `spe` of `speed`.
        if let Some(left) = singular.strip_suffix(ending)
            && left.len() >= shortest
            && !(ending == "ed" && left.ends_with('e'))
        {
            stem = left;
            break;
        }
    }
    while stem.len() > SHORTEST && stem.ends_with(['e', 'i', 'y']) {
        stem = &stem[..stem.len() - 1];
    }
    // `fail` of `failure`, and `config` of `configuration`.
    let stem = stem.strip_suffix("ur").filter(|left| left.len() >= SHORTEST_LATIN).unwrap_or(stem);
    without_double(stem)
}

// `stop` for `stopp`.
fn without_double(stem: &str) -> &str {
    match stem.as_bytes() {
        [start @ .., first, second] if first == second && start.len() >= 2 => {
            &stem[..stem.len() - 1]
        }
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(word: &str) -> String {
        let mut text = String::new();
        word.chars().for_each(|c| push_folded(c, &mut text));
        text
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        let families: [&[&str]; 22] = [
            &["evict", "evicts", "evicted", "evicting", "eviction", "evictions"],
            &["retry", "retries", "retried", "retrying"],
            &["stop", "stops", "stopped", "stopping"],
            &["cache", "caches", "cached", "caching"],
            &["fail", "fails", "failed", "failing", "failure", "failures"],
            &["connect", "connection", "connections", "connected"],
            &["deploy", "deploys", "deployed", "deployment", "deployments"],
            &["memory", "memories"],
            &["process", "processes", "processed", "processing"],
            &["access", "accesses", "accessed"],
            &["status", "statuses"],
            &[
                "config",
                "configs",
                "configure",
                "configured",
                "configuration",
                "configurations",
                "configures",
            ],
            &["expire", "expired", "expires", "expiration", "expiry"],
            &["update", "updates", "updated", "updating"],
            &["create", "creates", "created", "creating", "creation"],
            &["deny", "denies", "denied"],
            &["kill", "killed", "kills", "killing", "killer"],
            &["run", "runs", "running", "runner"],
            &["error", "errors"],
            &["slow", "slower", "slowest", "slowly"],
            &["host", "hosts"],
            &["poison", "poisoned", "poisonous"],
        ];
        for family in families {
            let stems: Vec<&str> = family.iter().map(|word| stem(word)).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{family:?} {stems:?}");
        }
    }

    #[test]
    fn other_words_stay_apart() {
        for (one, other) in [
            ("port", "part"),
            ("user", "use"),
            ("state", "stack"),
            ("region", "regex"),
            ("session", "set"),
            ("test", "text"),
            ("order", "odd"),
            ("speed", "spe"),
            ("password", "pass"),
        ] {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
    }

    #[test]
    fn case_and_accents_are_left_out() {
        assert_eq!(folded("Z\u{dc}RICH"), "zurich");
        assert_eq!(folded("u\u{308}ber"), "uber");
        assert_eq!(folded("Stra\u{df}e"), "strasse");
        assert_eq!(folded("\u{141}\u{f3}d\u{17a}"), "lodz");
        assert_eq!(
            folded("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"
        );
        assert_eq!(folded("\u{65e5}\u{672c}"), "\u{65e5}\u{672c}");
    }
}
