//! `ctxfs pull`: fetches and applies changes from other hosts.

use serde_json::{Value, json};

use crate::remote::opened::{OpenBucket, Purpose};
use crate::remote::report::{CommandReport, Problems};
use crate::{Cli, Context, Failure, FailureKind, args::PullArgs};
use ctxfs_core::model::{Component, visible};
use ctxfs_store::Conversation;
use ctxfs_sync::bucket::BucketError;
use ctxfs_sync::remote::{Downloads, PullReport, RemoteError, RepairReport};

const WHAT: [&str; 2] =
    ["change of others was not done here", "changes of others were not done here"];
const HINT: &str = "the rest is here; `ctxfs pull` tries these again";

struct PulledConversation {
    id: String,
    came: PullReport,
    resent: RepairReport,
    problems: Problems,
}

pub(crate) fn run(args: &PullArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = OpenBucket::new(&settings, (Purpose::Read, args.quiet || cli.json), context)?;
    let ids = opened.selected_or_lost(&args.conversations)?.ids;
    let are_named = !args.conversations.is_empty();
    let mut absent = Vec::new();
    let done =
        CommandReport::of_each(&ids, ("getting", args.quiet || cli.json), &opened.bucket, |id| {
            let report = pull(&opened, id)?;
            if are_named && report.is_none() {
                absent.push(id.to_text());
            }
            Ok(report)
        });
    if !are_named && done.is_nothing() {
        context.printer.message(&"the bucket has no conversations");
    }
    done.print(line_of, value_of, context)?;
    let ended = done.end(|report, all| all.0.extend(report.problems.0), (WHAT, HINT), context);
    if absent.is_empty() {
        return ended;
    }
    let nobody = not_found(&absent);
    if ended.is_err() {
        context.printer.message(&nobody);
        return ended;
    }
    Err(nobody.into())
}

fn not_found(absent: &[String]) -> Failure {
    let names: Vec<_> = absent.iter().map(|id| format!("`{}`", visible::whole(id))).collect();
    let text = format!("there is no conversation {}, here or in the bucket", names.join(", "));
    Failure::new(FailureKind::Failed, text, "`ctxfs ls --remote` lists those in the bucket")
}

impl PulledConversation {
    fn removed_here(id: &Component) -> Self {
        let (id, mut problems) = (id.to_text(), Problems::default());
        problems.add(id.as_str(), "it was removed here: `ctxfs push` tells the others");
        Self { id, came: PullReport::default(), resent: RepairReport::default(), problems }
    }
}

// Returns `None` if the bucket has nothing of this conversation that still exists.
fn pull(opened: &OpenBucket, id: &Component) -> Result<Option<PulledConversation>, RemoteError> {
    let name = id.to_text();
    if opened.home.is_removed(&opened.store, id)? {
        return Ok(Some(PulledConversation::removed_here(id)));
    }
    let (conversation, mut came) = match opened.store.conversation(id)? {
        Some(found) => (
            std::sync::Arc::clone(&found),
            opened.sync(|sync| sync.pull(&found, Downloads::Immediate))?,
        ),
        None => match opened.sync(|sync| sync.pull_new(id, Downloads::Immediate))? {
            Some(came) => came,
            None => return Ok(None),
        },
    };
    fetch(opened, &conversation, &mut came)?;
    let resent = resend(opened, &conversation, &came)?;
    let mut problems = problems(&name, &mut came);
    problems.add_taken(&resent);
    Ok(Some(PulledConversation { id: name, came, resent, problems }))
}

fn fetch(
    opened: &OpenBucket,
    conversation: &Conversation,
    came: &mut PullReport,
) -> Result<(), RemoteError> {
    if conversation.has_far(None)? {
        let far = opened.far()?;
        let (count, left) = opened.sync(|sync| sync.fetch_all(conversation, &far))?;
        came.added += count;
        came.left.extend(left);
    }
    Ok(())
}

// A host without write access leaves resending to other hosts.
fn resend(
    opened: &OpenBucket,
    conversation: &Conversation,
    came: &PullReport,
) -> Result<RepairReport, RemoteError> {
    match opened.sync(|sync| sync.resend(conversation, &came.looked)) {
        Err(RemoteError::Bucket(BucketError::Refused { .. })) => Ok(RepairReport::default()),
        resent => resent,
    }
}

fn problems(name: &str, came: &mut PullReport) -> Problems {
    let mut problems = Problems::default();
    for left in &came.left {
        problems.add(format!("{name}/{}", left.path), &left.why);
    }
    let refused = came.refused.iter().chain(&came.looked.refused);
    // Segments that were refused while looking for changes may be in both lists.
    let refused: std::collections::BTreeMap<_, _> =
        refused.map(|(id, error)| (*id, error.to_string())).collect();
    for (id, why) in refused {
        problems.add(format!("{name}: segment {id}"), why);
    }
    for id in &came.looked.missing {
        let why = "it is gone from the bucket; its host sends it again if it has it yet";
        problems.add(format!("{name}: segment {id}"), why);
    }
    if let Some(error) = came.error.take() {
        problems.add(name, error);
    }
    problems
}

fn line_of(report: &PulledConversation) -> String {
    let PulledConversation { id, came, resent, problems } = report;
    let name = visible::whole(id);
    let again = match resent.segments.len() {
        1 => "segment sent again that the bucket had lost",
        _ => "segments sent again that the bucket had lost",
    };
    let counts = [
        (came.added, "came"),
        (came.renamed, "renamed"),
        (came.removed, "removed"),
        (resent.segments.len(), again),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    match (parts.is_empty(), problems.0.is_empty()) {
        (true, true) => format!("{name}: nothing new\n"),
        // The reported problems are sufficient.
        (true, false) => String::new(),
        (false, _) => format!("{name}: {}\n", parts.join(", ")),
    }
}

fn value_of(report: &PulledConversation) -> Value {
    let PulledConversation { id, came, resent, problems } = report;
    let again: Vec<_> = resent.segments.iter().map(ToString::to_string).collect();
    json!({ "conversation": id, "came": came.added, "renamed": came.renamed,
        "removed": came.removed, "sentAgain": again, "left": problems.json() })
}
