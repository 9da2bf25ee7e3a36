use super::*;

/// How a client can put a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Elicitation,
    InputRequired,
    Neither,
}

fn tool(name: &str) -> TrueName {
    TrueName { server: "github".to_owned(), tool: name.to_owned() }
}

/// What becomes of a call, and of the next one of the same tool. The rows are the contract: who may
/// ask, what the rules say, what the person says.
fn expected(client: Client, rule: Verdict, answer: Answer) -> (&'static str, &'static str) {
    match (client, rule, answer) {
        (_, Verdict::Allow, _) => ("allowed by rules", "allowed by rules"),
        (_, Verdict::Deny, _) => ("refused by rules", "refused by rules"),
        (Client::Neither, Verdict::Ask, _) => ("refused: nobody", "refused: nobody"),
        (_, Verdict::Ask, Answer::Once) => ("allowed by person", "asked"),
        (_, Verdict::Ask, Answer::Conversation | Answer::Always) => {
            ("allowed by person", "allowed earlier")
        }
        (_, Verdict::Ask, Answer::No) => ("refused by person", "asked"),
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
        Decision::Allowed(Decider::NobodyToAsk) | Decision::Refused(Decider::Conversation) => {
            panic!("{decision:?} makes no sense")
        }
    }
}

/// Every client, every risk, every verdict as a default and as a rule, every answer.
#[test]
fn every_row_of_the_table() {
    let clients = [Client::Elicitation, Client::InputRequired, Client::Neither];
    let mut rows = 0;
    for client in clients {
        for risk in Risk::ALL {
            for verdict in Verdict::ALL {
                for by_rule in [false, true] {
                    for answer in Answer::ALL {
                        check_row(client, risk, verdict, by_rule, answer);
                        rows += 1;
                    }
                }
            }
        }
    }
    assert_eq!(rows, 288);
}

fn check_row(client: Client, risk: Risk, verdict: Verdict, by_rule: bool, answer: Answer) {
    let mut rules = Rules::default();
    if by_rule {
        rules.add("github/*", verdict).unwrap();
    } else {
        rules.add_default(risk, verdict);
    }
    let (tool, mut remembered) = (tool("create_issue"), Remembered::default());
    let can_ask = client != Client::Neither;
    let mut first = decide(&rules, &remembered, &tool, risk, can_ask);
    if first == Decision::Ask {
        remembered.keep(&tool, answer);
        first = Decision::of_answer(answer);
    }
    let next = decide(&rules, &remembered, &tool, risk, can_ask);
    let row = (shown(&first), shown(&next));
    assert_eq!(row, expected(client, verdict, answer), "{client:?} {risk} {verdict} {answer:?}");
}

#[test]
fn the_usual_rules_ask_about_all_but_reads() {
    let decide = |risk| decide(&Rules::default(), &Remembered::default(), &tool("t"), risk, true);
    assert_eq!(shown(&decide(Risk::Read)), "allowed by rules");
    for risk in [Risk::Write, Risk::Execute, Risk::Unknown] {
        assert_eq!(decide(risk), Decision::Ask);
    }
}

#[test]
fn what_is_allowed_for_a_conversation_is_one_tool_and_never_what_is_denied() {
    let mut remembered = Remembered::default();
    remembered.keep(&tool("a"), Answer::Conversation);
    let mut rules = Rules::default();
    let decide = |rules: &Rules, name| decide(rules, &remembered, &tool(name), Risk::Write, true);
    assert_eq!(decide(&rules, "a"), Decision::Allowed(Decider::Conversation));
    assert_eq!(decide(&rules, "A"), Decision::Ask);
    rules.add("github/a", Verdict::Deny).unwrap();
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
            Decider::Person(Answer::No),
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
