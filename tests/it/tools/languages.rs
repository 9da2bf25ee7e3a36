//! Reading and copying a file by the libraries of Python and Node.

use super::matrix;
use super::matrix::Row;
use crate::support::Mode;

const fn python(tool: &'static str, script: &'static str) -> Row {
    Row { tool, needs: &[("python3", "python3")], script }
}

const fn node(tool: &'static str, script: &'static str) -> Row {
    Row { tool, needs: &[("node", "nodejs")], script }
}

const ROWS: &[Row] = &[
    python(
        "Python read",
        r#"python3 -c '
import os, sys
path = sys.argv[1]
whole = open(path, "rb").read()
file = os.open(path, os.O_RDONLY)
assert os.read(file, os.fstat(file).st_size) == whole
os.lseek(file, -2, os.SEEK_END)
assert os.read(file, 1000) == whole[-2:]
assert os.path.getsize(path) == len(whole)
sys.stdout.buffer.write(whole)' "$NAME""#,
    ),
    python(
        "Python mmap",
        r#"python3 -c '
import mmap, sys
with open(sys.argv[1], "rb") as file:
    for flags in mmap.MAP_PRIVATE, mmap.MAP_SHARED:
        with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as bytes:
            sys.stdout.buffer.write(bytes[:])' "$NAME""#,
    ),
    python(
        "Python shutil.copy, sendfile",
        r#"python3 -c '
import os, shutil, sys
path, out = sys.argv[1:]
shutil.copy(path, out + "/copy")
shutil.copy2(path, out + "/copy2")
size = os.stat(path).st_size
source = os.open(path, os.O_RDONLY)
target = os.open(out + "/sent", os.O_WRONLY | os.O_CREAT)
done = 0
while done < size:
    done += os.sendfile(target, source, done, size - done)' "$NAME" "$OUT""#,
    ),
    node(
        "Node readFile",
        r#"node -e '
const fs = require("fs"), path = process.argv[1];
const whole = fs.readFileSync(path);
fs.promises.readFile(path).then((again) => {
  if (!whole.equals(again)) throw new Error("readFile and readFileSync differ");
  process.stdout.write(whole);
});' "$NAME""#,
    ),
    node(
        "Node copyFile",
        r#"node -e '
const fs = require("fs"), [path, out] = process.argv.slice(1);
fs.copyFileSync(path, out + "/copy");
fs.promises.cp(path, out + "/cp");' "$NAME" "$OUT""#,
    ),
    node(
        "Node createReadStream",
        r#"node -e '
const fs = require("fs"), path = process.argv[1];
fs.createReadStream(path, { highWaterMark: 1000 }).pipe(process.stdout);' "$NAME""#,
    ),
    node(
        "Node openAsBlob, read into a buffer of st_size",
        r#"node -e '
const fs = require("fs"), path = process.argv[1];
(async () => {
  const file = await fs.promises.open(path);
  const { size } = await file.stat();
  const { bytesRead, buffer } = await file.read(Buffer.alloc(size), 0, size, 0);
  process.stdout.write(buffer.subarray(0, bytesRead));
  const blob = await fs.openAsBlob(path);
  process.stdout.write(Buffer.from(await blob.arrayBuffer()));
})();' "$NAME" 2> "$WORK/warning""#,
    ),
];

#[test]
fn passthrough() {
    matrix::check(Mode::Passthrough, ROWS);
}

#[test]
fn cached() {
    matrix::check(Mode::Cached, ROWS);
}
