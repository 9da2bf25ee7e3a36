mod rule_file {
    use proptest::prelude::*;

    use crate::permission::rule_file::*;
    use crate::permission::rules::Risk;

    fn rules(text: &str) -> Vec<(String, Verdict)> {
        let parsed = FileRules::parse(text);
        assert_eq!(parsed.flaws, [], "{text}");
        parsed.rules.into_iter().map(|(key, verdict, _)| (key, verdict)).collect()
    }

    #[test]
    fn a_new_file_says_what_it_is() {
        let text = with_rule("", "github/create_issue", Verdict::Allow).unwrap();
        assert_eq!(
            text,
            format!("{HEADING}\n[permissions]\n\"github/create_issue\" = \"allow\"\n")
        );
        assert_eq!(rules(&text), [("github/create_issue".to_owned(), Verdict::Allow)]);
    }

    #[test]
    fn everything_else_stays() {
        let text = "# mine\n\n[permissions] # here\n# about a\n'a/*'   = 'ask' # for now\nread = \"allow\"\n";
        let changed = with_rule(text, "a/*", Verdict::Deny).unwrap();
        assert_eq!(changed, text.replace("'ask'", "\"deny\""));
        let added = with_rule(&changed, "b/x", Verdict::Allow).unwrap();
        assert_eq!(added, format!("{changed}\"b/x\" = \"allow\"\n"));
        assert_eq!(with_rule(&added, "b/x", Verdict::Allow).unwrap(), added);
        let inline =
            with_rule("permissions = { \"a/b\" = \"ask\" }\n", "a/c", Verdict::Deny).unwrap();
        assert_eq!(rules(&inline).len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_makes_the_rest_careful() {
        let text = "[permissions]\n\"a/*\" = \"alow\"\n\"b/[\" = \"deny\"\n\"c/*\" = \"allow\"\nx = 3\n\n[other]\n";
        let parsed = FileRules::parse(text);
        let mut rules = Rules::default();
        let flaws: Vec<String> =
            parsed.add_to(&mut rules).iter().map(ToString::to_string).collect();
        assert_eq!(flaws[0], "permissions.toml:2: `a/*` can be allow, ask or deny");
        assert_eq!(flaws[1], "permissions.toml:5: `x` can be allow, ask or deny");
        assert_eq!(flaws[2], "permissions.toml:7: `other` does not belong here");
        assert!(flaws[3].starts_with("permissions.toml:3: `b/[` is not a pattern of tools"));
        assert_eq!(rules.rule("c/x", Risk::Read).verdict, Verdict::Ask);
    }

    #[test]
    fn what_is_no_toml_is_read_as_a_flaw_and_not_changed() {
        for text in ["[permissions\n", "permissions = 3\n", "\u{0}"] {
            let mut rules = Rules::default();
            assert_eq!(FileRules::parse(text).add_to(&mut rules).len(), 1, "{text}");
            assert_eq!(rules.rule("c/x", Risk::Read).verdict, Verdict::Ask);
            let error = with_rule(text, "a/b", Verdict::Allow).unwrap_err().to_string();
            assert!(error.starts_with("permissions.toml: ") && error.ends_with("mend it by hand"));
        }
    }

    #[test]
    fn a_tool_whose_name_is_a_glob_gets_a_rule_for_itself_alone() {
        let tool = ServerTool { server: "evil".to_owned(), tool: "*".to_owned() };
        let mut rules = Rules::default();
        rules.add(&pattern_of(&tool), Verdict::Allow, RuleAuthor::User).unwrap();
        assert_eq!(rules.rule("evil/*", Risk::Write).verdict, Verdict::Allow);
        assert_eq!(rules.rule("evil/other", Risk::Write).verdict, Verdict::Ask);
    }

    proptest! {
        #[test]
        fn any_key_is_written_and_read_back(keys in prop::collection::vec(any::<String>(), 1..6)) {
            let mut text = String::new();
            for key in &keys {
                text = with_rule(&text, key, Verdict::Deny).unwrap();
            }
            let read: Vec<String> = rules(&text).into_iter().map(|(key, _)| key).collect();
            let mut expected: Vec<&String> = Vec::new();
            for key in &keys {
                if !expected.contains(&key) {
                    expected.push(key);
                }
            }
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn the_pattern_of_a_tool_matches_it_alone(tool in ".{0,12}", other in ".{0,12}") {
            let name = |tool: &str| ServerTool { server: "s".to_owned(), tool: tool.to_owned() };
            let mut rules = Rules::default();
            rules.add(&pattern_of(&name(&tool)), Verdict::Allow, RuleAuthor::User).unwrap();
            prop_assert_eq!(rules.rule(&name(&tool).to_string(), Risk::Write).verdict, Verdict::Allow);
            if other != tool {
                prop_assert_eq!(rules.rule(&name(&other).to_string(), Risk::Write).verdict, Verdict::Ask);
            }
        }

        #[test]
        fn any_text_is_read(text in any::<String>()) {
            let parsed = FileRules::parse(&text);
            prop_assert!(parsed.flaws.len() < 3 || parsed.flaws.len() <= text.lines().count());
        }
    }
}

mod stored {
    use std::{fs, thread};

    use crate::permission::rule_file::*;
    use crate::permission::rules::Risk;

    fn store() -> (tempfile::TempDir, Store) {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        (temporary, store)
    }

    #[test]
    fn what_is_kept_holds() {
        let (_temporary, store) = store();
        keep(&store, "github/create_issue", Verdict::Allow).unwrap();
        keep(&store, "execute", Verdict::Deny).unwrap();
        let mut rules = Rules::default();
        assert_eq!(add_stored(&mut rules, &store), Vec::<String>::new());
        let verdict = |tool: &str, risk| rules.rule(tool, risk).verdict;
        assert_eq!(verdict("github/create_issue", Risk::Write), Verdict::Allow);
        assert_eq!(verdict("github/other", Risk::Write), Verdict::Ask);
        assert_eq!(verdict("github/other", Risk::Execute), Verdict::Deny);
        let error = keep(&store, "a/[", Verdict::Allow).unwrap_err().to_string();
        assert!(error.starts_with("`a/[` is not a pattern of tools"), "{error}");
    }

    #[test]
    fn writers_at_once_lose_no_rule() {
        let (_temporary, store) = store();
        thread::scope(|scope| {
            for writer in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..5 {
                        keep(store, &format!("s{writer}/t{n}"), Verdict::Allow).unwrap();
                    }
                });
            }
        });
        let read = FileRules::parse(&store.permissions().unwrap());
        assert_eq!((read.rules.len(), read.flaws.len()), (20, 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_allows_nothing_and_is_not_written_over() {
        let (temporary, store) = store();
        let path = temporary.path().join("permissions.toml");
        for content in [&b"[permissions\n"[..], b"\xff"] {
            fs::write(&path, content).unwrap();
            let mut rules = Rules::default();
            assert_eq!(add_stored(&mut rules, &store).len(), 1);
            assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Ask);
            keep(&store, "s/t", Verdict::Allow).unwrap_err();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
    }
}
