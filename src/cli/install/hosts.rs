//! A table of the files that each host gets, the state of these files, and the systemd unit that
//! mounts the store.

use std::path::PathBuf;

use crate::hooks::Host;
use crate::install::edit::{ARGUMENTS, ChangeKind, EditedFile, OWNED, SettingsContent};
use crate::install::entry::{
    self, HookDialect, HookEntry, JsonEntry, MemberEntry, STORE_OPTION, TextEntry, ValueEntry,
};
use crate::install::place::{self, NamedPaths, SettingsDir, SettingsScope};
use crate::install::shell::{self, ShellProgram};
use crate::settings::SettingValue;
use crate::{Cli, Context, Environment, Failure, SettingKey, Settings, env, places};

/// The facts that the settings of hosts depend on: this program, the store and the environment.
/// `given` is the store that the user names, if any. `found` is the store that a hook finds by
/// itself.
pub(crate) struct InstallContext {
    pub(crate) program: String,
    config: Option<PathBuf>,
    pub(crate) given: Option<PathBuf>,
    pub(crate) found: PathBuf,
    pub(crate) kept: String,
    pub(crate) environment: Environment,
}

/// The files of a host, and the paths in these files. The last of the `targets` contains the hook.
pub(crate) struct HostFiles {
    pub(crate) paths: NamedPaths,
    pub(crate) targets: Vec<EditedFile>,
    pub(crate) shell: Option<ShellProgram>,
}

impl InstallContext {
    pub(crate) fn new(cli: &Cli, context: &Context) -> anyhow::Result<Self> {
        let environment = context.environment.clone();
        let settings = context.quiet_settings(cli, Vec::new())?;
        let store = settings.store(&environment)?;
        let found = Settings::bare_store(&environment)?;
        let is_given = cli.store.is_some() || environment.settings.contains_key(env::STORE);
        let given = (is_given || store != found).then_some(store);
        let program = entry::own_program(&environment)?;
        let kept = kept(&settings);
        Ok(Self { program, config: cli.config.clone(), given, found, kept, environment })
    }

    /// Returns the files of `host`. If the user names no store, and a hook is already installed,
    /// the files name the store of that hook.
    pub(crate) fn files(&self, host: Host, scope: SettingsScope) -> anyhow::Result<HostFiles> {
        let place = SettingsDir::of(host, scope, &self.environment)?;
        let paths = self.paths(None)?;
        let shell = ShellProgram::of(host, scope, &place, &self.environment)?;
        let files = |paths| targets(host, scope, &place, paths, shell.as_ref());
        let targets = files(&paths);
        let hook = targets.last().and_then(|main| main.hook().ok().flatten());
        let Some(hook) = hook else { return Ok(HostFiles { paths, targets, shell }) };
        let named = entry::store_in(&hook).map(PathBuf::from);
        let former = store_text(named.clone().unwrap_or_else(|| self.found.clone()))?;
        let paths = self.paths(named)?;
        let former_store = Some(former).filter(|former| *former != paths.store);
        let paths = NamedPaths { former_store, ..paths };
        Ok(HostFiles { targets: files(&paths), paths, shell })
    }

    pub(crate) fn paths(&self, installed: Option<PathBuf>) -> anyhow::Result<NamedPaths> {
        let environment = &self.environment;
        let named = self.given.clone().or(installed);
        let flags =
            named.map(|store| (SettingKey::Store, SettingValue::Path(store))).into_iter().collect();
        let settings = Settings::load(self.config.as_deref(), flags, environment)?;
        let store = settings.store(environment)?;
        let given = settings.path(SettingKey::Mountpoint);
        let mountpoint = places::expected_mountpoint(given, &store, environment);
        let shown = mountpoint.display().to_string();
        let mount = settings.text(SettingKey::Advertise).map_or(shown, str::to_owned);
        let is_named = store != self.found;
        let store = store_text(store)?;
        Ok(NamedPaths {
            program: self.program.clone(),
            mountpoint,
            mount,
            view: places::view_command(environment),
            named_store: is_named.then(|| store.clone()),
            store,
            former_store: None,
        })
    }

    pub(crate) fn state(&self, host: Host, scope: SettingsScope) -> InstallState {
        self.files(host, scope).map_or(InstallState::No, |files| InstallState::of(&files.targets))
    }

    pub(crate) fn unit(&self, paths: &NamedPaths) -> Option<EditedFile> {
        let unit = unit(paths, &self.environment)?;
        (!is_foreign(&unit)).then_some(unit)
    }
}

// Describes how long what hooks store is kept.
fn kept(settings: &Settings) -> String {
    let [age, bytes] = [SettingKey::HooksKeepAge, SettingKey::HooksKeepStore].map(|key| {
        let setting = settings.setting_for(None, key);
        let value = setting.map(|setting| key.row().kind.to_toml(&setting.value));
        value.unwrap_or_default().replace('"', "")
    });
    format!(
        "what hooks and `ctxfs shell` store is kept within these limits of `[hooks]`: keep_age = \
         {age}, keep_store = {bytes}"
    )
}

pub(crate) fn store_text(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        let text = format!("the path of the store is not text: `{}`", path.display());
        Failure::usage(text, "choose another store, with a path in UTF-8")
    })
}

const CLAUDE_DIALECT: HookDialect =
    HookDialect { command: "command", timeout: "timeout", minute: 60, grouped: true };
const GEMINI_DIALECT: HookDialect = HookDialect { minute: 60_000, ..CLAUDE_DIALECT };
const COPILOT_DIALECT: HookDialect =
    HookDialect { command: "bash", timeout: "timeoutSec", minute: 60, grouped: false };
const CURSOR_DIALECT: HookDialect = HookDialect { grouped: false, ..CLAUDE_DIALECT };

// Pairs of an event and a pattern for tools.
type HookEvents = &'static [(&'static str, Option<&'static str>)];

const CLAUDE_CODE: HookEvents = &[
    ("PostToolUse", Some("Bash|Agent|Glob|Grep|LSP|Skill|Task|WebFetch|WebSearch|mcp__.*")),
    ("PostToolUseFailure", Some("Bash")),
    ("PreCompact", None),
    ("SessionStart", None),
    ("SubagentStop", None),
    ("UserPromptSubmit", None),
];
const CODEX: HookEvents =
    &[("PostToolUse", Some("mcp__.*")), ("PreCompact", None), ("SessionStart", None)];
const GEMINI_CLI: HookEvents =
    &[("AfterTool", Some("run_shell_command|mcp_.*")), ("SessionStart", None)];
const COPILOT: HookEvents = &[("postToolUse", None), ("sessionStart", None)];
const CURSOR: HookEvents =
    &[("postToolUse", Some("^(Shell$|MCP:)")), ("postToolUseFailure", Some("^Shell$"))];

const OPENCODE_PLUGIN: &str = include_str!("opencode.js");
const PI_PLUGIN: &str = include_str!("pi.ts");
const PROGRAM: &str = "\"/usr/bin/ctxfs\"";

fn targets(
    host: Host,
    scope: SettingsScope,
    place: &SettingsDir,
    paths: &NamedPaths,
    shell: Option<&ShellProgram>,
) -> Vec<EditedFile> {
    let target = |path: PathBuf, content| EditedFile {
        path,
        base: place.base.clone(),
        content,
        is_shared: false,
    };
    let file = |name: &str| place.dir.join(name);
    let hooks = |events, dialect| hooks(host, events, dialect, paths);
    let settings = match host {
        Host::ClaudeCode => {
            let read = format!("Read(/{}/**)", paths.mount);
            let mut entries = hooks(CLAUDE_CODE, &CLAUDE_DIALECT);
            let path = &["permissions", "allow"];
            let views = views(paths).map(|view| format!("Bash({view}:*)"));
            let allowed = [read].into_iter().chain(views);
            entries.extend(allowed.map(|text| JsonEntry::Text(TextEntry { path, text })));
            let variable = shell.map(|shell| JsonEntry::Variable(shell.variable()));
            let local = match scope {
                SettingsScope::User => {
                    entries.extend(variable);
                    None
                }
                SettingsScope::Project => {
                    let variable = SettingsContent::Json(variable.into_iter().collect());
                    Some(target(file(shell::settings(host, scope)), variable))
                }
            };
            let settings = target(file("settings.json"), SettingsContent::Json(entries));
            local.into_iter().chain([settings]).collect()
        }
        Host::Codex => {
            let path = &["sandbox_workspace_write", "writable_roots"];
            let entry = |text: String| TextEntry { path, text };
            // Earlier versions of ctxfs let commands write to the whole store.
            let former = [Some(&paths.store), paths.former_store.as_ref()].into_iter().flatten();
            let outputs = |store: &String| entry(outputs(store));
            let former_outputs = paths.former_store.iter().map(outputs);
            let former = former.cloned().map(entry).chain(former_outputs).collect();
            // In the sandbox, bash assumes that its input is a network connection. Such a shell
            // reads `BASH_ENV` only if it was started by another shell, which this value makes it
            // assume.
            let shell_level = ValueEntry {
                name: "SHLVL",
                value: "1".to_owned(),
                former: None,
                replaces: false,
                is_ours: |value| value == "1",
            };
            let variables =
                shell.map(ShellProgram::variable).into_iter().chain([shell_level]).collect();
            let text = outputs(&paths.store);
            let config = SettingsContent::Toml { text, former, variables };
            let hooks = SettingsContent::Json(hooks(CODEX, &CLAUDE_DIALECT));
            vec![target(file("config.toml"), config), target(file("hooks.json"), hooks)]
        }
        Host::Opencode => {
            let path = place.first_of(&["opencode.jsonc", "opencode.json"]);
            let plugin = SettingsContent::Whole(plugin(OPENCODE_PLUGIN, host, paths));
            vec![target(path, may_read(paths)), target(file("plugins/ctxfs.js"), plugin)]
        }
        Host::GeminiCli => {
            let entries = SettingsContent::Json(hooks(GEMINI_CLI, &GEMINI_DIALECT));
            let rule = || SettingsContent::Whole(gemini_rule(paths));
            // The host reads no rules of a project.
            let is_user = scope == SettingsScope::User;
            let rule = is_user.then(|| target(file("policies/ctxfs.toml"), rule()));
            rule.into_iter().chain([target(file("settings.json"), entries)]).collect()
        }
        Host::Copilot => {
            let mut entries = hooks(COPILOT, &COPILOT_DIALECT);
            entries.push(JsonEntry::Demanded("version", 1));
            vec![target(file("hooks/ctxfs.json"), SettingsContent::Json(entries))]
        }
        Host::Cursor => {
            let mut entries = hooks(CURSOR, &CURSOR_DIALECT);
            entries.push(JsonEntry::Demanded("version", 1));
            vec![target(file("hooks.json"), SettingsContent::Json(entries))]
        }
        Host::Pi => {
            let plugin = SettingsContent::Whole(plugin(PI_PLUGIN, host, paths));
            vec![target(file("extensions/ctxfs.ts"), plugin)]
        }
    };
    let program = shell.map(|shell| shell.program(paths));
    program.into_iter().chain(settings).collect()
}

pub(crate) fn remaining_steps(host: Host, paths: &NamedPaths) -> String {
    match host {
        Host::ClaudeCode | Host::Opencode | Host::Pi => {
            format!("start {host} again: it reads its settings when it starts")
        }
        Host::Codex => format!(
            "open codex, enter `/hooks`, and trust the {} hooks of ctxfs: until then, codex skips \
             them without a word",
            CODEX.len()
        ),
        // The directory is named in the command and not in the settings, because the host does not
        // start if a directory in its settings is missing.
        Host::GeminiCli => format!(
            "start gemini with `--include-directories {}` while the store is mounted, so that it \
             may read the mount",
            paths.mount
        ),
        Host::Copilot => {
            format!("start copilot with `--add-dir {}`, so that it may read the mount", paths.mount)
        }
        Host::Cursor => "cursor reads its hooks at once".to_owned(),
    }
}

fn program_of(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => "claude",
        Host::GeminiCli => "gemini",
        Host::Codex | Host::Opencode | Host::Copilot | Host::Pi | Host::Cursor => host.name(),
    }
}

fn hooks(
    host: Host,
    events: HookEvents,
    dialect: &'static HookDialect,
    paths: &NamedPaths,
) -> Vec<JsonEntry> {
    let command = entry::hook_line(&paths.program, host, paths.named_store.as_deref());
    let hook = |&(event, matcher): &(_, _)| {
        JsonEntry::Hook(HookEntry { host, event, matcher, command: command.clone(), dialect })
    };
    events.iter().map(hook).collect()
}

// Returns the only directory in the store that commands in the sandbox may write.
fn outputs(store: &str) -> String {
    format!("{store}/context")
}

// Returns a rule with the lowest priority of the user's rules. An entry `run_shell_command(...)` in
// `tools.allowed` would make the host refuse all other commands.
fn gemini_rule(paths: &NamedPaths) -> String {
    // Strings of JSON are strings of TOML.
    let views = serde_json::Value::from(views(paths).collect::<Vec<_>>());
    format!(
        "# The command that shows outputs of ctxfs: {OWNED}, and replaced by it.\n[[rule]]\n\
         toolName = \"run_shell_command\"\ncommandPrefix = {views}\ndecision = \"allow\"\n\
         priority = 1\n"
    )
}

fn may_read(paths: &NamedPaths) -> SettingsContent {
    let member = |path, name, value, is_optional| {
        JsonEntry::Member(MemberEntry { path, name, value, is_optional })
    };
    let mount = format!("{}/**", paths.mount);
    let mount = member(&["permission", "external_directory"], mount, "allow", false);
    // The first pattern also matches commands that write their output to a file. The last pattern
    // that matches counts.
    let of_view = |view| [(format!("{view} *"), "allow"), (format!("{view} *>*"), "ask")];
    let views = views(paths).flat_map(of_view);
    let views = views.map(|(name, value)| member(&["permission", "bash"], name, value, true));
    SettingsContent::Json([mount].into_iter().chain(views).collect())
}

// Returns the commands that stand-ins name: `ctxfs view`, and that with the path of the program if
// it is not on `PATH`. The first is always there, so that a removal finds it.
fn views(paths: &NamedPaths) -> impl Iterator<Item = &str> {
    const BARE: &str = "ctxfs view";
    [BARE].into_iter().chain(Some(&*paths.view).filter(|view| *view != BARE))
}

fn plugin(text: &str, host: Host, paths: &NamedPaths) -> String {
    let program = serde_json::Value::from(&*paths.program).to_string();
    let arguments = |store| {
        let words = entry::hook_arguments(host, store);
        let words = words.into_iter().map(|word| serde_json::Value::from(word).to_string());
        format!("{ARGUMENTS}[{}]", words.collect::<Vec<_>>().join(", "))
    };
    let text = text.replacen(PROGRAM, &program, 1);
    text.replacen(&arguments(None), &arguments(paths.named_store.as_deref()), 1)
}

#[derive(Debug, serde::Serialize)]
pub(crate) struct ListedHost {
    pub(crate) host: &'static str,
    pub(crate) found: bool,
    pub(crate) program: Option<PathBuf>,
    pub(crate) user: InstallState,
    pub(crate) project: InstallState,
}

/// The state of a hook in the settings of a host. `Differs` means that the hook is installed, but
/// not as this version would install it. Programs may rely on the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InstallState {
    No,
    Yes,
    Differs,
    Unreadable,
}

impl InstallState {
    pub(crate) fn of(targets: &[EditedFile]) -> Self {
        let Some(main) = targets.last() else { return Self::No };
        match main.hook() {
            Err(_) => Self::Unreadable,
            Ok(None) => Self::No,
            Ok(Some(_)) => {
                let is_current = |target: &EditedFile| {
                    target.install(true).is_ok_and(|change| change.kind() == ChangeKind::None)
                };
                if targets.iter().all(is_current) { Self::Yes } else { Self::Differs }
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::No => "-",
            Self::Yes => "yes",
            Self::Differs => "differs",
            Self::Unreadable => "unreadable",
        }
    }
}

pub(crate) fn program_on_path(host: Host, environment: &Environment) -> Option<PathBuf> {
    let name = program_of(host);
    environment.search.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}

pub(crate) fn hosts_table(hosts: &[ListedHost]) -> String {
    let row = |host: &str, found: &str, user: &str, project: &str| {
        let line = format!("{host:12} {found:6} {user:10} {project}");
        line.trim_end().to_owned() + "\n"
    };
    let rows = hosts.iter().map(|listed| {
        let found = if listed.found { "yes" } else { "-" };
        row(listed.host, found, listed.user.word(), listed.project.word())
    });
    [row("HOST", "FOUND", "USER", "PROJECT")].into_iter().chain(rows).collect()
}

// The unit contains example paths, which are replaced.
const UNIT: &str = include_str!("../../../scripts/ctxfs-user.service");
const UNIT_PROGRAM: &str = "%h/.local/bin/ctxfs";
const MOUNTPOINT: &str = "%h/ctx";
const MOUNT: &str = " mount --foreground";

pub(crate) const START: &str =
    "start the mount: `systemctl --user daemon-reload && systemctl --user enable --now ctxfs`";
pub(crate) const STOP: &str =
    "end the mount: `systemctl --user disable --now ctxfs; systemctl --user daemon-reload`";

fn unit(paths: &NamedPaths, environment: &Environment) -> Option<EditedFile> {
    if !place::has_user_manager(environment) {
        return None;
    }
    let dir = place::units(environment)?;
    let content = SettingsContent::Whole(unit_text(paths));
    let base = environment.home.clone().unwrap_or_else(|| dir.clone());
    Some(EditedFile { path: dir.join("ctxfs.service"), base, content, is_shared: false })
}

fn is_foreign(unit: &EditedFile) -> bool {
    unit.path.exists() && unit.hook().is_ok_and(|hook| hook.is_none())
}

fn unit_text(paths: &NamedPaths) -> String {
    let mountpoint = quoted_word(&paths.mountpoint.display().to_string());
    let store =
        paths.named_store.as_deref().map(|store| format!(" {STORE_OPTION} {}", quoted_word(store)));
    let mount = format!("{MOUNT}{}", store.unwrap_or_default());
    let lines = UNIT.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let lines: Vec<String> = lines
        .map(|line| {
            let line = line.replace(MOUNT, &mount).replace(MOUNTPOINT, &mountpoint);
            line.replace(UNIT_PROGRAM, &quoted_word(&paths.program)) + "\n"
        })
        .collect();
    format!("# The mount of ctxfs, {OWNED}, and replaced by it.\n\n{}", lines.concat())
}

fn quoted_word(text: &str) -> String {
    let escaped = text.replace('%', "%%").replace('$', "$$");
    let is_plain = |c: char| c.is_alphanumeric() || "/._-%$+@,:".contains(c);
    if escaped.chars().all(is_plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_one_of_the_scripts() {
        let mut paths = NamedPaths {
            program: "/opt/my apps/ctxfs".to_owned(),
            mountpoint: "/home/ann/ctx".into(),
            mount: "/ctx".to_owned(),
            view: "ctxfs view".to_owned(),
            store: "/my data".to_owned(),
            former_store: None,
            named_store: None,
        };
        let text = unit_text(&paths);
        assert!(text.lines().next().unwrap().contains(OWNED));
        let start = "ExecStart=\"/opt/my apps/ctxfs\" mount --foreground /home/ann/ctx\n";
        assert!(text.contains(start), "{text}");
        assert!(text.contains("fusermount3 -u -z /home/ann/ctx\n"), "{text}");
        assert!(!text.contains("%h"), "{text}");
        paths.named_store = Some(paths.store.clone());
        let named = start.replace("--foreground", "--foreground --store \"/my data\"");
        assert_eq!(unit_text(&paths), text.replace(start, &named));
    }

    #[test]
    fn words_are_quoted_for_systemd() {
        assert_eq!(quoted_word("/a/100%"), "/a/100%%");
        assert_eq!(quoted_word("/a \"b\""), "\"/a \\\"b\\\"\"");
    }
}
