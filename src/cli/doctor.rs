//! `ctxfs doctor`: checks this machine and its mounts, and prints how to fix problems. It changes
//! nothing, and does not open `/dev/fuse`.

mod hooks;
mod machine;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, process::Stdio, sync::Arc, thread};

use serde_json::Value;

use crate::doctor::machine::{CheckLevel, DoctorCheck};
use crate::mcp::{self, FileServers};
use crate::{
    Cli, Context, Environment, Failure, FailureKind, Settings, args::DoctorArgs, confine,
    helper::Role, output, page_link, remote,
};
use ctxfs_core::model::visible::{self, IN_LISTS};
use ctxfs_fuse::kernel::mount::{self, MountEntry, MountState};
use ctxfs_mcp::{SurveyedOffer, SurveyedServer, config::Flaw};

#[derive(Debug, serde::Serialize)]
struct DoctorReport {
    can_mount: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    can_use_hooks: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    can_use_servers: Option<bool>,
    checks: Vec<DoctorCheck>,
}

/// Prints the status of the mount on `target`. Fails if the mount is dead. Runs in a child process
/// of `doctor`, because it may hang.
pub(crate) fn probe(target: &Path, context: &mut Context) -> anyhow::Result<()> {
    context.printer.data(&mount_status(target)?)
}

pub(crate) fn run(args: &DoctorArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let mut checks = machine::checks(context.environment.root);
    checks.push(landlock_check());
    let (check, store) = settings(cli, context);
    checks.push(check);
    checks.extend(store.iter().flat_map(|store| machine::disk_checks(store)));
    checks.extend(store.iter().flat_map(|store| bucket(store, cli, context)));
    checks.extend(mount_checks());
    checks.extend(store.iter().filter_map(|store| page(store, context)));
    checks.extend(hooks::call_checks(&context.environment));
    let has_none_failed =
        |checks: &Vec<DoctorCheck>| checks.iter().all(|check| check.level != CheckLevel::Failure);
    let can_mount = has_none_failed(&checks);
    let of_hooks = hooks::mount_checks(cli, context);
    let can_use_hooks = of_hooks.as_ref().map(has_none_failed);
    checks.extend(of_hooks.into_iter().flatten());
    let of_servers = args.servers.as_deref().and_then(|path| servers(path, cli, context));
    let is_right =
        |checks: &Vec<DoctorCheck>| checks.iter().all(|check| check.level <= CheckLevel::Note);
    let can_use_servers = of_servers.as_ref().map(is_right);
    checks.extend(of_servers.into_iter().flatten());
    let report = DoctorReport { can_mount, can_use_hooks, can_use_servers, checks };
    context.printer.line(&render(&report.checks), &report)?;
    let (text, hint) = if !can_mount {
        ("a mount cannot work here", "fix what is marked `FAIL`, or use `ctxfs view`")
    } else if can_use_hooks == Some(false) {
        ("a hook has no mount", "fix what is marked `FAIL`")
    } else if can_use_servers == Some(false) {
        ("a server cannot be used", "fix what is marked `WARN`")
    } else {
        return Ok(());
    };
    Err(Failure::new(FailureKind::Machine, text, hint).into())
}

fn bucket(store: &Path, cli: &Cli, context: &Context) -> Vec<DoctorCheck> {
    let settings = context.quiet_settings(cli, Vec::new());
    settings.map_or_else(|_| Vec::new(), |settings| bucket_checks(&settings, store))
}

fn page(store: &Path, context: &Context) -> Option<DoctorCheck> {
    let page = page_link::running(store, &context.environment)?;
    Some(DoctorCheck::ok("page", page.url))
}

// Unreadable settings are ignored here, because another check reports them.
fn servers(path: &Path, cli: &Cli, context: &Context) -> Option<Vec<DoctorCheck>> {
    let settings = Arc::new(context.quiet_settings(cli, Vec::new()).ok()?);
    Some(server_checks(path, &settings, &context.environment))
}

fn settings(cli: &Cli, context: &Context) -> (DoctorCheck, Option<PathBuf>) {
    const NAME: &str = "settings";
    let read = context.quiet_settings(cli, Vec::new()).and_then(|settings| {
        settings.redaction()?;
        let store = settings.store(&context.environment)?;
        if !settings.notices.is_empty() {
            let mend = "correct the store's file, or remove it";
            let notices = settings.notices.join("; ");
            return Ok((CheckLevel::Warning.check(NAME, notices, mend), store));
        }
        let found = match settings.files.len() {
            0 => "no file, defaults apply".to_owned(),
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        Ok((DoctorCheck::ok(NAME, found), store))
    });
    match read {
        Ok((check, store)) => (check, Some(store)),
        Err(error) => {
            let mend =
                "fix it; `ctxfs config --defaults` prints every setting and its allowed values";
            (CheckLevel::Failure.check(NAME, format!("{error:#}"), mend), None)
        }
    }
}

fn render(checks: &[DoctorCheck]) -> String {
    let lines: Vec<String> = checks.iter().map(render_one).collect();
    lines.join("\n")
}

fn render_one(check: &DoctorCheck) -> String {
    let (style, mark) = mark(check.level);
    let mend = check.mend.as_ref().map(|mend| format!("\n{:18}-> {mend}", "")).unwrap_or_default();
    format!("{style}{mark:4}{style:#} {:12} {}{mend}", check.name, check.found)
}

fn mark(level: CheckLevel) -> (anstyle::Style, &'static str) {
    match level {
        CheckLevel::Ok => (output::GOOD, "ok"),
        CheckLevel::Note => (output::STRONG, "note"),
        CheckLevel::Warning => (output::WARN, "WARN"),
        CheckLevel::Failure => (output::BAD, "FAIL"),
    }
}

const MOUNT: &str = "mount";
// A server that does not answer within this time is considered to hang.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

fn mount_checks() -> Vec<DoctorCheck> {
    match mount::mounts() {
        Ok(mounts) => mounts.iter().flat_map(checks_of_mount).collect(),
        Err(error) => {
            let found = format!("cannot read the mount table: {error}");
            vec![CheckLevel::Warning.check(MOUNT, found, "mount -t proc proc /proc")]
        }
    }
}

fn checks_of_mount(entry: &MountEntry) -> Vec<DoctorCheck> {
    let target = entry.target.display().to_string();
    match probe_mount(&entry.target) {
        Ok(ProbeResult::Alive(status)) => {
            let serves = DoctorCheck::ok(MOUNT, format!("{target}: serves {}", entry.source));
            // The status of another user's server is not readable and therefore has no `pid`.
            let status = status.filter(|status| !status["pid"].is_null());
            let confined = status.map(|status| confinement_check(&target, &status));
            [Some(serves), confined].into_iter().flatten().collect()
        }
        answer => vec![mount_problem(entry, answer)],
    }
}

fn mount_problem(entry: &MountEntry, answer: io::Result<ProbeResult>) -> DoctorCheck {
    let target = entry.target.display();
    match answer {
        Ok(ProbeResult::Alive(_) | ProbeResult::Dead) => {
            let mend = format!("ctxfs umount '{target}'");
            CheckLevel::Warning.check(MOUNT, format!("{target}: dead, its server is gone"), mend)
        }
        Ok(ProbeResult::None) => {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", entry.connection);
            let mend = format!("ctxfs umount '{target}'; echo 1 | sudo tee {abort}");
            CheckLevel::Warning.check(MOUNT, format!("{target}: hangs"), mend)
        }
        Err(error) => {
            let found = format!("{target}: cannot be checked: {error}");
            CheckLevel::Note.check(MOUNT, found, format!("stat '{target}'"))
        }
    }
}

enum ProbeResult {
    // The status of the server, which only its user can read.
    Alive(Option<Value>),
    Dead,
    None,
}

// Probes the mount in a child process. A process that waits for a hanging server cannot be killed,
// so in that case the child is left behind.
fn probe_mount(target: &Path) -> io::Result<ProbeResult> {
    let mut asking = Role::ProbeMount(target.to_owned())
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = asking.try_wait()? {
            if !status.success() {
                return Ok(ProbeResult::Dead);
            }
            let status = asking.stdout.take().map(serde_json::from_reader);
            return Ok(ProbeResult::Alive(status.and_then(Result::ok)));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    asking.kill().map(|()| ProbeResult::None)
}

// The status must be shorter than the capacity of a pipe, because the pipe is read only after the
// child has ended.
fn mount_status(target: &Path) -> anyhow::Result<String> {
    if let MountState::Dead { .. } = mount::state(target) {
        anyhow::bail!("`{}` is dead", target.display());
    }
    let status: Value = fs::read(target.join(".ctxfs/status.json"))
        .ok()
        .and_then(|status| serde_json::from_slice(&status).ok())
        .unwrap_or_default();
    let fields = ["pid", "confinement"].map(|name| (name, &status[name]));
    Ok(serde_json::to_string(&std::collections::BTreeMap::from(fields))?)
}

const CONFINEMENT: &str = "confinement";

fn landlock_check() -> DoctorCheck {
    match confine::landlock() {
        Some(version) if version >= confine::LANDLOCK_COMPLETE_SINCE => {
            DoctorCheck::ok(CONFINEMENT, format!("Landlock {version}: servers confine themselves"))
        }
        Some(version) => {
            let found = format!("Landlock {version}: servers confine themselves partly");
            CheckLevel::Note.check(
                CONFINEMENT,
                found,
                "a kernel of 6.12 or later confines them fully",
            )
        }
        None => {
            let found =
                "no Landlock: servers give up privileges, but neither files nor the network";
            let mend = "use a kernel with CONFIG_SECURITY_LANDLOCK and with `landlock` in `lsm=`";
            CheckLevel::Note.check(CONFINEMENT, found, mend)
        }
    }
}

// Compares the server's own status with the kernel's information about its threads.
fn confinement_check(here: &str, status: &Value) -> DoctorCheck {
    let found = &status["confinement"];
    let holds = |what: &str| found[what] == true;
    let all = ["files", "network", "signals", "noNewPrivileges", "memory"];
    let lacking: Vec<&str> = all.into_iter().filter(|what| !holds(what)).collect();
    let unconfined = status["pid"].as_u64().map_or(0, unconfined_threads);
    if lacking.is_empty() && unconfined == 0 {
        let rights = capabilities_text(found);
        let text = format!("{here}: only its store, no network, no signals, {rights}");
        return DoctorCheck::ok(CONFINEMENT, text);
    }
    let text = if unconfined > 0 && holds("noNewPrivileges") {
        format!("{here}: {unconfined} threads of the server are not confined")
    } else {
        format!("{here}: the server is not confined: {}", lacking.join(", "))
    };
    CheckLevel::Note.check(CONFINEMENT, text, format!("ctxfs umount '{here}', then mount it again"))
}

fn capabilities_text(found: &Value) -> String {
    let names = found["capabilities"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no capabilities".to_owned() } else { names.join(" ") }
}

// Returns the number of threads that could still gain privileges. Returns 0 if the process is not
// visible.
fn unconfined_threads(pid: u64) -> usize {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let status = |path| fs::read_to_string(path).unwrap_or_default();
    let unconfined = |text: &String| text.lines().any(|line| line == "NoNewPrivs:\t0");
    threads.flatten().map(|thread| status(thread.path().join("status"))).filter(unconfined).count()
}

const SERVER: &str = "server";

fn server_checks(
    path: &Path,
    settings: &Arc<Settings>,
    environment: &Environment,
) -> Vec<DoctorCheck> {
    let FileServers { servers, flaws } = match mcp::read_servers(path) {
        Ok(file) => file,
        Err(Failure { message, hint, .. }) => {
            return vec![CheckLevel::Warning.check(SERVER, message, hint.unwrap_or_default())];
        }
    };
    let mut checks: Vec<DoctorCheck> = flaws.iter().map(flaw_check).collect();
    match mcp::survey(mcp::with_logins(servers, Some(path), environment), settings) {
        Ok(survey) => {
            checks.extend(survey.servers.iter().flat_map(|server| survey_checks(server, path)));
        }
        Err(error) => {
            let mend = "ctxfs doctor without --servers checks the machine alone";
            checks.push(CheckLevel::Warning.check(SERVER, format!("{error:#}"), mend));
        }
    }
    checks
}

fn flaw_check(flaw: &Flaw) -> DoctorCheck {
    let is_error = mcp::is_error(flaw);
    let level = if is_error { CheckLevel::Warning } else { CheckLevel::Note };
    let mend = if is_error { "fix that line" } else { "remove it, if it is a slip" };
    level.check(SERVER, flaw.to_string(), mend)
}

fn survey_checks(server: &SurveyedServer, path: &Path) -> Vec<DoctorCheck> {
    let name = visible::escaped(&server.name, IN_LISTS);
    let good = server.offer.iter().filter(|_| server.flaws.is_empty());
    let good = good.map(|offer| DoctorCheck::ok(SERVER, format!("{name}: {}", offer_text(offer))));
    let bad = server.flaws.iter().map(|flaw| {
        let found = format!("{name}: {}", visible::escaped(flaw, IN_LISTS));
        let mend = format!("ctxfs --log info mcp list --servers '{}'", path.display());
        CheckLevel::Warning.check(SERVER, found, mend)
    });
    good.chain(bad).collect()
}

fn offer_text(offer: &SurveyedOffer) -> String {
    let SurveyedOffer { tools, prompts, resources, templates, .. } = offer;
    format!(
        "{} tools, {prompts} prompts, {resources} resources, {templates} templates",
        tools.len()
    )
}

const BUCKET: &str = "bucket";

// Checks the bucket. Checks the clock too, if this host has sent anything to the bucket.
fn bucket_checks(settings: &Settings, store: &Path) -> Vec<DoctorCheck> {
    match remote::health(settings, store) {
        None => Vec::new(),
        Some(Err(error)) => {
            let mend = "local work goes on; docs/REMOTE.md, `When it is broken`, tells what to do";
            vec![CheckLevel::Warning.check(BUCKET, format!("{error:#}"), mend)]
        }
        Some(Ok(remote::BucketHealth { url, clock, unfit })) => {
            let off = clock.map(|clock| {
                let found = format!("this host's clock is {clock}");
                CheckLevel::Warning.check("clock", found, "timedatectl set-ntp true")
            });
            let unfit = unfit.first().map(|first| {
                let found = format!(
                    "the names of {} are too long for the bucket, such as `{first}`: they are not shared",
                    output::counted(unfit.len(), "conversation")
                );
                let mend = "give them shorter names; each byte that is no ASCII counts three times";
                CheckLevel::Warning.check(BUCKET, found, mend)
            });
            [DoctorCheck::ok(BUCKET, url)].into_iter().chain(off).chain(unfit).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(of: &Value) -> (CheckLevel, String) {
        let check = confinement_check("/ctx", of);
        (check.level, check.found)
    }

    #[test]
    fn missing_confinement_is_named() {
        let mut of = json!({ "confinement": {
            "landlock": 7, "files": true, "network": true, "signals": true,
            "noNewPrivileges": true, "memory": true, "capabilities": ["CAP_CHOWN"],
        }});
        assert_eq!(checked(&of).0, CheckLevel::Ok);
        assert!(checked(&of).1.ends_with("CAP_CHOWN"));
        of["confinement"]["network"] = false.into();
        assert_eq!(checked(&of).0, CheckLevel::Note);
        assert!(checked(&of).1.ends_with("not confined: network"));
        assert!(
            checked(&json!({})).1.ends_with("files, network, signals, noNewPrivileges, memory")
        );
    }
}
