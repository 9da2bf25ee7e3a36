//! Programs that search one file. Searching directories is in `tree`.

use super::matrix;
use super::matrix::Row;
use crate::support::Mode;

const GREP: &[(&str, &str)] = &[("grep", "grep")];
const RG: &[(&str, &str)] = &[("rg", "ripgrep")];

// A search that finds nothing is no failure here: a tail may hold no such line.
const ROWS: &[Row] = &[
    Row { tool: "grep", needs: GREP, script: r#"grep ERROR "$NAME" || true"# },
    Row {
        tool: "grep -nC2",
        needs: GREP,
        script: r#"grep -nC2 'path=/api/v[03]' "$NAME" || true"#,
    },
    Row { tool: "grep -c", needs: GREP, script: r#"grep -c . "$NAME""# },
    Row { tool: "grep -H", needs: GREP, script: r#"grep -H request "$NAME" /dev/null || true"# },
    Row { tool: "rg", needs: RG, script: r#"rg ERROR "$NAME" || true"# },
    Row { tool: "rg -n -i", needs: RG, script: r#"rg -n -i 'error|info' "$NAME" || true"# },
    Row { tool: "rg --mmap", needs: RG, script: r#"rg --mmap -c . "$NAME""# },
    Row { tool: "rg --no-mmap", needs: RG, script: r#"rg --no-mmap -c . "$NAME""# },
    Row {
        tool: "rg -U",
        needs: RG,
        script: r#"rg -U -c 'request 4\d+(?s:.)*?\n' "$NAME" || true"#,
    },
    Row { tool: "rg, standard input", needs: RG, script: r#"rg ERROR - < "$NAME" || true"# },
    Row {
        tool: "fd",
        needs: &[("fdfind", "fd-find")],
        // It finds by listing, and other views are not listed.
        script: r#"case $NAME in *.txt|*.summary|*.tail) ;; *) exit 0; esac
            fdfind -uu -t f --size +0b "^$(basename "$NAME")\$" "$(dirname "$NAME")" -X cat"#,
    },
];

#[test]
fn passthrough() {
    matrix::check(Mode::Passthrough, ROWS);
}

#[test]
fn cached() {
    matrix::check(Mode::Cached, ROWS);
}
