//! `ctxfs extract`: answers questions about outputs by language models.

mod progress;

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;
use serde_json::json;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

use crate::cli::args::Cli;
use crate::cli::args::ExtractArgs;
use crate::cli::context::Context;
use crate::cli::extract::progress::QuestionProgress;
use crate::cli::ls;
use crate::cli::outcome::Failure;
use crate::cli::outcome::FailureKind;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::cli::tree;
use crate::cli::view::PathInTree;
use crate::engine::Answer;
use crate::engine::Answers;
use crate::engine::Question;
use crate::engine::Tree;
use crate::extract::ExtractPlan;
use crate::model::Component;
use crate::model::Root;
use crate::store::Store;

/// The exit code of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// Billionths of a dollar in a dollar.
const NANODOLLARS: f64 = 1e9;

pub(super) fn run(
    args: &ExtractArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let settings = context.settings(cli, args.settings())?;
    let root = settings.store(&context.environment)?;
    let target = Target::new(args, &root, &settings, context)?;
    let question = question_of(args)?;
    let engine = tree::open(Store::open(&root)?, &target.root, target.only.as_ref(), settings)?;
    let tree = Tree::new(Arc::clone(&engine));
    let answer = if args.dry_run { plan } else { ask };
    let printed = answer(&tree, &target, (question, args), context);
    engine.finish();
    printed
}

fn question_of(args: &ExtractArgs) -> anyhow::Result<&str> {
    let question = args.words.last().and_then(|word| word.to_str()).unwrap_or_default();
    if question.trim().is_empty() {
        let hint = "say what to extract: `ctxfs extract OUTPUT 'why did it fail?'`";
        return Err(Failure::usage("the question is empty", hint).into());
    }
    Ok(question)
}

/// What a question is about, in the tree that it is in.
struct Target {
    root: Root,
    only: Option<Component>,
    subject: Subject,
}

enum Subject {
    Outputs(Vec<PathBuf>),
    /// The directory of a conversation.
    Conversation(PathBuf),
}

impl Target {
    fn new(
        args: &ExtractArgs,
        root: &Path,
        settings: &Settings,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let store = Store::open(root)?;
        let advertised = settings.text(Key::Advertise);
        let place = |path: &Path| PathInTree::new(path, root, &store, advertised, context);
        let outputs = &args.words[..args.words.len() - 1];
        match (outputs, &args.conversation) {
            ([], None) => {
                let hint = "give its path, reference or handle before the question, or \
                            `--conversation ID` to ask about all outputs of one";
                Err(Failure::usage("the output to read is missing", hint).into())
            }
            ([], Some(id)) => {
                let id = ls::find(&store, id)?.id().clone();
                let PathInTree { root, only, path } = place(Path::new(id.as_os_str()))?;
                Ok(Self { root, only, subject: Subject::Conversation(path) })
            }
            ([output], _) => {
                let PathInTree { root, only, path } = place(Path::new(output))?;
                Ok(Self { root, only, subject: Subject::Outputs(vec![path]) })
            }
            (outputs, _) => Self::several(outputs, place),
        }
    }

    /// Returns several outputs, which may be of several conversations.
    fn several(
        outputs: &[OsString],
        place: impl Fn(&Path) -> anyhow::Result<PathInTree>,
    ) -> anyhow::Result<Self> {
        let whole = |output: &OsString| {
            let found = place(Path::new(output))?;
            Ok(match (&found.root, &found.only) {
                (Root::One(_), Some(id)) => Path::new(id.as_os_str()).join(&found.path),
                _ => found.path,
            })
        };
        let paths = outputs.iter().map(whole).collect::<anyhow::Result<_>>()?;
        let root = Root::All(Root::REFERENCES.to_owned());
        Ok(Self { root, only: None, subject: Subject::Outputs(paths) })
    }
}

/// Asks, and prints the answer.
fn ask(
    tree: &Tree,
    target: &Target,
    (text, args): (&str, &ExtractArgs),
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends the process.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            INTERRUPTED.into(),
            Arc::clone(&interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let progress = QuestionProgress::start();
    let stopped = || interrupted.load(Relaxed);
    let tell = |call: &_| progress.tell(call);
    let question =
        Question { text, mode: args.mode, most_tokens: None, stopped: &stopped, tell: &tell };
    let answered = match &target.subject {
        Subject::Outputs(paths) => each(tree, paths, &question),
        Subject::Conversation(path) => tree.answer_about(path, &question).map_err(Into::into),
    };
    drop(progress);
    let answers = answered?;
    if stopped() {
        context.printer.say(&"interrupted: what the calls so far have cost is logged");
        return Ok(INTERRUPTED.into());
    }
    print(&answers, target, context)?;
    Ok(ExitCode::SUCCESS)
}

fn each(tree: &Tree, paths: &[PathBuf], question: &Question<'_>) -> anyhow::Result<Answers> {
    for path in paths {
        tree.source_exists(path).map_err(|error| tree::not_readable(tree, path, &error))?;
    }
    Ok(tree.answer_each(paths, question)?)
}

fn print(answers: &Answers, target: &Target, context: &mut Context) -> anyhow::Result<()> {
    let one = match (&target.subject, &answers.read[..]) {
        (Subject::Outputs(paths), [answer]) if paths.len() == 1 => Some(answer),
        _ => None,
    };
    let failed = answers.read.iter().all(|answer| answer.extraction.answer.is_err());
    if let (Some(Answer { extraction, .. }), true) = (one, failed)
        && let Err(error) = &extraction.answer
    {
        return Err(no_answer(error.to_string(), &extraction.warnings));
    }
    let text = one.map_or_else(|| answers.text(), Answer::text);
    let value = one.map_or_else(|| json_of_many(answers), json_of);
    if failed && !answers.read.is_empty() {
        return Err(no_answer(text, &[]));
    }
    context.printer.line(&text.trim_end(), &value)
}

fn no_answer(error: String, warnings: &[String]) -> anyhow::Error {
    let hint = match warnings {
        [] => "`--mode truncate` prints the beginning, the end and the errors".to_owned(),
        warnings => warnings.join("; "),
    };
    Failure::new(FailureKind::Failed, error, hint).into()
}

fn json_of_many(answers: &Answers) -> Value {
    let left = answers.left.iter().map(|path| path.to_string_lossy());
    json!({
        "answers": answers.read.iter().map(json_of).collect::<Vec<_>>(),
        "notRead": left.collect::<Vec<_>>(),
        "others": answers.others,
    })
}

fn json_of(answer: &Answer) -> Value {
    let Answer { facts, extraction, cached } = answer;
    let calls: Vec<Value> = extraction
        .calls
        .iter()
        .map(|call| {
            json!({
                "kind": call.kind.name(), "target": call.target, "input": call.usage.input,
                "output": call.usage.output, "millis": call.millis, "ended": call.ended,
                "dollars": dollars(call.nanodollars),
            })
        })
        .collect();
    let sum = |of: fn(&crate::extract::CallRecord) -> u64| -> u64 {
        extraction.calls.iter().map(of).sum()
    };
    let (text, found, error) = match &extraction.answer {
        Ok(answer) => (Some(&answer.text), answer.found, None),
        Err(error) => (None, None, Some(error.to_string())),
    };
    json!({
        "handle": facts.handle, "tool": facts.tool, "asked": extraction.asked.name(),
        "mode": extraction.used.name(), "cached": cached, "found": found, "text": text,
        "error": error, "warnings": extraction.warnings, "calls": calls,
        "input": sum(|call| call.usage.input), "output": sum(|call| call.usage.output),
        "dollars": dollars(sum(|call| call.nanodollars)),
    })
}

fn dollars(nanodollars: u64) -> f64 {
    nanodollars as f64 / NANODOLLARS
}

/// Prints what a question would take.
fn plan(
    tree: &Tree,
    target: &Target,
    (text, args): (&str, &ExtractArgs),
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let (never, nobody) = (|| false, |_: &_| {});
    let question =
        Question { text, mode: args.mode, most_tokens: None, stopped: &never, tell: &nobody };
    let paths = match &target.subject {
        Subject::Outputs(paths) => paths.clone(),
        Subject::Conversation(path) => tree.outputs_about(path, text)?,
    };
    for path in &paths {
        let plan = tree.plan_answer(path, &question);
        let plan = plan.map_err(|error| tree::not_readable(tree, path, &error))??;
        let name = path.display().to_string();
        context.printer.line(&plan_text(&name, &plan), &plan_json(&name, &plan))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan_text(name: &str, plan: &ExtractPlan) -> String {
    let ExtractPlan { mode, target, chunks, calls, usage, nanodollars } = plan;
    let Some(target) = target else {
        let why = if *mode == crate::extract::Mode::Truncate {
            "no model is asked"
        } else {
            "answered before"
        };
        return format!("{name}: {mode}, {why}");
    };
    let chunks = chunks.map_or_else(String::new, |(count, bytes)| {
        format!(" {count} chunks of about {bytes} bytes,")
    });
    let (input, output, dollars) = (usage.input, usage.output, dollars(*nanodollars));
    format!(
        "{name}: {mode} by {target},{chunks} at most {calls} calls, {input} tokens in and {output} \
         out, {dollars:.4} dollars"
    )
}

fn plan_json(name: &str, plan: &ExtractPlan) -> Value {
    let ExtractPlan { mode, target, chunks, calls, usage, nanodollars } = plan;
    json!({
        "path": name, "mode": mode.name(), "target": target,
        "chunks": chunks.map(|(count, _)| count), "chunkBytes": chunks.map(|(_, bytes)| bytes),
        "calls": calls, "input": usage.input, "output": usage.output,
        "dollars": dollars(*nanodollars),
    })
}
