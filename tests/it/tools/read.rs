//! Programs that read one file.

use super::matrix;
use super::matrix::Row;
use crate::support::Mode;

const COREUTILS: &[(&str, &str)] = &[("cat", "coreutils")];

const fn core(tool: &'static str, script: &'static str) -> Row {
    Row { tool, needs: COREUTILS, script }
}

const ROWS: &[Row] = &[
    core("cat", r#"cat "$NAME""#),
    core("head -n", r#"head -n 5 "$NAME""#),
    core("head -n -5", r#"head -n -5 "$NAME""#),
    core("head -c", r#"head -c 100 "$NAME""#),
    core("tail -n", r#"tail -n 5 "$NAME""#),
    core("tail -n +5", r#"tail -n +5 "$NAME""#),
    core("tail -c", r#"tail -c 100 "$NAME""#),
    core("tail -f", r#"sleep 0.1 & tail -n 5 -s 0.02 -f --pid=$! "$NAME""#),
    core("wc", r#"wc "$NAME"; wc -l "$NAME"; wc -c "$NAME"; wc -c < "$NAME""#),
    core("sort", r#"sort "$NAME""#),
    core("tac", r#"tac "$NAME""#),
    core("nl", r#"nl -ba "$NAME""#),
    core("sha256sum", r#"sha256sum "$NAME""#),
    core("stat", r#"stat -c "%s %F" "$NAME"; test -s "$NAME"; test -r "$NAME""#),
    core("split", r#"split -b 1000 "$NAME" "$OUT/part""#),
    core("dd", r#"dd if="$NAME" of="$OUT/copy" bs=1000 status=none"#),
    core("dd skip", r#"dd if="$NAME" bs=7 skip=11 count=3 status=none"#),
    Row { tool: "cmp", needs: &[("cmp", "diffutils")], script: r#"cmp "$NAME" "$TWIN""# },
    Row { tool: "diff", needs: &[("diff", "diffutils")], script: r#"diff -q "$NAME" "$TWIN""# },
    Row { tool: "sed", needs: &[("sed", "sed")], script: r#"sed -n '5,9p;$p' "$NAME""# },
    Row { tool: "awk", needs: &[("awk", "mawk")], script: r#"awk 'END { print NR, $0 }' "$NAME""# },
    Row {
        tool: "gzip",
        needs: &[("gzip", "gzip")],
        script: r#"gzip -nc "$NAME" > "$WORK/x"; gzip -dc "$WORK/x""#,
    },
    Row { tool: "less, piped", needs: &[("less", "less")], script: r#"less "$NAME" | cat"# },
    Row {
        tool: "perl slurp",
        needs: &[("perl", "perl")],
        script: r#"perl -e 'local $/; open F, shift; print <F>' "$NAME""#,
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
