use proptest::prelude::*;

use super::*;

const OURS: &[&str] = &["context_read", "get_tool_details"];

fn tool(server: &str, tool: &str) -> ServerTool {
    ServerTool { server: server.to_owned(), tool: tool.to_owned() }
}

fn named(tools: &[(&str, &str)]) -> Vec<String> {
    let with = |(server, name): &(&str, &str)| (tool(server, name), Naming::with_prefix(server));
    let all: Vec<_> = tools.iter().map(with).collect();
    let prefixes = ServerPrefixes::of(all.iter().map(|(tool, naming)| (&*tool.server, naming)));
    let names = ToolNames::new(all, OURS, &prefixes);
    tools.iter().map(|(s, t)| names.name_of(&tool(s, t)).unwrap().to_owned()).collect()
}

#[test]
fn a_name_is_prefix_and_tool() {
    assert_eq!(named(&[("github", "search"), ("fs", "search")]), ["github__search", "fs__search"]);
}

#[test]
fn what_does_not_fit_is_shortened_with_a_hash() {
    let long = "x".repeat(60);
    let names =
        named(&[("github", &long), ("github", "a.b/c"), ("my server", "\u{e9}"), ("s", "")]);
    assert_eq!(names[0].len(), MAX_BYTES);
    assert!(names[0].starts_with("github__xxxx"));
    assert!(names[1].starts_with("github__a_b_c_"));
    assert!(names[2].starts_with("my_server____"));
    assert_eq!(names[3], "s__");
    assert!(names.iter().all(|name| fits(name)), "{names:?}");
    // The name must not change across restarts or versions.
    assert_eq!(names[1], "github__a_b_c_eb1a5859");
}

#[test]
fn names_that_differ_only_in_case_get_hashes_both() {
    let names = named(&[("s", "Foo"), ("s", "foo"), ("s", "bar")]);
    assert!(names[0].starts_with("s__Foo_") && names[1].starts_with("s__foo_"), "{names:?}");
    assert_eq!(names[2], "s__bar");
    assert_ne!(names[0].to_lowercase(), names[1].to_lowercase());
}

#[test]
fn prefixes_that_run_together_do_not_collide() {
    let names = named(&[("a__b", "c"), ("a", "b__c"), ("A__B", "d")]);
    assert_eq!(names[0], "a__b__c");
    assert!(names[1].starts_with("a__b_c_"), "{names:?}");
}

#[test]
fn a_name_with_a_prefix_is_of_its_server() {
    let bare = tool("plain", "GitHub__search");
    // The server may not be there yet.
    let github = Naming::with_prefix("github");
    let prefixes = ServerPrefixes::of([("github", &github), ("plain", &Naming::Bare)]);
    let names = ToolNames::new([(bare.clone(), Naming::Bare)], OURS, &prefixes);
    assert!(names.name_of(&bare).unwrap().starts_with("GitHub_search_"), "{names:?}");
    // The only server keeps its own names.
    let names = ToolNames::new([(bare.clone(), Naming::AsIs)], OURS, &prefixes);
    assert_eq!(names.name_of(&bare), Some("GitHub__search"));
}

#[test]
fn our_names_stay_ours() {
    let bare = [tool("s", "Context_Read"), tool("s", "get_tool_details"), tool("s", "other")];
    for naming in [Naming::Bare, Naming::AsIs] {
        let names = ToolNames::new(
            bare.iter().map(|tool| (tool.clone(), naming.clone())),
            OURS,
            &ServerPrefixes::default(),
        );
        assert_eq!(names.by_name.get("get_tool_details"), None);
        assert!(names.name_of(&bare[0]).unwrap().starts_with("Context_Read_"));
        assert_eq!(names.name_of(&bare[2]), Some("other"));
    }
}

#[test]
fn a_single_server_keeps_its_names() {
    let names = ["a.b", "\u{e9}", "Foo", "foo", "x_deadbeef", ""].map(|name| tool("s", name));
    let given = ToolNames::new(
        names.iter().map(|tool| (tool.clone(), Naming::AsIs)),
        OURS,
        &ServerPrefixes::default(),
    );
    for tool in &names {
        assert_eq!(given.name_of(tool), Some(tool.tool.as_str()));
    }
}

#[test]
fn a_server_cannot_take_the_hashed_name_of_another_tool() {
    let victim = named(&[("s", "Foo"), ("s", "foo")])[0].clone();
    let planted = victim.strip_prefix("s__").unwrap();
    let names = named(&[("s", "Foo"), ("s", "foo"), ("s", planted)]);
    assert_eq!(names[0], victim);
    assert_ne!(names[2], victim);
    // `AsIs` naming allows this name, so the other tool gets a longer hash.
    let ours = tool("s", "context_read");
    let hashed = ToolNames::new([(ours.clone(), Naming::AsIs)], OURS, &ServerPrefixes::default());
    let planted = tool("s", hashed.name_of(&ours).unwrap());
    let names = ToolNames::new(
        [(ours.clone(), Naming::AsIs), (planted.clone(), Naming::AsIs)],
        OURS,
        &ServerPrefixes::default(),
    );
    assert_eq!(names.name_of(&planted), Some(planted.tool.as_str()));
    assert!(names.name_of(&ours).unwrap().len() > planted.tool.len());
}

fn any_tools() -> impl Strategy<Value = Vec<(ServerTool, Naming)>> {
    let tools = prop::collection::vec(("[abA_]{1,3}", "[aAbB_.]{0,3}|context_read|.{0,80}"), 0..20);
    let bare = prop::collection::vec(any::<bool>(), 20);
    (tools, bare).prop_map(|(tools, bare)| {
        let naming = |server: &str, bare: bool| Naming::with_prefix(if bare { "" } else { server });
        let with = |((server, name), bare): ((String, String), bool)| {
            (tool(&server, &name), naming(&server, bare))
        };
        tools.into_iter().zip(bare).map(with).collect()
    })
}

proptest! {
    #[test]
    fn every_tool_has_a_name_that_fits_and_leads_back(tools in any_tools()) {
        let names = ToolNames::new(tools.clone(), OURS, &ServerPrefixes::default());
        for (tool, _) in &tools {
            let name = names.name_of(tool).unwrap();
            prop_assert!(fits(name), "{}", name);
            prop_assert_eq!(names.by_name.get(name), Some(tool));
            prop_assert!(!OURS.contains(&name.to_lowercase().as_str()));
        }
    }

    #[test]
    fn no_two_names_are_equal_but_for_case(tools in any_tools()) {
        let names = ToolNames::new(tools, OURS, &ServerPrefixes::default());
        let folded: BTreeSet<String> = names.all().map(|(name, _)| name.to_lowercase()).collect();
        prop_assert_eq!(folded.len(), names.all().count());
    }

    #[test]
    fn the_order_does_not_matter(tools in any_tools()) {
        let unique: BTreeMap<ServerTool, Naming> = tools.into_iter().collect();
        let forward: Vec<_> = unique.into_iter().collect();
        let mut backward = forward.clone();
        backward.reverse();
        prop_assert_eq!(ToolNames::new(forward, OURS, &ServerPrefixes::default()), ToolNames::new(backward, OURS, &ServerPrefixes::default()));
    }
}
