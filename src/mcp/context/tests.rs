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

    #[test]
    fn the_end_of_a_text_keeps_its_limit_with_the_first_line() {
        let long = "row \u{20ac}\n".repeat(40);
        for most in 60..400 {
            let end = end_of(&long.as_bytes(), most).unwrap();
            assert!(end.len() as u64 <= most && end.ends_with("row \u{20ac}\n"), "{end}");
            let (first, rest) = end.split_once('\n').unwrap();
            let told = format!("# the last {} lines follow, in {most} bytes", rest.lines().count());
            assert!(end == long || first == told, "{end}");
        }
        let rows = "row 56789\n".repeat(40);
        for (most, lines) in [(144, 9), (145, 10), (146, 10)] {
            let end = end_of(&rows.as_bytes(), most).unwrap();
            assert!(end.starts_with(&format!("# the last {lines} lines follow, ")), "{end}");
        }
        let line = "x".repeat(500) + "end";
        let end = end_of(&line.as_bytes(), 100).unwrap();
        assert!(end.len() <= 100 && end.ends_with("xend"), "{end}");
        assert!(end.starts_with("# the last 55 bytes of the last line follow\nx"), "{end}");
        let broken: &[u8] = &[b"\xff\xfe\n".repeat(50), b"end\n".to_vec()].concat();
        let end = end_of(&broken, 120).unwrap();
        assert!(end.len() <= 120 && end.ends_with("end\n"), "{end}");
        assert_eq!(end_of(&broken, 1000).unwrap(), String::from_utf8_lossy(broken));
    }
}
