use super::*;
use crate::redact::SETS;

fn own(name: &str, regex: &str) -> Rule {
    Rule { name: name.to_owned(), regex: regex.to_owned() }
}

fn rules(own: &[Rule]) -> SecretRules {
    SecretRules::new(&[], own).unwrap()
}

#[test]
fn a_match_is_masked_or_its_group() {
    let whole = rules(&[own("ticket", "TICKET-[0-9]{6,20}")]);
    assert_eq!(whole.mask_text("see TICKET-1234567890123!"), "see [redacted:ticket]***!");
    let group = rules(&[own("pin", "(?i)pin of (card|key) is (?<secret>[0-9]{4,20})")]);
    assert_eq!(group.mask_text("PIN of key is 1234567890123"), "PIN of key is [redacted]***");
    let first = rules(&[own("pin", "pin=([0-9]+)")]);
    assert_eq!(first.mask_text("pin=1234567890123;"), "pin=[redacted]***;");
    assert_eq!(first.mask_text("pin=1234;"), "[redact];");
}

#[test]
fn the_first_match_wins_and_the_first_rule_among_equals() {
    let both = rules(&[own("b", "secret-[a-z]+"), own("a", "secret-[a-z0-9]+")]);
    assert_eq!(both.mask_text("secret-abcdef0"), "[redacted:b]*0");
    assert_eq!(both.names(), ["b", "a"]);
}

#[test]
fn lines_have_beginnings_and_ends() {
    let line = rules(&[own("line", "^KEY [a-z]{8,}$")]);
    assert_eq!(line.mask_text("x\nKEY abcdefghijk\ny"), "x\n[redacted:line]\ny");
    assert_eq!(line.mask_text("x KEY abcdefghij"), "x KEY abcdefghij");
}

#[test]
fn invalid_rules_are_refused() {
    let why = |name: &str, regex: &str| {
        let error = SecretRules::new(&[], &[own("fine", "x"), own(name, regex)]).unwrap_err();
        assert_eq!(error.rule(), Some(1));
        error.to_string()
    };
    assert_eq!(why("", "x"), "a rule's name is 1 to 32 letters, digits, `-` and `_`");
    assert_eq!(why("a b", "x"), "a rule's name is 1 to 32 letters, digits, `-` and `_`");
    assert_eq!(why("a", "x("), "the regex is not valid: unclosed group");
    assert_eq!(why("a", "x*"), "the regex matches the empty text");
    let large = why("a", "(?:[a-z]{1000}){1000}");
    assert!(large.starts_with("the regex is not valid: "), "{large}");
}

#[test]
fn a_pattern_that_matches_nothing_somewhere_ends() {
    let edges = rules(&[own("edge", r"\b")]);
    assert_eq!(edges.mask_text("some words"), "some words");
}

#[test]
fn all_sets_fit_into_one() {
    let all: Vec<&PatternSet> = SETS.iter().collect();
    let rules = SecretRules::new(&all, &[own("mine", "MINE-[0-9]+")]).unwrap();
    let text = "MINE-1234567890123 postgres://app:correct-horse-battery@db";
    let want = "[redacted:mine]*** postgres://app:[redacted:url-password]@db";
    let want = want.replace("[redacted:url-password]", "[redacted]***********");
    assert_eq!(rules.mask_text(text), want);
}
