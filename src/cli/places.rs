//! The places that commands use: store, mountpoint, log, conversations, and the root of the tree as
//! readers see it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Environment, Failure, FailureKind};
use ctxfs_core::model::{Component, Root, shell_word};
use ctxfs_engine::EngineError;
use ctxfs_fuse::kernel::mount;
use ctxfs_store::{Conversation, Store, conversation_at};

pub(crate) const ROOT_MOUNTPOINT: &str = "/ctx";
pub(crate) const PROGRAM_NAME: &str = "ctxfs";

/// Returns the absolute path of the store: `given`, or else `$XDG_DATA_HOME/ctxfs`, or else
/// `~/.local/share/ctxfs`.
pub(crate) fn store(given: Option<&Path>, environment: &Environment) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(resolve(given));
    }
    let data = environment.data_home.clone();
    let data = data.or_else(|| Some(environment.home.as_ref()?.join(".local/share")));
    let data = data.ok_or_else(|| no_default("the store", "--store DIR"))?;
    Ok(resolve(&data.join("ctxfs")))
}

/// Returns the absolute path of the mountpoint: `given`, or else the default. A path that names an
/// inherited file descriptor is returned unchanged.
pub(crate) fn mountpoint(
    given: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(if mount::is_inherited_fd(given) { given.to_owned() } else { resolve(given) });
    }
    let default = default_mountpoint(environment);
    Ok(default.ok_or_else(|| no_default("the mountpoint", "it: `ctxfs mount DIR`"))?)
}

/// Returns the mountpoint to name in settings: `given`, or else the place where the store is
/// mounted, or else the default.
pub(crate) fn expected_mountpoint(
    given: Option<&Path>,
    store: &Path,
    environment: &Environment,
) -> PathBuf {
    let mounted = || mounts_of(store).into_iter().find(|mount| mount.only.is_none());
    let mounted = || mounted().map(|mount| mount.target);
    let place = given.map(resolve).or_else(mounted).or_else(|| default_mountpoint(environment));
    place.unwrap_or_else(|| PathBuf::from(ROOT_MOUNTPOINT))
}

/// Returns the mountpoint for `umount`: `given`, or else the default.
pub(crate) fn mounted(given: Option<&Path>, environment: &Environment) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let default = default_mountpoint(environment);
    Ok(default.ok_or_else(|| no_default("the mountpoint", "it: `ctxfs umount DIR`"))?)
}

/// Returns the path of the log of the background server. It is `<mountpoint>.log` in [`state_dir`],
/// with each `/` of the mountpoint replaced by `-`.
pub(crate) fn log_file(mountpoint: &Path, environment: &Environment) -> anyhow::Result<PathBuf> {
    let state = state_dir(environment).ok_or_else(|| no_default("the log", "--foreground"))?;
    let name = mountpoint.to_string_lossy().trim_matches('/').replace('/', "-");
    Ok(state.join(name + ".log"))
}

/// Returns the directory of log files: `$XDG_STATE_HOME/ctxfs`, or else `~/.local/state/ctxfs`.
pub(crate) fn state_dir(environment: &Environment) -> Option<PathBuf> {
    let state = environment.state_home.clone();
    let state = state.or_else(|| Some(environment.home.as_ref()?.join(".local/state")));
    Some(state?.join("ctxfs"))
}

/// Fails if the store contains the mountpoint or the mountpoint contains the store, because the
/// server would wait for itself.
pub(crate) fn check_apart(store: &Path, mountpoint: &Path) -> anyhow::Result<()> {
    let above = mount::mounts()?.into_iter().map(|entry| entry.target);
    if let Some(mount) = above.chain([mountpoint.to_owned()]).find(|at| store.starts_with(at)) {
        let (store, mount) = (store.display(), mount.display());
        let text = format!("the store `{store}` lies inside the mountpoint `{mount}`");
        return Err(Failure::usage(text, ELSEWHERE).into());
    }
    if mountpoint.starts_with(store) {
        let (point, store) = (mountpoint.display(), store.display());
        let text = format!("the mountpoint `{point}` lies inside the store `{store}`");
        return Err(Failure::usage(text, ELSEWHERE).into());
    }
    Ok(())
}

const ELSEWHERE: &str = "choose another place: `ctxfs mount --store STORE DIR`";

/// Returns the root of the tree as the readers of a conversation see it: `given`, or else the place
/// where this store is mounted, or else the place where only this conversation is mounted, or else
/// `unmounted`: [`future_root`], or the root of [`Settings::command_root`](crate::Settings).
///
/// `mounts` returns the mounts of the store. It is called only without `given`.
pub(crate) fn reader_root<M: AsRef<[StoreMount]>>(
    given: Option<&str>,
    mounts: impl FnOnce() -> M,
    id: Option<&Component>,
    unmounted: impl FnOnce() -> Root,
) -> Root {
    let shown = |path: PathBuf| path.display().to_string();
    if let Some(given) = given {
        return Root::All(given.to_owned());
    }
    let mounts = mounts();
    let mounted =
        |only: Option<&Component>| mounts.as_ref().iter().find(|at| at.only.as_ref() == only);
    if let Some(all) = mounted(None) {
        return Root::All(shown(all.target.clone()));
    }
    if let Some(one) = id.and_then(|id| mounted(Some(id))) {
        return Root::One(shown(one.target.clone()));
    }
    unmounted()
}

/// Returns the root for texts that outlast the moment: the place where `ctxfs mount` would mount
/// the store.
pub(crate) fn future_root(environment: &Environment) -> Root {
    let default = default_mountpoint(environment);
    let default = default.unwrap_or_else(|| PathBuf::from(ROOT_MOUNTPOINT));
    Root::All(default.display().to_string())
}

/// Returns `ctxfs view`. Names the program by its path if `PATH` does not lead to it.
pub(crate) fn view_command(environment: &Environment) -> String {
    let is_on_path = environment.search.iter().any(|dir| dir.join(PROGRAM_NAME).is_file());
    let own = || std::env::current_exe().ok().filter(|_| !is_on_path);
    let program = own().map(|own| shell_word(&own.display().to_string()));
    format!("{} view", program.as_deref().unwrap_or(PROGRAM_NAME))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreMount {
    pub(crate) target: PathBuf,
    pub(crate) only: Option<Component>,
}

pub(crate) fn mounts_of(store: &Path) -> Vec<StoreMount> {
    let mounts = mount::mounts().unwrap_or_default().into_iter();
    let of_store = |entry: mount::MountEntry| {
        let source = Path::new(&entry.source);
        let only = conversation_at(store, source);
        (source == store || only.is_some()).then_some(StoreMount { target: entry.target, only })
    };
    mounts.filter_map(of_store).collect()
}

/// Returns a mountpoint of the store that answers: `dir`, or any if `dir` is `None`.
pub(crate) fn live_mount(store: &Path, dir: Option<&Path>) -> Option<PathBuf> {
    let dir = dir.map(resolve);
    let is_it = |target: &PathBuf| dir.as_ref().is_none_or(|dir| dir == target);
    let of_all = mounts_of(store).into_iter().filter(|mount| mount.only.is_none());
    let mut targets = of_all.map(|mount| mount.target).filter(is_it);
    targets.find(|target| !matches!(mount::state(target), mount::MountState::Dead { .. }))
}

pub(crate) fn conversation_id(given: &str) -> Result<Component, Failure> {
    Component::new(given).map_err(|error| {
        let text = format!("invalid conversation id `{given}`: {error}");
        Failure::usage(text, "an id is one path component, such as `c7`")
    })
}

// The place does not depend on the session of the user, so that paths in conversations stay valid.
fn default_mountpoint(environment: &Environment) -> Option<PathBuf> {
    let root = environment.root.then(|| PathBuf::from(ROOT_MOUNTPOINT));
    root.or_else(|| Some(environment.home.as_ref()?.join("ctx")))
}

fn no_default(what: &str, instead: &str) -> Failure {
    Failure::usage(format!("no default for {what}: HOME is not set"), format!("give {instead}"))
}

/// Creates the mountpoint if it is missing. Does not access an existing mount, which may hang.
pub(crate) fn create(dir: &Path) -> anyhow::Result<()> {
    if mount::is_inherited_fd(dir) || is_mounted(dir) {
        return Ok(());
    }
    if dir.is_file() {
        let text = format!("the mountpoint `{}` is a file", dir.display());
        return Err(Failure::usage(text, "name a directory").into());
    }
    std::fs::create_dir_all(dir).map_err(|cause| {
        let text = format!("cannot create the mountpoint `{}`: {cause}", dir.display());
        Failure::usage(text, "name a directory that exists or can be created").into()
    })
}

pub(crate) fn is_mounted(dir: &Path) -> bool {
    let dir = resolve(dir);
    mount::mounts().is_ok_and(|mounts| mounts.iter().any(|entry| entry.target == dir))
}

/// Makes `path` absolute, and resolves symbolic links in the part of it that exists. The mount
/// table has paths in this form.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|above| {
        let rest = absolute.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    // Collecting the components removes the trailing slash that joining an empty path leaves.
    real.map_or(absolute, |real| real.components().collect())
}

pub(crate) fn find_conversation(store: &Store, id: &str) -> anyhow::Result<Arc<Conversation>> {
    // Tries the id as given, and decoded from the form in which `ctxfs ls` prints a name that is
    // not UTF-8.
    for name in [Component::new(id), Component::from_text(id)].into_iter().flatten() {
        if let Some(found) = store.conversation(&name)? {
            return Ok(found);
        }
    }
    let text = format!("there is no conversation `{id}`");
    Err(Failure::new(FailureKind::Failed, text, "`ctxfs ls` lists them").into())
}

// Maximum time for which a command waits for a conversation that is arriving from the bucket.
const ARRIVAL: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn find_conversation_anywhere(
    engine: &ctxfs_engine::Engine,
    id: &str,
) -> anyhow::Result<Arc<Conversation>> {
    for name in [Component::new(id), Component::from_text(id)].into_iter().flatten() {
        let (others, until) = (engine.others(), Instant::now() + ARRIVAL);
        let mut asked = others.ask_for_conversation(&name);
        while matches!(asked, Err(EngineError::Arriving))
            && others.trouble_with_others().is_none()
            && Instant::now() < until
        {
            std::thread::sleep(PAUSE);
            asked = others.ask_for_conversation(&name);
        }
        asked?;
    }
    find_conversation(engine.store(), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let path = |text: &str| Some(PathBuf::from(text));
        Environment {
            root: false,
            home: path("/nowhere/ann"),
            runtime_dir: path("/nowhere/run"),
            ..Environment::default()
        }
    }

    #[test]
    fn the_store_has_a_default() {
        let mut environment = environment();
        let store = |environment: &Environment| super::store(None, environment).unwrap();
        assert_eq!(store(&environment), Path::new("/nowhere/ann/.local/share/ctxfs"));
        environment.data_home = Some(PathBuf::from("/nowhere/data"));
        assert_eq!(store(&environment), Path::new("/nowhere/data/ctxfs"));
        assert!(super::store(None, &Environment::default()).is_err());
    }

    #[test]
    fn the_mountpoint_has_one_default() {
        let mut environment = environment();
        let place = |environment: &Environment| mountpoint(None, environment).unwrap();
        assert_eq!(place(&environment), Path::new("/nowhere/ann/ctx"));
        environment.root = true;
        assert_eq!(place(&environment), Path::new("/ctx"));
        assert!(mountpoint(None, &Environment::default()).is_err());
    }

    #[test]
    fn logs_are_named_after_the_mountpoint() {
        let log = log_file(Path::new("/mnt/a b"), &environment()).unwrap();
        assert_eq!(log, Path::new("/nowhere/ann/.local/state/ctxfs/mnt-a b.log"));
    }

    #[test]
    fn store_and_mountpoint_are_kept_apart() {
        let apart = |store: &str, point: &str| check_apart(Path::new(store), Path::new(point));
        assert!(apart("/a/store", "/a/mount").is_ok());
        assert!(apart("/a/store", "/a/store-mount").is_ok());
        for (store, point) in [("/a", "/a"), ("/a/b", "/a"), ("/a", "/a/b/c")] {
            assert!(apart(store, point).is_err(), "{store} {point}");
        }
    }

    #[test]
    fn links_are_resolved_as_far_as_the_path_exists() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(resolve(&real.join("link/not/there")), real.join("not/there"));
    }
}
