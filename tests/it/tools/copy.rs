//! Programs that copy one file.

use super::matrix;
use super::matrix::Row;
use crate::support::Mode;

const CP: &[(&str, &str)] = &[("cp", "coreutils")];
const RSYNC: &[(&str, &str)] = &[("rsync", "rsync")];

const ROWS: &[Row] = &[
    Row { tool: "cp", needs: CP, script: r#"cp "$NAME" "$OUT/copy""# },
    Row { tool: "cp -a", needs: CP, script: r#"cp -a "$NAME" "$OUT/copy""# },
    Row {
        tool: "cp --reflink=never",
        needs: CP,
        script: r#"cp --reflink=never --sparse=always "$NAME" "$OUT/copy""#,
    },
    Row { tool: "install", needs: CP, script: r#"install -m 600 "$NAME" "$OUT/copy""# },
    Row {
        tool: "tar",
        needs: &[("tar", "tar")],
        script: r#"tar -cf "$WORK/x.tar" "$NAME"; tar -xf "$WORK/x.tar" -C "$OUT""#,
    },
    Row { tool: "rsync -a", needs: RSYNC, script: r#"rsync -a "$NAME" "$OUT/""# },
    Row {
        tool: "rsync --inplace",
        needs: RSYNC,
        script: r#"rsync --inplace --checksum "$NAME" "$OUT/""#,
    },
    Row {
        tool: "git add",
        needs: &[("git", "git")],
        script: r#"
            git init -q --bare "$WORK/repo"
            git="git --git-dir=$WORK/repo --work-tree=."
            case $NAME in
                *.txt|*.summary|*.tail) $git add -f "$NAME" ;;
                # It finds by listing, and these are not listed.
                *) $git update-index --add "$NAME" ;;
            esac
            $git cat-file -p ":$NAME"
            $git diff --exit-code
        "#,
    },
    Row {
        tool: "git hash-object",
        needs: &[("git", "git")],
        script: r#"git hash-object --no-filters "$NAME""#,
    },
    Row { tool: "curl", needs: &[("curl", "curl")], script: r#"curl -s "file://$PWD/$NAME""# },
];

#[test]
fn passthrough() {
    matrix::check(Mode::Passthrough, ROWS);
}

#[test]
fn cached() {
    matrix::check(Mode::Cached, ROWS);
}
