mod state_token {
    use crate::permission::state_token::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn key() -> StateKey {
        StateKey::new([7; 32])
    }

    fn call(arguments: &Value) -> BoundCall<'_> {
        BoundCall { conversation: "c7", tool: "run_tool_batch", arguments }
    }

    #[test]
    fn it_opens_for_the_same_call_until_it_expires() {
        let arguments = json!({"calls": [{"name": "x", "arguments": {"a": 1}}]});
        let token = key().seal(&call(&arguments), 1000, b"done: 0, 1");
        assert_eq!(key().open(&call(&arguments), &token, 999), Ok(b"done: 0, 1".to_vec()));
        assert_eq!(key().open(&call(&arguments), &token, 1000), Err(StateError::Expired));
    }

    #[test]
    fn it_opens_for_nothing_else() {
        let arguments = json!({"a": 1});
        let token = key().seal(&call(&arguments), 1000, b"p");
        let other = json!({"a": 2});
        let others = [
            BoundCall { arguments: &other, ..call(&arguments) },
            BoundCall { tool: "x", ..call(&arguments) },
            BoundCall { conversation: "c8", ..call(&arguments) },
            BoundCall { conversation: "c7r", tool: "un_tool_batch", arguments: &arguments },
        ];
        for other in others {
            assert_eq!(key().open(&other, &token, 0), Err(StateError::Forged), "{other:?}");
        }
        let foreign = StateKey::new([8; 32]);
        assert_eq!(foreign.open(&call(&arguments), &token, 0), Err(StateError::Forged));
        let later = token.replace(".1000.", ".9000.");
        assert_eq!(key().open(&call(&arguments), &later, 0), Err(StateError::Forged));
        assert_eq!(format!("{:?}", key()), "StateKey");
    }

    proptest! {
        #[test]
        fn payloads_come_back(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            let token = key().seal(&call(&Value::Null), u64::MAX, &payload);
            prop_assert_eq!(key().open(&call(&Value::Null), &token, 0), Ok(payload));
        }

        #[test]
        fn no_changed_token_opens(at in 0..200_usize, with in any::<char>(), drop in any::<bool>()) {
            let token = key().seal(&call(&Value::Null), 1000, b"payload");
            let mut chars: Vec<char> = token.chars().collect();
            let at = at % chars.len();
            if drop { chars.remove(at); } else { chars[at] = with; }
            let changed: String = chars.into_iter().collect();
            prop_assume!(changed != token);
            prop_assert_eq!(key().open(&call(&Value::Null), &changed, 0), Err(StateError::Forged));
        }

        #[test]
        fn any_text_is_refused(text in any::<String>()) {
            prop_assert_eq!(key().open(&call(&Value::Null), &text, 0), Err(StateError::Forged));
        }
    }
}

mod arguments_digest {
    use crate::permission::state_token::*;

    fn digest(json: &str) -> ArgumentsDigest {
        ArgumentsDigest::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn only_the_order_of_keys_does_not_matter() {
        assert_eq!(
            digest(r#"{"a": 1, "b": [2, {"c": 3, "d": 4}]}"#),
            digest(r#"{"b":[2,{"d":4,"c":3}],"a":1}"#)
        );
        let different = [
            "null",
            "0",
            "false",
            r#""""#,
            "[]",
            "{}",
            "1",
            "1.0",
            r#""1""#,
            "[1]",
            "[[1]]",
            "[1,[]]",
            "[[],1]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"["a",1]"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{},"b":1}"#,
            "[1,2]",
            "[2,1]",
            "[12]",
            r#"["ab"]"#,
            r#"["a","b"]"#,
        ];
        for (at, one) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(digest(one), digest(other), "{one} {other}");
            }
        }
    }
}
