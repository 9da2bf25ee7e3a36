//! Tests.

use super::*;

fn parse(text: &str) -> Result<SettingsFile, Failure> {
    SettingsFile::parse(Path::new("ctxfs.toml"), text)
}

/// Returns the error message for an invalid file.
fn wrong(text: &str) -> String {
    let failure = parse(text).unwrap_err();
    assert!(failure.hint.unwrap().contains("ctxfs config --defaults"));
    failure.message
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    assert_eq!(
        wrong("# a\n\nmax_lines = 3\nmax_inline_byte = 16384\n"),
        "ctxfs.toml:4: unknown key `max_inline_byte`; did you mean `max_inline_bytes`?"
    );
    assert_eq!(
        wrong("[tool.\"github/*\"]\nmaxlines = 3\n"),
        "ctxfs.toml:2: unknown key `maxlines` in `[tool.\"github/*\"]`; did you mean `max_lines`?"
    );
    assert_eq!(wrong("\nzzz = 1\n"), "ctxfs.toml:2: unknown key `zzz`");
    assert_eq!(wrong("[tools]\n"), "ctxfs.toml:1: unknown key `tools`; did you mean `tool`?");
    assert_eq!(
        wrong("[redact]\nset = []\n"),
        "ctxfs.toml:2: unknown key `set` in `[redact]`; did you mean `sets`?"
    );
    assert_eq!(
        wrong("[[redact.rules]]\nname = \"a\"\nregexp = \"b\"\n"),
        "ctxfs.toml:3: unknown key `regexp` in a rule; did you mean `regex`?"
    );
}

#[test]
fn an_invalid_value_is_named_with_the_allowed_ones() {
    let cases = [
        (
            "max_lines = true",
            "`max_lines` cannot be `true`: expected a positive whole number, \"never\" or \"mirror\"",
        ),
        (
            "quota = \"10 furlongs\"",
            "`quota` cannot be `\"10 furlongs\"`: expected a number of bytes, a text such as \"64 MiB\" or \"off\"",
        ),
        (
            "direction = \"both\"",
            "`direction` cannot be `\"both\"`: expected \"head\", \"tail\" or \"head_tail\"",
        ),
        ("write_once = 1", "`write_once` cannot be `1`: expected true or false"),
        ("store = \"\"", "`store` cannot be `\"\"`: expected a non-empty text"),
        ("store = [\n1,\n2]", "`store` cannot be `[...`: expected a non-empty text"),
        ("tool = 3", "`tool` cannot be `3`: expected tables such as `[tool.\"github/*\"]`"),
        ("tool.a = 3", "`tool.\"a\"` cannot be `3`: expected a table of limits"),
        ("redact = true", "`redact` cannot be `true`: expected \"off\", \"views\" or \"stored\""),
        (
            "redact.sets = \"aws\"",
            "`redact.sets` cannot be `\"aws\"`: expected a list of set names",
        ),
        (
            "redact.rules = [3]",
            "`redact.rules` cannot be `3`: expected a list of tables with `name` and `regex`",
        ),
        (
            "redact.rules = [{ name = 3, regex = \"\" }]",
            "`redact.rules.name` cannot be `3`: expected a text",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(wrong(text), format!("ctxfs.toml:1: {want}"));
    }
}

#[test]
fn other_errors_are_named() {
    let cases = [
        ("[tool.\"x\"]\nquota = 3", "2: `quota` cannot differ between tools"),
        ("\n[tool.\"x[\"]\n", "2: `x[` is not a pattern: unclosed character class; missing ']'"),
        (
            "[redact]\nsets = [\n  \"aws\",\n  \"githb\",\n]",
            "4: unknown set `githb`; did you mean `github`?",
        ),
        ("[redact]\nrules = [\n  { regex = \"x\" }]", "3: this rule lacks `name`"),
        ("[redact]\nrules = [{ name = \"a\" }]", "2: this rule lacks `regex`"),
        (
            "[redact]\nrules = [\n  { name = \"a\", regex = \"x\" },\n  { name = \"b\", regex = \"x(\" },\n]",
            "4: invalid rule `b`: the regex is not valid: unclosed group",
        ),
        (
            "[redact]\nrules = [{ name = \"b\", regex = \"x*\" }]",
            "2: invalid rule `b`: the regex matches the empty text",
        ),
        ("a = 1\nlog = = 3\n", "2: invalid TOML: "),
        ("log = \"info\"\nlog = \"warn\"\n", "2: invalid TOML: duplicate key"),
    ];
    for (text, want) in cases {
        let said = wrong(text);
        assert!(said.starts_with(&format!("ctxfs.toml:{want}")), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn the_first_error_is_named() {
    assert_eq!(wrong("views = 1\nadvertise = 2\n"), wrong("views = 1\n"));
}

#[test]
fn every_kind_of_entry_is_read() {
    let text = "max_bytes = \"1MB\"\n[redact]\napply = \"stored\"\nsets = [\"aws\"]\n\
                [[redact.rules]]\nname = \"a\"\nregex = 'a+'\n[tool.shell]\nmax_lines = \"mirror\"\n";
    let file = parse(text).unwrap();
    assert_eq!(file.values[0].0, SettingKey::MaxBytes);
    assert_eq!(file.values[0].1.value, SettingValue::Number(1_000_000));
    assert_eq!(file.values[0].1.origin.to_string(), "ctxfs.toml:1");
    assert_eq!(file.redact.apply.unwrap().value, "stored");
    assert_eq!(file.redact.sets.unwrap().value, ["aws"]);
    assert_eq!(file.redact.rules.unwrap().value.len(), 1);
    let (pattern, key, held) = &file.tools[0];
    assert_eq!((pattern.as_str(), *key), ("shell", SettingKey::MaxLines));
    assert_eq!(held.value, SettingValue::Word("mirror"));
    assert_eq!(held.origin.to_string(), "for \"shell\", ctxfs.toml:9");
}

#[test]
fn an_absent_file_is_none_and_unreadable_ones_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(SettingsFile::read(&dir.path().join("absent.toml")).unwrap().is_none());
    let said = SettingsFile::read(dir.path()).unwrap_err().message;
    assert!(said.starts_with("cannot read the settings in `"), "{said}");
    let large = dir.path().join("large.toml");
    fs::write(&large, vec![b'#'; 2 << 20]).unwrap();
    assert!(
        SettingsFile::read(&large).unwrap_err().message.ends_with("it is larger than 1024 KiB")
    );
    fs::write(&large, b"log = \"\xff\"\n").unwrap();
    assert!(SettingsFile::read(&large).is_err());
}

#[test]
fn the_administrators_file_is_of_root_alone() {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ctxfs.toml");
    let read = |path: &Path| SettingsFile::read_of_administrator(path);
    assert!(read(&path).unwrap().is_none());
    fs::write(&path, "max_lines = 3\n").unwrap();
    assert_eq!(read(&path).unwrap().unwrap().values.len(), 1);
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(read(&link).unwrap().is_some());
    for mode in [0o664, 0o646, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let failure = read(&path).unwrap_err();
        let told = format!("are refused: others than root may write it, mode {mode:04o}");
        assert!(failure.message.ends_with(&told), "{failure}");
        let hint = failure.hint.unwrap();
        assert!(hint.starts_with("as root: `chmod go-w ") && hint.ends_with("remove it"), "{hint}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    chown(&path, Some(1000), None).unwrap();
    let failure = read(&link).unwrap_err();
    assert!(failure.message.ends_with("it belongs to user 1000, not root"), "{failure}");
    assert!(failure.hint.unwrap().starts_with("as root: `chown root "));
    assert!(read(dir.path()).unwrap_err().message.ends_with("it is no regular file"));
}

fn parse_store(text: &str) -> StoreFile {
    StoreFile::parse(Path::new("/s/ctxfs.toml"), text)
}

fn notices(text: &str) -> Vec<String> {
    parse_store(text).notices(Some(Path::new("/u.toml")))
}

#[test]
fn what_sends_names_or_grants_does_not_count_and_is_told() {
    let text = "store = \"/x\"\nquota = 7\nallow_other = true\nredact = \"off\"\n\
                [mcp]\nreferences = true\nmax_body = 9\n\
                [tool.\"a/*\"]\ndir = \"/home\"\nmax_lines = 3\n\
                [extract]\ntargets = [\"x/y\"]\n[extract.provider.x]\nkind = 3\n\
                [remote]\nurl = \"file:///x\"\n[permissions]\n\"*\" = \"allow\"\n[risk]\nx = 1\n";
    let stores = parse_store(text);
    let keys: Vec<SettingKey> = stores.file.values.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, [SettingKey::Quota, SettingKey::MaxBody]);
    assert_eq!(stores.file.tools.len(), 1);
    assert!(stores.file.redact.origin.is_none());
    assert!(stores.file.models.targets.is_none() && stores.file.models.providers.is_empty());
    assert!(stores.file.calls.tables().iter().all(|(_, rules)| rules.is_empty()));
    assert_eq!(
        stores.notices(Some(Path::new("/u.toml"))),
        ["/s/ctxfs.toml: [redact], [extract], [remote], [permissions], [risk], store, \
          allow_other, references, dir are not read from a store; put them into /u.toml"]
    );
}

#[test]
fn what_is_wrong_is_told_once_and_the_rest_counts() {
    let text = "quota = 7\n\"\\u001b[31m\" = 1\nmax_lines = true\nmin_free = 3\n";
    assert_eq!(parse_store(text).file.values.len(), 2);
    assert_eq!(notices(text), ["/s/ctxfs.toml:2: unknown key `\\u{1b}[31m`; this does not count"]);
    let long = notices(&format!("{} = 1\n", "x".repeat(10_000)));
    assert!(long[0].len() < 2 * NOTICE, "{long:?}");
    assert!(notices("a = = 1\n")[0].starts_with("/s/ctxfs.toml:1: invalid TOML: "));
    assert!(notices("quota = 7\n").is_empty());
}

#[test]
fn no_content_is_waited_for_or_read_to_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ctxfs.toml");
    let told = || StoreFile::read(&path).unwrap().notices(None).join("\n");
    assert!(StoreFile::read(&path).is_none());
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(told().contains("it is no regular file; this does not count"), "{}", told());
    fs::remove_file(&path).unwrap();
    for (to, why) in [("/dev/zero", "it is no regular file"), ("ctxfs.toml", "cannot read")] {
        std::os::unix::fs::symlink(to, &path).unwrap();
        assert!(told().contains(why), "{to}: {}", told());
        fs::remove_file(&path).unwrap();
    }
    fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
    assert!(told().contains("larger than 64 KiB"), "{}", told());
    fs::write(&path, b"log = \"\xff\"\n").unwrap();
    assert!(!told().is_empty());
}
