//! Renders the index as a short text, for `instructions` and for the description of
//! `get_tool_details`.
//!
//! Names have priority over descriptions, and each server gets a fair share of the space. The last
//! line counts the tools that are left out.

use crate::budget::{self, SizeRequest};
use crate::index::{Index, Tool};
use ctxfs_core::model::visible;

/// Maximum length in bytes of `instructions` and of a description. Clients cut longer texts.
pub const OVERVIEW_BYTES: usize = 2048;
const LAST_LINE_BYTES: usize = 100;

/// Lists the tools of `index` in at most `bytes` bytes, for a model. Tools that do not fit are
/// counted. With less than about 100 bytes, no tool fits.
pub fn overview(index: &Index, bytes: usize) -> String {
    let servers: Vec<ServerTools<'_>> =
        index.by_server().into_values().map(|tools| ServerTools::new(&tools)).collect();
    with_descriptions(&servers, bytes).unwrap_or_else(|| names_alone(&servers, bytes))
}

/// The tools of a server. `prefix` is the common start of all their names, up to and including
/// `__`, or empty.
struct ServerTools<'i> {
    prefix: &'i str,
    tools: Vec<&'i Tool>,
}

impl<'i> ServerTools<'i> {
    fn new(tools: &[&'i Tool]) -> Self {
        let prefix = tools.first().and_then(|tool| {
            let (prefix, _) = tool.name.split_once("__")?;
            tool.name.get(..prefix.len() + 2)
        });
        let prefix = prefix.filter(|prefix| tools.iter().all(|tool| tool.name.starts_with(prefix)));
        Self { prefix: prefix.unwrap_or_default(), tools: tools.to_vec() }
    }

    fn heading(&self) -> String {
        let server = self.tools.first().map_or("", |tool| &tool.true_name.server);
        if self.prefix.is_empty() {
            visible::escaped(server, 100)
        } else {
            format!("{}*", self.prefix)
        }
    }

    fn names(&self) -> impl Iterator<Item = &'i str> {
        self.tools.iter().map(|tool| &tool.name[self.prefix.len()..])
    }

    fn line(&self, bytes: usize) -> (String, usize) {
        let mut line = format!("{}: ", self.heading());
        let all: Vec<&str> = self.names().collect();
        let whole = all.join(", ");
        if line.len() + whole.len() < bytes {
            return (format!("{line}{whole}\n"), all.len());
        }
        let room = bytes.saturating_sub(more(all.len()).len());
        let mut shown = 0;
        for name in &all {
            if line.len() + name.len() + 2 > room {
                break;
            }
            line += name;
            line += ", ";
            shown += 1;
        }
        (line + &more(all.len() - shown), shown)
    }
}

fn more(count: usize) -> String {
    format!("... {count} more\n")
}

/// Returns one line per tool with its risk. Descriptions are added while they fit: first for the
/// first tool of each server, then for the second, and so on. Returns `None` if the names alone do
/// not fit.
fn with_descriptions(servers: &[ServerTools<'_>], bytes: usize) -> Option<String> {
    let mut described: Vec<Vec<bool>> =
        servers.iter().map(|server| vec![false; server.tools.len()]).collect();
    let mut used = in_lines(servers, &described).len();
    if used > bytes {
        return None;
    }
    let longest = servers.iter().map(|server| server.tools.len()).max().unwrap_or(0);
    for at in 0..longest {
        for (server, described) in servers.iter().zip(&mut described) {
            let Some(tool) = server.tools.get(at) else { continue };
            let cost = description(tool).len();
            if used + cost <= bytes {
                described[at] = true;
                used += cost;
            }
        }
    }
    Some(in_lines(servers, &described))
}

fn in_lines(servers: &[ServerTools<'_>], described: &[Vec<bool>]) -> String {
    let mut text = String::new();
    for (server, described) in servers.iter().zip(described) {
        text.extend([&server.heading(), ":\n"]);
        for ((tool, name), described) in server.tools.iter().zip(server.names()).zip(described) {
            text.extend(["- ", name, " (", tool.risk.as_str(), ")"]);
            if *described {
                text += &description(tool);
            }
            text.push('\n');
        }
    }
    text
}

fn description(tool: &Tool) -> String {
    let short = tool.short_description();
    if short.is_empty() { short } else { format!(": {short}") }
}

fn names_alone(servers: &[ServerTools<'_>], bytes: usize) -> String {
    let total: usize = servers.iter().map(|server| server.tools.len()).sum();
    let room = bytes.saturating_sub(LAST_LINE_BYTES);
    let wanted = |server: &ServerTools<'_>| SizeRequest {
        size: server.line(usize::MAX).0.len() + 1,
        min: server.line(0).0.len(),
    };
    let wanted: Vec<SizeRequest> = servers.iter().map(wanted).collect();
    let mut fitting = 0;
    let mut min = 0;
    while fitting < wanted.len() && min + wanted[fitting].min <= room {
        min += wanted[fitting].min;
        fitting += 1;
    }
    let (mut text, mut named, mut unused) = (String::new(), 0, 0);
    for (server, share) in servers.iter().zip(budget::shares(&wanted[..fitting], room)) {
        // A server that uses less than its share leaves the rest to the next server.
        let (line, shown) = server.line(share + unused);
        unused = (share + unused).saturating_sub(line.len());
        text += &line;
        named += shown;
    }
    if named < total {
        let left_out = format!("{} of {total}", total - named);
        text += &left_out;
        text += " tools are not named here: get_tool_details without names lists all\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::index::tests::fixture;
    use crate::permission::rules::Risk;

    fn many(servers: usize, tools: usize) -> Index {
        let tool = |n: usize| {
            let (server, tool) =
                (format!("server{:02}", n / tools), format!("tool_{:03}", n % tools));
            let listed = json!({"description": "Does what its name says, and returns it"});
            fixture::tool(&server, &tool, Risk::Unknown, listed)
        };
        Index::new((0..servers * tools).map(tool))
    }

    #[test]
    fn few_tools_have_names_risks_and_descriptions() {
        assert_eq!(
            overview(&fixture::index(), OVERVIEW_BYTES),
            "fs__*:\n- list_all (unknown): Everything\n- read_file (read): Read a file\n\
         github__*:\n- create_issue (write): Create a new issue in a GitHub repository\n\
         - list_all (read): List\n- search_issues (read): Search for issues\n"
        );
        assert_eq!(overview(&Index::default(), OVERVIEW_BYTES), "");
    }

    #[test]
    fn names_come_before_descriptions() {
        let text = overview(&fixture::index(), 190);
        assert!(
            text.contains("search_issues (read)\n")
                && text.contains("list_all (unknown): Everything")
        );
        let text = overview(&many(3, 60), OVERVIEW_BYTES);
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("server00__*: tool_000, tool_001, ") && !text.contains("more"));
    }

    #[test]
    fn every_server_gets_its_share_and_the_rest_is_counted() {
        let text = overview(&many(30, 50), OVERVIEW_BYTES);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 31);
        assert!(lines[..30].iter().all(|line| line.contains("__*: tool_000, ")), "{text}");
        assert!(lines[..30].iter().all(|line| line.ends_with(" more")));
        assert!(lines[30].ends_with(
            " of 1500 tools are not named here: get_tool_details without names lists all"
        ));
    }

    #[test]
    fn a_small_server_is_named_whole_beside_a_large_one() {
        let mut tools: Vec<Tool> = many(1, 500).tools.into_values().collect();
        tools.push(fixture::tool("zz", "only", Risk::Read, json!({})));
        let text = overview(&Index::new(tools), OVERVIEW_BYTES);
        assert!(text.contains("\nzz__*: only\n"), "{text}");
    }

    #[test]
    fn servers_that_do_not_fit_are_counted() {
        let text = overview(&many(500, 3), OVERVIEW_BYTES);
        assert!(text.len() <= OVERVIEW_BYTES && text.contains(" of 1500 tools are not named here"));
    }

    proptest! {
        #[test]
        fn it_keeps_to_its_bytes_and_counts_every_tool(
            names in prop::collection::btree_set("[a-c]{1,3}__[a-z_]{1,30}", 0..80),
            bytes in 120..3000_usize,
        ) {
            let tool = |name: &String| {
                let (server, tool) = name.split_once("__").unwrap();
                fixture::tool(server, tool, Risk::Write, json!({"description": "It does. More."}))
            };
            let text = overview(&Index::new(names.iter().map(tool)), bytes);
            prop_assert!(text.len() <= bytes, "{} of {}\n{}", text.len(), bytes, text);
            let last = text.lines().last().unwrap_or_default();
            let left_out: usize = last.split_once(" of ").filter(|_| last.contains("not named"))
                .map_or(0, |(count, _)| count.parse().unwrap());
            let named: usize = text.lines().map(|line| match line.split_once("__*: ") {
                Some((_, names)) => names.split(", ").filter(|name| !name.contains(" more")).count(),
                None => usize::from(line.starts_with("- ")),
            }).sum();
            prop_assert_eq!(named + left_out, names.len(), "{}", text);
        }
    }
}
