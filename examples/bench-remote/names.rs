//! List of object names that the server generates.
//!
//! The server of `s3s-fs` reads all files of a bucket for each page of a list. With 100,000
//! objects, its disk would determine the measured time. Generated pages avoid this.

use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

/// Bucket with the generated names.
pub(crate) const BUCKET: &str = "names";
/// Number of names per page, as for S3.
const PAGE: usize = 1000;

/// Returns the page that `query` requests from a list of `count` names.
pub(crate) fn page(query: &str, count: usize) -> String {
    let value = |key: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == key).map(|(_, value)| value);
        values.next().map(|value| percent_decode_str(value).decode_utf8_lossy().into_owned())
    };
    let first: usize = value("continuation-token").and_then(|at| at.parse().ok()).unwrap_or(0);
    let end = count.min(first + PAGE);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>{BUCKET}</Name><Prefix>{}</Prefix><MaxKeys>{PAGE}</MaxKeys>\
         <KeyCount>{}</KeyCount><IsTruncated>{}</IsTruncated>",
        value("prefix").unwrap_or_default(),
        end.saturating_sub(first),
        end < count,
    );
    if end < count {
        write!(text, "<NextContinuationToken>{end}</NextContinuationToken>").unwrap();
    }
    for number in first..end {
        write!(
            text,
            "<Contents><Key>listed/artifacts/tool/{number:06}.txt</Key>\
             <LastModified>2026-01-13T15:30:45.000Z</LastModified>\
             <ETag>&quot;9e107d9d372bb6826bd81d3542a419d6&quot;</ETag><Size>40</Size>\
             <StorageClass>STANDARD</StorageClass></Contents>"
        )
        .unwrap();
    }
    text + "</ListBucketResult>"
}
