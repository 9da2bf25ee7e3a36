//! Runs a table of tools on artifacts and views, and compares their outputs and the files that they
//! create.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::{Command, Mode, Output, TestMount, lines_of, log, need};

/// A tool.
pub(crate) struct Row {
    pub(crate) tool: &'static str,
    /// The programs it needs, each with its Debian package.
    pub(crate) needs: &'static [(&'static str, &'static str)],
    /// A shell script. `$NAME` is the file, in the current directory or below. The output of the
    /// script and the files in `$OUT` are compared. `$TWIN` holds equal bytes, and `$WORK` is
    /// scratch.
    pub(crate) script: &'static str,
}

/// A file of the mount with its plain twin, which has the same name in another directory.
pub(crate) struct Subject {
    pub(crate) dir: PathBuf,
    pub(crate) twin: PathBuf,
    pub(crate) name: String,
}

/// The files that every tool is tried on. The live artifact stays live until this is dropped.
pub(crate) struct Subjects {
    pub(crate) all: Vec<Subject>,
    _writer: File,
    pub(crate) mount: TestMount,
}

/// Runs `rows` on all subjects in `mode`. Panics with all differences.
pub(crate) fn check(mode: Mode, rows: &[Row]) {
    let subjects = subjects(mode);
    let scratch = subjects.mount.store().scratch("work");
    let wrong = differences(rows, &subjects.all, &scratch);
    assert!(wrong.is_empty(), "{} of the runs differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns a sealed artifact, a live one, and the views of the sealed one.
pub(crate) fn subjects(mode: Mode) -> Subjects {
    let mount = TestMount::new(mode);
    let text = log(2000);
    let sealed = mount.artifact("c7", "sealed.txt", &text);
    let dir = sealed.parent().unwrap().to_owned();
    let mut writer = File::create(dir.join("live.txt")).unwrap();
    writer.write_all(&text).unwrap();

    let last = lines_of(&text, 1801, 2000);
    let known = [
        ("sealed.txt", text.clone()),
        ("live.txt", text.clone()),
        ("sealed.txt.tail", last.clone()),
        ("sealed.txt.head", lines_of(&text, 1, 200)),
        ("sealed.txt.lines/100-160", lines_of(&text, 100, 160)),
        ("sealed.txt.lines/100+20", lines_of(&text, 100, 119)),
        ("sealed.txt.lines/-200", last),
        ("sealed.txt.grep/ERROR", numbered(&text, "ERROR")),
        // What these hold is checked elsewhere.
        ("sealed.txt.summary", fs::read(dir.join("sealed.txt.summary")).unwrap()),
        ("sealed.txt.meta.json", fs::read(dir.join("sealed.txt.meta.json")).unwrap()),
        ("sealed.txt.ref.json", fs::read(dir.join("sealed.txt.ref.json")).unwrap()),
    ];
    let twins = mount.store().scratch("twins");
    let all = known.into_iter().map(|(name, bytes)| subject(&dir, &twins, name, &bytes)).collect();
    Subjects { all, mount, _writer: writer }
}

/// Writes a twin, in a directory of its own so that nothing lies beside it.
fn subject(dir: &Path, twins: &Path, name: &str, bytes: &[u8]) -> Subject {
    let twin = twins.join(name.replace('/', "-").to_uppercase());
    let file = twin.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, bytes).unwrap();
    Subject { dir: dir.to_owned(), twin, name: name.to_owned() }
}

/// Returns the output of `rg -n PATTERN`, for a pattern that is plain text.
fn numbered(text: &[u8], pattern: &str) -> Vec<u8> {
    let text = String::from_utf8(text.to_owned()).unwrap();
    let hits = text.lines().enumerate().filter(|(_, line)| line.contains(pattern));
    hits.flat_map(|(at, line)| format!("{}:{line}\n", at + 1).into_bytes()).collect()
}

/// Returns every run that differs from its twin, each in a few lines.
fn differences(rows: &[Row], subjects: &[Subject], scratch: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows {
        for (program, package) in row.needs {
            need(program, package);
        }
        for subject in subjects {
            let expected = outcome(row, &subject.twin, subject, scratch);
            let told = format!("{} on {}", row.tool, subject.name);
            assert!(expected.0.code == 0, "{told}, plain: {}", expected.0);
            let found = outcome(row, &subject.dir, subject, scratch);
            if found != expected {
                wrong.push(format!("{told}: {}", difference(&found, &expected)));
            }
        }
    }
    wrong
}

/// The output of a tool, and the files that it created.
type Outcome = (Output, BTreeMap<PathBuf, Vec<u8>>);

fn outcome(row: &Row, dir: &Path, subject: &Subject, scratch: &Path) -> Outcome {
    let [out, work] = ["out", "work"].map(|name| scratch.join(name));
    for folder in [&out, &work] {
        fs::create_dir(folder).unwrap();
    }
    let output = Command::shell(row.script, &[])
        .current_dir(dir)
        .env("NAME", &subject.name)
        .env("TWIN", subject.twin.join(&subject.name))
        .env("OUT", &out)
        .env("WORK", &work)
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("LESSHISTFILE", "-")
        .run();
    let made = files(&out, &out);
    for folder in [&out, &work] {
        fs::remove_dir_all(folder).unwrap();
    }
    (output, made)
}

fn files(top: &Path, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in dir.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(top, &path));
        } else {
            found.insert(path.strip_prefix(top).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
    found
}

fn difference(found: &Outcome, expected: &Outcome) -> String {
    if found.0.code != expected.0.code || found.0.stderr != expected.0.stderr {
        let said = String::from_utf8_lossy(&found.0.stderr);
        return format!("code {}, {}", found.0.code, said.trim_end());
    }
    if found.0.stdout != expected.0.stdout {
        return format!("prints {}", first_difference(&found.0.stdout, &expected.0.stdout));
    }
    let names = |made: &BTreeMap<PathBuf, Vec<u8>>| made.keys().cloned().collect::<Vec<_>>();
    let (mine, theirs) = (names(&found.1), names(&expected.1));
    if mine != theirs {
        return format!("makes {mine:?}, not {theirs:?}");
    }
    let differ = |name: &&PathBuf| found.1[*name] != expected.1[*name];
    let name = mine.iter().find(differ).unwrap();
    format!("{} is {}", name.display(), first_difference(&found.1[name], &expected.1[name]))
}

fn first_difference(found: &[u8], expected: &[u8]) -> String {
    let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 60)]).escape_debug().to_string()
    };
    let (is, should) = (part(found), part(expected));
    format!("{} bytes, not {}; at {at}: `{is}`, not `{should}`", found.len(), expected.len())
}

/// The comparison is worth something only if it can fail.
#[test]
fn a_wrong_byte_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let [good, bad, scratch] = ["good", "bad", "scratch"].map(|name| dir.path().join(name));
    for folder in [&good, &bad, &scratch] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(good.join("x"), "one two").unwrap();
    fs::write(bad.join("x"), "one twe").unwrap();
    let subjects =
        [&good, &bad].map(|dir| Subject { dir: dir.clone(), twin: good.clone(), name: "x".into() });
    let rows = [
        Row { tool: "cat", needs: &[], script: "cat $NAME" },
        Row { tool: "cp", needs: &[], script: "cp $NAME $OUT/copy" },
        Row { tool: "size", needs: &[], script: "wc -c < $NAME" },
    ];
    let wrong = differences(&rows, &subjects, &scratch);
    assert_eq!(
        wrong,
        [
            "cat on x: prints 7 bytes, not 7; at 6: `e`, not `o`",
            "cp on x: copy is 7 bytes, not 7; at 6: `e`, not `o`",
        ]
    );
}
