//! Processes that do something to a mount, and hold it until they are dropped.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::Command;

/// A client process, which ends when it is dropped.
pub(crate) struct Client(Child);

impl Client {
    /// Runs a script of Python, with `path` as `path`. Returns once the script has come to its end,
    /// where it stays.
    pub(crate) fn python(script: &str, path: &Path) -> Self {
        let script = format!(
            "import os, sys\npath = sys.argv[1]\n{script}\n\
             print('begun', flush=True)\nsys.stdin.read()\n"
        );
        let mut client = Command::python(&script, &[path])
            .with(|inner| {
                inner.stdin(Stdio::piped()).stdout(Stdio::piped());
            })
            .spawn();
        let mut said = String::new();
        client.stdout.as_mut().unwrap().take(6).read_to_string(&mut said).unwrap();
        assert_eq!(said, "begun\n");
        Self(client)
    }

    /// Runs such a script with as many descriptors as the process may have.
    pub(crate) fn with_descriptors(script: &str, path: &Path) -> Self {
        let script = format!(
            "import resource\nlimit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
             resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))\n{script}"
        );
        Self::python(&script, path)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
