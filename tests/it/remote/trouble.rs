//! Bad weather: no network, wrong keys, keys that may not write, a full disk.

use std::time::{Duration, Instant};

use crate::remote::server::{Rights, Server};
use crate::remote::{Pair, assert_told, ending, large, outputs};
use crate::support::{Call, Command, Fault, FaultyDisk, Terminal, TestStore};

#[test]
fn an_object_store_works_as_a_directory_does() {
    let (server, one, other) = (Server::start(), TestStore::new(), TestStore::new());
    one.put("c7", "small", b"few bytes\n");
    one.put("c7", "large", &large("a"));
    server.environment(one.ctxfs("push", &[])).stdout();
    server.environment(other.ctxfs("pull", &[])).stdout();
    assert_eq!(outputs(&other), outputs(&one));
    server.environment(other.ctxfs("remote", &["check", "--read"])).stdout();
    let status = server.environment(one.ctxfs("remote", &["status"])).text();
    assert!(status.contains("clock   as that of the store"), "{status}");
    assert!(!status.contains("SECRET"), "{status}");
}

#[test]
fn wrong_keys_are_told_and_harm_nothing() {
    let (server, one) = (Server::start(), TestStore::new());
    one.put("c7", "x", b"text\n");
    let wrong =
        |command: Command| server.environment(command).env("AWS_SECRET_ACCESS_KEY", "WRONG").run();
    let commands: [(&str, &[&str]); 3] = [("push", &[]), ("pull", &[]), ("ls", &["--remote"])];
    for (command, arguments) in commands {
        let told = wrong(one.ctxfs(command, arguments));
        assert_told(&told, 1, "refuses");
        assert!(!told.to_string().contains("WRONG"), "{told}");
    }
    let put = one.ctxfs("put", &["-c", "c7", "--call", "y", "--durable"]).stdin("more\n");
    assert_told(&wrong(put), 1, "safe here only");
    assert_eq!(outputs(&one)["y.txt"], b"more\n");
    server.environment(one.ctxfs("push", &[])).stdout();
}

#[test]
fn keys_that_only_read_can_pull() {
    let (server, one, other) = (Server::start(), TestStore::new(), TestStore::new());
    one.put("c7", "x", b"text\n");
    server.environment(one.ctxfs("push", &[])).stdout();
    server.set(Rights::Read);
    server.environment(other.ctxfs("pull", &[])).stdout();
    assert_eq!(outputs(&other), outputs(&one));
    server.environment(other.ctxfs("remote", &["check"])).stdout();
    other.put("c7", "y", b"more\n");
    assert_told(&server.environment(other.ctxfs("push", &[])).run(), 1, "refuses");
    server.set(Rights::All);
    server.environment(other.ctxfs("push", &[])).stdout();
}

#[test]
fn a_host_that_may_not_delete_says_so_or_leaves_it() {
    let (server, one) = (Server::start(), TestStore::new());
    one.put("c7", "x", b"text\n");
    server.set(Rights::NoDelete);
    server.environment(one.ctxfs("push", &[])).stdout();
    let quiet = server.environment(one.ctxfs("remote", &["gc"]));
    assert_told(&quiet.env("CTXFS_REMOTE_SWEEP", "false").run(), 0, "nothing is deleted");
    let purge = one.ctxfs("remote", &["purge", "c7/artifacts/tool/x.txt"]);
    assert_eq!(server.environment(purge).run().code, 1);
    server.set(Rights::All);
    let purge = one.ctxfs("remote", &["purge", "c7/artifacts/tool/x.txt"]);
    assert_told(&server.environment(purge).run(), 0, "deleted: conversations/c7/log/");
}

#[test]
fn without_a_network_nothing_is_lost() {
    let (server, one) = (Server::start(), TestStore::new());
    one.put("c7", "x", b"text\n");
    server.environment(one.ctxfs("push", &[])).stdout();
    // Nobody listens there.
    let away = |command: Command| {
        server.environment(command).env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    };
    let put = one.ctxfs("put", &["-c", "c7", "--call", "y", "--durable"]).stdin("more\n");
    assert_told(&away(put).run(), 1, "safe here only");
    let status = away(one.ctxfs("remote", &["status"])).text();
    assert!(
        status.contains("error   cannot read") && status.contains("1 file to send"),
        "{status}"
    );
    server.environment(one.ctxfs("push", &[])).stdout();
    let other = TestStore::new();
    server.environment(other.ctxfs("pull", &[])).stdout();
    assert_eq!(outputs(&other).len(), 2);
}

#[test]
fn a_view_of_bytes_that_have_left_the_bucket_says_what_to_do() {
    let pair = Pair::new();
    pair.one.put("c7", "x", &large("x"));
    pair.push(&pair.one);
    // The record comes here, and the bytes stay there.
    pair.ctxfs(&pair.other, "view", &["c7/artifacts/tool/x.txt.summary"]).stdout();
    for object in ending(&pair.bucket().join("conversations/c7/objects"), "") {
        std::fs::remove_file(object).unwrap();
    }
    let view = "c7/artifacts/tool/x.txt.lines/15000-15001";
    assert_told(&pair.ctxfs(&pair.other, "view", &[view]).run(), 1, "`ctxfs remote check`");
}

#[test]
fn a_view_of_bytes_whose_bucket_is_not_mounted_says_so() {
    let pair = Pair::new();
    pair.one.put("c7", "x", &large("x"));
    pair.push(&pair.one);
    pair.ctxfs(&pair.other, "view", &["c7/artifacts/tool/x.txt.summary"]).stdout();
    let away = pair.shared.path().join("away");
    std::fs::rename(pair.bucket(), &away).unwrap();
    let view = "c7/artifacts/tool/x.txt.lines/15000-15001";
    assert_told(&pair.ctxfs(&pair.other, "view", &[view]).run(), 1, "is its disk mounted?");
    std::fs::create_dir(pair.bucket()).unwrap();
    assert_told(&pair.ctxfs(&pair.other, "view", &[view]).run(), 1, "is its disk mounted?");
    std::fs::remove_dir(pair.bucket()).unwrap();
    std::fs::rename(away, pair.bucket()).unwrap();
    pair.ctxfs(&pair.other, "view", &[view]).stdout();
}

#[test]
fn the_status_tells_what_is_known_here_where_the_settings_lead_to_no_bucket() {
    let (server, one) = (Server::start(), TestStore::new());
    one.put("c7", "x", b"text\n");
    server.environment(one.ctxfs("push", &[])).stdout();
    one.put("c7", "y", b"more\n");
    let wrong = [
        ("AWS_ENDPOINT_URL", "nonsense", "`AWS_ENDPOINT_URL`"),
        ("CTXFS_REMOTE_URL", "s3://bucket/p?token=SECRET", "cannot use the remote"),
    ];
    for (name, value, why) in wrong {
        let status = |options: &[&str]| {
            let command = one.ctxfs("remote", &[&["status"], options].concat());
            server.environment(command).env(name, value).run()
        };
        let told = status(&[]);
        assert_told(&told, 1, why);
        assert_told(&told, 1, "1 file to send");
        assert_told(&told, 1, "looked ");
        assert!(!told.to_string().contains("token=SECRET"), "{told}");
        let told = status(&["--json"]);
        let json: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert!(json["error"].is_string() && json["conversations"][0]["files"] == 1, "{json}");
    }
}

#[test]
fn a_person_is_told_that_the_bucket_is_waited_for_and_can_end_it() {
    let one = TestStore::new();
    one.put("c7", "x", b"text\n");
    let scratch = one.scratch("terminal");
    std::fs::create_dir_all(&scratch).unwrap();
    let push = |options: &str| {
        let variables = "AWS_ACCESS_KEY_ID=AKTEST AWS_SECRET_ACCESS_KEY=none AWS_REGION=eu-1 \
                         AWS_ENDPOINT_URL=http://127.0.0.1:9 CTXFS_REMOTE_URL=s3://bucket/prefix";
        let (program, store) = (env!("CARGO_BIN_EXE_ctxfs"), one.path());
        let command = format!("'{program}' push --store '{}' {options}", store.display());
        let line = format!("{variables} {command}; echo ended with $?; sleep 1000");
        Terminal::start(&scratch, &scratch, &line)
    };
    let terminal = push("");
    let told =
        |screen: &str| screen.contains("waiting for the bucket") && screen.contains("refused");
    terminal.screen_when("it says why it waits", told);
    let asked = Instant::now();
    terminal.keys(&["C-c"]);
    terminal.screen_when("it ends", |screen| !told(screen) || screen.contains("ended with 130"));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    let quiet = push("--quiet");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!quiet.screen().contains("waiting"), "{}", quiet.screen());
}

#[test]
fn what_is_wrong_with_one_conversation_holds_up_no_other() {
    let pair = Pair::new();
    for conversation in ["c1", "c7"] {
        pair.one.put(conversation, "x", b"text\n");
    }
    pair.push(&pair.one);
    pair.pull(&pair.other);
    let notes = ending(&pair.other.path().join("remote"), "conversations/c1/agreement.jsonl");
    std::fs::write(&notes[0], "nonsense\n").unwrap();
    pair.one.put("c7", "y", b"more\n");
    pair.push(&pair.one);
    for (command, arguments) in [("pull", &[][..]), ("push", &[]), ("remote", &["gc"])] {
        let told = pair.ctxfs(&pair.other, command, arguments).run();
        assert_told(&told, 1, "agreement.jsonl` is damaged");
        assert_told(&told, 1, "c1: ");
        assert_told(&told, 1, "error: 1 problem\n");
    }
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
    std::fs::remove_file(&notes[0]).unwrap();
    pair.pull(&pair.other);
}

#[test]
fn an_export_says_that_other_hosts_were_not_asked() {
    let (server, one) = (Server::start(), TestStore::new());
    one.put("c7", "x", b"text\n");
    server.environment(one.ctxfs("push", &[])).stdout();
    let archive = one.scratch("archive").join("c7");
    let export = server.environment(one.ctxfs("export", &["c7", "-o"]).arg(&archive));
    // Nobody listens there.
    let told = export.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9").run();
    assert_told(&told, 0, "other hosts were not asked");
    let export = one.ctxfs("export", &["c7", "-o"]).arg(&archive);
    let told = export.env("CTXFS_REMOTE_URL", "file:///no/such/directory").run();
    assert_told(&told, 0, "other hosts were not asked");
    let fresh = TestStore::new();
    fresh.ctxfs("import", &[]).arg(&archive).stdout();
    assert_eq!(outputs(&fresh), outputs(&one));
}

#[test]
fn a_pull_onto_a_full_disk_leaves_nothing_half_and_goes_on() {
    let (pair, disk) = (Pair::new(), FaultyDisk::new());
    pair.one.put("c7", "x", &large("a"));
    pair.push(&pair.one);
    let full = disk.store();
    disk.fail(Fault::error(Call::Write, libc::ENOSPC).of(".ctxfs-come-"));
    let pulled = pair.ctxfs(full, "pull", &[]).run();
    assert_told(&pulled, 1, "No space left");
    disk.mend();
    assert!(outputs(full).keys().all(|name| name.starts_with('.')), "{:?}", outputs(full));
    pair.pull(full);
    assert_eq!(outputs(full), outputs(&pair.one));
}

#[test]
fn a_second_process_waits_for_the_first() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let lock = std::fs::File::options().write(true).open(pair.one.path().join("remote/lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let waiting = pair.ctxfs(&pair.one, "pull", &[]).limit(2).finish();
    assert!(waiting.is_none(), "it waits: {waiting:?}");
    lock.unlock().unwrap();
    pair.pull(&pair.one);
}
