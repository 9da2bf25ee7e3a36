//! First line of the merged log.

use crate::remote::messages::*;

#[test]
fn the_first_line_has_its_length_whatever_it_says() {
    let own = LogPosition { inode: u64::MAX, born: i64::MIN, offset: u64::MAX, chain: u64::MAX };
    for head in [
        PublishedHead { edition: u64::MAX, own },
        PublishedHead { edition: 1, own: LogPosition::default() },
    ] {
        let line = head.line();
        assert_eq!((line.len(), line.last()), (HEAD, Some(&b'\n')));
        assert_eq!(serde_json::from_slice::<PublishedHead>(&line).unwrap(), head);
    }
}
