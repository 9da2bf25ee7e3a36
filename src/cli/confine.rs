//! The confinement of the server. After mounting and opening its store, the server gives up all
//! access that serving does not need. This limits the damage if a hostile output exploits a bug in
//! the code that reads it.
//!
//! | given up | by |
//! |---|---|
//! | all files outside the store, except a few to read | Landlock |
//! | TCP ports, signals to other processes, abstract sockets | Landlock |
//! | mounting, unmounting, inspecting other processes | Landlock |
//! | privileges from setuid programs | `no_new_privs` |
//! | capabilities that serving does not need | `capset`, and the bounding set |
//! | core dumps, and debuggers of the same user | `PR_SET_DUMPABLE`, `RLIMIT_CORE` |
//!
//! Confinement applies to the calling thread and to the threads and processes that it starts later.
//! The server therefore confines itself while it has one thread. The watchdogs are started earlier
//! and stay unconfined. A kernel may lack Landlock. To determine the restrictions in effect, the
//! server therefore tries forbidden operations.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::process::{DumpableBehavior, Gid, Pid, Resource, Rlimit, Uid, geteuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use ctxfs_engine::Confinement;

/// Confines this thread, and everything that it starts later, to what the server of a mount needs.
/// Logs restrictions that the kernel does not support. Returns the restrictions in effect.
pub(crate) fn server(needs: ServerNeeds<'_>) -> Confinement {
    warned("capabilities", keep_capabilities(server_capabilities(needs.passthrough)));
    warned("memory", hide_memory());
    let landlock = warned("Landlock", restrict_to_serving(needs)).flatten();
    confinement(landlock)
}

/// Confines this thread, and everything that it starts later, to reading `store` and to using
/// sockets that are already open. Logs restrictions that the kernel does not support. Returns the
/// restrictions in effect.
pub(crate) fn reader(store: BorrowedFd<'_>) -> Confinement {
    warned("capabilities", keep_capabilities(FOR_READER));
    warned("memory", hide_memory());
    let landlock = warned("Landlock", restrict_to_reading(store)).flatten();
    confinement(landlock)
}

/// Confines this thread, and everything that it starts later, to the network and to files that
/// connections need, such as certificates. A thread that runs as root changes to the user `nobody`,
/// if that user exists.
pub(crate) fn network() -> anyhow::Result<()> {
    warned("user", leave_root().map_err(Into::into));
    keep_capabilities(NO_CAPABILITIES)?;
    hide_memory()?;
    restrict_to_network(&[])
}

/// Confines this thread, and everything that it starts later, to a bucket. If the bucket is the
/// directory `directory`, access is limited to that directory. Otherwise access is limited to the
/// network, files that connections need, and `keys`.
///
/// A thread that runs as root changes to the user `nobody`, unless it has to read or write files of
/// root.
pub(crate) fn bucket(directory: Option<&Path>, keys: &[PathBuf]) -> anyhow::Result<()> {
    if directory.is_none() && keys.is_empty() {
        warned("user", leave_root().map_err(Into::into));
    }
    keep_capabilities(if directory.is_some() { FOR_DIRECTORY } else { NO_CAPABILITIES })?;
    hide_memory()?;
    directory.map_or_else(|| restrict_to_network(keys), restrict_to_directory)
}

/// Confines this thread to computing. Afterwards, the thread cannot open files, connect or send
/// signals.
pub(crate) fn filter() -> anyhow::Result<()> {
    keep_capabilities(NO_CAPABILITIES)?;
    hide_memory()?;
    restrict_to_nothing()
}

fn hide_memory() -> anyhow::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn warned<T>(what: &str, done: anyhow::Result<T>) -> Option<T> {
    done.inspect_err(|error| tracing::warn!("the server is not confined: {what}: {error:#}")).ok()
}

// The kernel's default value of `overflowuid`.
const NOBODY: u32 = 65534;
const NO_CAPABILITIES: CapabilitySet = CapabilitySet::empty();

// Capabilities that root needs to read files of any user, and to use leases, which show whether a
// file is being written.
const FOR_READER: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::LEASE);

// Capabilities that root needs because another user may own a shared directory.
const FOR_DIRECTORY: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER);

// Returns the capabilities that a server needs if it runs as root. Such a server creates files on
// behalf of any user. It reads files regardless of their modes, because the kernel has already
// checked permissions. Passthrough requires `CAP_SYS_ADMIN` at every open. A server of another user
// has no capabilities.
fn server_capabilities(passthrough: bool) -> CapabilitySet {
    let serving = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::LEASE;
    if passthrough { serving | CapabilitySet::SYS_ADMIN } else { serving }
}

// Changes the user of this thread from root to `nobody`. Afterwards, the thread cannot open files
// that only root may read. Fails if the user `nobody` does not exist, as in some containers.
fn leave_root() -> rustix::io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

fn keep_capabilities(kept: CapabilitySet) -> anyhow::Result<()> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for other in (!kept).iter() {
            // Fails for capabilities that this kernel does not support.
            remove_capability_from_bounding_set(other).ok();
        }
    }
    let permitted = now.permitted & kept;
    let sets = CapabilitySets { effective: permitted, permitted, inheritable: NO_CAPABILITIES };
    set_capabilities(None, sets)?;
    Ok(set_no_new_privs(true)?)
}

// Version of Landlock that is applied. A later version may forbid something that was not tested.
const TRIED: ABI = ABI::V7;

// Paths from which the server finds out which process closed a file, and the number of processors.
const READ: &[&str] = &["/proc", "/sys/fs/cgroup", "/sys/devices/system/cpu"];
// The dynamic linker reads this file when a filter process starts.
const LINKER: &str = "/etc/ld.so.cache";
// Name server configuration and certificates in several distributions.
const CONNECT: &[&str] = &[
    "/etc",
    "/run/systemd/resolve",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/dev/urandom",
];
// Variables that name additional certificates.
const CERTIFICATES: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];
const NULL: &str = "/dev/null";
const PROGRAM: &str = "/proc/self/exe";

/// The first version of Landlock with every restriction that is used here. Restricting signals was
/// added last.
pub(crate) const LANDLOCK_COMPLETE_SINCE: i32 = 6;

/// The needs of a confined server: access to its `store`, kernel `passthrough` if it is used, and
/// `abstract_sockets` if systemd waits on one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerNeeds<'a> {
    pub(crate) store: BorrowedFd<'a>,
    pub(crate) passthrough: bool,
    pub(crate) abstract_sockets: bool,
}

// Returns the version of Landlock, or `None` if the kernel does not support it.
fn restrict_to_serving(needs: ServerNeeds<'_>) -> anyhow::Result<Option<i32>> {
    let scopes = Scope::from_all(TRIED);
    let scopes = if needs.abstract_sockets { Scope::Signal.into() } else { scopes };
    let mut rules = ruleset(scopes)?;
    rules = rules.add_rule(PathBeneath::new(needs.store, accesses_in_store(needs.passthrough)))?;
    for path in READ {
        rules = allow(rules, Path::new(path), AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    rules = allow(rules, Path::new(NULL), AccessFs::ReadFile | AccessFs::WriteFile)?;
    rules = allow(rules, Path::new(LINKER), AccessFs::ReadFile.into())?;
    rules = allow(rules, Path::new(PROGRAM), AccessFs::ReadFile | AccessFs::Execute)?;
    restrict(allow_libraries(rules)?)
}

fn restrict_to_reading(store: BorrowedFd<'_>) -> anyhow::Result<Option<i32>> {
    let access = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = ruleset(Scope::from_all(TRIED))?;
    rules = rules.add_rule(PathBeneath::new(store, access))?;
    for path in READ {
        rules = allow(rules, Path::new(path), access)?;
    }
    restrict(rules)
}

fn restrict_to_network(also: &[PathBuf]) -> anyhow::Result<()> {
    let files = Ruleset::default().handle_access(AccessFs::from_all(TRIED))?;
    let mut rules = files.scope(Scope::from_all(TRIED))?.create()?;
    let named = CERTIFICATES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let paths: Vec<PathBuf> = CONNECT.iter().map(PathBuf::from).chain(named).collect();
    for path in paths.iter().chain(also) {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    restrict(allow_libraries(rules)?).map(drop)
}

fn restrict_to_directory(path: &Path) -> anyhow::Result<()> {
    let rules = ruleset(Scope::from_all(TRIED))?;
    restrict(allow(rules, path, accesses_in_store(false))?).map(drop)
}

fn restrict_to_nothing() -> anyhow::Result<()> {
    restrict(ruleset(Scope::from_all(TRIED))?).map(drop)
}

/// Returns the version of Landlock in this kernel, or `None` if Landlock is missing or disabled.
pub(crate) fn landlock() -> Option<i32> {
    // The version is known only after restricting a thread, so a new thread is restricted.
    let thread = std::thread::spawn(|| restrict(ruleset(Scope::Signal.into())?));
    thread.join().ok()?.ok()?
}

// Returns the accesses that a server needs in its store. Special files are excluded. With
// passthrough, the kernel opens files of the store for readers with the access rights of the
// server, so the server also needs the right to execute them.
fn accesses_in_store(passthrough: bool) -> BitFlags<AccessFs> {
    let run = if passthrough { AccessFs::Execute.into() } else { BitFlags::EMPTY };
    run | AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

// Returns a ruleset that forbids everything that is not explicitly allowed later.
fn ruleset(scopes: BitFlags<Scope>) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(TRIED))?
        .handle_access(AccessNet::from_all(TRIED))?
        .scope(scopes)?
        .create()
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(open) = PathFd::new(path) else { return Ok(rules) };
    let access = if is_directory(&open) { access } else { access & AccessFs::from_file(TRIED) };
    rules.add_rule(PathBeneath::new(open, access))
}

fn is_directory(open: &impl AsFd) -> bool {
    let directory = |stat: rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    };
    rustix::fs::fstat(open.as_fd()).is_ok_and(directory)
}

fn allow_libraries(mut rules: RulesetCreated) -> anyhow::Result<RulesetCreated> {
    for libraries in libraries()? {
        rules = allow(rules, &libraries, AccessFs::ReadFile | AccessFs::Execute)?;
    }
    Ok(rules)
}

// Returns the directories of all shared libraries in use. Single files would not suffice, because
// an upgrade creates new files.
fn libraries() -> io::Result<std::collections::BTreeSet<PathBuf>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mapped = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let libraries = mapped.filter(|path| path.to_string_lossy().contains(".so"));
    Ok(libraries.filter_map(|path| Some(path.parent()?.to_owned())).collect())
}

fn restrict(rules: RulesetCreated) -> anyhow::Result<Option<i32>> {
    match rules.restrict_self()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Ok(Some(kernel_abi.unwrap_or(effective_abi as i32)))
        }
        _ => Ok(None),
    }
}

/// Returns the restrictions in effect for this thread. Tries forbidden operations to find them.
/// `landlock` is the version of Landlock, if it was applied.
pub(crate) fn confinement(landlock: Option<i32>) -> Confinement {
    Confinement {
        landlock,
        files: File::open("/").is_err(),
        network: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_err(),
        signals: landlock.is_some_and(|version| version >= LANDLOCK_COMPLETE_SINCE)
            && !reaches_others(),
        no_new_privileges: rustix::thread::no_new_privs().unwrap_or(false),
        capabilities: capability_names(),
        memory: is_hidden(),
    }
}

// Signal 0 checks whether the parent can be signalled, and has no other effect.
fn reaches_others() -> bool {
    rustix::process::getppid()
        .or(Some(Pid::INIT))
        .is_some_and(|other| rustix::process::test_kill_process(other).is_ok())
}

fn capability_names() -> Vec<String> {
    let now = rustix::thread::capabilities(None);
    let now = now.map_or(CapabilitySet::all(), |sets| sets.effective | sets.permitted);
    now.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

fn is_hidden() -> bool {
    let behaviour = rustix::process::dumpable_behavior();
    matches!(behaviour, Ok(DumpableBehavior::NotDumpable))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    fn confined<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(test).join().unwrap()
    }

    #[test]
    fn this_kernel_has_landlock() {
        assert!(landlock().is_some_and(|version| version >= 1));
    }

    #[test]
    fn a_server_has_its_store_and_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        confined(move || {
            let (store, beside) = (path.join("store"), path.join("beside"));
            fs::create_dir(&store).unwrap();
            fs::write(&beside, "").unwrap();
            let open = File::open(&store).unwrap();
            let needs =
                ServerNeeds { store: open.as_fd(), passthrough: false, abstract_sockets: false };
            restrict_to_serving(needs).unwrap();
            fs::create_dir(store.join("a")).unwrap();
            fs::write(store.join("a/x"), "text").unwrap();
            fs::rename(store.join("a/x"), store.join("y")).unwrap();
            assert_eq!(fs::read(store.join("y")).unwrap(), b"text");
            fs::remove_dir_all(store.join("a")).unwrap();
            let refused = [
                fs::read(&beside).map(drop),
                fs::write(&beside, "x"),
                fs::write(path.join("new"), "x"),
                fs::remove_file(&beside),
                fs::rename(store.join("y"), path.join("y")),
                fs::read_dir("/").map(drop),
                fs::read("/etc/passwd").map(drop),
                TcpListener::bind("127.0.0.1:0").map(drop),
                std::os::unix::fs::symlink("y", store.join("link")),
            ];
            for (number, refused) in refused.into_iter().enumerate() {
                assert!(refused.is_err(), "{number}");
            }
            fs::copy("/bin/true", store.join("program")).unwrap_err();
            Command::new("/bin/sh").spawn().unwrap_err();
            let again = Command::new(PROGRAM).arg("--list").output().unwrap();
            assert!(again.status.success());
        });
    }

    #[test]
    fn a_page_reads_its_store_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        confined(move || {
            let (store, beside) = (path.join("store"), path.join("beside"));
            fs::create_dir(&store).unwrap();
            fs::write(store.join("x"), "text").unwrap();
            fs::write(&beside, "").unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            restrict_to_reading(File::open(&store).unwrap().as_fd()).unwrap();
            assert_eq!(fs::read(store.join("x")).unwrap(), b"text");
            assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
            let refused = [
                fs::write(store.join("x"), "y"),
                fs::write(store.join("new"), "y"),
                fs::remove_file(store.join("x")),
                fs::rename(store.join("x"), store.join("y")),
                fs::create_dir(store.join("d")),
                File::options().append(true).open(store.join("x")).map(drop),
                fs::read(&beside).map(drop),
                fs::read_dir("/").map(drop),
                TcpListener::bind("127.0.0.1:0").map(drop),
                std::net::TcpStream::connect(address).map(drop),
                Command::new(PROGRAM).spawn().map(drop),
            ];
            for (number, refused) in refused.into_iter().enumerate() {
                assert!(refused.is_err(), "{number}");
            }
        });
    }

    #[test]
    fn what_asks_models_has_the_network_and_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        confined(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            restrict_to_network(&[]).unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            fs::read("/etc/hosts").unwrap();
            for refused in ["/", "/proc/self/environ", "/root", path.to_str().unwrap()] {
                assert!(fs::read_dir(refused).is_err() && fs::read(refused).is_err(), "{refused}");
            }
            fs::write(path.join("new"), "x").unwrap_err();
            fs::write("/etc/new", "x").unwrap_err();
            Command::new("/bin/sh").spawn().unwrap_err();
        });
    }

    #[test]
    fn what_has_the_keys_reads_their_directory_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        confined(move || {
            let (keys, beside) = (path.join("keys"), path.join("beside"));
            fs::create_dir(&keys).unwrap();
            fs::write(keys.join("token"), "secret").unwrap();
            fs::write(&beside, "").unwrap();
            restrict_to_network(std::slice::from_ref(&keys)).unwrap();
            assert_eq!(fs::read(keys.join("token")).unwrap(), b"secret");
            fs::write(keys.join("token"), "other").unwrap_err();
            fs::read(&beside).unwrap_err();
        });
    }

    #[test]
    fn what_has_a_directory_has_no_network_and_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        confined(move || {
            let (bucket, beside) = (path.join("bucket"), path.join("beside"));
            fs::create_dir(&bucket).unwrap();
            fs::write(&beside, "").unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            restrict_to_directory(&bucket).unwrap();
            fs::create_dir(bucket.join("log")).unwrap();
            fs::write(bucket.join("log/x#1"), "text").unwrap();
            fs::hard_link(bucket.join("log/x#1"), bucket.join("log/x")).unwrap();
            fs::remove_file(bucket.join("log/x#1")).unwrap();
            assert_eq!(fs::read(bucket.join("log/x")).unwrap(), b"text");
            fs::read(&beside).unwrap_err();
            fs::read("/etc/hosts").unwrap_err();
            std::net::TcpStream::connect(address).unwrap_err();
            Command::new(PROGRAM).spawn().unwrap_err();
        });
    }

    #[test]
    fn a_filter_has_no_file() {
        confined(|| {
            restrict_to_nothing().unwrap();
            for path in ["/", "/etc/passwd", "/proc/self/status", "/dev/null", PROGRAM] {
                assert!(File::open(path).is_err(), "{path}");
            }
            assert!(TcpListener::bind("127.0.0.1:0").is_err());
        });
    }
}
