use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn skeleton(json: &[u8], cuts: &[usize]) -> Skeleton {
    let (mut scanner, mut skeleton) = (Scanner::strict(), Skeleton::default());
    let mut at = 0;
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (json.len() + 1)).collect();
    ends.push(json.len());
    ends.sort_unstable();
    for end in ends {
        skeleton.at(at as u64);
        let outcome = scanner.push(&json[at..end], &mut skeleton);
        assert!(!matches!(outcome, ScanOutcome::Wrong(_)));
        at = end;
    }
    skeleton
}

fn filled(skeleton: &Skeleton, json: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for hole in &skeleton.holes {
        out.extend_from_slice(&skeleton.text[at..hole.at]);
        out.extend_from_slice(&json[hole.span.start as usize..hole.span.end as usize]);
        at = hole.at + HOLE_BYTES;
    }
    out.extend_from_slice(&skeleton.text[at..]);
    out
}

fn check(message: &Value, cuts: &[usize]) -> Skeleton {
    let json = message.to_string().into_bytes();
    let skeleton = skeleton(&json, cuts);
    assert!(!skeleton.is_too_long && skeleton.text.len() <= MAX_SKELETON);
    assert_eq!(String::from_utf8(filled(&skeleton, &json)).unwrap(), message.to_string());
    serde_json::from_slice::<Value>(&skeleton.text).unwrap();
    skeleton
}

#[test]
fn long_values_are_holes_and_short_ones_stay() {
    let long = "x\n\"".repeat(50_000);
    let message = json!({
        "id": 7, "jsonrpc": "2.0",
        "result": {
            "content": [{"type": "text", "text": long}, {"type": "text", "text": "short"}],
            "structuredContent": {"rows": vec![1; 50_000], "text": long},
            "isError": false,
        },
    });
    let skeleton = check(&message, &[1000, 200_000]);
    assert_eq!(skeleton.holes.len(), 2);
    assert_eq!(skeleton.id.as_deref(), Some(&b"7"[..]));
    assert!(skeleton.is_response);
}

#[test]
fn many_short_values_leave_the_result_out() {
    let blocks: Vec<Value> = (0..40_000)
        .map(|number| json!({"type": "text", "text": format!("block {number}")}))
        .collect();
    let message = json!({"id": "a", "result": {"content": blocks}, "zlast": 1});
    let skeleton = check(&message, &[]);
    assert_eq!(String::from_utf8_lossy(&skeleton.text), r#"{"id":"a","result":{},"zlast":1}"#);
    let message = json!({"id": 1, "params": {"name": "t", "z": vec!["c"; 400_000]}});
    assert_eq!(check(&message, &[]).text, br#"{"id":1,"params":{"name":"t","z":{}}}"#);
    let message =
        json!({"result": {"a": {"b": vec!["c"; 400_000]}, "structuredContent": 1}, "id": 3});
    assert_eq!(check(&message, &[5]).text, br#"{"id":3,"result":{}}"#);
}

#[test]
fn a_long_text_in_one_piece_is_a_hole() {
    let message = json!({"params": {"name": "t", "text": "x".repeat(3 << 20)}});
    assert_eq!(check(&message, &[]).text, br#"{"params":{"name":"t","text":""}}"#);
}

#[test]
fn endless_keys_are_too_long() {
    let json = format!("{{\"{}\":1}}", "k".repeat(2 * MAX_SKELETON));
    assert!(skeleton(json.as_bytes(), &[]).is_too_long);
    let json = format!("{{\"a\":{}}}", "1".repeat(2 * MAX_SKELETON));
    let skeleton = skeleton(json.as_bytes(), &[77]);
    assert_eq!((skeleton.holes.len(), skeleton.text.len()), (1, 8));
}

proptest! {
    #[test]
    fn it_does_not_depend_on_the_cuts(
        sizes in prop::collection::vec(0usize..200_000, 1..6),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let blocks: Vec<Value> =
            sizes.iter().map(|size| json!({"text": "\u{e9}\n".repeat(size / 3)})).collect();
        let message = json!({"result": {"content": blocks, "structuredContent": blocks}, "id": 1});
        let one = check(&message, &[]);
        let other = check(&message, &cuts);
        prop_assert_eq!(one.text, other.text);
        prop_assert_eq!(one.holes, other.holes);
    }
}
