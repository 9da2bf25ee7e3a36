mod message {
    use crate::message::*;

    fn bytes(mut outgoing: Outgoing) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = outgoing.next().unwrap() {
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn an_outline_has_the_places_of_what_is_in_memory() {
        let pieces = vec![
            OutgoingPiece::Bytes(br#"{"a":"#.to_vec()),
            OutgoingPiece::Span(0..1000),
            OutgoingPiece::Bytes(br#","id":1}"#.to_vec()),
        ];
        let mut outgoing = Outgoing { pieces, scratch: None };
        assert_eq!(outgoing.length(), 1013);
        let outline = outgoing.outline();
        assert_eq!(outline.text(), r#"{"a":"","id":1}"#);
        let at = outline.text().find('1').unwrap();
        outgoing.edit(vec![Edit::new(at..at + 1, b"\"x-1\"")]);
        assert_eq!(outgoing.outline().text(), r#"{"a":"","id":"x-1"}"#);
        // A value on disk is not replaced.
        outgoing.edit(vec![Edit::new(5..7, b"0")]);
        assert_eq!(outgoing.outline().text(), r#"{"a":"","id":"x-1"}"#);
    }

    #[test]
    fn holes_move_with_the_text_before_them() {
        let text = r#"{"id":7,"a":"","b":{}}"#.to_owned();
        let holes = vec![Hole { at: 12, span: 0..5 }, Hole { at: 19, span: 5..9 }];
        let message = Message { text, holes, scratch: None };
        let message = message.rewritten(vec![Edit::new(6..7, b"1234"), Edit::new(16..17, "")]);
        assert_eq!(message.text(), r#"{"id":1234,"a":"","":{}}"#);
        assert_eq!((message.holes[0].at, message.holes[1].at), (15, 21));
        let plain = Message::whole(r#"{"id":7}"#.to_owned());
        let plain = plain.rewritten(vec![Edit::new(6..7, b"8")]);
        assert_eq!(bytes(plain.edited(Vec::new())), br#"{"id":8}"#);
    }
}

mod member {
    use crate::message::*;

    #[test]
    fn any_members_are_taken_out() {
        for (json, expected) in [
            (r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3}"#),
            (r#"{"c":3, "a":1 ,"b":2 }"#, r#"{"c":3 }"#),
            (r#"{"c":3 , "a":1, "d":{"a":1}, "b":2}"#, r#"{"c":3 , "d":{"a":1}}"#),
            (r#"{ "a":{"b":","} , "c":"a" ,"b":2,"a":2,"e":5}"#, r#"{ "c":"a" ,"e":5}"#),
            (r#"{"a":1, "b":2}"#, "{}"),
            (r#"{"c":1}"#, r#"{"c":1}"#),
            ("{}", "{}"),
        ] {
            let message = Message::whole(json.to_owned());
            let object = RawObject::of(message.text()).unwrap();
            let edits = without_members(&message, &object, 0, &["a", "b"]);
            assert_eq!(message.with(edits), expected, "{json}");
        }
    }
}
