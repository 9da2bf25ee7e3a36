//! Programs that follow an artifact as it grows.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Command, Mode, Terminal, TestMount, eventually, log};

#[test]
fn tail_follows_a_live_artifact() {
    for mode in Mode::ALL {
        for how in [&["-f"][..], &["-F"], &["-f", "---disable-inotify", "-s", "0.05"]] {
            let mount = TestMount::new(mode);
            let path = mount.tool("c7").join("x.txt");
            let mut writer = File::create(&path).unwrap();
            let copy = mount.store().scratch("out").join("copy");
            let output = File::create(&copy).unwrap();
            let mut tail = Command::new("tail")
                .args(["-n", "+1"])
                .args(how)
                .arg(&path)
                .with(|inner| {
                    inner.stdin(Stdio::null()).stdout(output);
                })
                .spawn();
            let text = log(500);
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                writer.write_all(line).unwrap();
            }
            eventually(&format!("tail {how:?} shows all, {mode:?}"), || {
                std::fs::read(&copy).unwrap() == text
            });
            tail.kill().unwrap();
            tail.wait().unwrap();
        }
    }
}

#[test]
fn less_follows_a_live_artifact() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = File::create(&path).unwrap();
        writeln!(writer, "the first line").unwrap();
        let scratch = mount.store().scratch("screen");
        let terminal =
            Terminal::start(&scratch, path.parent().unwrap(), "LESSHISTFILE=- less +F x.txt");
        terminal.screen_when("less waits", |screen| screen.contains("Waiting for data"));
        writeln!(writer, "the second line").unwrap();
        terminal.screen_when("less goes on", |screen| screen.contains("the second line"));
    }
}

#[test]
fn tail_follows_what_put_writes_behind_the_mount() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"one\n");
        let out = mount.store().scratch("out").join("copy");
        let mut tail = Command::new("tail")
            .args(["-n", "+1", "-f", "---disable-inotify", "-s", "0.05"])
            .arg(&path)
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(File::create(&out).unwrap());
            })
            .spawn();
        let plain = mount.store().plain("c7", "x.txt");
        let mut behind = File::options().append(true).open(plain).unwrap();
        behind.write_all(b"two\n").unwrap();
        eventually("tail shows both lines", || std::fs::read(&out).unwrap() == b"one\ntwo\n");
        tail.kill().unwrap();
        tail.wait().unwrap();
    }
}
