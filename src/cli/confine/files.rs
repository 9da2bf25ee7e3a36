//! The Landlock rules for files, network and signals.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};

/// The latest Landlock version that is used. A later one may forbid something untested.
const TRIED: ABI = ABI::V7;

/// World-readable directories that serving reads: who closed a file, the number of processors.
const READ: &[&str] = &["/proc", "/sys/fs/cgroup", "/sys/devices/system/cpu"];
/// The file that the dynamic linker reads when a filter starts.
const LINKER: &str = "/etc/ld.so.cache";
/// Names of servers, and certificates, on the distributions that differ.
const CONNECT: &[&str] = &[
    "/etc",
    "/run/systemd/resolve",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/dev/urandom",
];
/// The variables that name others.
const CERTIFICATES: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];
const NULL: &str = "/dev/null";
const PROGRAM: &str = "/proc/self/exe";

/// The first version of Landlock with everything that is used; signals came last.
pub(crate) const LANDLOCK_COMPLETE_SINCE: i32 = 6;

/// The needs of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The store.
    pub(crate) store: BorrowedFd<'a>,
    /// True if the server asks the kernel for passthrough.
    pub(crate) passthrough: bool,
    /// True if systemd waits on an abstract socket.
    pub(crate) abstract_sockets: bool,
}

/// Leaves this thread the store and what it needs to serve it. Returns the version of Landlock, or
/// `None` if the kernel has none.
pub(super) fn serve(needs: Needs<'_>) -> anyhow::Result<Option<i32>> {
    let scopes = Scope::from_all(TRIED);
    let scopes = if needs.abstract_sockets { Scope::Signal.into() } else { scopes };
    let mut rules = ruleset(scopes)?;
    rules = rules.add_rule(PathBeneath::new(needs.store, in_store(needs.passthrough)))?;
    for path in READ {
        rules = allow(rules, Path::new(path), AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    rules = allow(rules, Path::new(NULL), AccessFs::ReadFile | AccessFs::WriteFile)?;
    rules = allow(rules, Path::new(LINKER), AccessFs::ReadFile.into())?;
    rules = allow(rules, Path::new(PROGRAM), AccessFs::ReadFile | AccessFs::Execute)?;
    restrict(allow_libraries(rules)?)
}

/// Leaves this thread the store, to read. Returns the version of Landlock, or `None` if the kernel
/// has none.
pub(super) fn read(store: BorrowedFd<'_>) -> anyhow::Result<Option<i32>> {
    let access = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = ruleset(Scope::from_all(TRIED))?;
    rules = rules.add_rule(PathBeneath::new(store, access))?;
    for path in READ {
        rules = allow(rules, Path::new(path), access)?;
    }
    restrict(rules)
}

/// Leaves this thread the network, the files by which it finds and checks a server, and `also`, to
/// read.
pub(super) fn network(also: &[PathBuf]) -> anyhow::Result<()> {
    let files = Ruleset::default().handle_access(AccessFs::from_all(TRIED))?;
    let mut rules = files.scope(Scope::from_all(TRIED))?.create()?;
    let named = CERTIFICATES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let paths: Vec<PathBuf> = CONNECT.iter().map(PathBuf::from).chain(named).collect();
    for path in paths.iter().chain(also) {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    restrict(allow_libraries(rules)?).map(drop)
}

/// Leaves this thread one directory with all that is in it, and no network.
#[cfg(feature = "remote")]
pub(super) fn directory(path: &Path) -> anyhow::Result<()> {
    let rules = ruleset(Scope::from_all(TRIED))?;
    restrict(allow(rules, path, in_store(false))?).map(drop)
}

/// Leaves this thread no file.
pub(super) fn nothing() -> anyhow::Result<()> {
    restrict(ruleset(Scope::from_all(TRIED))?).map(drop)
}

/// Returns the version of Landlock in this kernel, or `None` if it has none or has it disabled.
pub(crate) fn landlock() -> Option<i32> {
    // The version is known only after restricting a thread, so a new one is restricted.
    let asked = std::thread::spawn(|| restrict(ruleset(Scope::Signal.into())?));
    asked.join().ok()?.ok()?
}

/// Returns the accesses in the store: to create, read, write, move and remove files and
/// directories, but no special files.
///
/// With passthrough, the kernel opens the store's files with the server's accesses on behalf of
/// readers, who may also run them.
fn in_store(passthrough: bool) -> BitFlags<AccessFs> {
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

/// Creates a rule set that forbids everything, as far as this kernel can.
fn ruleset(scopes: BitFlags<Scope>) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(TRIED))?
        .handle_access(AccessNet::from_all(TRIED))?
        .scope(scopes)?
        .create()
}

/// Allows `access` to `path`, if that exists.
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

/// Allows the libraries of this program.
fn allow_libraries(mut rules: RulesetCreated) -> anyhow::Result<RulesetCreated> {
    for libraries in libraries()? {
        rules = allow(rules, &libraries, AccessFs::ReadFile | AccessFs::Execute)?;
    }
    Ok(rules)
}

/// Returns the directories of the libraries of this program. Whole directories, since an upgrade
/// creates new files in them.
fn libraries() -> io::Result<BTreeSet<PathBuf>> {
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs a test in its own thread, since confinement applies to one thread.
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
            let needs = Needs { store: open.as_fd(), passthrough: false, abstract_sockets: false };
            serve(needs).unwrap();
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
            read(File::open(&store).unwrap().as_fd()).unwrap();
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
            network(&[]).unwrap();
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
            network(std::slice::from_ref(&keys)).unwrap();
            assert_eq!(fs::read(keys.join("token")).unwrap(), b"secret");
            fs::write(keys.join("token"), "other").unwrap_err();
            fs::read(&beside).unwrap_err();
        });
    }

    #[cfg(feature = "remote")]
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
            directory(&bucket).unwrap();
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
            nothing().unwrap();
            for path in ["/", "/etc/passwd", "/proc/self/status", "/dev/null", PROGRAM] {
                assert!(File::open(path).is_err(), "{path}");
            }
            assert!(TcpListener::bind("127.0.0.1:0").is_err());
        });
    }
}
