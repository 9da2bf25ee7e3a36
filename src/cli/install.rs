//! `ctxfs install`: configures an agent host to call `ctxfs hook`, or lists the hosts.
//!
//! A table (`hosts`) has the files of each host and the entries in them. All changes are computed
//! before the first one is made. If one file cannot be edited, every file stays unchanged.

mod edit;
mod entry;
mod hosts;
mod json;
mod mcp;
mod mcp_hosts;
mod place;
mod servers;
mod shell;
mod toml;

use std::{fs, io, path::Path};

use crate::args::{InstallAction, InstallArgs};
use crate::install::edit::{ChangeKind, EditedFile, Edits, SettingsChange};
use crate::install::hosts::{HostFiles, InstallContext, InstallState, ListedHost};
pub(crate) use crate::install::place::NamedPaths;
use crate::install::place::{SettingsDir, SettingsScope};
use crate::{Cli, Context, Failure, hooks::Host, install::shell::ShellProgram, places};

pub(crate) use crate::install::mcp_hosts::McpHost;

pub(crate) fn run(args: &InstallArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let ground = InstallContext::new(cli, context)?;
    if let Some(InstallAction::Mcp(args)) = &args.action {
        return mcp::run(args, &ground, context);
    }
    let Some(host) = args.host else { return list(&ground, context) };
    if !args.remove && !args.print {
        entry::check_it_stays(&ground.program)?;
    }
    let scope = if args.project { SettingsScope::Project } else { SettingsScope::User };
    let files = ground.files(host, scope)?;
    let edit = HostEdit { host, scope, args, ground: &ground, files };
    edit.run(context)
}

/// Prints the file that has any host run its commands under `ctxfs shell`.
pub(crate) fn print_bash_env(
    host: Option<Host>,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    let ground = InstallContext::new(cli, context)?;
    entry::check_it_stays(&ground.program)?;
    let paths = ground.paths(None)?;
    context.printer.data(&shell::bash_env(host, &ground.environment, &paths))
}

fn list(ground: &InstallContext, context: &mut Context) -> anyhow::Result<()> {
    let listed = |host: Host| {
        let program = hosts::program_on_path(host, &ground.environment);
        let place = SettingsDir::of(host, SettingsScope::User, &ground.environment);
        let found = program.is_some() || place.is_ok_and(|place| place.dir.is_dir());
        let (user, project) =
            (ground.state(host, SettingsScope::User), ground.state(host, SettingsScope::Project));
        ListedHost { host: host.name(), found, program, user, project }
    };
    let hosts: Vec<ListedHost> = Host::ALL.into_iter().map(listed).collect();
    context.printer.line(&hosts::hosts_table(&hosts).trim_end(), &hosts)?;
    if hosts.iter().any(|host| [host.user, host.project].contains(&InstallState::Differs)) {
        context.printer.message(&"`ctxfs install HOST` renews what differs");
    }
    Ok(())
}

/// Returns the hosts whose settings have a hook, each with the paths that the hook uses.
pub(crate) fn installed(cli: &Cli, context: &Context) -> anyhow::Result<Vec<(Host, NamedPaths)>> {
    let ground = InstallContext::new(cli, context)?;
    let scopes = [SettingsScope::User, SettingsScope::Project];
    let places = Host::ALL.into_iter().flat_map(|host| scopes.map(|scope| (host, scope)));
    let hook = |(host, scope)| {
        let files = ground.files(host, scope).ok()?;
        let hook = files.targets.last()?.hook().ok()?;
        hook.map(|_| (host, files.paths))
    };
    Ok(places.filter_map(hook).collect())
}

struct HostEdit<'a> {
    host: Host,
    scope: SettingsScope,
    args: &'a InstallArgs,
    ground: &'a InstallContext,
    files: HostFiles,
}

impl HostEdit<'_> {
    fn run(&self, context: &mut Context) -> anyhow::Result<()> {
        let (host, scope, is_print) = (self.host.name(), self.scope, self.args.print);
        let edits = Edits { host, scope, is_print, changes: self.changes()? };
        if self.args.remove {
            edits.make()?;
            self.remove_store();
        } else {
            self.files.shell.as_ref().map_or(Ok(()), ShellProgram::check)?;
            edits.check()?;
            self.make_store()?;
            edits.make()?;
        }
        let left = if edits.diffs().is_empty() { Vec::new() } else { self.left(&edits.changes) };
        edits.report(&self.nothing(), &left, context)
    }

    // Codex runs no command if its sandbox may write to a directory that does not exist.
    fn make_store(&self) -> anyhow::Result<()> {
        if self.host == Host::Codex && !self.args.print {
            ctxfs_store::Store::open(Path::new(&self.files.paths.store))?;
        }
        Ok(())
    }

    fn remove_store(&self) {
        let paths = &self.files.paths;
        let is_used = |scope| self.ground.state(Host::Codex, scope) != InstallState::No;
        let is_left = self.args.print
            || [SettingsScope::User, SettingsScope::Project].into_iter().any(is_used);
        if self.host == Host::Codex && !is_left {
            let store = Path::new(paths.former_store.as_ref().unwrap_or(&paths.store));
            remove_unused(store, self.ground.environment.home.as_deref());
        }
    }

    // The file with the hook comes last, so that the same command completes an interrupted
    // installation.
    fn changes(&self) -> Result<Vec<SettingsChange>, Failure> {
        let targets = &self.files.targets;
        let is_installed = match targets.last() {
            Some(main) => main.hook()?.is_some(),
            None => false,
        };
        let change = |target: &EditedFile| {
            if self.args.remove {
                target.remove(is_installed)
            } else {
                target.install(is_installed)
            }
        };
        self.unit().iter().chain(targets).map(change).collect()
    }

    fn unit(&self) -> Option<EditedFile> {
        let is_used = |host: &Host| {
            *host != self.host && self.ground.state(*host, SettingsScope::User) != InstallState::No
        };
        let is_user = self.scope == SettingsScope::User;
        let is_kept = self.args.remove && Host::ALL.iter().any(is_used);
        if is_user && !is_kept { self.ground.unit(&self.files.paths) } else { None }
    }

    fn nothing(&self) -> String {
        let not = if self.args.remove { "not " } else { "" };
        format!("nothing to change: ctxfs is {not}installed in {}", self.host)
    }

    fn left(&self, changes: &[SettingsChange]) -> Vec<String> {
        if self.args.print {
            return vec!["nothing was changed: --print".to_owned()];
        }
        let unit = self.ground.unit(&self.files.paths).map(|unit| unit.path);
        let is_unit = |change: &&SettingsChange| unit.as_deref() == Some(change.path());
        let unit = changes.iter().find(is_unit).map(SettingsChange::kind);
        if self.args.remove {
            let stop = (unit == Some(ChangeKind::Remove)).then(|| hosts::STOP.to_owned());
            return stop.into_iter().collect();
        }
        let mount = match unit {
            Some(ChangeKind::Create | ChangeKind::Change) => Some(hosts::START.to_owned()),
            Some(_) => None,
            None if places::is_mounted(&self.files.paths.mountpoint) => None,
            None => {
                let mount = self.files.paths.mount_command();
                Some(format!("mount the store, now and at each login: `{mount}`"))
            }
        };
        let kept = Some(self.ground.kept.clone());
        [Some(hosts::remaining_steps(self.host, &self.files.paths)), mount, kept]
            .into_iter()
            .flatten()
            .collect()
    }
}

const NEW: [&str; 2] = ["VERSION", "context"];

// Errors are ignored, because an unused store that cannot be removed is harmless.
fn remove_unused(store: &Path, base: Option<&Path>) {
    let outputs = store.join(NEW[1]);
    if is_new(store).is_ok_and(|is_new| is_new)
        && (fs::remove_dir(&outputs).is_ok() || !outputs.exists())
    {
        edit::remove_file(&store.join(NEW[0]), base.unwrap_or(store)).ok();
    }
}

fn is_new(store: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(store)? {
        if NEW.iter().all(|name| entry.as_ref().is_ok_and(|entry| entry.file_name() != *name)) {
            return Ok(false);
        }
    }
    Ok(store.join(NEW[0]).exists())
}
