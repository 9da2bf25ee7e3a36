//! The roles of record fields, derived from their keys.

// Maximum length of a key with a role.
const KEY_BYTES: usize = 24;

/// The role of a field in a record, derived from its key.
///
/// - `Place`: the file, test or object that the record describes.
/// - `Line`: the line in that file.
/// - `Kind`: the rule or kind to which the record belongs.
/// - `Message`: the description of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described above")]
pub enum FieldRole {
    Place,
    Line,
    Kind,
    Message,
}

/// Returns the role of the field `key`, and a number that is smaller for more informative keys. A
/// number below [`CERTAIN`] means that the key has no other meaning. Returns `None` if the key has
/// no role.
pub fn role(key: &[u8]) -> Option<(FieldRole, usize)> {
    let name = name(key)?;
    let roles = [
        (FieldRole::Place, PLACES),
        (FieldRole::Line, LINES),
        (FieldRole::Kind, KINDS),
        (FieldRole::Message, MESSAGES),
    ];
    roles.iter().find_map(|(role, [certain, likely])| {
        let at = |keys: &str| keys.split_ascii_whitespace().position(|key| key == name);
        let at = at(certain).or_else(|| Some(CERTAIN + at(likely)?))?;
        Some((*role, at))
    })
}

/// Lowest number that [`role`] returns for keys that may have another meaning.
pub const CERTAIN: usize = 10;

// The keys of a role: first the keys without any other meaning, then the keys that may have another
// meaning.
type RoleKeys = [&'static str; 2];

const PLACES: RoleKeys = [
    "nodeid filepath filename file path uri",
    "fullname target address test name package module resource workflow job host url id",
];
const LINES: RoleKeys = ["line row lineno linenumber startline linestart", ""];
const KINDS: RoleKeys = ["ruleid code checkid vulnerabilityid", "rule testid symbol errorcode"];
const MESSAGES: RoleKeys =
    ["message msg text", "error errormessage shortmessage title detail summary description reason"];

/// The ways in which the values of a field may indicate an error.
///
/// - `word`: by a known word.
/// - `http`: by an HTTP status.
/// - `count`: by a number of errors.
/// - `exit`: by an exit code.
/// - `bad`: by this boolean value.
/// - `level`: by a numeric log level.
/// - `lint`: by a severity of `ESLint`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a field may tell it in several ways")]
pub(super) struct TroubleField {
    pub(super) word: bool,
    pub(super) http: bool,
    pub(super) count: bool,
    pub(super) exit: bool,
    pub(super) bad: Option<bool>,
    pub(super) level: bool,
    pub(super) lint: bool,
}

impl TroubleField {
    // Returns `None` if the values of the field never indicate an error.
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        let name = name(key)?;
        let is_in = |keys: &str| keys.split_ascii_whitespace().any(|key| key == name);
        let good = is_in("ok success passed succeeded valid healthy");
        let bad = is_in("failed errored iserror haserror haserrors crashed");
        let field = Self {
            word: is_in(WORDS),
            http: is_in(STATUSES),
            count: is_in(COUNTS),
            exit: is_in("exitcode exitstatus returncode rc"),
            bad: (good || bad).then_some(bad),
            level: name == "level",
            lint: name == "severity",
        };
        (field != Self::default()).then_some(field)
    }
}

const WORDS: &str = "severity issueseverity level levelname loglevel lvl status state conclusion \
     result outcome verdict action type phase health priority reason";
const STATUSES: &str = "status statuscode httpstatus httpstatuscode responsecode";
const COUNTS: &str = "errorcount errors failures failurecount failed failedcount failedtests \
     fatalerrorcount numfailedtests numerrors";

// Returns the letters and digits of a key, in lower case.
fn name(key: &[u8]) -> Option<String> {
    let letters = key.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let is_short = key.len() <= KEY_BYTES && key.is_ascii();
    is_short.then(|| letters.map(|byte| byte.to_ascii_lowercase() as char).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_roles_however_they_are_written() {
        let cases: [(&str, Option<FieldRole>); 7] = [
            ("filePath", Some(FieldRole::Place)),
            ("rule_id", Some(FieldRole::Kind)),
            ("VulnerabilityID", Some(FieldRole::Kind)),
            ("@message", Some(FieldRole::Message)),
            ("lineno", Some(FieldRole::Line)),
            ("messages", None),
            ("", None),
        ];
        for (key, expected) in cases {
            assert_eq!(role(key.as_bytes()).map(|(role, _)| role), expected, "{key}");
        }
        for key in ["errorCount", "error_count", "statusCode", "Severity", "issue_severity", "ok"] {
            assert!(TroubleField::of(key.as_bytes()).is_some(), "{key}");
        }
        for key in ["", "---", "errorCounts", "stated", "description"] {
            assert_eq!(TroubleField::of(key.as_bytes()), None, "{key}");
        }
    }
}
