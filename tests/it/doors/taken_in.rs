//! Taking in: the same output by every door is the same artifact, with the same stand-ins.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::{
    Intake, ctxfs, log_below, long_json, long_text, message, mounted, record, sealed, set_tool,
    view,
};
use crate::support::{Command, Mode, TestMount, TestStore};

/// The stand-ins, as `put` calls them and as views.
const STAND_INS: [(&str, &str); 4] = [
    ("summary", "summary"),
    ("envelope", "envelope.json"),
    ("handle", "handle"),
    ("preview", "preview"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn append_to_log(mount: &TestMount, bytes: &[u8]) {
    mount.tool("c7");
    let mut log = File::options().append(true).create(true).open(log_below(mount.path())).unwrap();
    log.write_all(bytes).unwrap();
}

/// Takes `output` into a store of its own.
fn take_in(intake: Intake, name: &str, output: &[u8]) -> Arc<TestStore> {
    let store = Arc::new(TestStore::new());
    match intake {
        Intake::Mount(mode) => {
            let mount = mounted(&store, mode, &[]);
            let mut file = File::create_new(mount.tool("c7").join(name)).unwrap();
            set_tool(&file);
            file.write_all(output).unwrap();
            drop(file);
            sealed(&store, &format!("artifacts/tool/{name}"));
        }
        Intake::Put => {
            let arguments = ["-c", "c7", "--call", "call_1", "--tool", "exec"];
            ctxfs(&store, "put", &arguments, &[]).stdin(output).stdout();
        }
        Intake::MountedLog => {
            append_to_log(&mounted(&store, Mode::Passthrough, &[]), &message(output));
        }
        Intake::LogAppend => {
            ctxfs(&store, "log", &["append", "c7"], &[]).stdin(message(output)).stdout();
        }
    }
    store
}

#[test]
fn an_output_is_the_same_artifact_by_every_door() {
    for (name, output) in [("call_1.txt", long_text()), ("call_1.json", long_json())] {
        let path = format!("c7/artifacts/tool/{name}");
        let mut first: Option<(Value, Vec<Vec<u8>>)> = None;
        for intake in Intake::ALL {
            let store = take_in(intake, name, &output);
            assert_eq!(std::fs::read(store.plain("c7", name)).unwrap(), output, "{intake:?}");
            let stand_ins = STAND_INS.map(|(_, suffix)| view(&store, &format!("{path}.{suffix}")));
            let taken = (record(&store, &path), stand_ins.to_vec());
            let expected = first.get_or_insert_with(|| taken.clone());
            assert_eq!(&taken, expected, "{intake:?}");
        }
    }
}

#[test]
fn what_put_prints_and_the_log_keeps_is_what_the_views_show() {
    let output = long_text();
    let store = TestStore::new();
    for (format, suffix) in STAND_INS {
        let arguments = ["-c", "c7", "--call", "call_1", "--tool", "exec", "--format", format];
        let printed = ctxfs(&store, "put", &arguments, &[]).stdin(output.clone()).stdout();
        let shown = view(&store, &format!("c7/artifacts/tool/call_1.txt.{suffix}"));
        assert_eq!(text(&printed), text(&shown), "{format}");
    }
    let store = take_in(Intake::LogAppend, "call_1.txt", &output);
    let log = std::fs::read_to_string(log_below(&store.path().join("context"))).unwrap();
    let message: Value = serde_json::from_str(log.trim_end()).unwrap();
    let preview = view(&store, "c7/artifacts/tool/call_1.txt.preview");
    let preview = String::from_utf8(preview).unwrap();
    assert_eq!(message["content"], preview.trim_end());
    assert_eq!(message["fullOutputPath"], "/ctx/c7/artifacts/tool/call_1.txt");
}

/// A log with colours and a progress line that is overwritten.
#[test]
fn a_terminals_log_is_the_same_by_run_and_by_the_mount() {
    let output = b"\x1b[31mbuilding\x1b[0m\n10%\r50%\r100%\ndone\n".repeat(3000);
    let run = Arc::new(TestStore::new());
    let input = run.scratch("input").join("output");
    std::fs::write(&input, &output).unwrap();
    let command = ["--", "cat", input.to_str().unwrap()];
    let arguments = [&["-c", "c7", "--id", "x", "--tool", "exec", "--server", "sh"], &command[..]];
    let printed = ctxfs(&run, "run", &arguments.concat(), &[]).stdout();

    let store = Arc::new(TestStore::new());
    let mount = mounted(&store, Mode::Passthrough, &[]);
    mount.tool("c7");
    let log = mount.path().join("c7/artifacts/terminal/x.log");
    let known = record(&run, "c7/artifacts/terminal/x.log");
    let [args, directory] = ["args", "directory"].map(|name| known[name].as_str().unwrap());
    let mut file = File::create_new(&log).unwrap();
    file.write_all(&output).unwrap();
    drop(file);
    for (name, value) in [
        ("call", "x"),
        ("tool", "exec"),
        ("server", "sh"),
        ("args", args),
        ("directory", directory),
        ("exit_code", "0"),
    ] {
        let name = format!("user.ctx.{name}");
        Command::new("setfattr").args(["-n", &name, "-v", value]).arg(&log).stdout();
    }
    let path = "c7/artifacts/terminal/x.log";
    sealed(&store, "artifacts/terminal/x.log");
    let without_duration = |store: &TestStore| {
        let mut record = record(store, path);
        record.as_object_mut().unwrap().remove("duration_ms");
        record
    };
    assert_eq!(without_duration(&run), without_duration(&store));
    for view in ["summary", "tail", "grep/done", "errors", "lines/5-9"] {
        let view = format!("{path}.{view}");
        let shown = std::fs::read(mount.path().join(&view)).unwrap();
        let (shown, expected) = (text(&shown), text(&super::view(&run, &view)));
        assert_eq!(shown, expected, "{view}");
    }
    // The beginning passes as it arrives, and the stand-in goes on after it.
    let shown = text(&printed);
    let (beginning, rest) = shown.split_once("[ctxfs] The output goes on. ").unwrap();
    assert!(output.starts_with(beginning.as_bytes()) && beginning.len() > 1900, "{shown}");
    assert!(rest.starts_with("The complete output is stored"), "{shown}");
}
