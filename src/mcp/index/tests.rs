pub(in crate::index) mod fixture;

mod resolve {
    use crate::index::tests::fixture;
    use crate::index::*;

    fn resolved(name: &str) -> Result<String, Vec<String>> {
        match fixture::index().resolve(name) {
            Resolved::Tool(tool) => Ok(tool.name.clone()),
            Resolved::Missing(alike) => Err(alike),
        }
    }

    #[test]
    fn a_name_is_found_where_its_meaning_is_plain() {
        let table = [
            ("github__create_issue", Ok("github__create_issue")),
            ("create_issue", Ok("github__create_issue")),
            ("Create_Issue", Ok("github__create_issue")),
            ("github/create_issue", Ok("github__create_issue")),
            ("GITHUB__CREATE_ISSUE", Ok("github__create_issue")),
            ("list_all", Err(vec!["fs__list_all", "github__list_all"])),
            ("fs__list_all", Ok("fs__list_all")),
            ("creat_issue", Err(vec!["github__create_issue"])),
            ("github__createIssue", Err(vec!["github__create_issue"])),
            ("zzz", Err(vec![])),
            ("", Err(vec![])),
        ];
        for (name, expected) in table {
            let found = resolved(name).map_err(|alike| {
                alike
                    .into_iter()
                    .take(expected.as_ref().err().map_or(9, |e| e.len().max(1)))
                    .collect()
            });
            let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(found, expected.map(str::to_owned).map_err(owned), "{name}");
        }
    }
}

mod description {
    use crate::index::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_first_sentence_in_one_line() {
        let table = [
            ("", ""),
            ("Reads a file. Then more.", "Reads a file"),
            ("Reads a file.", "Reads a file"),
            ("Is it there? Yes.", "Is it there?"),
            ("Takes a path, e.g. /tmp, or none. More.", "Takes a path, e.g. /tmp, or none"),
            ("Reads a.txt\nor b.txt\n\nArgs:\n  x", "Reads a.txt or b.txt"),
            ("\n\n  Indented\t text \r\n", "Indented text"),
            ("\u{8bfb}\u{3002}\u{5199}", "\u{8bfb}\u{3002}"),
            ("a\u{1b}[31mb\u{202e}c\u{200b}", "a[31mbc"),
        ];
        for (text, expected) in table {
            assert_eq!(short(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_space() {
        let text = "word ".repeat(40);
        assert_eq!(short(&text), format!("{}...", "word ".repeat(15).trim_end()));
        assert_eq!(short(&"x".repeat(81)), format!("{}...", "x".repeat(77)));
        assert_eq!(short(&"x".repeat(80)), "x".repeat(80));
    }

    proptest! {
        #[test]
        fn it_is_short_and_plain(text in any::<String>()) {
            let short = short(&text);
            prop_assert!(short.chars().count() <= MAX_CHARS);
            prop_assert!(!short.chars().any(visible::is_hidden));
        }
    }
}

mod signature {
    use crate::index::tests::fixture;
    use crate::index::*;
    use serde_json::json;

    #[test]
    fn required_arguments_come_first() {
        let index = fixture::index();
        let schema = index.tools.get("github__create_issue").unwrap().schema();
        assert_eq!(
            signature(schema),
            "owner: string, repo: string, title: string, labels?: array of string, \
         milestone?: integer, state?: \"open\" | \"closed\""
        );
    }

    #[test]
    fn any_schema_has_one() {
        let odd = [json!(true), json!({}), json!({"properties": []}), json!(3)];
        assert!(odd.iter().all(|schema| signature(schema) == "any object"));
        let odd = json!({"properties": {"a\n": {"type": ["string", "null"]}, "b": 3, "c": true},
                     "required": {"b": 1}});
        assert_eq!(signature(&odd), "a\\n?: string | null, b?: any, c?: any");
        let many: serde_json::Map<_, _> =
            (0..1000).map(|n| (format!("p{n}"), json!({"type": "x".repeat(500)}))).collect();
        assert!(signature(&json!({"properties": many})).len() < MAX_BYTES + 60);
    }
}

mod details {
    use crate::index::tests::fixture;
    use crate::index::*;

    fn ask(names: &[&str]) -> Value {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        details(&fixture::index(), &names, u64::MAX).unwrap()
    }

    fn names(answer: &Value) -> Vec<&str> {
        answer["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn names_and_globs_are_answered_in_their_order_and_once() {
        let answer = ask(&["search_issues", "github__*", "fs/*", "search_issues"]);
        assert_eq!(
            names(&answer),
            [
                "github__search_issues",
                "github__create_issue",
                "github__list_all",
                "fs__list_all",
                "fs__read_file"
            ]
        );
        assert_eq!(answer["missing"], json!([]));
        let tool = &answer["tools"][0];
        assert_eq!((&tool["server"], &tool["risk"]), (&json!("github"), &json!("read")));
        assert_eq!(tool["parameters"]["required"], json!(["q"]));
        assert_eq!(tool["description"], "Search for issues. Across repositories.");
    }

    #[test]
    fn what_is_missing_is_named() {
        let answer = ask(&["creat_issue", "x*", "list_all", "["]);
        assert_eq!(names(&answer), Vec::<&str>::new());
        let missing = answer["missing"].as_array().unwrap();
        assert_eq!(missing[0]["did_you_mean"][0], "github__create_issue");
        assert_eq!(missing[1], json!({"name": "x*", "did_you_mean": []}));
        assert_eq!(missing[2]["did_you_mean"], json!(["fs__list_all", "github__list_all"]));
        assert_eq!(missing[3]["name"], "[");
    }

    #[test]
    fn what_has_no_room_is_told_in_short_with_the_file_of_the_whole() {
        let names = ["*".to_owned()];
        let whole = ask(&["*"]).to_string().len() as u64;
        for most in [0, 200, 500, 700, whole - 1, whole] {
            let answer = details(&fixture::index(), &names, most).unwrap();
            let tools = answer["tools"].as_array().unwrap();
            let left_out = answer["left_out"].as_u64().unwrap_or_default() as usize;
            assert_eq!(tools.len() + left_out, 5, "{answer}");
            assert!(answer.to_string().len() as u64 <= most.max(29) + 20, "{most}: {answer}");
        }
        let answer = details(&fixture::index(), &["github/create_issue".to_owned()], 350).unwrap();
        let tool = &answer["tools"][0];
        assert!(tool["parameters"].is_null(), "{tool}");
        assert_eq!(tool["details"], "catalog/tools/github__create_issue.json");
        assert!(tool["arguments"].as_str().unwrap().starts_with("owner: string, repo"), "{tool}");
    }

    #[test]
    fn there_are_at_most_so_many_names() {
        let names = vec!["x".to_owned(); MOST_NAMES + 1];
        let error = details(&Index::default(), &names, u64::MAX).unwrap_err();
        assert!(error.to_string().starts_with("at most 20 names at a time, not 21"));
        assert!(details(&Index::default(), &names[1..], u64::MAX).is_ok());
    }
}

mod catalog {
    use crate::index::tests::fixture;
    use crate::index::*;

    #[test]
    fn the_index_has_a_line_for_each_tool() {
        let text = index_json(&fixture::index());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tools"].as_array().unwrap().len(), 5);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("github__create_issue")).collect();
        assert_eq!(
            lines,
            [
                r#"{"description":"Create a new issue in a GitHub repository","kind":"mcp","name":"github__create_issue","risk":"write","server":"github"},"#
            ]
        );
        assert_eq!(index_json(&Index::default()), "{\"tools\":[\n\n]}\n");
    }

    #[test]
    fn a_tool_has_all_that_its_server_says() {
        let index = fixture::index();
        let text = tool_json(index.tools.get("github__create_issue").unwrap());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["name"], &value["tool"]),
            (&"github__create_issue".into(), &"create_issue".into())
        );
        assert_eq!(value["parameters"]["required"][0], "owner");
        assert_eq!(value["annotations"]["destructiveHint"], false);
        assert_eq!(value["risk"], "write");
        assert!(value.get("inputSchema").is_none());
    }
}
