//! Fuzz targets. The tests of this crate run each target on its files in `fuzz/corpus`.
//!
//! Each target takes arbitrary bytes, and panics if an asserted property does not hold.

mod archive;
mod client;
mod gateway;
mod hook;
mod json;
mod manifest;
mod messages;
mod names;
mod object;
mod segment;
mod subject;
mod upstream;

pub use archive::archive;
pub use client::client;
pub use ctxfs_cli::fuzz_settings as settings;
pub use hook::hook;
pub use json::json;
pub use manifest::manifest;
pub use messages::messages;
pub use names::names;
pub use object::object;
pub use segment::segment;
pub use upstream::upstream;

use tempfile::TempDir;

use ctxfs_store::Store;

/// Returns an empty store and its temporary directory, which is removed on drop. The directory is
/// in memory if the machine has `/dev/shm`.
fn empty_store() -> (TempDir, Store) {
    let place = ["/dev/shm", "/tmp"].into_iter().find(|place| std::path::Path::new(place).is_dir());
    let dir = TempDir::with_prefix_in("ctxfs-fuzz-", place.expect("a place for files"));
    let dir = dir.expect("a directory for files");
    let store = Store::open(&dir.path().join("store")).expect("a new store opens");
    (dir, store)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Asserts that the target keeps its promises for every file of its corpus.
    #[expect(clippy::print_stderr, reason = "it names the file of a failure")]
    fn replay(name: &str, target: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut files = 0;
        for entry in fs::read_dir(&corpus).unwrap() {
            let path = entry.unwrap().path();
            eprintln!("{}", path.display());
            target(&fs::read(path).unwrap());
            files += 1;
        }
        assert!(files > 0, "nothing in {}", corpus.display());
    }

    #[test]
    fn archives() {
        replay("archive", super::archive);
    }

    #[test]
    fn clients_of_the_gateway() {
        replay("client", super::client);
    }

    #[test]
    fn hook_events() {
        replay("hook", super::hook);
    }

    #[test]
    fn json() {
        replay("json", super::json);
    }

    #[test]
    fn manifests() {
        replay("manifest", super::manifest);
    }

    #[test]
    fn messages() {
        replay("messages", super::messages);
    }

    #[test]
    fn names() {
        replay("names", super::names);
    }

    #[test]
    fn objects_of_a_bucket() {
        replay("object", super::object);
    }

    #[test]
    fn segments_of_a_bucket() {
        replay("segment", super::segment);
    }

    #[test]
    fn settings() {
        replay("settings", super::settings);
    }

    #[test]
    fn upstreams_of_the_gateway() {
        replay("upstream", super::upstream);
    }
}
