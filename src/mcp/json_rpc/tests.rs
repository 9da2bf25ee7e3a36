mod envelope {
    use crate::json_rpc::*;

    fn of(text: &str) -> Result<Envelope, EnvelopeError> {
        Envelope::of(&Message::whole(text.to_owned()))
    }

    #[test]
    fn messages_have_one_of_three_kinds() {
        let text = r#" {"jsonrpc":"2.0", "id": 1.50,"method":"a/b","params":{"n":1.10}}"#;
        let message = Message::whole(text.to_owned());
        let envelope = Envelope::of(&message).unwrap();
        assert!(matches!(&envelope.kind, MessageKind::Request { method } if method == "a/b"));
        assert_eq!(envelope.id(&message), Some("1.50"));
        assert_eq!(envelope.params(&message).unwrap().get(), r#"{"n":1.10}"#);
        let found = of(r#"{"jsonrpc":"2.0","method":"x"}"#).unwrap();
        assert!(matches!(found.kind, MessageKind::Notification { .. }));
        let found = of(r#"{"jsonrpc":"2.0","id":"a","result":null}"#).unwrap();
        assert!(matches!(found.kind, MessageKind::Response { result: Some(_) }));
        let found = of(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#).unwrap();
        assert!(matches!(found.kind, MessageKind::Response { result: None }) && found.id.is_none());
    }

    #[test]
    fn all_else_is_none() {
        for text in ["", "{", "x", "{\"jsonrpc\":\"2.0\"", "{\"a\":\u{1}}"] {
            assert!(matches!(of(text), Err(EnvelopeError::Json(_))), "{text}");
        }
        for text in [
            "1",
            "[]",
            r#"["2.0",1,"a/b",{}]"#,
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
            r#"{"jsonrpc":"2.0","result":1}"#,
        ] {
            assert!(matches!(of(text), Err(EnvelopeError::Shape(_))), "{text}");
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000)
        );
        assert!(of(&deep).is_ok());
    }
}

mod parsed {
    use crate::json_rpc::*;

    #[test]
    fn a_request_gets_another_id_and_token() {
        let text = r#"{"jsonrpc":"2.0","params":{"name":"a","_meta":{"progressToken":"t","x":1}},"id":"q","method":"tools/call"}"#;
        let mut parsed = Parsed::of(Message::whole(text.to_owned())).unwrap();
        assert_eq!(parsed.token().unwrap().get(), "\"t\"");
        assert_eq!(parsed.named("tools/call").as_deref(), Some("a"));
        assert_eq!((parsed.named("tools/list"), parsed.revision()), (None, None));
        parsed.renumber(1234);
        let expected = text.replace("\"t\"", "1234").replace("\"q\"", "1234");
        assert_eq!(parsed.message.text(), expected);
    }
}
