//! Appending, again and again and by several processes at once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::{fs, thread};

use crate::support::{Command, Mode, TestMount};

#[test]
fn again_and_again() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        fs::create_dir(mount.path().join("c7")).unwrap();
        let path = mount.path().join("c7/artifacts/terminal/t.log");
        let mut expected = String::new();
        for number in 0..200 {
            let line = format!("line {number}\n");
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(line.as_bytes()).unwrap();
            drop(file);
            expected.push_str(&line);
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{mode:?}");
        }
        let tail = fs::read_to_string(path.with_file_name("t.log.tail")).unwrap();
        assert_eq!(tail, expected);
    }
}

#[test]
fn by_the_shell() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let script = "for n in $(seq 100); do echo line $n >> x.txt; done; cat x.txt";
        let said = Command::shell(script, &[]).current_dir(&dir).text();
        let expected = (1..=100).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        assert_eq!(said, expected, "{mode:?}");
    }
}

#[test]
fn by_several_processes_at_once() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"");
        let script = "
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for number in range(300):
    line = f'{sys.argv[2]} {number} '.encode().ljust(50 + number % 90, b'.') + b'\\n'
    assert os.write(file, line) == len(line)";
        let writers: Vec<_> = (0..6)
            .map(|who: u32| {
                let path = path.clone();
                thread::spawn(move || {
                    Command::python(script, &[&path]).arg(who.to_string()).stdout();
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
            let (Some(who), Some(at)) = (number(), number()) else {
                panic!("{mode:?}: torn: {line}");
            };
            assert_eq!(line.len(), 50 + at % 90, "{mode:?}: torn: {line}");
            seen.insert((who, at));
        }
        assert_eq!((text.lines().count(), seen.len()), (1800, 1800), "{mode:?}");
    }
}
