//! The machine as settings of hosts name it: the program, the store, the files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::args::Cli;
use crate::context::Context;
use crate::env::Environment;
use crate::hooks::Host;
use crate::install::change::EditedFile;
use crate::install::door::Door;
use crate::install::listing::State;
use crate::install::named_paths::NamedPaths;
use crate::install::place::{Scope, SettingsDir};
use crate::install::{command_line, hosts, service};
use crate::outcome::Failure;
use crate::settings::{Key, Settings, Value};
use crate::{env, places};

/// The machine, as the settings of hosts name it.
pub(super) struct Ground {
    /// This program.
    pub(super) program: String,
    /// The file of `--config`.
    config: Option<PathBuf>,
    /// The store, if the person names one.
    pub(super) given: Option<PathBuf>,
    /// The store that a hook finds by itself.
    pub(super) found: PathBuf,
    pub(super) environment: Environment,
}

/// The files of a host, and the paths in them.
pub(super) struct HostFiles {
    pub(super) paths: NamedPaths,
    /// The last one has the hook.
    pub(super) targets: Vec<EditedFile>,
    pub(super) door: Option<Door>,
}

impl Ground {
    pub(super) fn new(cli: &Cli, context: &Context) -> anyhow::Result<Self> {
        let environment = context.environment.clone();
        let store = context.settings(cli, Vec::new())?.store(&environment)?;
        let bare = Environment { settings: BTreeMap::new(), ..environment.clone() };
        let found = Settings::load(None, Vec::new(), &bare)?.store(&bare)?;
        let is_given = cli.store.is_some() || environment.settings.contains_key(env::STORE);
        let given = (is_given || store != found).then_some(store);
        let program = command_line::program(&environment)?;
        Ok(Self { program, config: cli.config.clone(), given, found, environment })
    }

    /// Returns the files of `host`. A store that the person does not name is the one that its hook
    /// names already.
    pub(super) fn files(&self, host: Host, scope: Scope) -> anyhow::Result<HostFiles> {
        let place = SettingsDir::of(host, scope, &self.environment)?;
        let paths = self.paths(None)?;
        let door = Door::of(host, scope, &place, &self.environment)?;
        let files = |paths| hosts::targets(host, scope, &place, paths, door.as_ref());
        let targets = files(&paths);
        let hook = targets.last().and_then(|main| main.hook().ok().flatten());
        let Some(hook) = hook else { return Ok(HostFiles { paths, targets, door }) };
        let named = command_line::store_in(&hook).map(PathBuf::from);
        let former = text_of(named.clone().unwrap_or_else(|| self.found.clone()))?;
        let paths = self.paths(named)?;
        let former_store = Some(former).filter(|former| *former != paths.store);
        let paths = NamedPaths { former_store, ..paths };
        Ok(HostFiles { targets: files(&paths), paths, door })
    }

    /// Returns the paths, where the hook that is there names the store `installed`.
    fn paths(&self, installed: Option<PathBuf>) -> anyhow::Result<NamedPaths> {
        let environment = &self.environment;
        let named = self.given.clone().or(installed);
        let flags = named.map(|store| (Key::Store, Value::Path(store))).into_iter().collect();
        let settings = Settings::load(self.config.as_deref(), flags, environment)?;
        let store = settings.store(environment)?;
        let given = settings.path(Key::Mountpoint);
        let mountpoint = places::expected_mountpoint(given, &store, environment);
        let shown = mountpoint.display().to_string();
        let mount = settings.text(Key::Advertise).map_or(shown, str::to_owned);
        Ok(NamedPaths {
            program: self.program.clone(),
            mountpoint,
            mount,
            is_store_named: store != self.found,
            store: text_of(store)?,
            former_store: None,
        })
    }

    /// Returns the state of the hook of `host`.
    pub(super) fn state(&self, host: Host, scope: Scope) -> State {
        self.files(host, scope).map_or(State::No, |files| State::of(&files.targets))
    }

    /// Returns the unit that mounts the store, unless another has written it.
    pub(super) fn unit(&self, paths: &NamedPaths) -> Option<EditedFile> {
        let unit = service::unit(paths, &self.environment)?;
        (!service::is_foreign(&unit)).then_some(unit)
    }
}

/// Returns the path of a store as text, which settings need.
pub(super) fn text_of(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        let text = format!("the path of the store is not text: `{}`", path.display());
        Failure::usage(text, "choose another store, with a path in UTF-8")
    })
}
