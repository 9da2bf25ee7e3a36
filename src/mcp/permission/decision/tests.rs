mod decision {
    use crate::permission::decision::*;
    use crate::permission::rules::RuleAuthor;
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Client {
        Elicitation,
        InputRequired,
        Neither,
    }

    fn tool(name: &str) -> ServerTool {
        ServerTool { server: "github".to_owned(), tool: name.to_owned() }
    }

    /// Returns the expected decisions for a call and for the next call of the same tool. The rows
    /// are the contract: they depend on the client's abilities, the rules and the user's answer.
    fn expected(client: Client, rule: Verdict, answer: UserAnswer) -> (&'static str, &'static str) {
        match (client, rule, answer) {
            (_, Verdict::Allow, _) => ("allowed by rules", "allowed by rules"),
            (_, Verdict::Deny, _) => ("refused by rules", "refused by rules"),
            (Client::Neither, Verdict::Ask, _) => ("refused: nobody", "refused: nobody"),
            (_, Verdict::Ask, UserAnswer::Once) => ("allowed by person", "asked"),
            (_, Verdict::Ask, UserAnswer::Conversation | UserAnswer::Always) => {
                ("allowed by person", "allowed earlier")
            }
            (_, Verdict::Ask, UserAnswer::No) => ("refused by person", "asked"),
            (_, Verdict::Ask, UserAnswer::Missing) => ("refused: no answer", "asked"),
        }
    }

    fn shown(decision: &Decision) -> &'static str {
        match decision {
            Decision::Ask => "asked",
            Decision::Allowed(Decider::Rules(_)) => "allowed by rules",
            Decision::Allowed(Decider::Person(_)) => "allowed by person",
            Decision::Allowed(Decider::Conversation) => "allowed earlier",
            Decision::Refused(Decider::Rules(_)) => "refused by rules",
            Decision::Refused(Decider::Person(_)) => "refused by person",
            Decision::Refused(Decider::NobodyToAsk) => "refused: nobody",
            Decision::Refused(Decider::NoAnswer) => "refused: no answer",
            Decision::Allowed(Decider::NobodyToAsk | Decider::NoAnswer)
            | Decision::Refused(Decider::Conversation) => {
                panic!("{decision:?} makes no sense")
            }
        }
    }
    #[test]
    fn every_row_of_the_table() {
        let clients = [Client::Elicitation, Client::InputRequired, Client::Neither];
        let mut rows = 0;
        for client in clients {
            for risk in Risk::ALL {
                for verdict in Verdict::ALL {
                    for by_rule in [false, true] {
                        for answer in UserAnswer::ALL.into_iter().chain([UserAnswer::Missing]) {
                            check_row(client, risk, verdict, by_rule, answer);
                            rows += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(rows, 360);
    }

    fn check_row(client: Client, risk: Risk, verdict: Verdict, by_rule: bool, answer: UserAnswer) {
        let mut rules = Rules::default();
        if by_rule {
            rules.add("github/*", verdict, RuleAuthor::User).unwrap();
        } else {
            rules.add(risk.as_str(), verdict, RuleAuthor::User).unwrap();
        }
        let (tool, mut remembered) = (tool("create_issue"), SessionAllowances::default());
        let can_ask = client != Client::Neither;
        let mut first = decide(&rules, &remembered, &tool, risk, can_ask);
        if first == Decision::Ask {
            remembered.keep(&tool, answer);
            first = Decision::of_answer(answer);
        }
        let next = decide(&rules, &remembered, &tool, risk, can_ask);
        let row = (shown(&first), shown(&next));
        assert_eq!(
            row,
            expected(client, verdict, answer),
            "{client:?} {risk} {verdict} {answer:?}"
        );
    }

    #[test]
    fn the_usual_rules_ask_about_all_but_reads() {
        let decide =
            |risk| decide(&Rules::default(), &SessionAllowances::default(), &tool("t"), risk, true);
        assert_eq!(shown(&decide(Risk::Read)), "allowed by rules");
        for risk in [Risk::Write, Risk::Execute, Risk::Unknown] {
            assert_eq!(decide(risk), Decision::Ask);
        }
    }

    #[test]
    fn what_is_allowed_for_a_conversation_is_one_tool_and_never_what_is_denied() {
        let mut remembered = SessionAllowances::default();
        remembered.keep(&tool("a"), UserAnswer::Conversation);
        let mut rules = Rules::default();
        let decide =
            |rules: &Rules, name| decide(rules, &remembered, &tool(name), Risk::Write, true);
        assert_eq!(decide(&rules, "a"), Decision::Allowed(Decider::Conversation));
        assert_eq!(decide(&rules, "A"), Decision::Ask);
        rules.add("github/a", Verdict::Deny, RuleAuthor::User).unwrap();
        assert_eq!(shown(&decide(&rules, "a")), "refused by rules");
    }

    #[test]
    fn the_line_that_allows_a_tool_is_safe_to_paste() {
        let table = [
            ("create_issue", Some("ctxfs mcp allow github/create_issue")),
            ("x; rm -rf ~", Some("ctxfs mcp allow 'github/x; rm -rf ~'")),
            ("$(id)'", Some("ctxfs mcp allow 'github/$(id)'\"'\"")),
            ("*", Some("ctxfs mcp allow 'github/[*]'")),
            ("a\nb", None),
            ("a\u{202e}b", None),
            ("a\0b", None),
        ];
        for (name, expected) in table {
            assert_eq!(allow_line(&tool(name)).as_deref(), expected, "{name:?}");
        }
    }

    #[test]
    fn a_refusal_says_why_and_what_next() {
        let tool = tool("create_issue");
        let rule = Decider::Rules(RuleSource::Rule("github/*".to_owned()));
        let table = [
            (rule, "`github/create_issue` is denied by the rule `github/*`. Do without it."),
            (
                Decider::Rules(RuleSource::Default(Risk::Execute)),
                "`github/create_issue` is denied: its risk is write. Do without it.",
            ),
            (
                Decider::Person(UserAnswer::No),
                "A person refused this call of `github/create_issue`. Do not repeat it.",
            ),
            (
                Decider::NobodyToAsk,
                "`github/create_issue` (write) needs a person's permission, and this client cannot ask \
             for it. The user can allow it in a terminal: ctxfs mcp allow github/create_issue",
            ),
        ];
        for (decider, expected) in table {
            assert_eq!(decider.refusal(&tool, Risk::Write), expected);
        }
    }
}

mod question {
    use crate::permission::decision::*;
    use proptest::prelude::*;

    fn text(tool: &str, arguments: &Value) -> String {
        let tool = ServerTool { server: "github".to_owned(), tool: tool.to_owned() };
        CallQuestion { tool: &tool, risk: Risk::Write, arguments }.text()
    }

    #[test]
    fn it_shows_server_tool_risk_and_arguments() {
        let arguments = json!({"title": "It's \"broken\"", "labels": ["a"], "body": "1\n2"});
        assert_eq!(
            text("create_issue", &arguments),
            "Allow this call?\nserver: github\ntool: create_issue\nrisk: write\narguments:\n  \
         body: \"1\\n2\"\n  labels: [\"a\"]\n  title: \"It's \\\"broken\\\"\"\n"
        );
        assert!(text("t", &json!({})).ends_with("arguments: none\n"));
        assert!(text("t", &json!("x")).ends_with("arguments: \"x\"\n"));
    }

    #[test]
    fn nobody_can_forge_a_line() {
        let arguments = json!({"a\nrisk: read": "\u{202e}x\u{2028}risk: read\u{7f}"});
        let shown = text("t\nrisk: read\u{1b}[2J", &arguments);
        assert!(shown.contains("tool: t\\nrisk: read\\u{1b}[2J\n"), "{shown}");
        assert!(shown.contains("  a\\nrisk: read: \"\\u{202e}x\\u{2028}risk: read\\u{7f}\"\n"));
        assert_eq!(shown.lines().filter(|line| line.starts_with("risk: ")).count(), 1);
    }

    #[test]
    fn a_long_argument_hides_no_other() {
        let shown = text("t", &json!({"a": "x".repeat(100_000), "b": "rm -rf /"}));
        assert!(shown.contains("  b: \"rm -rf /\"\n"));
        assert!(shown.contains("more bytes)\n"), "{shown}");
        let many: serde_json::Map<_, _> =
            (0..500).map(|n| (format!("k{n:03}"), json!("y".repeat(900)))).collect();
        let shown = text("t", &Value::Object(many));
        assert!(shown.contains("  k029: ") && shown.ends_with("  ... (470 more arguments)\n"));
    }

    #[test]
    fn a_refusal_is_what_a_person_says() {
        for answer in UserAnswer::ALL {
            let result = json!({"action": "accept", "content": {"answer": answer.as_str()}});
            assert_eq!(UserAnswer::of_result(&result), answer);
            for (action, expected) in [
                ("decline", UserAnswer::No),
                ("cancel", UserAnswer::Missing),
                ("", UserAnswer::Missing),
                ("Accept", UserAnswer::Missing),
            ] {
                let result = json!({"action": action, "content": {"answer": answer.as_str()}});
                assert_eq!(UserAnswer::of_result(&result), expected);
            }
        }
        for odd in [
            json!({"action": "accept"}),
            json!(null),
            json!({"action": "accept",
        "content": {"answer": "yes"}}),
            json!({"action": "accept", "content": ["allow once"]}),
        ] {
            assert_eq!(UserAnswer::of_result(&odd), UserAnswer::Missing, "{odd}");
        }
    }

    #[test]
    fn the_request_offers_every_answer() {
        let tool = ServerTool { server: "s".to_owned(), tool: "t".to_owned() };
        let request =
            CallQuestion { tool: &tool, risk: Risk::Read, arguments: &json!({}) }.request();
        let answer = &request["requestedSchema"]["properties"]["answer"];
        let all = json!(["allow once", "allow for this conversation", "always allow", "no"]);
        assert_eq!((&answer["title"], &answer["enum"]), (&json!("Answer"), &all));
    }

    proptest! {
        #[test]
        fn it_is_bounded(
            tool in any::<String>(),
            members in prop::collection::btree_map(any::<String>(), any::<String>(), 0..60),
        ) {
            let shown = text(&tool, &json!(members));
            prop_assert!(shown.len() < 16_000, "{}", shown.len());
            prop_assert!(!shown.replace('\n', "").chars().any(visible::is_hidden));
        }
    }
}

mod log_line {
    use crate::permission::decision::*;

    fn line(decision: &Decision) -> Value {
        let tool = ServerTool { server: "s".to_owned(), tool: "t\n\u{202e}".to_owned() };
        let arguments = ArgumentsDigest::of(&json!({"token": "hunter2"}));
        let text =
            DecisionRecord { time: 5, tool: &tool, risk: Risk::Write, arguments, decision }.text();
        assert!(text.ends_with('\n') && text.lines().count() == 1 && !text.contains("hunter2"));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn it_says_what_was_decided_and_by_whom() {
        let rule = |pattern: &str| Decider::Rules(RuleSource::Rule(pattern.to_owned()));
        let table = [
            (Decision::Allowed(rule("s/*")), json!(["allowed", "rule", "s/*"])),
            (Decision::Refused(rule("s/*")), json!(["refused", "rule", "s/*"])),
            (
                Decision::Allowed(Decider::Rules(RuleSource::Default(Risk::Read))),
                json!(["allowed", "default", "read"]),
            ),
            (Decision::of_answer(UserAnswer::Always), json!(["allowed", "person", "always allow"])),
            (Decision::of_answer(UserAnswer::No), json!(["refused", "person", "no"])),
            (Decision::Allowed(Decider::Conversation), json!(["allowed", "person, earlier", null])),
            (Decision::Refused(Decider::NobodyToAsk), json!(["refused", "nobody to ask", null])),
            (Decision::of_answer(UserAnswer::Missing), json!(["refused", "no answer", null])),
            (Decision::Ask, json!(["asked", null, null])),
        ];
        for (decision, expected) in table {
            let line = line(&decision);
            assert_eq!(json!([line["decision"], line["by"], line["rule"]]), expected);
            assert_eq!(
                json!([line["time"], line["server"], line["risk"]]),
                json!([5, "s", "write"])
            );
            assert_eq!(line["arguments"].as_str().unwrap().len(), 64);
        }
    }
}
