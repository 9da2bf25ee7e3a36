//! The log as a file: the writes that it accepts and refuses, and the bytes that readers see.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{log_in, messages, result};
use crate::support::{Command, Mode, TestMount, errno, eventually, truncate_errno};

const HELLO: &[u8] = b"{\"role\":\"user\",\"content\":\"hello\"}\n";

/// Returns a mount with the conversation `c7`, and the path of its log, which does not exist yet.
fn mounted(mode: Mode) -> (TestMount, PathBuf) {
    let mount = TestMount::new(mode);
    mount.tool("c7");
    let log = log_in(mount.path());
    (mount, log)
}

fn append(log: &Path) -> File {
    File::options().append(true).create(true).open(log).unwrap()
}

#[test]
fn it_takes_messages() {
    for mode in Mode::ALL {
        let (mount, log) = mounted(mode);
        let script =
            "for n in $(seq 50); do echo '{\"role\": \"user\", \"n\": '$n'}' >> \"$1\"; done";
        Command::shell(script, &[&log]).stdout();
        let numbers: Vec<_> = messages(&log).iter().map(|m| m["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=50).collect::<Vec<_>>(), "{mode:?}");
        let array = fs::read(log.with_file_name("messages.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Vec<Value>>(&array).unwrap(), messages(&log));
        let size = fs::metadata(log.with_file_name("messages.json")).unwrap().len();
        assert_eq!(size, array.len() as u64);
        // Mapped into memory, as ripgrep reads single files; and once, though the array has it, too.
        for place in [&log, &mount.path().join("c7")] {
            let found = Command::new("rg").args(["--mmap", "-c", "\"n\": 7}"]).arg(place).text();
            assert!(found.ends_with("1\n") && found.lines().count() == 1, "{found}");
        }
        let tail = fs::read(log.with_file_name("messages.jsonl.tail")).unwrap();
        assert_eq!(tail, fs::read(&log).unwrap());
    }
}

#[test]
fn what_is_no_message_is_refused_and_nothing_is_appended() {
    for mode in Mode::ALL {
        let (_mount, log) = mounted(mode);
        let mut file = append(&log);
        file.write_all(HELLO).unwrap();
        for bad in ["text\n", "[1]\n", "{\"role\":\"robot\"}\n", "{\"role\":\"user\"}\n{}\n"] {
            assert_eq!(errno(file.write_all(bad.as_bytes())), Errno::INVAL, "{bad}");
            assert_eq!(fs::read(&log).unwrap(), HELLO, "{mode:?}");
        }
        file.write_all(HELLO).unwrap();
        assert_eq!(fs::read(&log).unwrap(), HELLO.repeat(2), "{mode:?}");
    }
}

#[test]
fn bytes_that_are_in_the_log_stay_as_they_are() {
    for mode in Mode::ALL {
        let (_mount, log) = mounted(mode);
        append(&log).write_all(HELLO).unwrap();
        let file = File::options().read(true).write(true).open(&log).unwrap();
        assert_eq!(errno(file.write_at(b"{", 0)), Errno::PERM);
        assert_eq!(errno(file.write_at(HELLO, 1000)), Errno::PERM);
        assert_eq!(errno(file.set_len(3)), Errno::PERM);
        assert_eq!(errno(file.set_len(1000)), Errno::PERM);
        assert_eq!(errno(File::create(&log)), Errno::PERM);
        assert_eq!(truncate_errno(&log), Errno::PERM);
        file.set_len(HELLO.len() as u64).unwrap();
        // At the end it is an append, whether or not the file is open for that alone.
        let mut file = file;
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(HELLO).unwrap();
        file.write_all(HELLO).unwrap();
        assert_eq!(fs::read(&log).unwrap(), HELLO.repeat(3), "{mode:?}");
    }
}

#[test]
fn a_log_can_be_copied_in_and_edited_by_way_of_a_new_file() {
    for mode in Mode::ALL {
        let (mount, log) = mounted(mode);
        let old = mount.store().scratch("old").join("old.jsonl");
        let long = result("call_1", &"line\n".repeat(100_000)).to_string();
        fs::write(&old, [HELLO, long.as_bytes(), b"\n", HELLO].concat()).unwrap();
        Command::new("cp").arg(&old).arg(&log).stdout();
        let found = messages(&log);
        assert_eq!((found.len(), found[1]["content"].as_str().unwrap().len() < 1000), (3, true));
        Command::new("sed").args(["-i", "s/hello/good day/"]).arg(&log).stdout();
        assert_eq!(messages(&log)[2]["content"], "good day", "{mode:?}");

        let new = log.with_file_name("new");
        fs::write(&new, b"{\"role\":\"user\"}\nno message\n").unwrap();
        assert_eq!(errno(fs::rename(&new, &log)), Errno::BADMSG);
        assert_eq!(messages(&log).len(), 3);
        fs::write(&new, &HELLO[..HELLO.len() - 1]).unwrap();
        fs::rename(&new, &log).unwrap();
        assert_eq!(fs::read(&log).unwrap(), HELLO, "{mode:?}");
        append(&log).write_all(HELLO).unwrap();
        fs::rename(&log, log.with_file_name("archive").join("1.jsonl")).unwrap();
        append(&log).write_all(HELLO).unwrap();
        assert_eq!(fs::read(&log).unwrap(), HELLO, "{mode:?}");
        fs::remove_dir_all(mount.path().join("c7")).unwrap();
    }
}

/// The log is replaced, exchanged, removed or moved away while a writer has it open.
#[test]
fn a_message_to_a_log_that_was_replaced_is_refused() {
    for mode in Mode::ALL {
        let (mount, log) = mounted(mode);
        let new = log.with_file_name("new");
        let ways: [(&str, &dyn Fn()); 4] = [
            ("replaced", &|| fs::rename(&new, &log).unwrap()),
            ("exchanged", &|| {
                rustix::fs::renameat_with(CWD, &new, CWD, &log, RenameFlags::EXCHANGE).unwrap();
            }),
            ("removed", &|| fs::remove_file(&log).unwrap()),
            ("moved away", &|| {
                fs::rename(&log, log.with_file_name("archive").join("1.jsonl")).unwrap();
            }),
        ];
        for (how, replace) in ways {
            let mut file = append(&log);
            let mut unfinished = append(&log);
            file.write_all(HELLO).unwrap();
            unfinished.write_all(&HELLO[..HELLO.len() - 1]).unwrap();
            fs::write(&new, HELLO).unwrap();
            replace();
            assert_eq!(errno(file.write_all(HELLO)), Errno::STALE, "{how}, {mode:?}");
            assert_eq!(errno(unfinished.write_all(b"\n")), Errno::STALE, "{how}, {mode:?}");
            append(&log).write_all(HELLO).unwrap();
            fs::remove_file(&log).unwrap();
        }
        // The same is told to a writer that closes an unfinished line.
        let script = "
import errno, os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, b'{\"role\":\"user\"}')
os.unlink(sys.argv[1])
try:
    os.close(file)
except OSError as error:
    print(errno.errorcode[error.errno])
";
        let closed = Command::python(script, &[&log]).text();
        assert_eq!(closed, "ESTALE\n", "{mode:?}");
        // A log whose conversation was renamed is the log.
        let mut file = append(&log);
        let renamed = mount.path().join("c8");
        fs::rename(mount.path().join("c7"), &renamed).unwrap();
        file.write_all(HELLO).unwrap();
        assert_eq!(fs::read(renamed.join("history/messages.jsonl")).unwrap(), HELLO);
    }
}

#[test]
fn a_line_may_come_in_pieces_and_ends_at_the_latest_with_the_file() {
    for mode in Mode::ALL {
        let (_mount, log) = mounted(mode);
        let mut file = append(&log);
        for byte in HELLO.chunks(3) {
            assert_eq!(fs::metadata(&log).unwrap().len(), 0, "{mode:?}");
            file.write_all(byte).unwrap();
        }
        assert_eq!(fs::read(&log).unwrap(), HELLO);
        file.write_all(&HELLO[..HELLO.len() - 1]).unwrap();
        drop(file);
        assert_eq!(fs::read(&log).unwrap(), HELLO.repeat(2), "{mode:?}");
    }
}

#[test]
fn a_line_that_never_becomes_a_message_fails_the_close_and_is_set_aside() {
    for mode in Mode::ALL {
        let (_mount, log) = mounted(mode);
        let script = "
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, b'{\"role\":')
try:
    os.close(file)
except OSError as error:
    print(error.errno)
";
        let said = Command::python(script, &[&log]).text();
        assert_eq!(said.trim(), Errno::INVAL.raw_os_error().to_string(), "{mode:?}");
        assert_eq!(fs::read(&log).unwrap(), b"");
        let torn = log.with_file_name("messages.torn");
        eventually("it is set aside", || fs::read(&torn).is_ok_and(|text| text == b"{\"role\":\n"));
    }
}

/// Programs inherit the open files of the shell that starts them, and close them.
#[test]
fn a_line_goes_on_though_another_process_has_closed_the_file() {
    let (_mount, log) = mounted(Mode::Passthrough);
    let script = "(printf '{\"role\":'; sleep 0.1; echo '\"user\"}') >> \"$1\"";
    Command::shell(script, &[&log]).stdout();
    assert_eq!(fs::read(&log).unwrap(), b"{\"role\":\"user\"}\n");
}

#[test]
fn a_long_output_is_an_artifact_and_its_beginning_stays() {
    for mode in Mode::ALL {
        let (mount, log) = mounted(mode);
        // More than the kernel writes at once.
        let output = "line of output\n".repeat(200_000);
        let message = result("call_1", &output);
        append(&log).write_all(format!("{message}\n").as_bytes()).unwrap();
        let kept = messages(&log).pop().unwrap();
        let path = mount.tool("c7").join("call_1.txt");
        assert_eq!(kept["fullOutputPath"], path.to_str().unwrap());
        let expected = format!("{}\n\n[Full output: {}]", &output[..500], path.display());
        assert_eq!(kept["content"], expected, "{mode:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), output);
        let summary = fs::read_to_string(path.with_file_name("call_1.txt.summary")).unwrap();
        assert!(summary.contains("tool: sh"), "{summary}");
        // Sent again, and as it stands in the log.
        for again in [&message, &kept] {
            append(&log).write_all(format!("{again}\n").as_bytes()).unwrap();
            assert_eq!(messages(&log).pop().unwrap(), kept, "{mode:?}");
        }
        let names = fs::read_dir(mount.store().plain("c7", "")).unwrap().count();
        assert_eq!(names, 1);
    }
}

#[test]
fn a_long_response_in_a_text_is_an_artifact() {
    for mode in Mode::ALL {
        let (mount, log) = mounted(mode);
        let output = "line of \"output\"\n".repeat(100_000);
        let message = |response: &str, path: Option<&str>| {
            let mut call = json!({ "name": "sh", "id": "call_1", "response": response });
            if let Some(path) = path {
                // Members are printed in the order of their names.
                call["zz"] = path.into();
            }
            let call = call.to_string().replace("\"zz\"", "\"fullOutputPath\"");
            let text = format!("see <function_call>{call}</function_call>.");
            json!({ "role": "assistant", "content": text })
        };
        let written = message(&output, None);
        append(&log).write_all(format!("{written}\n").as_bytes()).unwrap();
        let path = mount.tool("c7").join("call_1.txt");
        let place = path.to_str().unwrap();
        let preview = format!("{}\n\n[Full output: {place}]", &output[..500]);
        let kept = messages(&log).pop().unwrap();
        assert_eq!(kept, message(&preview, Some(place)), "{mode:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), output);
        let summary = fs::read_to_string(path.with_file_name("call_1.txt.summary")).unwrap();
        assert!(summary.contains("tool: sh"), "{summary}");
        for again in [&written, &kept] {
            append(&log).write_all(format!("{again}\n").as_bytes()).unwrap();
            assert_eq!(messages(&log).pop().unwrap(), kept, "{mode:?}");
        }
        assert_eq!(fs::read_dir(mount.store().plain("c7", "")).unwrap().count(), 1);
    }
}

#[test]
fn caps_hold_for_outputs_in_messages() {
    let store = std::sync::Arc::new(crate::support::TestStore::new());
    let mount = TestMount::of(&store, Mode::Passthrough, &["--max-artifact", "100000"]);
    mount.tool("c7");
    let log = log_in(mount.path());
    let mut file = append(&log);
    for _ in 0..10 {
        let message = json!({ "role": "user", "content": "x".repeat(50_000) });
        file.write_all(format!("{message}\n").as_bytes()).unwrap();
    }
    let long = format!("{}\n", result("call_1", &"x".repeat(100_001)));
    assert_eq!(errno(file.write_all(long.as_bytes())), Errno::FBIG);
    assert_eq!(messages(&log).len(), 10);
}

/// Lines so long that the disk takes them in several steps.
#[test]
fn readers_see_whole_lines_only() {
    for mode in Mode::ALL {
        let (_mount, log) = mounted(mode);
        append(&log).write_all(HELLO).unwrap();
        let writer = {
            let log = log.clone();
            thread::spawn(move || {
                let message = json!({ "role": "user", "content": "x".repeat(3_000_000) });
                let line = format!("{message}\n");
                for _ in 0..10 {
                    append(&log).write_all(line.as_bytes()).unwrap();
                }
            })
        };
        let mut file = File::open(&log).unwrap();
        let mut seen = Vec::new();
        while !writer.is_finished() {
            file.read_to_end(&mut seen).unwrap();
            assert_eq!(seen.last(), Some(&b'\n'), "{mode:?}");
            let size = fs::metadata(&log).unwrap().len();
            file.read_to_end(&mut seen).unwrap();
            assert!(seen.len() as u64 >= size);
        }
        writer.join().unwrap();
        file.read_to_end(&mut seen).unwrap();
        assert!(seen == fs::read(&log).unwrap());
        assert_eq!(messages(&log).len(), 11, "{mode:?}");
    }
}
