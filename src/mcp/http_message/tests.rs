mod headers {
    use crate::http_message::*;

    #[test]
    fn values_come_back() {
        for text in ["plain", " padded ", "a\nb", "=?base64?literal?=", "\u{4e16}", ""] {
            assert_eq!(decoded(&encoded(text)), text);
        }
        assert_eq!(encoded("us-west1"), "us-west1");
        assert_eq!(encoded("caf\u{e9}"), "=?base64?Y2Fmw6k=?=");
        assert_eq!(decoded("=?base64?!?="), "=?base64?!?=");
    }
}

mod one_line {
    use crate::http_message::*;

    #[test]
    fn each_value_is_a_line() {
        for (given, expected) in [
            ("{\n\"a\":\r\n[1,\n2]}\n{\"b\":{}}\n", "{ \"a\":  [1, 2]}\n{\"b\":{}}\n"),
            (r#"{"a":"}{\"[\\"}"#, r#"{"a":"}{\"[\\"}"#),
            ("{\"a\":\"\\\\\"\n}\n{}", "{\"a\":\"\\\\\" }\n{}"),
            ("no \"json\n}\n{\n}", "no \"json\n}\n{ }"),
        ] {
            for step in [1, 2, 100] {
                let mut lines = ValueLines::new(());
                let mut bytes = given.as_bytes().to_vec();
                bytes.chunks_mut(step).for_each(|part| lines.part(part));
                assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{given:?} by {step}");
            }
        }
    }
}
