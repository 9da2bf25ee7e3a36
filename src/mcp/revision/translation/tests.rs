mod request_meta {
    use crate::revision::translation::*;
    use crate::server_request::parameters_with;

    fn edited(text: &str, edit: impl FnOnce(&Envelope, &Message) -> Option<Edit>) -> String {
        let message = Message::whole(text.to_owned());
        let envelope = Envelope::of(&message).unwrap();
        let edits: Vec<Edit> = edit(&envelope, &message).into_iter().collect();
        message.rewritten(edits).text().to_owned()
    }

    #[test]
    fn members_go_where_the_meta_is() {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"m""#;
        for (rest, expected) in [
            ("}", r#","params":{"_meta":{"a":1}}}"#),
            ("} ", r#","params":{"_meta":{"a":1}}} "#),
            (r#","params":null}"#, r#","params":{"_meta":{"a":1}}}"#),
            (r#","params":{}}"#, r#","params":{"_meta":{"a":1}}}"#),
            (r#","params":{"n": 1.10}}"#, r#","params":{"_meta":{"a":1},"n": 1.10}}"#),
            (r#","params":{"_meta":{} }}"#, r#","params":{"_meta":{"a":1} }}"#),
            (
                r#","params":{"_meta": { "t":"x"},"n":1}}"#,
                r#","params":{"_meta": {"a":1, "t":"x"},"n":1}}"#,
            ),
        ] {
            let text = format!("{head}{rest}");
            let done =
                edited(&text, |envelope, message| with_meta(envelope, message, "\"a\":1").ok());
            assert_eq!(done, format!("{head}{expected}"));
        }
        for rest in [r#","params":[1]}"#, r#","params":{"_meta":1}}"#] {
            let message = Message::whole(format!("{head}{rest}"));
            let envelope = Envelope::of(&message).unwrap();
            assert!(matches!(with_meta(&envelope, &message, "\"a\":1"), Err(NoPlace)), "{rest}");
        }
    }

    #[test]
    fn an_old_server_sees_nothing_new() {
        let text = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{meta},"n":1.10}}}}"#
            )
        };
        let new = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","t":1.10,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/x":2}"#;
        assert_eq!(
            edited(&text(new), without_meta),
            text(r#"{"t":1.10,"io.modelcontextprotocol/x":2}"#)
        );
        for same in [r#"{ "t":1}"#, "{}", "1"] {
            assert_eq!(edited(&text(same), without_meta), text(same));
        }
    }

    #[test]
    fn own_parameters_get_a_meta() {
        assert_eq!(parameters_with("{}", "\"a\":1"), r#"{"_meta":{"a":1}}"#);
        assert_eq!(parameters_with(r#"{"n":1}"#, "\"a\":1"), r#"{"_meta":{"a":1},"n":1}"#);
    }
}

mod result {
    use proptest::prelude::*;

    use crate::json_rpc::MessageKind;
    use crate::revision::translation::*;

    fn changed(result: &str, edits: impl FnOnce(&Message, &Range<usize>) -> Vec<Edit>) -> String {
        let message = Message::whole(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
        let MessageKind::Response { result: Some(range) } = Envelope::of(&message).unwrap().kind
        else {
            panic!("no result");
        };
        let edits = edits(&message, &range);
        let text = message.rewritten(edits).text().to_owned();
        text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#)
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap()
            .to_owned()
    }

    #[test]
    fn results_get_what_a_new_client_needs() {
        for (result, is_kept, expected) in [
            (r#"{"n": 1.10}"#, false, r#"{"resultType":"complete","n": 1.10}"#),
            (
                r#"{"n":1}"#,
                true,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","n":1}"#,
            ),
            ("{}", false, r#"{"resultType":"complete"}"#),
            ("{ }", true, r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private" }"#),
            (r#"{"resultType":"task"}"#, false, r#"{"resultType":"task"}"#),
            (
                r#"{"ttlMs":5,"cacheScope":"public"}"#,
                true,
                r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#,
            ),
            (
                r#"{"ttlMs":5}"#,
                true,
                r#"{"resultType":"complete","cacheScope":"private","ttlMs":5}"#,
            ),
            ("null", false, r#"{"resultType":"complete"}"#),
        ] {
            let done = changed(result, |message, range| completed(message, range, is_kept));
            assert_eq!(done, expected, "{result}");
        }
    }

    #[test]
    fn a_missing_resource_has_the_code_of_the_revision() {
        let text = |code: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m"}}}}"#)
        };
        for (code, expected) in [("-32002", "-32602"), ("-32603", "-32603"), ("-320020", "-320020")]
        {
            let message = Message::whole(text(code));
            let edits = modern_error(&message);
            assert_eq!(message.rewritten(edits).text(), text(expected));
        }
    }

    #[test]
    fn pages_to_visit_are_asked_for() {
        let text = |code: &str, data: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m","data":{data}}}}}"#
            )
        };
        let page = r#"{"mode":"url","url":"https://x/","message":"m","elicitationId":"e"}"#;
        for (code, data, expected) in [
            (
                "-32042",
                format!(r#"{{"elicitations":[{page}]}}"#),
                Some(format!(
                    r#"{{"resultType":"input_required","inputRequests":{{"page0":{{"method":"elicitation/create","params":{page}}}}}}}"#
                )),
            ),
            ("-32042", r#"{"elicitations":[]}"#.to_owned(), None),
            ("-32042", "1".to_owned(), None),
            ("-32602", format!(r#"{{"elicitations":[{page}]}}"#), None),
        ] {
            assert_eq!(pages(&Message::whole(text(code, &data))), expected, "{code} {data}");
        }
    }

    #[test]
    fn an_old_client_gets_what_it_takes() {
        let link = r#"{"type":"resource_link","uri":"mem://a","name":"a"}"#;
        let same = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1.10}}"#;
        for (result, links, expected) in [
            (same.to_owned(), false, same.to_owned()),
            (
                r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1],"x":1}"#
                    .into(),
                true,
                r#"{"content":[{"type":"text","text":"[1]"}],"x":1}"#.into(),
            ),
            (
                r#"{"structuredContent":[1.10],"x":1}"#.into(),
                true,
                r#"{"content":[{"type":"text","text":"[1.10]"}],"x":1}"#.into(),
            ),
            (
                r#"{"x":1,"structuredContent":null}"#.into(),
                true,
                r#"{"x":1,"content":[{"type":"text","text":"null"}]}"#.into(),
            ),
            (
                r#"{"content":[],"structuredContent":"y"}"#.into(),
                true,
                r#"{"content":[{"type":"text","text":"\"y\""}]}"#.into(),
            ),
            (format!(r#"{{"content":[{link}]}}"#), true, format!(r#"{{"content":[{link}]}}"#)),
            (
                format!(r#"{{"content":[{link}]}}"#),
                false,
                r#"{"content":[{"type":"text","text":"a: mem://a"}]}"#.into(),
            ),
            ("[]".into(), false, "[]".into()),
        ] {
            let done = changed(&result, |message, range| older(message, range, links));
            assert_eq!(done, expected, "{result}");
        }
    }
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just(" true".to_owned()),
            Just("-1.10e2".to_owned()),
            any::<String>().prop_map(|text| quoted(&text)),
        ];
        let key = prop_oneof![
            any::<String>(),
            Just("content".to_owned()),
            Just("structuredContent".to_owned()),
            Just("resultType".to_owned()),
            Just("type".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|all| format!("[{}]", all.join(" ,"))),
                prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(|all| {
                    let all = all.iter().map(|(key, value)| format!("{} :{value}", quoted(key)));
                    format!("{{ {} }}", all.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_result_is_it_stays_json(result in json(), is_kept in any::<bool>()) {
            let result = result.trim();
            let done = changed(result, |message, range| completed(message, range, is_kept));
            let done: serde_json::Value = serde_json::from_str(&done).unwrap();
            prop_assert!(!done["resultType"].is_null() || result.contains("resultType"));
            let done = changed(result, |message, range| older(message, range, false));
            let done: serde_json::Value = serde_json::from_str(&done).unwrap();
            let structured = done.get("structuredContent");
            prop_assert!(structured.is_none_or(serde_json::Value::is_object), "{result} {done}");
        }
    }

    #[test]
    fn lists_and_resources_may_be_kept() {
        for (method, expected) in [
            ("tools/list", true),
            ("resources/templates/list", true),
            ("resources/read", true),
            ("server/discover", true),
            ("tools/call", false),
            ("prompts/get", false),
            ("completion/complete", false),
        ] {
            assert_eq!(is_kept(method), expected, "{method}");
        }
    }
}

mod inputs {
    use crate::revision::ClientProfile;
    use crate::revision::translation::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    fn client(capabilities: &str) -> InputKinds {
        let params = format!(r#"{{"capabilities":{capabilities}}}"#);
        ClientProfile::of_initialize(Some(raw(&params))).abilities()
    }

    #[test]
    fn a_result_that_asks_is_read_as_it_was_written() {
        let json = r#"{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},"a\n":{"method":"sampling/createMessage","params":{"n":1.10}}},"requestState":"\u00e9\/"}"#;
        assert!(is_input_required(raw(json)));
        let asked = InputRequired::of(raw(json), client(r#"{"roots":{},"sampling":{}}"#)).unwrap();
        assert_eq!(asked.state.as_deref(), Some(r#""\u00e9\/""#));
        let requests: Vec<String> = asked.requests.iter().map(|one| one.request(7)).collect();
        assert_eq!(
            requests,
            [
                r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#,
                r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"n":1.10}}"#,
            ]
        );
        assert_eq!(asked.requests[1].key, "a\n");
    }

    #[test]
    fn a_page_to_visit_has_an_id_for_an_old_client() {
        let url = r#"{"mode":"url","message":"m","url":"https://x/"}"#;
        let json = format!(
            r#"{{"inputRequests":{{"a":{{"method":"elicitation/create","params":{url}}}}}}}"#
        );
        let asked = InputRequired::of(raw(&json), client(r#"{"elicitation":{"url":{}}}"#)).unwrap();
        let request = asked.requests[0].request(7);
        assert_eq!(
            request,
            r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"elicitationId":"7","mode":"url","message":"m","url":"https://x/"}}"#
        );
        assert_eq!(
            asked.requests[0].members(),
            format!(r#""method":"elicitation/create","params":{url}"#)
        );
    }

    #[test]
    fn other_results_do_not_ask() {
        for json in [r#"{"resultType":"complete"}"#, "{}", "[]", "1", r#"{"resultType":1}"#] {
            assert!(!is_input_required(raw(json)), "{json}");
        }
    }

    #[test]
    fn what_cannot_be_answered_is_an_error() {
        let many: Vec<String> =
            (0..33).map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#)).collect();
        let many = format!(r#"{{"inputRequests":{{{}}}}}"#, many.join(","));
        for (json, expected) in [
            ("{}", "not for which"),
            (r#"{"inputRequests":{}}"#, "not for which"),
            (r#"{"requestState":1}"#, "not for which"),
            (r#"{"inputRequests":[]}"#, "in a way that is not known"),
            (r#"{"inputRequests":{"a":{"method":"elicitation/create"}}}"#, "`elicitation/create`"),
            (r#"{"inputRequests":{"a":{"method":"tools/call"}}}"#, "`tools/call`"),
            (r#"{"inputRequests":{"a":1}}"#, "``"),
            (&many, "more than 32"),
        ] {
            let why = InputRequired::of(raw(json), client(r#"{"roots":{}}"#)).unwrap_err();
            assert!(why.contains(expected), "{json}: {why}");
        }
    }

    #[test]
    fn a_call_is_made_again_with_the_answers() {
        let request = Outgoing::from(
            br#"{"params":{"name":"x","n":1.10},"jsonrpc":"2.0","id":3,"method":"tools/call"}"#
                .to_vec(),
        );
        let responses = [("a\n".to_owned(), "{\"n\":1.10}".to_owned()), ("b".into(), "{}".into())];
        for (members, expected) in [
            (repeated(&[], None), ""),
            (repeated(&[], Some("\"s\"")), r#","requestState":"s""#),
            (
                repeated(&responses, Some("\"s\"")),
                r#","inputResponses":{"a\n":{"n":1.10},"b":{}},"requestState":"s""#,
            ),
        ] {
            let again = with_members(&request, 1234, &members).outline();
            assert_eq!(
                again.text(),
                format!(
                    r#"{{"params":{{"name":"x","n":1.10{expected}}},"jsonrpc":"2.0","id":1234,"method":"tools/call"}}"#
                )
            );
        }
    }
}

mod filter {
    use crate::revision::translation::*;

    #[test]
    fn a_filter_has_what_was_asked_for() {
        for (params, expected) in [
            (r#"{"notifications":{}}"#, "{}"),
            ("{}", "{}"),
            (
                r#"{"notifications":{"toolsListChanged":true,"x":true}}"#,
                r#"{"toolsListChanged":true}"#,
            ),
            (r#"{"notifications":{"toolsListChanged":false,"promptsListChanged":1}}"#, "{}"),
            (
                r#"{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["b","a","b",1]}}"#,
                r#"{"resourcesListChanged":true,"resourceSubscriptions":["a","b"]}"#,
            ),
        ] {
            let filter = SubscriptionFilter::of(serde_json::from_str(params).ok());
            assert_eq!(filter.json(), expected, "{params}");
            assert_eq!(filter.is_empty(), expected == "{}", "{params}");
        }
    }

    #[test]
    fn notifications_are_those_of_the_lists() {
        let filter =
            SubscriptionFilter { lists: [true, false, true], ..SubscriptionFilter::default() };
        for (notification, expected) in [
            ("notifications/tools/list_changed", true),
            ("notifications/prompts/list_changed", false),
            ("notifications/resources/list_changed", true),
            ("notifications/roots/list_changed", false),
            ("notifications/message", false),
        ] {
            assert_eq!(filter.has(notification), expected, "{notification}");
        }
    }
}
