//! Descriptors that other processes get: by fork, by exec, by a shell's redirection.

use std::fs;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::support::{Command, Mode, TestMount};

/// The descriptor closes in the middle of exec, where the process may hardly be looked at.
#[test]
fn a_program_is_started_while_an_artifact_is_open() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"one\n").unwrap();
        for _ in 0..20 {
            Command::new("true").limit(10).stdout();
        }
        writer.write_all(b"two\n").unwrap();
        drop(writer);
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n", "{mode:?}");
        let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
        assert!(!summary.contains("INCOMPLETE"), "{summary}");
    }
}

#[test]
fn an_artifact_is_the_output_of_a_pipeline() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let script =
            r#"{ echo one; (echo two; sh -c 'echo three'); seq 1000 | tail -n 1; } > "$1" 2>&1"#;
        Command::shell(script, &[&path]).stdout();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n1000\n", "{mode:?}");
    }
}

/// The kernel finds that it runs only after the file was opened, and so emptied, for reading.
#[test]
fn a_program_that_runs_is_not_emptied() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let bytes = fs::read("/bin/sleep").unwrap();
        let path = mount.artifact("c7", "sleep", &bytes);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let mut running = Command::new(&path).arg("1000").spawn();
        let refused = [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR].map(|flags| {
            let flags = flags | OFlags::TRUNC;
            rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).err()
        });
        let (now, ended) = (fs::read(&path), running.try_wait());
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(refused, [Some(Errno::TXTBSY); 3], "{mode:?}");
        assert!(now.unwrap() == bytes && ended.unwrap().is_none(), "{mode:?}");
        fs::write(&path, "text\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"text\n", "{mode:?}");
    }
}

/// The last close seals the file, in whichever process.
#[test]
fn a_child_outlives_the_writer() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let file = File::create(&path).unwrap();
        let mut child = Command::new("cat")
            .with(|inner| {
                inner.stdin(Stdio::piped()).stdout(file);
            })
            .spawn();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(b"from the child\n").unwrap();
        drop(pipe);
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(path.with_file_name("x.txt.tail")).unwrap(), b"from the child\n");
        let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
        assert!(!summary.contains("INCOMPLETE"), "{mode:?}: {summary}");
    }
}
