//! The environment. No other module reads variables, except that printing honours `NO_COLOR`,
//! `CLICOLOR` and `CLICOLOR_FORCE`, and the notification of systemd uses `NOTIFY_SOCKET`.

use std::collections::BTreeMap;
#[cfg(feature = "remote")]
use std::ffi::CString;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The store, like `--store`.
pub(super) const STORE: &str = "CTXFS_STORE";
/// The log level, like `--log`.
pub(super) const LOG: &str = "CTXFS_LOG";
/// The mountpoint, like the argument of `mount` and `umount`.
pub(super) const MOUNT: &str = "CTXFS_MOUNT";
/// The conversation that `put` and `run` write to, like `--conversation`.
pub(super) const CONVERSATION: &str = "CTXFS_CONVERSATION";
/// A settings file, like `--config`.
pub(super) const CONFIG: &str = "CTXFS_CONFIG";
/// The redaction of secrets, like `redact` in a settings file.
pub(super) const REDACT: &str = "CTXFS_REDACT";

// The other settings, each described by its row in `settings/table.rs`. The truncation protocol
// defines the names without the prefix `CTXFS_`.
pub(super) const ADVERTISE: &str = "CTXFS_ADVERTISE";
pub(super) const WRITE_ONCE: &str = "CTXFS_WRITE_ONCE";
pub(super) const ALLOW_OTHER: &str = "CTXFS_ALLOW_OTHER";
pub(super) const NOEXEC: &str = "CTXFS_NOEXEC";
pub(super) const VIEWS: &str = "CTXFS_VIEWS";
pub(super) const PASSTHROUGH: &str = "CTXFS_PASSTHROUGH";
pub(super) const COHERENCE: &str = "CTXFS_COHERENCE";
pub(super) const CONFINE: &str = "CTXFS_CONFINE";
pub(super) const MAX_ARTIFACT: &str = "CTXFS_MAX_ARTIFACT";
pub(super) const MAX_TERMINAL: &str = "CTXFS_MAX_TERMINAL";
pub(super) const QUOTA: &str = "CTXFS_QUOTA";
pub(super) const MIN_FREE: &str = "CTXFS_MIN_FREE";
pub(super) const CACHE_BYTES: &str = "CTXFS_CACHE_BYTES";
pub(super) const DISK_CACHE_BYTES: &str = "CTXFS_DISK_CACHE_BYTES";
pub(super) const KEEP_AGE: &str = "CTXFS_KEEP_AGE";
pub(super) const KEEP_CONVERSATION: &str = "CTXFS_KEEP_CONVERSATION";
pub(super) const KEEP_STORE: &str = "CTXFS_KEEP_STORE";
pub(super) const KEEP_FREE: &str = "CTXFS_KEEP_FREE";
pub(super) const MAX_INLINE_CHARS: &str = "CTXFS_MAX_INLINE_CHARS";
pub(super) const MAX_INLINE_BYTES: &str = "CTXFS_MAX_INLINE_BYTES";
pub(super) const SNIPPET_LINES: &str = "CTXFS_SNIPPET_LINES";
pub(super) const SNIPPET_BYTES: &str = "CTXFS_SNIPPET_BYTES";
pub(super) const MESSAGE_THRESHOLD: &str = "CTXFS_MESSAGE_THRESHOLD";
pub(super) const MESSAGE_PREVIEW: &str = "CTXFS_MESSAGE_PREVIEW";
pub(super) const TOOL_RESPONSE_MAX_BYTES: &str = "CTXFS_TOOL_RESPONSE_MAX_BYTES";
pub(super) const TOKEN_BUDGET: &str = "CTXFS_TOKEN_BUDGET";
pub(super) const SESSION_IDLE: &str = "CTXFS_SESSION_IDLE";
pub(super) const MAX_BODY: &str = "CTXFS_MAX_BODY";
pub(super) const BATCH_BUDGET: &str = "CTXFS_BATCH_BUDGET";
pub(super) const MAX_BINARY: &str = "CTXFS_MAX_BINARY";
pub(super) const MAX_RESULT: &str = "CTXFS_MAX_RESULT";
pub(super) const REFERENCES: &str = "CTXFS_REFERENCES";
pub(super) const HOOKS_REPLACE: &str = "CTXFS_HOOKS_REPLACE";
pub(super) const EXTRACT_MAX_CHUNKS_FULL: &str = "CTXFS_EXTRACT_MAX_CHUNKS_FULL";
pub(super) const EXTRACT_LONG_LINE_BYTES: &str = "CTXFS_EXTRACT_LONG_LINE_BYTES";
pub(super) const EXTRACT_OVERLAP_PERCENT: &str = "CTXFS_EXTRACT_OVERLAP_PERCENT";
pub(super) const EXTRACT_CONCURRENCY: &str = "CTXFS_EXTRACT_CONCURRENCY";
pub(super) const EXTRACT_MAX_STEPS: &str = "CTXFS_EXTRACT_MAX_STEPS";
pub(super) const EXTRACT_MAX_TOKENS: &str = "CTXFS_EXTRACT_MAX_TOKENS";
pub(super) const EXTRACT_TIMEOUT: &str = "CTXFS_EXTRACT_TIMEOUT";
pub(super) const EXTRACT_VIEW: &str = "CTXFS_EXTRACT_VIEW";
pub(super) const REMOTE_URL: &str = "CTXFS_REMOTE_URL";
pub(super) const REMOTE_PUSH: &str = "CTXFS_REMOTE_PUSH";
pub(super) const REMOTE_EVERY: &str = "CTXFS_REMOTE_EVERY";
pub(super) const REMOTE_POLL: &str = "CTXFS_REMOTE_POLL";
pub(super) const REMOTE_CACHE_BYTES: &str = "CTXFS_REMOTE_CACHE_BYTES";
pub(super) const REMOTE_EVICT: &str = "CTXFS_REMOTE_EVICT";
pub(super) const REMOTE_SWEEP: &str = "CTXFS_REMOTE_SWEEP";
pub(super) const TOOL_OUTPUT_MAX_LINES: &str = "TOOL_OUTPUT_MAX_LINES";
pub(super) const TOOL_OUTPUT_MAX_BYTES: &str = "TOOL_OUTPUT_MAX_BYTES";
pub(super) const TOOL_OUTPUT_TRUNCATE_DIRECTION: &str = "TOOL_OUTPUT_TRUNCATE_DIRECTION";
pub(super) const TOOL_OUTPUT_DIR: &str = "TOOL_OUTPUT_DIR";
pub(super) const TOOL_OUTPUT_RETENTION_DAYS: &str = "TOOL_OUTPUT_RETENTION_DAYS";

/// The socket on which systemd waits for readiness. Child processes must not inherit it.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// The program that shows long output on a terminal.
const PAGER: &str = "PAGER";
/// The options of the default pager.
pub(super) const LESS: &str = "LESS";

/// The settings file of the administrator, for all users.
const SYSTEM_SETTINGS: &str = "/etc/ctxfs.toml";

const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The environment, read once.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    /// True if the user is root.
    pub(super) root: bool,
    /// `$HOME`, or else the home directory in the password database.
    pub(super) home: Option<PathBuf>,
    /// `$XDG_DATA_HOME`.
    pub(super) data_home: Option<PathBuf>,
    /// `$XDG_RUNTIME_DIR`.
    pub(super) runtime_dir: Option<PathBuf>,
    /// `$XDG_STATE_HOME`.
    pub(super) state_home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub(super) config_home: Option<PathBuf>,
    /// The settings file of the administrator, which need not be there.
    pub(super) system_settings: Option<PathBuf>,
    /// The directories of `$PATH` that are absolute.
    pub(super) search: Vec<PathBuf>,
    /// `$PAGER`, which may be empty.
    pub(super) pager: Option<OsString>,
    /// True if `$LESS` is set.
    pub(super) less: bool,
    /// True if the terminal is one of those that show links (OSC 8).
    pub(super) links: bool,
    /// The places of agent hosts.
    pub(super) hosts: HostPlaces,
    /// The variables of settings that are set and not empty, by name.
    pub(super) settings: BTreeMap<&'static str, OsString>,
}

/// The places that the hosts of agents name.
#[derive(Debug, Clone, Default)]
pub(super) struct HostPlaces {
    /// `$CLAUDE_CODE_TMPDIR`.
    pub(super) claude_code_tmp: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`.
    pub(super) claude_config: Option<PathBuf>,
    /// `$BASH_MAX_OUTPUT_LENGTH`, which Claude Code reads: a number of characters.
    pub(super) bash_chars: Option<u64>,
    /// `$CODEX_HOME`.
    pub(super) codex_home: Option<PathBuf>,
    /// `$CLAUDE_CODE_SHELL_PREFIX`.
    pub(super) shell_prefix: Option<String>,
    /// `$BASH_ENV`.
    pub(super) bash_env: Option<String>,
    /// True if `$CURSOR_VERSION` is set.
    pub(super) is_cursor: bool,
}

impl HostPlaces {
    fn read() -> Self {
        Self {
            claude_code_tmp: directory("CLAUDE_CODE_TMPDIR"),
            claude_config: directory("CLAUDE_CONFIG_DIR"),
            bash_chars: bash_chars(),
            codex_home: directory("CODEX_HOME"),
            shell_prefix: std::env::var("CLAUDE_CODE_SHELL_PREFIX").ok(),
            bash_env: std::env::var("BASH_ENV").ok(),
            is_cursor: std::env::var_os("CURSOR_VERSION").is_some(),
        }
    }
}

impl Environment {
    /// Reads the environment, with those of `variables` that hold settings.
    pub(super) fn read(variables: impl Iterator<Item = &'static str>) -> Self {
        Self {
            root: rustix::process::geteuid().is_root(),
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            data_home: directory(XDG_DATA_HOME),
            runtime_dir: directory(XDG_RUNTIME_DIR),
            state_home: directory(XDG_STATE_HOME),
            config_home: directory(XDG_CONFIG_HOME),
            system_settings: Some(SYSTEM_SETTINGS.into()),
            search: search(),
            pager: std::env::var_os(PAGER),
            less: std::env::var_os(LESS).is_some(),
            links: knows_links(),
            hosts: HostPlaces::read(),
            settings: variables.chain([REDACT]).filter_map(set).collect(),
        }
    }
}

/// Returns true if systemd waits on an abstract socket, as its older versions do.
pub(super) fn is_notified_abstractly() -> bool {
    std::env::var_os(NOTIFY_SOCKET).is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"))
}

/// Returns the environment for the server that a client named: what the client gave this process
/// for it, without the settings of ctxfs.
pub(super) fn of_servers() -> Vec<(OsString, OsString)> {
    let is_own = |name: &OsStr| name.as_encoded_bytes().starts_with(b"CTXFS_");
    std::env::vars_os().filter(|(name, _)| !is_own(name) && name != NOTIFY_SOCKET).collect()
}

/// Returns what the servers of a file get of the environment; the file says the rest.
pub(super) fn of_listed_servers() -> Vec<(OsString, OsString)> {
    const GIVEN: [&str; 7] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"];
    GIVEN.into_iter().filter_map(set).map(|(name, value)| (name.into(), value)).collect()
}

/// Returns the key in the variable that the settings name for a model, if it is set.
pub(super) fn key(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|key| !key.is_empty())
}

/// Returns the variables that the clients of object stores read: keys, region, endpoint,
/// encryption. One that is not UTF-8 is left out.
#[cfg(feature = "remote")]
pub(super) fn of_object_stores() -> Vec<(String, String)> {
    const BEGINNINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
    let is_one =
        |name: &str| BEGINNINGS.iter().any(|start| name.to_ascii_uppercase().starts_with(start));
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| is_one(name)).collect()
}

/// Returns the environment of the process that asks a bucket: what the clients of object stores
/// read, and the variables that say how to connect.
#[cfg(feature = "remote")]
pub(super) fn of_remote_process() -> Vec<(OsString, OsString)> {
    const ALSO: [&str; 15] = [
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "https_proxy",
        "http_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "GCE_METADATA_HOST",
        "GCE_METADATA_ROOT",
        "GCE_METADATA_IP",
        "IDENTITY_HEADER",
    ];
    let stores = of_object_stores().into_iter().map(|(name, value)| (name.into(), value.into()));
    let also = ALSO.into_iter().filter_map(set).map(|(name, value)| (name.into(), value));
    stores.chain(also).collect()
}

/// Returns the directories of the files from which the clients of object stores read keys again and
/// again. Whole directories, as such a file is replaced by another one.
#[cfg(feature = "remote")]
pub(super) fn key_directories() -> Vec<PathBuf> {
    const FILES: [&str; 3] = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AZURE_FEDERATED_TOKEN_FILE",
    ];
    let variables = of_object_stores().into_iter();
    let named = variables.filter(|(name, value)| {
        FILES.iter().any(|file| file.eq_ignore_ascii_case(name)) && !value.is_empty()
    });
    named.filter_map(|(_, value)| Some(PathBuf::from(value).parent()?.to_owned())).collect()
}

/// Takes the keys of object stores out of the environment of this process, and overwrites them
/// there. Must be called while there is one thread.
#[cfg(feature = "remote")]
#[expect(unsafe_code, reason = "the standard library removes a variable, and leaves its text")]
pub(super) fn forget_object_stores() {
    for (name, _) in of_object_stores() {
        let Ok(text) = CString::new(name.as_bytes()) else { continue };
        // SAFETY: there is one thread, so nobody reads or changes the environment meanwhile.
        // `getenv` returns null, or a text of that length which ends with 0.
        unsafe {
            let value = libc::getenv(text.as_ptr());
            if !value.is_null() {
                value.write_bytes(0, libc::strlen(value));
            }
            std::env::remove_var(&name);
        }
    }
}

fn search() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect()
}

fn set(name: &'static str) -> Option<(&'static str, OsString)> {
    Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?))
}

/// Returns true if the variables of terminals name one that is known to show links. Others print the
/// sequence, or parts of it.
fn knows_links() -> bool {
    const SET: [&str; 5] =
        ["WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM", "WEZTERM_PANE"];
    const TERMS: [&str; 6] = ["kitty", "alacritty", "foot", "ghostty", "wezterm", "contour"];
    const PROGRAMS: [&str; 6] = ["iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby"];
    let value = |name: &str| std::env::var(name).unwrap_or_default();
    // VTE since 0.50, so GNOME Terminal and its relatives.
    let is_vte = value("VTE_VERSION").parse::<u32>().is_ok_and(|version| version >= 5000);
    let (term, program) = (value("TERM"), value("TERM_PROGRAM"));
    term != "dumb"
        && (is_vte
            || SET.iter().any(|name| std::env::var_os(name).is_some())
            || TERMS.iter().any(|known| term.contains(known))
            || PROGRAMS.contains(&&*program))
}

/// Returns the most characters that Claude Code shows of a command, if a variable sets it. It takes no
/// more than it has a limit for.
fn bash_chars() -> Option<u64> {
    const MOST: u64 = 150_000;
    let chars = std::env::var("BASH_MAX_OUTPUT_LENGTH").ok()?.parse().ok();
    chars.filter(|chars| *chars > 0).map(|chars: u64| chars.min(MOST))
}

/// Returns the directory that a variable names. The XDG specification says to ignore relative
/// paths.
fn directory(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
