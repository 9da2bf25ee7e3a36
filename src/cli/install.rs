//! `ctxfs install`: has the host of an agent call `ctxfs hook`, or lists the hosts.
//!
//! A host is a table of files and of what goes into each (`hosts`). All changes are found before
//! the first one is made, so that a file that cannot be edited leaves everything as it was.

mod change;
mod command_line;
mod content;
mod diff;
mod door;
mod edits;
mod entry;
mod ground;
mod hosts;
mod json;
mod listing;
mod mcp;
mod named_paths;
mod place;
mod replace;
mod servers;
mod service;
mod shape;
mod store;
mod toml_text;
mod toml_variables;
mod transplant;

use std::path::Path;

use crate::args::{Cli, InstallAction, InstallArgs};
use crate::context::Context;
use crate::hooks::Host;
use crate::install::change::{ChangeKind, EditedFile, SettingsChange};
use crate::install::door::Door;
use crate::install::edits::Edits;
use crate::install::ground::{Ground, HostFiles};
use crate::install::listing::{ListedHost, State};
use crate::install::named_paths::NamedPaths;
use crate::install::place::{Scope, SettingsDir};
use crate::outcome::Failure;
use crate::places;
use ctxfs_store::Store;

pub(super) fn run(args: &InstallArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let ground = Ground::new(cli, context)?;
    if let Some(InstallAction::Mcp(args)) = &args.action {
        return mcp::run(args, &ground, context);
    }
    let Some(host) = args.host else { return list(&ground, context) };
    if !args.remove && !args.print {
        command_line::check_it_stays(&ground.program)?;
    }
    let scope = if args.project { Scope::Project } else { Scope::User };
    let files = ground.files(host, scope)?;
    let edit = Edit { host, scope, args, ground: &ground, files };
    edit.run(context)
}

fn list(ground: &Ground, context: &mut Context) -> anyhow::Result<()> {
    let listed = |host: Host| {
        let program = listing::program(host, &ground.environment);
        let place = SettingsDir::of(host, Scope::User, &ground.environment);
        let found = program.is_some() || place.is_ok_and(|place| place.dir.is_dir());
        let (user, project) = (ground.state(host, Scope::User), ground.state(host, Scope::Project));
        ListedHost { host: host.name(), found, program, user, project }
    };
    let hosts: Vec<ListedHost> = Host::ALL.into_iter().map(listed).collect();
    context.printer.line(&listing::table(&hosts).trim_end(), &hosts)?;
    if hosts.iter().any(|host| [host.user, host.project].contains(&State::Differs)) {
        context.printer.say(&"`ctxfs install HOST` renews what differs");
    }
    Ok(())
}

/// An installation, or its removal.
struct Edit<'a> {
    host: Host,
    scope: Scope,
    args: &'a InstallArgs,
    ground: &'a Ground,
    files: HostFiles,
}

impl Edit<'_> {
    fn run(&self, context: &mut Context) -> anyhow::Result<()> {
        let (host, scope, is_print) = (self.host, self.scope, self.args.print);
        let edits = Edits { host, scope, is_print, changes: self.changes()? };
        if self.args.remove {
            edits.make()?;
            self.remove_store();
        } else {
            self.files.door.as_ref().map_or(Ok(()), Door::check)?;
            edits.check()?;
            self.make_store()?;
            edits.make()?;
        }
        let left = if edits.diffs().is_empty() { Vec::new() } else { self.left(&edits.changes) };
        edits.report(&self.nothing(), &left, context)
    }

    /// Makes the store that the settings name to a sandbox: where it may write a directory that is
    /// not there, the host runs no command.
    fn make_store(&self) -> anyhow::Result<()> {
        if self.host == Host::Codex && !self.args.print {
            Store::open(Path::new(&self.files.paths.store))?;
        }
        Ok(())
    }

    /// Removes that store if nothing was ever stored in it.
    fn remove_store(&self) {
        let paths = &self.files.paths;
        let is_used = |scope| self.ground.state(Host::Codex, scope) != State::No;
        let is_left = self.args.print || [Scope::User, Scope::Project].into_iter().any(is_used);
        if self.host == Host::Codex && !is_left {
            let store = Path::new(paths.former_store.as_ref().unwrap_or(&paths.store));
            store::remove_unused(store, self.ground.environment.home.as_deref());
        }
    }

    /// Finds all changes. The file with the hook comes last: until then, what was interrupted is
    /// done again by the same command.
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

    /// Returns the unit, which all hosts of the user share, if it is to be written or removed.
    fn unit(&self) -> Option<EditedFile> {
        let is_used =
            |host: &Host| *host != self.host && self.ground.state(*host, Scope::User) != State::No;
        let is_user = self.scope == Scope::User;
        let is_kept = self.args.remove && Host::ALL.iter().any(is_used);
        if is_user && !is_kept { self.ground.unit(&self.files.paths) } else { None }
    }

    fn nothing(&self) -> String {
        let host = self.host;
        if self.args.remove {
            format!("nothing to change: ctxfs is not installed in {host}")
        } else {
            format!("nothing to change: ctxfs is installed in {host}")
        }
    }

    /// Returns what is left for a person to do.
    fn left(&self, changes: &[SettingsChange]) -> Vec<String> {
        if self.args.print {
            return vec!["nothing was changed: --print".to_owned()];
        }
        let unit = self.ground.unit(&self.files.paths).map(|unit| unit.path);
        let is_unit = |change: &&SettingsChange| unit.as_deref() == Some(change.path());
        let unit = changes.iter().find(is_unit).map(SettingsChange::kind);
        if self.args.remove {
            let stop = (unit == Some(ChangeKind::Remove)).then(|| service::STOP.to_owned());
            return stop.into_iter().collect();
        }
        let mount = match unit {
            Some(ChangeKind::Create | ChangeKind::Change) => Some(service::START.to_owned()),
            Some(_) => None,
            None => mount_by_hand(&self.files.paths),
        };
        [Some(hosts::left_to_do(self.host, &self.files.paths)), mount]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn mount_by_hand(paths: &NamedPaths) -> Option<String> {
    let is_mounted = places::is_mounted(&paths.mountpoint);
    let store = paths.store_to_name().map(|store| shlex::try_quote(store).unwrap_or(store.into()));
    let store = store.map(|store| format!("--store {store} ")).unwrap_or_default();
    let shown = paths.mountpoint.display();
    (!is_mounted)
        .then(|| format!("mount the store, now and at each login: `ctxfs mount {store}{shown}`"))
}
