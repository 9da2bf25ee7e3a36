mod rules {
    use crate::permission::rules::*;

    #[test]
    fn without_rules_reads_are_allowed_and_others_asked() {
        let rules = Rules::default();
        for risk in Risk::ALL {
            let verdict = if risk == Risk::Read { Verdict::Allow } else { Verdict::Ask };
            let expected = Ruling { verdict, source: RuleSource::Default(risk) };
            assert_eq!(rules.rule("s/t", risk), expected);
        }
    }

    #[test]
    fn deny_comes_before_ask_before_allow() {
        let mut rules = Rules::default();
        for verdict in [Verdict::Allow, Verdict::Ask] {
            rules.add("s/*", verdict, RuleAuthor::User).unwrap();
        }
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Ask);
        rules.add("*/t", Verdict::Deny, RuleAuthor::User).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).source, RuleSource::Rule("*/t".to_owned()));
        rules.add("s/t", Verdict::Allow, RuleAuthor::User).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Deny);
        rules.add("s/t*", Verdict::Allow, RuleAuthor::User).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Allow);
    }

    #[test]
    fn defaults_are_by_risk_and_the_stricter_holds() {
        let mut rules = Rules::default();
        rules.add("write", Verdict::Allow, RuleAuthor::User).unwrap();
        rules.add("read", Verdict::Deny, RuleAuthor::User).unwrap();
        rules.add("read", Verdict::Ask, RuleAuthor::User).unwrap();
        let of = |risk| rules.rule("s/t", risk).verdict;
        assert_eq!(Risk::ALL.map(of), [Verdict::Deny, Verdict::Allow, Verdict::Ask, Verdict::Ask]);
    }

    #[test]
    fn what_the_administrator_refuses_no_other_rule_allows() {
        let mut rules = Rules::default();
        rules.add("shell/*", Verdict::Deny, RuleAuthor::Administrator).unwrap();
        rules.add("shell/ls", Verdict::Ask, RuleAuthor::Administrator).unwrap();
        rules.add("docs/*", Verdict::Allow, RuleAuthor::Administrator).unwrap();
        rules.add("write", Verdict::Deny, RuleAuthor::Administrator).unwrap();
        for tool in ["shell/exec", "shell/ls", "fs/write", "docs/delete*"] {
            rules.add(tool, Verdict::Allow, RuleAuthor::User).unwrap();
        }
        rules.add("docs/delete", Verdict::Deny, RuleAuthor::User).unwrap();
        let of = |tool: &str, risk| rules.rule(tool, risk).verdict;
        assert_eq!(of("shell/exec", Risk::Execute), Verdict::Deny);
        assert_eq!(rules.rule("shell/exec", Risk::Read).source, RuleSource::Rule("shell/*".into()));
        assert_eq!(of("shell/ls", Risk::Read), Verdict::Ask);
        assert_eq!(of("fs/write", Risk::Write), Verdict::Deny);
        assert_eq!(of("fs/write", Risk::Read), Verdict::Allow);
        // Others may be stricter, and the administrator's own exceptions hold.
        assert_eq!(of("docs/delete", Risk::Write), Verdict::Allow);
        assert_eq!(of("docs/put", Risk::Write), Verdict::Allow);
        rules.add("docs/d[e]lete", Verdict::Deny, RuleAuthor::User).unwrap();
        assert_eq!(rules.rule("docs/delete", Risk::Write).verdict, Verdict::Deny);
    }

    #[test]
    fn with_unreadable_rules_nothing_is_allowed_without_a_person() {
        let mut rules = Rules::default();
        rules.add("s/t", Verdict::Allow, RuleAuthor::User).unwrap();
        rules.add("s/no", Verdict::Deny, RuleAuthor::User).unwrap();
        rules.add_unreadable();
        let asked = Ruling { verdict: Verdict::Ask, source: RuleSource::Unreadable };
        assert_eq!(rules.rule("s/t", Risk::Read), asked);
        assert_eq!(rules.rule("other/x", Risk::Read), asked);
        assert_eq!(rules.rule("s/no", Risk::Read).verdict, Verdict::Deny);
    }
}

mod risk {
    use crate::permission::rules::*;
    use serde_json::json;

    #[test]
    fn annotations_count_only_for_trusted_servers() {
        let hints = |hints: Value| Annotations::of_tool(&json!({"annotations": hints}));
        let table = [
            (json!({"readOnlyHint": true}), Risk::Read),
            (json!({"readOnlyHint": true, "destructiveHint": true}), Risk::Read),
            (json!({"readOnlyHint": false, "destructiveHint": false}), Risk::Write),
            (json!({"destructiveHint": true}), Risk::Write),
            (json!({"readOnlyHint": "true"}), Risk::Write),
            (json!({}), Risk::Write),
            (json!(null), Risk::Write),
            (json!([true]), Risk::Write),
        ];
        let rules = RiskRules::default();
        for (said, expected) in table {
            assert_eq!(rules.risk("s/t", Some(hints(said.clone()))), expected, "{said}");
        }
        assert_eq!(rules.risk("s/t", None), Risk::Unknown);
        assert_eq!(Annotations::of_tool(&json!("no object")), Annotations::default());
    }

    #[test]
    fn the_users_globs_come_first() {
        let mut rules = RiskRules::default();
        rules.add("shell/*", Risk::Execute, RuleAuthor::User).unwrap();
        rules.add("*/list_*", Risk::Read, RuleAuthor::User).unwrap();
        let reads = Some(Annotations { read_only: true });
        assert_eq!(rules.risk("shell/run", reads), Risk::Execute);
        assert_eq!(rules.risk("fs/list_files", None), Risk::Read);
        assert_eq!(rules.risk("shell/list_jobs", None), Risk::Read);
        assert_eq!(rules.risk("fs/write", reads), Risk::Read);
        // Of patterns of equal length, the higher risk decides.
        rules.add("shell/l*", Risk::Write, RuleAuthor::User).unwrap();
        assert_eq!(rules.risk("shell/list_jobs", None), Risk::Write);
    }

    #[test]
    fn no_tool_has_less_risk_than_the_administrator_states() {
        let mut rules = RiskRules::default();
        rules.add("shell/*", Risk::Execute, RuleAuthor::Administrator).unwrap();
        rules.add("fs/*", Risk::Read, RuleAuthor::Administrator).unwrap();
        rules.add("shell/exec", Risk::Read, RuleAuthor::User).unwrap();
        rules.add("fs/write", Risk::Write, RuleAuthor::User).unwrap();
        let reads = Some(Annotations { read_only: true });
        let of = |tool: &str| rules.risk(tool, reads);
        assert_eq!(
            ["shell/exec", "fs/write", "fs/x"].map(of),
            [Risk::Execute, Risk::Write, Risk::Read]
        );
    }

    #[test]
    fn every_risk_has_a_word() {
        assert!(Risk::ALL.into_iter().all(|risk| Risk::of_word(risk.as_str()) == Some(risk)));
        assert_eq!(Risk::of_word("Read"), None);
    }
}

mod glob_rules {
    use crate::permission::rules::*;

    #[test]
    fn the_longest_glob_decides_and_the_greatest_of_equal_ones() {
        let mut rules = GlobRules::default();
        for (pattern, value) in [("*", 1), ("github/*", 2), ("github/get_*", 3), ("*/get_issue", 4)]
        {
            rules.add(pattern, value).unwrap();
        }
        let table = [
            ("fs/read", Some(("*", 1))),
            ("github/search", Some(("github/*", 2))),
            ("github/get_me", Some(("github/get_*", 3))),
            ("fs/get_issue", Some(("*/get_issue", 4))),
            // The patterns have 12 and 11 characters.
            ("github/get_issue", Some(("github/get_*", 3))),
        ];
        for (tool, expected) in table {
            assert_eq!(rules.find(tool), expected, "{tool}");
        }
        rules.add("*/get_issue?", 9).unwrap();
        rules.add("github/get_*", 7).unwrap();
        rules.add("github/get_*", 5).unwrap();
        assert_eq!(rules.find("github/get_issue"), Some(("github/get_*", 7)));
    }

    #[test]
    fn what_is_no_glob_is_named() {
        let error = GlobRules::default().add("github/[", 1).unwrap_err();
        assert!(error.to_string().starts_with("`github/[` is not a pattern of tools: "), "{error}");
    }
}
