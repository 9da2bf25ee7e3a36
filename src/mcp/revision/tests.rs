mod era {
    use crate::revision::*;

    #[test]
    fn only_different_eras_are_bridged() {
        let known = EraCell::default();
        assert_eq!(known.get(), None);
        for era in [Era::Modern, Era::Legacy] {
            known.set(era);
            assert_eq!(known.get(), Some(era));
            assert_eq!(EraMismatch::of(Some(era), Some(era)), None);
            assert_eq!(EraMismatch::of(Some(era), None), None);
            assert_eq!(EraMismatch::of(None, Some(era)), None);
        }
        let between = |client, server| EraMismatch::of(Some(client), Some(server));
        assert_eq!(between(Era::Legacy, Era::Modern), Some(EraMismatch::OldClient));
        assert_eq!(between(Era::Modern, Era::Legacy), Some(EraMismatch::NewClient));
    }
}

mod client_said {
    use serde_json::json;

    use crate::revision::*;

    fn raw(json: &str) -> Option<&RawValue> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn each_revision_says_it_in_its_own_way() {
        let old = r#"{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1.10"},"capabilities":{"roots":{"listChanged":true},"tasks":{},"sampling":{},"x":{"n":1.10}}}"#;
        let said = ClientProfile::of_initialize(raw(old));
        assert_eq!(
            said.meta(),
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1.10"},"io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{},"x":{"n":1.10}}"#
        );
        let new = format!(r#"{{"_meta":{{{}}}}}"#, said.meta());
        let said = ClientProfile::of_request(raw(&new));
        assert_eq!(
            said.initialize("2025-11-25"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{},"x":{"n":1.10}},"clientInfo":{"name":"c","version":"1.10"}}"#
        );
        assert_eq!(revision_of(raw(&new)).as_deref(), Some("2026-07-28"));
        for nothing in [None, raw("{}"), raw("[]"), raw(r#"{"_meta":1}"#)] {
            assert_eq!(
                ClientProfile::of_request(nothing).initialize("v"),
                ClientProfile::default().initialize("v")
            );
            assert_eq!(revision_of(nothing), None);
        }
    }

    #[test]
    fn what_no_server_can_read_is_left_out() {
        for info in ["7", "{}", r#"{"name":"c"}"#, r#"{"name":1,"version":"1"}"#] {
            let told = format!(
                r#"{{"clientInfo":{info},"capabilities":{{"sampling":7,"roots":null,"elicitation":{{}}}}}}"#
            );
            assert_eq!(
                ClientProfile::of_initialize(raw(&told)).initialize("v"),
                format!(
                    r#"{{"protocolVersion":"v","capabilities":{{"elicitation":{{}}}},"clientInfo":{UNNAMED_CLIENT}}}"#
                )
            );
        }
    }

    #[test]
    fn a_request_says_its_revision_and_the_capabilities() {
        let (revision, capabilities) =
            (Some(json_rpc::REVISION_KEY), Some(json_rpc::CAPABILITIES_KEY));
        for (meta, expected) in [
            ("{}", revision),
            ("1", revision),
            (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, revision),
            (r#"{"io.modelcontextprotocol/protocolVersion":1}"#, revision),
            (r#"{"io.modelcontextprotocol/protocolVersion":"v"}"#, capabilities),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":[]}"#,
                capabilities,
            ),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":{}}"#,
                None,
            ),
        ] {
            let params = format!(r#"{{"_meta":{meta}}}"#);
            assert_eq!(missing_key(raw(&params)), expected, "{meta}");
        }
        assert_eq!(missing_key(None), revision);
    }

    #[test]
    fn abilities_are_those_that_were_declared() {
        for (capabilities, expected) in [
            ("{}", [false, false, false, false]),
            (r#"{"elicitation":{}}"#, [true, false, false, false]),
            (r#"{"elicitation":{"form":{}}}"#, [true, false, false, false]),
            (r#"{"elicitation":{"url":{}}}"#, [false, true, false, false]),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, [true, true, false, false]),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, [true, true, false, false]),
            (r#"{"elicitation":true,"roots":null}"#, [false, false, false, false]),
            (r#"{"elicitation":true}"#, [false, false, false, false]),
            (r#"{"sampling":{}}"#, [false, false, true, false]),
            ("null", [false, false, false, false]),
            (r#"{"sampling":{},"roots":{"listChanged":true}}"#, [false, false, true, true]),
        ] {
            let params = format!(r#"{{"capabilities":{capabilities}}}"#);
            let said = ClientProfile::of_initialize(raw(&params));
            assert_eq!(said.abilities(), InputKinds(expected), "{capabilities}");
            let capabilities: Value = serde_json::from_str(capabilities).unwrap();
            let said = ClientProfile::of_meta(&json!({ json_rpc::CAPABILITIES_KEY: capabilities }));
            assert_eq!(said.abilities(), InputKinds(expected), "{capabilities}");
        }
    }

    #[test]
    fn requests_of_servers_have_kinds() {
        for (method, params, expected) in [
            ("roots/list", None, Some(InputKind::Roots)),
            ("sampling/createMessage", Some("{}"), Some(InputKind::Sampling)),
            ("elicitation/create", Some("{}"), Some(InputKind::Form)),
            ("elicitation/create", Some(r#"{"mode":"form"}"#), Some(InputKind::Form)),
            ("elicitation/create", Some(r#"{"mode":"url"}"#), Some(InputKind::Url)),
            ("ping", None, None),
            ("x/y", Some("{}"), None),
        ] {
            assert_eq!(
                InputKind::of(method, params.and_then(raw)),
                expected,
                "{method} {params:?}"
            );
        }
    }
}

mod introduction {
    use crate::revision::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_old_introduction_becomes_a_new_one_and_back() {
        let old = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"tasks":{},"x":{"n":1.10}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9."}"#;
        let said = ServerProfile::of_initialize(raw(old)).unwrap();
        assert_eq!(said.instructions().as_deref(), Some("Be \u{e9}."));
        let new = said.discover_result();
        assert_eq!(
            new,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"x":{"n":1.10}},"instructions":"Be \u00e9.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}"#
        );
        let said = ServerProfile::of_discover(raw(&new)).unwrap();
        assert_eq!(
            said.initialize_result("2025-11-25", "n"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"x":{"n":1.10}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9."}"#
        );
    }

    #[test]
    fn a_server_that_says_nothing_has_the_name_of_the_gateway_for_it() {
        let said =
            ServerProfile::of_discover(raw(r#"{"supportedVersions":["2026-07-28"]}"#)).unwrap();
        assert_eq!(
            said.initialize_result("2025-11-25", "n"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"0"}}"#
        );
    }

    #[test]
    fn what_is_no_answer_to_discover_is_none() {
        for json in [
            "{}",
            "[]",
            r#"{"method":"server/discover","params":{}}"#,
            r#"{"supportedVersions":"2026-07-28"}"#,
            r#"{"supportedVersions":["2025-11-25"]}"#,
        ] {
            assert!(ServerProfile::of_discover(raw(json)).is_none(), "{json}");
        }
    }

    #[test]
    fn capabilities_are_looked_up() {
        let said = ServerProfile::of_initialize(raw(
            r#"{"capabilities":{"logging":{},"resources":{"subscribe":true,"listChanged":false}}}"#,
        ));
        let said = said.unwrap();
        for (name, member, expected) in [
            ("logging", "", true),
            ("resources", "subscribe", true),
            ("resources", "listChanged", false),
            ("tools", "", false),
            ("tools", "listChanged", false),
        ] {
            assert_eq!(said.has(name, member), expected, "{name} {member}");
        }
    }
}
