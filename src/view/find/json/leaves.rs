// Members after these are not told apart.
const MOST: usize = 4096;

/// A member without members of its own, or the start of one with members (`opens`). The range
/// includes the key; `container` is the number of the object or array around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) container: usize,
    pub(super) opens: bool,
}

/// Returns the members in `bytes`, which begin with a value or its key and may be cut off.
pub(super) fn leaves(bytes: &[u8]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut open = vec![0];
    let mut containers = 0;
    let mut key: Option<usize> = None;
    let mut at = 0;
    while at < bytes.len() && leaves.len() < MOST {
        let container = open.last().copied().unwrap_or(0);
        let start = at;
        match bytes[at] {
            b'"' => {
                let length = super::string_length(&bytes[at..]).unwrap_or(bytes.len() - at);
                at = (at + length).min(bytes.len());
                if is_key(&bytes[at..]) {
                    key = Some(start);
                } else {
                    leaves.push(Leaf {
                        start: key.take().unwrap_or(start),
                        end: at,
                        container,
                        opens: false,
                    });
                }
            }
            b'{' | b'[' => {
                at += 1;
                if let Some(start) = key.take() {
                    leaves.push(Leaf { start, end: at, container, opens: true });
                }
                containers += 1;
                open.push(containers);
            }
            b'}' | b']' => {
                at += 1;
                open.pop();
            }
            b':' | b',' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => {
                let is_end = |byte: &u8| b",]}\n\r \t".contains(byte);
                let length = bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at);
                at += length.max(1);
                leaves.push(Leaf {
                    start: key.take().unwrap_or(start),
                    end: at,
                    container,
                    opens: false,
                });
            }
        }
    }
    leaves
}

fn is_key(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_apart() {
        let text = r#""a": {"b": [1, "x\"y"], "c": {}, "d": null, "e": "cut"#;
        let found: Vec<(&str, usize)> = leaves(text.as_bytes())
            .iter()
            .map(|leaf| (&text[leaf.start..leaf.end], leaf.container))
            .collect();
        let want = [
            ("\"a\": {", 0),
            ("\"b\": [", 1),
            ("1", 2),
            ("\"x\\\"y\"", 2),
            ("\"c\": {", 1),
            ("\"d\": null", 1),
            ("\"e\": \"cut", 1),
        ];
        assert_eq!(found, want);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_some(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\ a1\n".to_vec()), 0..60)) {
            for leaf in leaves(&bytes) {
                proptest::prop_assert!(leaf.start < leaf.end && leaf.end <= bytes.len());
            }
        }
    }
}
