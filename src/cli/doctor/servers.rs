//! The servers behind the gateway: each is started, asked what it offers, and ended.

use std::path::Path;
use std::sync::Arc;

use crate::doctor::check::{Check, Level};
use crate::mcp;
use crate::mcp::FileServers;
use crate::outcome::Failure;
use crate::settings::Settings;
use ctxfs_core::model::visible;
use ctxfs_core::model::visible::IN_LISTS;
use ctxfs_mcp::config::Flaw;
use ctxfs_mcp::{SurveyedOffer, SurveyedServer};

const NAME: &str = "server";

/// Checks the servers of a file.
pub(super) fn checks(path: &Path, settings: &Arc<Settings>) -> Vec<Check> {
    let FileServers { servers, flaws } = match mcp::read_servers(path) {
        Ok(file) => file,
        Err(Failure { message, hint, .. }) => {
            return vec![Check::bad(NAME, Level::Warning, message, hint.unwrap_or_default())];
        }
    };
    let mut checks: Vec<Check> = flaws.iter().map(of_flaw).collect();
    match mcp::survey(servers, settings) {
        Ok(survey) => checks.extend(survey.servers.iter().flat_map(|server| of(server, path))),
        Err(error) => {
            let mend = "ctxfs doctor without --servers checks the machine alone";
            checks.push(Check::bad(NAME, Level::Warning, format!("{error:#}"), mend));
        }
    }
    checks
}

fn of_flaw(flaw: &Flaw) -> Check {
    let is_error = mcp::is_error(flaw);
    let level = if is_error { Level::Warning } else { Level::Note };
    let mend = if is_error { "fix that line" } else { "remove it, if it is a slip" };
    Check::bad(NAME, level, flaw.to_string(), mend)
}

fn of(server: &SurveyedServer, path: &Path) -> Vec<Check> {
    let name = visible::escaped(&server.name, IN_LISTS);
    let good = server.offer.iter().filter(|_| server.flaws.is_empty());
    let good = good.map(|offer| Check::ok(NAME, format!("{name}: {}", found(offer))));
    let bad = server.flaws.iter().map(|flaw| {
        let found = format!("{name}: {}", visible::escaped(flaw, IN_LISTS));
        let mend = format!("ctxfs --log info mcp list --servers '{}'", path.display());
        Check::bad(NAME, Level::Warning, found, mend)
    });
    good.chain(bad).collect()
}

fn found(offer: &SurveyedOffer) -> String {
    let SurveyedOffer { tools, prompts, resources, templates, .. } = offer;
    format!(
        "{} tools, {prompts} prompts, {resources} resources, {templates} templates",
        tools.len()
    )
}
