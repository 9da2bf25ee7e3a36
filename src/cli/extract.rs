//! `ctxfs extract`: answers questions about outputs with language models.

use std::path::{Path, PathBuf};
use std::{process::ExitCode, sync::Arc};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::ExtractArgs;
use crate::view::{self, PathInTree};
use crate::{Cli, Context, Failure, FailureKind, SettingKey, Settings, places};
use ctxfs_core::model::{Component, Root, visible};
use ctxfs_engine::{Answer, Answers, Question, Tree};
use ctxfs_models::extract::{ExtractPlan, Mode, ModeError};
use ctxfs_store::Store;

// The exit code of a process that SIGINT has ended.
const INTERRUPTED: u8 = 130;
const NANODOLLARS: f64 = 1e9;

pub(crate) fn run(
    args: &ExtractArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let settings = context.settings(cli, args.reader.settings())?;
    let root = settings.store(&context.environment)?;
    if args.question.trim().is_empty() {
        let hint = "say what to extract: `ctxfs extract OUTPUT 'why did it fail?'`";
        return Err(Failure::usage("the question is empty", hint).into());
    }
    let scope = QuestionScope::new(args, &root, &settings, context)?;
    let engine =
        view::open_engine(Store::open(&root)?, &scope.root, scope.only.as_ref(), settings)?;
    let tree = Tree::new(Arc::clone(&engine));
    let answer = if args.dry_run { plan } else { ask };
    let printed = answer(&tree, &scope, args, context);
    engine.finish();
    printed
}

/// The outputs that a question is about, and the tree that contains them. If the outputs belong to
/// several conversations, the tree covers the whole store.
struct QuestionScope {
    root: Root,
    only: Option<Component>,
    asked: AskedAbout,
}

enum AskedAbout {
    Outputs(Vec<PathBuf>),
    Conversation(PathBuf),
}

impl QuestionScope {
    fn new(
        args: &ExtractArgs,
        root: &Path,
        settings: &Settings,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let store = Store::open(root)?;
        let advertised = settings.text(SettingKey::Advertise);
        let place = |path: &Path| PathInTree::new(path, root, &store, advertised, context);
        match (&args.outputs[..], &args.conversation) {
            ([], None) => {
                let hint = "give its path, reference or handle before the question, or \
                            `--conversation ID` to ask about all outputs of one";
                Err(Failure::usage("the output to read is missing", hint).into())
            }
            ([], Some(id)) => {
                let id = places::find_conversation(&store, id)?.id().clone();
                let PathInTree { root, only, path } = place(Path::new(id.as_os_str()))?;
                Ok(Self { root, only, asked: AskedAbout::Conversation(path) })
            }
            ([output], _) => {
                let PathInTree { root, only, path } = place(output)?;
                Ok(Self { root, only, asked: AskedAbout::Outputs(vec![path]) })
            }
            (outputs, _) => Self::several(outputs, place),
        }
    }

    // The outputs may belong to several conversations.
    fn several(
        outputs: &[PathBuf],
        place: impl Fn(&Path) -> anyhow::Result<PathInTree>,
    ) -> anyhow::Result<Self> {
        let whole = |output: &PathBuf| {
            let found = place(output)?;
            Ok(match (&found.root, &found.only) {
                (Root::One(_), Some(id)) => Path::new(id.as_os_str()).join(&found.path),
                _ => found.path,
            })
        };
        let paths = outputs.iter().map(whole).collect::<anyhow::Result<_>>()?;
        let root = Root::All(Root::REFERENCES.to_owned());
        Ok(Self { root, only: None, asked: AskedAbout::Outputs(paths) })
    }
}

fn ask(
    tree: &Tree,
    scope: &QuestionScope,
    args: &ExtractArgs,
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let interrupted = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second interrupt ends the process.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            INTERRUPTED.into(),
            Arc::clone(&interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let progress = crate::progress::QuestionBar::start();
    let stopped = || interrupted.load(std::sync::atomic::Ordering::Relaxed);
    let tell = |call: &_| progress.tell(call);
    let question = Question::new((&args.question, args.mode), &stopped, &tell);
    let answered = match &scope.asked {
        AskedAbout::Outputs(paths) => each(tree, paths, &question),
        AskedAbout::Conversation(path) => tree.answer_about(path, &question).map_err(Into::into),
    };
    drop(progress);
    let answers = answered?;
    if stopped() {
        context.printer.message(&"interrupted: what the calls so far have cost is logged");
        return Ok(INTERRUPTED.into());
    }
    print(&answers, scope, context)?;
    Ok(ExitCode::SUCCESS)
}

fn each(tree: &Tree, paths: &[PathBuf], question: &Question<'_>) -> anyhow::Result<Answers> {
    for path in paths {
        tree.source_exists(path).map_err(|error| view::not_readable(tree, path, &error))?;
    }
    Ok(tree.answer_each(paths, question)?)
}

fn print(answers: &Answers, scope: &QuestionScope, context: &mut Context) -> anyhow::Result<()> {
    let one = match (&scope.asked, &answers.read[..]) {
        (AskedAbout::Outputs(paths), [answer]) if paths.len() == 1 => Some(answer),
        _ => None,
    };
    if let Some(Answer { extraction, .. }) = one
        && let Err(error) = &extraction.answer
    {
        let is_shown =
            extraction.asked != Mode::Truncate && !matches!(error, ModeError::Document(_));
        return Err(no_answer(error.to_string(), &extraction.warnings, is_shown));
    }
    let text = one.map_or_else(|| answers.text(), Answer::text);
    if answers.have_failed() {
        let is_shown = answers.read.iter().all(|answer| answer.extraction.asked != Mode::Truncate);
        return Err(no_answer(text, &[], is_shown));
    }
    let value = one.map_or_else(|| json_of_many(answers), json_of);
    context.printer.line(&text.trim_end(), &value)
}

// If `is_shown`, the mode `truncate` has something to show.
fn no_answer(error: String, warnings: &[String], is_shown: bool) -> anyhow::Error {
    let hint = match warnings {
        [] if is_shown => {
            "`--mode truncate` prints the beginning, the end and the errors".to_owned()
        }
        [] => "`ctxfs view PATH.meta.json` describes the output".to_owned(),
        warnings => warnings.join("; "),
    };
    Failure::new(FailureKind::Failed, error, hint).into()
}

fn json_of_many(answers: &Answers) -> Value {
    let left = answers.left.iter().map(|path| path.to_string_lossy());
    let unreadable = answers
        .unreadable
        .iter()
        .map(|(path, error)| json!({ "path": path.to_string_lossy(), "error": error.to_string() }));
    json!({
        "answers": answers.read.iter().map(json_of).collect::<Vec<_>>(),
        "notRead": left.collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
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
    let usage = extraction.usage();
    let (text, found, is_cut, error) = match &extraction.answer {
        Ok(answer) => (Some(&answer.text), answer.found, answer.is_cut, None),
        Err(error) => (None, None, false, Some(error.to_string())),
    };
    json!({
        "handle": facts.handle, "tool": facts.tool, "asked": extraction.asked.name(),
        "mode": extraction.used.name(), "cached": cached, "found": found, "cut": is_cut,
        "text": text, "error": error, "warnings": extraction.warnings, "calls": calls,
        "input": usage.input, "output": usage.output,
        "dollars": dollars(extraction.nanodollars()),
    })
}

fn dollars(nanodollars: u64) -> f64 {
    nanodollars as f64 / NANODOLLARS
}

fn plan(
    tree: &Tree,
    scope: &QuestionScope,
    args: &ExtractArgs,
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let (never, nobody) = (|| false, |_: &_| {});
    let question = Question::new((&args.question, args.mode), &never, &nobody);
    let paths = match &scope.asked {
        AskedAbout::Outputs(paths) => paths.clone(),
        AskedAbout::Conversation(path) => tree.outputs_about(path, &args.question)?.0,
    };
    for path in &paths {
        let plan = tree.plan_answer(path, &question);
        let plan = plan.map_err(|error| view::not_readable(tree, path, &error))??;
        let name = path.display().to_string();
        let shown = visible::whole(&name);
        context.printer.line(&plan_text(&shown, &plan), &plan_json(&name, &plan))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan_text(name: &str, plan: &ExtractPlan) -> String {
    let ExtractPlan { mode, target, chunks, calls, usage, nanodollars } = plan;
    let Some(target) = target else {
        let why = if *mode == Mode::Truncate { "no model is asked" } else { "answered before" };
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
