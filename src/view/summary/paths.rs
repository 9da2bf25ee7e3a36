//! A list of paths as a tree: each directory once, and after it the names in it.

use std::collections::HashMap;

use crate::clean::{TextBudget, clean};
use crate::number::{counted, grouped};
use crate::summary::hits::others;
use ctxfs_core::model::Limits;

// Minimum number of paths of a list, minimum percentage of paths among the lines that are not
// blank, and of paths with a directory among all paths.
const MIN_PATHS: usize = 10;
const MIN_PERCENT: usize = 90;
const MIN_IN_DIRECTORY: usize = 50;
// Maximum number of bytes in a path.
const PATH_BYTES: usize = 300;
// If not all names fit: the numbers of names that are shown of a directory, and of directories that
// are shown in a directory.
const NAMES: [usize; 18] =
    [usize::MAX, 200, 100, 60, 40, 30, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1];
const DIRECTORIES: [usize; 12] = [usize::MAX, 100, 60, 40, 30, 20, 15, 12, 8, 5, 3, 2];
// Maximum number of bytes of a line of names.
const LINE_BYTES: usize = Limits::LINE_CHARS - 20;

#[derive(Default)]
struct TreeNode<'a> {
    name: &'a [u8],
    /// What the line says after the path: `(3 matches)`.
    note: &'a [u8],
    children: Vec<usize>,
}

/// The tree of a list of paths. The root is the first node. `other` has the lines that are no paths.
pub(super) struct PathTree<'a> {
    nodes: Vec<TreeNode<'a>>,
    separator: u8,
    paths: usize,
    other: Vec<&'a [u8]>,
}

#[derive(Clone, Copy)]
struct TreeDetail {
    names: usize,
    directories: usize,
}

struct WrittenTree {
    lines: Vec<String>,
    budget: TextBudget,
    names: usize,
}

impl<'a> PathTree<'a> {
    /// Returns the tree if nearly all `lines` are paths.
    pub(super) fn of(lines: &[&'a [u8]]) -> Option<Self> {
        let paths: Vec<ListedPath<'a>> = entries(lines);
        let has = |sign: u8, text: &[u8]| memchr::memchr(sign, text).is_some();
        let is_usual = paths.iter().any(|it| has(b'/', it.path) || has(b'/', it.directory));
        let separator = if is_usual { b'/' } else { b'\\' };
        let in_directory =
            |it: &&ListedPath<'_>| !it.directory.is_empty() || has(separator, it.path);
        let nested = paths.iter().filter(in_directory).count();
        let other: Vec<&[u8]> = lines.iter().copied().filter(|line| is_other(line)).collect();
        let is_list = paths.len() >= MIN_PATHS
            && 100 * paths.len() >= MIN_PERCENT * (paths.len() + other.len())
            && 100 * nested >= MIN_IN_DIRECTORY * paths.len()
            && !is_base64(&paths);
        if !is_list {
            return None;
        }
        let mut tree =
            Self { nodes: vec![TreeNode::default()], separator, paths: paths.len(), other };
        let mut known = HashMap::new();
        for ListedPath { directory, path, note } in paths {
            let parts = [directory, path].into_iter().filter(|part| !part.is_empty());
            let parts = parts.flat_map(|part| {
                part.strip_suffix(&[separator]).unwrap_or(part).split(|byte| *byte == separator)
            });
            let mut node = 0;
            for name in parts {
                let next = tree.nodes.len();
                let at = *known.entry((node, name)).or_insert(next);
                if at == next {
                    tree.nodes.push(TreeNode { name, ..TreeNode::default() });
                    tree.nodes[node].children.push(at);
                }
                node = at;
            }
            tree.nodes[node].note = note;
        }
        Some(tree)
    }

    /// Returns true if `line` is a path.
    pub(super) fn is_path(line: &[u8]) -> bool {
        !is_other(line)
    }

    /// Returns the lines that show the most names and fit, and what they show.
    pub(super) fn fitted(&self, budget: TextBudget) -> Option<(String, Vec<String>)> {
        let most = |directories: usize| {
            NAMES
                .iter()
                .find_map(|names| self.written(TreeDetail { names: *names, directories }, budget))
        };
        let mut best: Option<WrittenTree> = None;
        for written in DIRECTORIES.into_iter().filter_map(most) {
            if best.as_ref().is_none_or(|best| written.names > best.names) {
                best = Some(written);
            }
        }
        let WrittenTree { lines, names, .. } = best?;
        let all = self.nodes.iter().skip(1).filter(|node| node.children.is_empty()).count();
        let what = counted(self.paths as u64, "path");
        let shown = if names == all {
            format!("all {what}, each directory once")
        } else {
            let (names, all) = (grouped(names as u64), grouped(all as u64));
            format!("{names} of {all} names of {what}, each directory once")
        };
        Some((shown, lines))
    }

    fn written(&self, detail: TreeDetail, budget: TextBudget) -> Option<WrittenTree> {
        let mut written = WrittenTree { lines: Vec::new(), budget, names: 0 };
        others(&self.other).into_iter().try_for_each(|line| written.add(line))?;
        self.write(0, "", detail, &mut written)?;
        Some(written)
    }

    // Writes the names in the directory `at`, and what is in its directories.
    fn write(&self, at: usize, path: &str, detail: TreeDetail, to: &mut WrittenTree) -> Option<()> {
        let children = self.nodes[at].children.iter().copied();
        let (directories, names): (Vec<usize>, Vec<usize>) =
            children.partition(|child| !self.nodes[*child].children.is_empty());
        let hidden = |count: usize, most: usize| count.saturating_sub(most) as u64;
        let more = [
            (hidden(names.len(), detail.names), ""),
            (hidden(directories.len(), detail.directories), " of its directories"),
        ];
        let more = more.into_iter().filter(|(count, _)| *count > 0);
        let more = more.map(|(count, what)| format!("+{}{what}", grouped(count)));
        let shown = names.iter().take(detail.names).map(|name| self.name(*name));
        let mut line = path.to_owned();
        for name in shown.chain(more) {
            if line.len() + name.len() + 1 > LINE_BYTES {
                to.add(std::mem::take(&mut line))?;
            }
            line += if line.is_empty() && path.is_empty() { "" } else { " " };
            line += &name;
        }
        to.names += names.len().min(detail.names);
        if line.len() > path.len() {
            to.add(line)?;
        }
        for child in directories.into_iter().take(detail.directories) {
            let name = clean(self.nodes[child].name, PATH_BYTES, PATH_BYTES).text;
            let below = format!("{path}{name}{}", char::from(self.separator));
            self.write(child, &below, detail, to)?;
        }
        Some(())
    }

    fn name(&self, node: usize) -> String {
        let TreeNode { name, note, .. } = &self.nodes[node];
        let note = note.strip_suffix(b" matches)").unwrap_or(note);
        let note = if note == b"(1" { b"" } else { note };
        let text = clean(name, PATH_BYTES, PATH_BYTES).text;
        let note = String::from_utf8_lossy(note);
        if note.is_empty() { text } else { format!("{text}{note})") }
    }
}

impl WrittenTree {
    // Returns `None` if the line does not fit.
    fn add(&mut self, line: String) -> Option<()> {
        let TextBudget { bytes, lines } = &mut self.budget;
        *bytes = bytes.checked_sub(line.len() + 1)?;
        *lines = lines.checked_sub(1)?;
        self.lines.push(line);
        Some(())
    }
}

#[derive(Clone, Copy)]
struct ListedPath<'a> {
    directory: &'a [u8],
    path: &'a [u8],
    note: &'a [u8],
}

// Returns the paths of all lines. `ls -R` prints a directory before the names in it.
fn entries<'a>(lines: &[&'a [u8]]) -> Vec<ListedPath<'a>> {
    let mut found = Vec::new();
    let (mut directory, mut starts): (&[u8], bool) = (b"", true);
    for line in lines {
        if let Some(heading) = line.strip_suffix(b":").filter(|path| starts && may_be_path(path)) {
            directory = heading;
        } else if let Some((path, note)) = parsed(line) {
            found.push(ListedPath { directory, path, note });
        }
        starts = line.is_empty();
    }
    found
}

// Recognizes wrapped base64, whose alphabet has the slash: lines of one length without other signs.
fn is_base64(paths: &[ListedPath<'_>]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    paths.windows(2).rev().skip(1).all(|pair| pair[0].path.len() == pair[1].path.len())
        && paths.iter().all(|it| it.path.iter().all(is_digit))
}

fn is_other(line: &[u8]) -> bool {
    let is_heading = line.strip_suffix(b":").is_some_and(may_be_path);
    !line.trim_ascii().is_empty() && !is_heading && parsed(line).is_none()
}

// Parses a path, and a number of matches in parentheses after it.
fn parsed(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let matches = line.strip_suffix(b" matches)").and_then(|rest| {
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let path = rest[..rest.len() - digits].strip_suffix(b" (")?;
        Some((path, &line[path.len() + 1..]))
    });
    let (path, note) = matches.unwrap_or((line, b""));
    may_be_path(path).then_some((path, note))
}

fn may_be_path(text: &[u8]) -> bool {
    let drive = text.get(1) == Some(&b':') && text.get(2) == Some(&b'\\');
    let rest = if drive { &text[2..] } else { text };
    !rest.is_empty()
        && text.len() <= PATH_BYTES
        && !rest.iter().any(|byte| b" :*?\"<>|'(){};,=\t".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(text: &str, bytes: usize) -> Option<(String, String)> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let (shown, lines) = PathTree::of(&lines)?.fitted(TextBudget { bytes, lines: 150 })?;
        Some((shown, lines.join("\n")))
    }

    fn find(directories: usize, names: usize) -> String {
        let path = |n: usize| format!("./src/of/dir{}/Part{}.java\n", n / names, n % names);
        (0..directories * names).map(path).collect()
    }

    #[test]
    fn each_directory_stands_once() {
        let (shown, lines) =
            fitted(&(find(2, 5) + "./README.md\n./src/of\n./a/my.txt\n"), 4000).unwrap();
        assert_eq!(shown, "all 13 paths, each directory once");
        let want = "./ README.md\n\
                    ./src/of/dir0/ Part0.java Part1.java Part2.java Part3.java Part4.java\n\
                    ./src/of/dir1/ Part0.java Part1.java Part2.java Part3.java Part4.java\n\
                    ./a/ my.txt";
        assert_eq!(lines, want);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (shown, lines) = fitted(&find(9, 30), 900).unwrap();
        assert_eq!(shown, "64 of 270 names of 270 paths, each directory once");
        assert!(lines.lines().skip(1).all(|line| line.ends_with(" +22")), "{lines}");
        let (_, lines) = fitted(&find(90, 3), 500).unwrap();
        assert!(lines.starts_with("./src/of/ +82 of its directories\n"), "{lines}");
        assert_eq!(fitted(&find(90, 3), 20), None);
    }

    #[test]
    fn forms_of_other_tools() {
        let listed = "src:\nmain\ntest\n\nsrc/main:\n".to_owned()
            + "x.rs\ny.rs\nz.rs\n\nsrc/test:\na.rs\nb.rs\nc.rs\nd.rs\ne.rs\n";
        let (_, lines) = fitted(&listed, 4000).unwrap();
        assert_eq!(lines, "src/main/ x.rs y.rs z.rs\nsrc/test/ a.rs b.rs c.rs d.rs e.rs");
        let line = |n: usize| format!("/a/b/{n}.py ({n} matches)\n");
        let matches = "Found 9 matches for \"x\" in /a:\n".to_owned()
            + &(2..14).map(line).collect::<String>();
        let (_, lines) = fitted(&matches, 4000).unwrap();
        assert!(
            lines.starts_with("Found 9 matches for \"x\" in /a:\n/a/b/ 2.py(2) 3.py(3) "),
            "{lines}"
        );
        let line = |n: usize| format!("Forge\\src\\{n}.cs\n");
        let windows: String = (0..12).map(line).collect();
        assert!(fitted(&windows, 4000).unwrap().1.starts_with("Forge\\src\\ 0.cs 1.cs "));
    }

    #[test]
    fn other_lines_are_no_paths() {
        assert_eq!(fitted(&"A sentence and/or two of them.\n".repeat(20), 4000), None);
        assert_eq!(fitted(&"word\n".repeat(20), 4000), None);
        let base64 = |n: usize| format!("Kz/{n:0>60}+/abcDE\n");
        let wrapped = (0..20).map(base64).collect::<String>() + "aGVsbG8\n";
        assert_eq!(fitted(&wrapped, 4000), None);
        assert_eq!(fitted(&"GET /a/b 200\nerror: no\n".repeat(20), 4000), None);
    }
}
