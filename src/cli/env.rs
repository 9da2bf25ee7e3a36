//! Access to the environment. No other module reads environment variables, with five exceptions:
//! `args` lets clap read `CTXFS_CONFIG` and `CTXFS_CONVERSATION`, printing honours `NO_COLOR`,
//! `CLICOLOR` and `CLICOLOR_FORCE`, the notification of systemd uses `NOTIFY_SOCKET`, `confine`
//! allows the files in `SSL_CERT_FILE` and `SSL_CERT_DIR`, and `mcp::servers` looks up the
//! variables in `${VAR}` references of a servers file.

use std::ffi::{CString, OsStr, OsString};
use std::path::PathBuf;

pub(crate) const STORE: &str = "CTXFS_STORE";
pub(crate) const CONVERSATION: &str = "CTXFS_CONVERSATION";
pub(crate) const CONFIG: &str = "CTXFS_CONFIG";
pub(crate) const REDACT: &str = "CTXFS_REDACT";

pub(crate) const QUOTA: &str = "CTXFS_QUOTA";
pub(crate) const TOOL_OUTPUT_MAX_LINES: &str = "TOOL_OUTPUT_MAX_LINES";

/// Names the socket on which systemd waits for the message that the server is ready. Child
/// processes must not inherit this variable.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

const PAGER: &str = "PAGER";
pub(crate) const LESS: &str = "LESS";

const SYSTEM_SETTINGS: &str = "/etc/ctxfs.toml";

const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The environment, read once. Directories are absolute. `home` is `$HOME`, or else the home
/// directory in the password database. `links` is true if the terminal shows links (OSC 8).
/// `settings` has the values of the environment variables for settings, except empty ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) root: bool,
    pub(crate) home: Option<PathBuf>,
    pub(crate) data_home: Option<PathBuf>,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) state_home: Option<PathBuf>,
    pub(crate) config_home: Option<PathBuf>,
    pub(crate) system_settings: Option<PathBuf>,
    pub(crate) search: Vec<PathBuf>,
    pub(crate) pager: Option<OsString>,
    pub(crate) less: bool,
    pub(crate) links: bool,
    pub(crate) hosts: HostPlaces,
    pub(crate) settings: std::collections::BTreeMap<&'static str, OsString>,
}

/// Environment variables that agent hosts read. `bash_chars` is `$BASH_MAX_OUTPUT_LENGTH`, the
/// maximum number of characters of a command's output that Claude Code shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostPlaces {
    pub(crate) claude_code_tmp: Option<PathBuf>,
    pub(crate) claude_config: Option<PathBuf>,
    pub(crate) bash_chars: Option<u64>,
    pub(crate) codex_home: Option<PathBuf>,
    pub(crate) shell_prefix: Option<String>,
    pub(crate) bash_env: Option<String>,
    pub(crate) is_cursor: bool,
}

/// Names of the programs through which hosts start `ctxfs shell` begin with this.
pub(crate) const SHELL_PROGRAM: &str = "ctxfs-shell";

impl HostPlaces {
    /// Returns true if the host that has this environment starts its commands by `ctxfs shell`.
    pub(crate) fn has_shell_program(&self) -> bool {
        let mut programs = self.shell_prefix.iter().chain(&self.bash_env);
        programs.any(|program| is_shell_program(program))
    }

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

pub(crate) fn is_shell_program(path: &str) -> bool {
    let name = std::path::Path::new(path).file_name();
    name.is_some_and(|name| name.to_string_lossy().starts_with(SHELL_PROGRAM))
}

impl Environment {
    /// Reads the environment. `variables` are the names of the variables that hold settings.
    pub(crate) fn read(variables: impl Iterator<Item = &'static str>) -> Self {
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

/// Returns true if systemd waits on an abstract socket, as older versions do.
pub(crate) fn is_notified_abstractly() -> bool {
    std::env::var_os(NOTIFY_SOCKET).is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"))
}

/// Returns the environment for a server that is given as a command after `--`: the environment of
/// this process without `NOTIFY_SOCKET` and the variables of ctxfs.
pub(crate) fn of_servers() -> Vec<(OsString, OsString)> {
    let is_own = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CTXFS_") || name.starts_with(b"TOOL_OUTPUT_")
    };
    std::env::vars_os().filter(|(name, _)| !is_own(name) && name != NOTIFY_SOCKET).collect()
}

/// Returns the part of the environment that servers from a servers file inherit. The file may add
/// further variables.
pub(crate) fn of_listed_servers() -> Vec<(OsString, OsString)> {
    const GIVEN: [&str; 7] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"];
    GIVEN.into_iter().filter_map(set).map(|(name, value)| (name.into(), value)).collect()
}

/// Returns the API key in `variable`, the variable that the settings name for a model. Returns
/// `None` if the variable is empty or not set.
pub(crate) fn key(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|key| !key.is_empty())
}

/// Returns the variables that the clients of object stores read: keys, region, endpoint,
/// encryption. Leaves out variables that are not UTF-8.
pub(crate) fn of_object_stores() -> Vec<(String, String)> {
    const BEGINNINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
    let is_one =
        |name: &str| BEGINNINGS.iter().any(|start| name.to_ascii_uppercase().starts_with(start));
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| is_one(name)).collect()
}

/// Returns the environment of the process that connects to a bucket: the variables that clients of
/// object stores read, and those that control connections.
pub(crate) fn of_remote_process() -> Vec<(OsString, OsString)> {
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

/// Returns the directories of the key files that the clients of object stores read again and again.
/// Access to the files alone is not enough, because a key file may be replaced by a new file.
pub(crate) fn key_directories() -> Vec<PathBuf> {
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

/// Removes the keys of object stores from the environment of this process, and overwrites their
/// memory. Must be called while there is only one thread.
#[expect(unsafe_code, reason = "the standard library removes a variable, and leaves its text")]
pub(crate) fn forget_object_stores() {
    for (name, _) in of_object_stores() {
        let Ok(text) = CString::new(name.as_bytes()) else { continue };
        // SAFETY: there is only one thread, so no other code reads or changes the environment
        // meanwhile. `getenv` returns null, or a text that ends with 0 and whose length `strlen`
        // returns.
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

// Other terminals would print the escape sequence, or parts of it.
fn knows_links() -> bool {
    const SET: [&str; 5] =
        ["WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM", "WEZTERM_PANE"];
    const TERMS: [&str; 6] = ["kitty", "alacritty", "foot", "ghostty", "wezterm", "contour"];
    const PROGRAMS: [&str; 6] = ["iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby"];
    let value = |name: &str| std::env::var(name).unwrap_or_default();
    // VTE since version 0.50. GNOME Terminal and related terminals use it.
    let is_vte = value("VTE_VERSION").parse::<u32>().is_ok_and(|version| version >= 5000);
    let (term, program) = (value("TERM"), value("TERM_PROGRAM"));
    term != "dumb"
        && (is_vte
            || SET.iter().any(|name| std::env::var_os(name).is_some())
            || TERMS.iter().any(|known| term.contains(known))
            || PROGRAMS.contains(&&*program))
}

// Claude Code ignores a limit above its maximum.
fn bash_chars() -> Option<u64> {
    const MOST: u64 = 150_000;
    let chars = std::env::var("BASH_MAX_OUTPUT_LENGTH").ok()?.parse().ok();
    chars.filter(|chars| *chars > 0).map(|chars: u64| chars.min(MOST))
}

// Relative paths are ignored, as the XDG specification requires.
fn directory(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
