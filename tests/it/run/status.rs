//! Exit statuses, the stand-in and the record.

use super::{plain, record, run};
use crate::support::{TestStore, log};

#[test]
fn the_exit_status_is_the_commands() {
    let store = TestStore::new();
    let rows = [
        ("true", 0),
        ("exit 1", 1),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ];
    for (number, (script, code)) in rows.into_iter().enumerate() {
        let id = format!("x{number}");
        let output = run(&store, &id, &[], &["sh", "-c", script]).run();
        assert_eq!((output.code, &*output.stdout, &*output.stderr), (code, &b""[..], &b""[..]));
        let record = record(&store, &format!("{id}.log"));
        assert_eq!((&record["exit_code"], &record["state"]), (&code.into(), &"sealed".into()));
    }
}

#[test]
fn what_cannot_be_run_says_so_as_shells_do() {
    let store = TestStore::new();
    for (command, code) in [("/nonexistent/program", 127), ("no-such-program", 127), ("/", 126)] {
        for more in [&[][..], &["--pty"], &["--split"]] {
            let store = TestStore::new();
            let output = run(&store, "x", more, &[command]).run();
            assert_eq!(output.code, code, "{command}: {output}");
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(said.starts_with(&format!("ctxfs: cannot run `{command}`: ")), "{said}");
            assert_eq!(record(&store, "x.log")["exit_code"], code);
        }
    }
    assert_eq!(store.ctxfs("run", &["-c", "c7"]).run().code, 2);
}

#[test]
fn both_streams_are_kept_in_order() {
    let store = TestStore::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done";
    let wanted: Vec<String> = (1..10).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let wanted = wanted.concat();
    let output = run(&store, "x", &[], &["sh", "-c", script]).run();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
    assert_eq!(std::fs::read_to_string(plain(&store, "x.log")).unwrap(), wanted);
}

#[test]
fn streams_are_kept_apart_where_that_is_wanted() {
    let store = TestStore::new();
    let script = "echo out; echo err >&2; exec >&-; echo more >&2";
    let output = run(&store, "x", &["--split"], &["sh", "-c", script]).run();
    let read = |name| std::fs::read_to_string(plain(&store, name)).unwrap();
    assert_eq!(read("x.stdout.log"), "out\n");
    assert_eq!(read("x.stderr.log"), "err\nmore\n");
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "more", "out"]);
    for name in ["x.log", "x.stdout.log", "x.stderr.log"] {
        assert_eq!(record(&store, name)["state"], "sealed");
    }
}

#[test]
fn input_goes_to_the_command() {
    let store = TestStore::new();
    let input = log(2000);
    let output = run(&store, "x", &["--format", "ref"], &["cat"]).stdin(&*input).run();
    assert_eq!(output.code, 0);
    assert_eq!(std::fs::read(plain(&store, "x.log")).unwrap(), input);
}

#[test]
fn what_is_printed_is_the_view() {
    let store = TestStore::new();
    let rows = [
        ("summary", "summary"),
        ("envelope", "envelope.json"),
        ("handle", "handle"),
        ("json", "meta.json"),
    ];
    for (format, view) in rows {
        let options = ["--format", format, "--always"];
        let output = run(&store, format, &options, &["seq", "100000"]).run();
        assert_eq!(output.code, 0);
        let shown = store.view(&format!("c7/artifacts/terminal/{format}.log.{view}"));
        assert_eq!(String::from_utf8(output.stdout), String::from_utf8(shown), "{format}");
    }
}

#[test]
fn what_is_known_of_the_command_is_recorded() {
    let store = TestStore::new();
    run(&store, "x", &[], &["sh", "-c", "sleep 0.05; exit 4"]).run();
    let found = record(&store, "x.log");
    assert_eq!(found["call"], "x");
    assert_eq!((&found["server"], &found["tool"]), (&"shell".into(), &"exec".into()));
    let args: serde_json::Value = serde_json::from_str(found["args"].as_str().unwrap()).unwrap();
    assert_eq!(args["command"], serde_json::json!(["sh", "-c", "sleep 0.05; exit 4"]));
    assert!(found["duration_ms"].as_u64().unwrap() >= 50, "{found}");
    assert_eq!(found["analysis"]["bytes"], 0);
    run(&store, "y", &["--server", "ci", "--tool", "build"], &["true"]).run();
    let found = record(&store, "y.log");
    assert_eq!((&found["server"], &found["tool"]), (&"ci".into(), &"build".into()));
}

#[test]
fn an_id_that_is_run_again_has_another_log() {
    let store = TestStore::new();
    for (text, stem) in [("one", "x"), ("two", "x-2"), ("one", "x-3")] {
        run(&store, "x", &["--split"], &["echo", text]).stdout();
        for extension in ["log", "stdout.log"] {
            let kept = std::fs::read_to_string(plain(&store, &format!("{stem}.{extension}")));
            assert_eq!(kept.unwrap(), format!("{text}\n"));
        }
    }
    assert_eq!(record(&store, "x.log")["generation"], 1);
}
