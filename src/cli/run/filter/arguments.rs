//! The arguments of filters.

/// The filters that are kept. `sed` is one only with `-n`.
pub(crate) const FILTERS: [&str; 7] = ["tail", "grep", "egrep", "fgrep", "rg", "sed", "awk"];

/// The options with which a filter reads all of its standard input, and no files. Letters in `with`
/// and names in `long` that end with `=` have a value. The first `scripts` words that are no option
/// are patterns or scripts.
struct FilterOptions {
    flags: &'static str,
    with: &'static str,
    long: &'static [&'static str],
    scripts: usize,
}

const TAIL: FilterOptions = FilterOptions {
    flags: "qvz",
    with: "nc",
    long: &["lines=", "bytes=", "quiet", "silent", "verbose"],
    scripts: 0,
};
const GREP: FilterOptions = FilterOptions {
    flags: "EFGPiyvwxcnbHhosaUT",
    with: "ABCe",
    long: &[
        "extended-regexp",
        "basic-regexp",
        "perl-regexp",
        "fixed-strings",
        "ignore-case",
        "invert-match",
        "word-regexp",
        "line-regexp",
        "count",
        "line-number",
        "only-matching",
        "no-messages",
        "text",
        "line-buffered",
        "color",
        "colour",
        "color=",
        "colour=",
        "after-context=",
        "before-context=",
        "context=",
        "regexp=",
    ],
    scripts: 1,
};
const RIPGREP: FilterOptions = FilterOptions {
    flags: "FPUSisvwxcnNoaHI",
    with: "ABCe",
    long: &[
        "fixed-strings",
        "pcre2",
        "multiline",
        "smart-case",
        "case-sensitive",
        "ignore-case",
        "invert-match",
        "word-regexp",
        "line-regexp",
        "count",
        "line-number",
        "no-line-number",
        "only-matching",
        "text",
        "no-heading",
        "no-filename",
        "line-buffered",
        "color=",
        "after-context=",
        "before-context=",
        "context=",
        "regexp=",
    ],
    scripts: 1,
};
const SED: FilterOptions = FilterOptions {
    flags: "nErsuz",
    with: "e",
    long: &["quiet", "silent", "regexp-extended", "unbuffered", "expression="],
    scripts: 1,
};
const AWK: FilterOptions = FilterOptions { flags: "", with: "Fv", long: &[], scripts: 1 };

/// Returns true if `filter` with these arguments reads its standard input to the end, and no files.
/// Options that are not known could change that.
pub(crate) fn reads_all<'a>(filter: &str, arguments: impl Iterator<Item = &'a str>) -> bool {
    let options = match filter {
        "tail" => &TAIL,
        "grep" | "egrep" | "fgrep" => &GREP,
        "rg" => &RIPGREP,
        "sed" => &SED,
        _ => &AWK,
    };
    let Some(Arguments { scripts, values, flags }) = parse(filter, options, arguments) else {
        return false;
    };
    let is_in = |text: &str| scripts.iter().any(|script| script.contains(text));
    match filter {
        // `tail -n 0` reads nothing.
        "tail" => !values.iter().any(|value| is_zero(value)) && !is_zero(&flags),
        "sed" => flags.contains('n') && !scripts.is_empty() && !is_in("q") && !is_in("Q"),
        "awk" => {
            let ending = ["BEGIN", "exit", "getline", "nextfile", "system"];
            !scripts.is_empty() && !ending.into_iter().any(is_in)
        }
        _ => !scripts.is_empty(),
    }
}

/// Patterns and scripts, values of other options, and letters and digits of options.
struct Arguments<'a> {
    scripts: Vec<&'a str>,
    values: Vec<&'a str>,
    flags: String,
}

// Returns `None` for an option that is not known and for a file.
fn parse<'a>(
    filter: &str,
    options: &FilterOptions,
    mut arguments: impl Iterator<Item = &'a str>,
) -> Option<Arguments<'a>> {
    let mut found = Arguments { scripts: Vec::new(), values: Vec::new(), flags: String::new() };
    let (mut left, mut are_options) = (options.scripts, true);
    // As in `tail -5` and `grep -3 x`.
    let has_numbers = matches!(filter, "tail" | "grep" | "egrep" | "fgrep");
    while let Some(word) = arguments.next() {
        let letters = word.strip_prefix('-').filter(|rest| are_options && !rest.is_empty());
        let Some(letters) = letters else {
            left = left.checked_sub(1)?;
            found.scripts.push(word);
            // Behind its program, words of awk are files and assignments.
            are_options &= filter != "awk";
            continue;
        };
        if letters == "-" {
            are_options = false;
        } else if let Some(name) = letters.strip_prefix('-') {
            let end = name.find('=').map_or(name.len(), |at| at + 1);
            let (name, value) = name.split_at(end);
            options.long.contains(&name).then_some(())?;
            match name {
                "regexp=" | "expression=" => {
                    left = 0;
                    found.scripts.push(value);
                }
                "quiet" | "silent" => found.flags.push('n'),
                _ => found.values.push(value),
            }
        } else {
            let is_flag =
                |c: char| options.flags.contains(c) || (c.is_ascii_digit() && has_numbers);
            let end = letters.find(|c| !is_flag(c)).unwrap_or(letters.len());
            found.flags += &letters[..end];
            let mut rest = letters[end..].chars();
            let Some(letter) = rest.next() else { continue };
            options.with.contains(letter).then_some(())?;
            let value = if rest.as_str().is_empty() { arguments.next()? } else { rest.as_str() };
            if letter == 'e' {
                left = 0;
                found.scripts.push(value);
            } else {
                found.values.push(value);
            }
        }
    }
    Some(found)
}

// Returns true for a number of lines or bytes that is zero, with any suffix. `+0` is all of them.
fn is_zero(number: &str) -> bool {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0') && !number.starts_with('+')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(line: &str) -> bool {
        let words = shlex::split(line).unwrap();
        reads_all(&words[0], words[1..].iter().map(String::as_str))
    }

    #[test]
    fn filters_that_read_all() {
        for line in [
            "tail",
            "tail -5",
            "tail -n 3",
            "tail -n3",
            "tail -qn +0",
            "tail --lines=2",
            "tail -c +7",
            "grep x",
            "grep -inE 'a|b'",
            "grep -A3 x",
            "grep -3 x",
            "grep -e a -e b",
            "grep -- -x",
            "grep --regexp=a",
            "grep --color=always x",
            "rg -N x",
            "sed -n 1,3p",
            "sed -ne 1p -e 2p",
            "sed --quiet p",
            "awk '{print $1}'",
            "awk -F: -v n=2 NR==n",
            "awk -F , '{print}'",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "tail -n 0",
            "tail -0",
            "tail -n 0k",
            "tail -c 0b",
            "tail --lines=0KB",
            "tail -n -0",
            "tail -f",
            "tail x",
            "tail -n",
            "tail --follow",
            "tail -n 1 -",
            "grep",
            "grep -q x",
            "grep -m1 x",
            "grep x file",
            "grep -r x",
            "grep -e a b",
            "grep -f patterns",
            "sed p",
            "sed -n",
            "sed -n 2q",
            "sed -n p file",
            "sed -ni p",
            "awk",
            "awk '{exit}'",
            "awk 'BEGIN{print}'",
            "awk -f program",
            "awk '{print}' file",
            "awk 1 -F:",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
