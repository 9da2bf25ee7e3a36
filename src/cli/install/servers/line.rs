//! The words of `ctxfs mcp` before the command of a server.

use std::path::Path;

use crate::install::command_line::{NAME, STORE};

const COMMAND: &str = "mcp";
const SERVER: &str = "--name";
/// The host has a time limit of its own, which ours must not undercut.
const NO_LIMIT: [&str; 2] = ["--timeout", "0"];
/// The end of the options.
const END: &str = "--";

/// The words that an earlier installation put before a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormerLine<'a> {
    /// Their number.
    pub(super) count: usize,
    /// The store that they name.
    pub(super) store: Option<&'a str>,
}

/// Returns the words to put before the command of the server `name`.
pub(super) fn words(program: &str, name: &str, store: Option<&str>) -> Vec<String> {
    let store = store.into_iter().flat_map(|store| [STORE, store]);
    let mut words: Vec<String> =
        [program, COMMAND].into_iter().chain(store).map(str::to_owned).collect();
    if name.starts_with('-') {
        words.push(format!("{SERVER}={name}"));
    } else {
        words.extend([SERVER, name].map(str::to_owned));
    }
    words.extend(NO_LIMIT.into_iter().chain([END]).map(str::to_owned));
    words
}

/// Returns what [`words`] put before a command, for any program, name and store. Other options are
/// somebody else's.
pub(super) fn former<'a>(words: &[Option<&'a str>]) -> Option<FormerLine<'a>> {
    let mut rest = words.iter().copied();
    is_program(rest.next()??).then_some(())?;
    is(rest.next()??, COMMAND)?;
    let (mut option, mut store) = (rest.next()??, None);
    if option == STORE {
        store = Some(rest.next()??);
        option = rest.next()??;
    }
    if option == SERVER {
        rest.next()??;
    } else {
        is(option.split_once('=')?.0, SERVER)?;
    }
    for word in NO_LIMIT.into_iter().chain([END]) {
        is(rest.next()??, word)?;
    }
    let left = rest.count();
    (left > 0).then_some(FormerLine { count: words.len() - left, store })
}

/// Returns true if a command runs `ctxfs mcp`, also by way of another program.
pub(super) fn is_gateway(words: &[Option<&str>]) -> bool {
    let is_it = |pair: &[Option<&str>]| {
        let [Some(program), Some(COMMAND)] = pair else { return false };
        is_program(program.split_once('@').map_or(*program, |(name, _)| name))
    };
    words.windows(2).any(is_it)
}

fn is(word: &str, wanted: &str) -> Option<()> {
    (word == wanted).then_some(())
}

fn is_program(word: &str) -> bool {
    Path::new(word).file_name().is_some_and(|name| name == NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<Option<&str>> {
        line.split(' ').map(Some).collect()
    }

    #[test]
    fn words_are_known_again() {
        for (name, store) in [("s", None), ("s", Some("/my data")), ("-s", None), ("", Some("/d"))]
        {
            let mut words = words("/opt/ctxfs", name, store);
            let count = words.len();
            words.push("npx".to_owned());
            let words: Vec<_> = words.iter().map(|word| Some(word.as_str())).collect();
            assert_eq!(former(&words), Some(FormerLine { count, store }));
            assert_eq!(former(&words[..count]), None);
        }
    }

    #[test]
    fn other_options_are_of_others() {
        for line in [
            "ctxfs mcp -- npx",
            "ctxfs mcp --name s -- npx",
            "ctxfs mcp -c c7 --name s --timeout 0 -- npx",
            "/opt/ctxfs mcp --name s --timeout 5 -- npx",
            "ctxfs mcp",
            "npx -y ctxfs mcp -- npx",
            "npx ctxfs@1.0 mcp",
        ] {
            assert_eq!(former(&split(line)), None, "{line}");
            assert!(is_gateway(&split(line)), "{line}");
        }
        for line in ["npx mcp", "ctxfs hook mcp", "myctxfs mcp", "mcp ctxfs"] {
            assert!(!is_gateway(&split(line)), "{line}");
        }
    }
}
