mod search {
    use crate::context::*;
    use serde_json::json;

    #[test]
    fn options_come_before_the_pattern() {
        let all = json!({"pattern": "-a/b%", "ignore_case": true, "context": 3, "max": "5"});
        assert_eq!(query(&all).unwrap(), "-i -C3 -m5 -- -a%2Fb%25");
        let fixed = json!({"pattern": "a(", "fixed": true});
        assert_eq!(query(&fixed).unwrap(), "-F -- a(");
        assert!(query(&json!({"pattern": ""})).is_err());
        assert!(query(&json!({"pattern": "a", "max": -1})).is_err());
    }
}

mod text {
    use crate::context::*;

    #[test]
    fn characters_stay_whole() {
        let text = "a\u{e9}\u{20ac}\u{1f600}z".repeat(20);
        let file: &[u8] = text.as_bytes();
        for limit in 4..20 {
            let (mut at, mut all) = (0, String::new());
            loop {
                let slice = TextRange::read(&file, at, limit).unwrap();
                assert!(slice.text.len() as u64 <= limit && !slice.text.contains('\u{fffd}'));
                all += &slice.text;
                match slice.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            assert_eq!(all, text);
        }
        assert_eq!(TextRange::read(&file, 2, 100).unwrap().offset, 3);
        assert_eq!(TextRange::read(&file, 1 << 40, 100).unwrap().next, None);
        let broken: &[u8] = b"\x80\x80\x80\x80\x80\x80\x80\x80";
        assert_eq!(TextRange::read(&broken, 0, 4).unwrap().next, Some(4));
    }

    #[test]
    fn what_is_cut_says_so() {
        let file: &[u8] = b"one two three";
        assert_eq!(shown(&file, 100).unwrap(), "one two three");
        let long = "one two ".repeat(20);
        let file: &[u8] = long.as_bytes();
        let cut = shown(&file, 56).unwrap();
        assert_eq!(cut, "one two one\n# cut: the first 11 of 160 bytes are shown\n");
        for most in 50..160 {
            assert!(shown(&file, most).unwrap().len() as u64 <= most);
        }
    }
}
