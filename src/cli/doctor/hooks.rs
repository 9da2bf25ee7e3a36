//! Checks of the hooks in agent hosts: their calls, the mount of their store, and the last outputs
//! in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::doctor::machine::{CheckLevel, DoctorCheck};
use crate::doctor::{ProbeResult, probe_mount};
use crate::hook::{self, HostCalls};
use crate::hooks::{Host, OutputLength, Replaced, ResultKind};
use crate::{Cli, Context, Environment, SettingKey, Settings, engine, install, output, places};
use ctxfs_core::model::{Component, Content as _, LimitsByTool as _, Record, visible};
use ctxfs_engine::{Engine, Replace, StandInRequest, StoredOutput};
use ctxfs_store::Store;
use ctxfs_view::{Audience, Form, StandIn, Title};

const HOOK: &str = "hook";
const OUTPUT: &str = "output";
const LAST: usize = 5;

pub(super) fn call_checks(environment: &Environment) -> Vec<DoctorCheck> {
    let Some(log) = hook::call_log_path(environment) else { return Vec::new() };
    hook::count_calls(&log).iter().map(|(host, calls)| call_check(host, calls)).collect()
}

fn call_check(host: &str, calls: &HostCalls) -> DoctorCheck {
    let HostCalls { first, last, outcomes, failure } = calls;
    let total: u64 = outcomes.values().sum();
    let outcomes: Vec<_> = outcomes.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let outcomes = outcomes.join(", ");
    let found = format!("{host}: {total} calls from {first} to {last}: {outcomes}");
    match failure {
        None => DoctorCheck::ok(HOOK, found),
        Some(failure) => {
            CheckLevel::Warning.check(HOOK, found, format!("the last failure, {failure}"))
        }
    }
}

/// Checks that the store of each installed hook is mounted, and shows the last outputs in it.
/// Returns `None` if no hook is installed.
pub(super) fn mount_checks(cli: &Cli, context: &Context) -> Option<Vec<DoctorCheck>> {
    let mut stores: BTreeMap<String, Vec<(Host, install::NamedPaths)>> = BTreeMap::new();
    for (host, paths) in install::installed(cli, context).ok()? {
        stores.entry(paths.store.clone()).or_default().push((host, paths));
    }
    let settings = Arc::new(context.quiet_settings(cli, Vec::new()).ok()?);
    let mut checks = Vec::new();
    for (store, hooks) in &stores {
        let (store, (host, paths)) = (Path::new(store), hooks.first()?);
        let mut hosts: Vec<&str> = hooks.iter().map(|(host, _)| host.name()).collect();
        hosts.dedup();
        let (hosts, shown) = (hosts.join(", "), store.display());
        let mounts = places::mounts_of(store).into_iter().filter(|mount| mount.only.is_none());
        let mut targets = mounts.map(|mount| mount.target);
        let mounted =
            targets.find(|target| matches!(probe_mount(target), Ok(ProbeResult::Alive(_))));
        checks.push(if let Some(target) = mounted {
            DoctorCheck::ok(HOOK, format!("{hosts}: {shown} is mounted on {}", target.display()))
        } else {
            let is_wanted = settings.is_on(SettingKey::HooksMount);
            let level = if is_wanted { CheckLevel::Failure } else { CheckLevel::Note };
            let found = format!("{hosts}: {shown} is not mounted; stand-ins name `{}`", paths.view);
            level.check(HOOK, found, paths.mount_command())
        });
        checks.extend(output_checks(store, *host, &settings, context).unwrap_or_else(|error| {
            let mend = format!("ctxfs ls --store {}", paths.store);
            vec![CheckLevel::Warning.check(OUTPUT, format!("{error:#}"), mend)]
        }));
    }
    (!checks.is_empty()).then_some(checks)
}

struct LastOutput {
    id: Component,
    created: i64,
    record: Record,
}

// Shows the last outputs, and the form in which a host gets each of them. `host` is the one that
// gets the results of servers.
fn output_checks(
    store: &Path,
    host: Host,
    settings: &Arc<Settings>,
    context: &Context,
) -> anyhow::Result<Vec<DoctorCheck>> {
    const NONE: &str = "none is stored yet";
    const MEND: &str = "start a new session of the host, and let it run `seq 20000`";
    if !Store::exists(store) {
        return Ok(vec![CheckLevel::Note.check(OUTPUT, NONE, MEND)]);
    }
    let command = || Settings::command_root(store, &context.environment);
    let root = places::reader_root(None, || places::mounts_of(store), None, command);
    let engine = Engine::new(Store::open(store)?, engine::options(settings, &root, None)?);
    let mut conversations = engine.list_conversations()?.rows;
    conversations.sort_by_key(|row| std::cmp::Reverse(row.modified));
    let mut last = Vec::new();
    for row in conversations.iter().take(LAST) {
        let listed = engine.list_known_artifacts(&row.id, |artifact| {
            let (id, record) = (row.id.clone(), artifact.record.clone());
            LastOutput { id, created: artifact.stat.mtime.as_millis(), record }
        })?;
        last.extend(listed.rows);
    }
    last.sort_by_key(|output| std::cmp::Reverse(output.created));
    last.truncate(LAST);
    if last.is_empty() {
        return Ok(vec![CheckLevel::Note.check(OUTPUT, NONE, MEND)]);
    }
    last.into_iter().map(|output| output.check(&engine, host, settings, context)).collect()
}

impl LastOutput {
    fn check(
        self,
        engine: &Engine,
        host: Host,
        settings: &Settings,
        context: &Context,
    ) -> anyhow::Result<DoctorCheck> {
        let Self { id, created, record } = self;
        let conversation = engine.conversation(&id)?;
        let provenance = record.provenance.clone();
        let title = Title::of(&provenance).map(|title| title.to_string());
        let title = title.or_else(|| provenance.tool_name());
        let title = title.unwrap_or_else(|| record.call().to_owned());
        let output = StoredOutput::open(engine, &conversation, record, true)?;
        let own = provenance.server.as_deref().and_then(Host::named);
        let kind = match provenance.exit_code {
            None => ResultKind::Text,
            exit_code => ResultKind::of_command(exit_code),
        };
        let policy = hook::replace_policy(settings, &context.environment);
        let shown = policy.shown_whole(own.unwrap_or(host), kind);
        let bytes = output.content().len();
        let is_shown = bytes <= shown.most_bytes() && {
            let length = OutputLength::of(&output.content().bytes(0, usize::try_from(bytes)?)?);
            let limits = settings.limits(provenance.tool_name().as_deref());
            let is_short = limits.are_kept_by(length.bytes, length.chars);
            shown.holds(length) && (policy.replaced == Replaced::Cut || is_short)
        };
        let request = StandInRequest {
            form: Form::Summary,
            replace: Replace::TooLong,
            seen: false,
            audience: Audience { tools: &[], is_stored: &|_| false, above: &[] },
        };
        let form = match output.shown().stand_in(&request)? {
            StandIn::Replaced(text) if !is_shown => {
                format!("stand-in of {} characters", text.chars().count())
            }
            StandIn::Replaced(_) | StandIn::Unchanged => "whole".to_owned(),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = now.saturating_sub(Duration::from_millis(created.try_into().unwrap_or(0)));
        let (title, bytes, age) =
            (visible::whole(&title), output::size(bytes), ctxfs_view::age(age));
        Ok(DoctorCheck::ok(OUTPUT, format!("{title}: {bytes}, {age} ago, {form}")))
    }
}
