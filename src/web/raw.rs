//! Sends the bytes of an output as a download or as an image, never as a page.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::try_unfold;

use crate::{Result, Site, WebError, address, output};
use ctxfs_core::model::Component;
use ctxfs_engine::Look;

const BLOCK: usize = 256 << 10;
// Prevents an image from doing anything in the browser.
const IMAGE_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";
const TEXT: &str = "text/plain; charset=utf-8";
const OTHER: &str = "application/octet-stream";

enum RequestedRange {
    All,
    Part(Range<u64>),
    Outside,
}

pub(super) async fn download(
    site: &Arc<Site>,
    id: Component,
    path: String,
    headers: &HeaderMap,
) -> Result<Response> {
    let (shared, range) = (Arc::clone(site), headers.get(header::RANGE).cloned());
    let looked = site.work.wait(move || {
        let look = shared.look(&id, &path)?;
        let is_binary = look.facts(true)?.analysis.is_none_or(|found| found.is_binary());
        Ok((look, if is_binary { OTHER } else { TEXT }))
    });
    let (look, kind) = looked.await?;
    let size = look.size();
    let requested = range
        .map_or(RequestedRange::All, |range| requested(range.to_str().unwrap_or_default(), size));
    let mut headers = HeaderMap::new();
    let name = look.path().rsplit('/').next().unwrap_or_default();
    insert(&mut headers, header::CONTENT_DISPOSITION, &disposition(name));
    insert(&mut headers, header::ACCEPT_RANGES, "bytes");
    let (status, part) = match requested {
        RequestedRange::All => (StatusCode::OK, 0..size),
        RequestedRange::Part(part) => {
            let shown = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            insert(&mut headers, header::CONTENT_RANGE, &shown);
            (StatusCode::PARTIAL_CONTENT, part)
        }
        RequestedRange::Outside => {
            insert(&mut headers, header::CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, headers).into_response());
        }
    };
    insert(&mut headers, header::CONTENT_LENGTH, &(part.end - part.start).to_string());
    Ok((status, headers, send(site, look, kind, part)).into_response())
}

// Sends an output as an image. Fails with [`WebError::Missing`] if it is not an image type that
// browsers show.
pub(super) async fn image(site: &Arc<Site>, id: Component, path: String) -> Result<Response> {
    let shared = Arc::clone(site);
    let looked = site.work.wait(move || {
        let look = shared.look(&id, &path)?;
        let kind = output::image_type(&look.facts(true)?).ok_or(WebError::Missing)?;
        Ok((look, kind))
    });
    let (look, kind) = looked.await?;
    let size = look.size();
    let policy = [(header::CONTENT_SECURITY_POLICY, IMAGE_POLICY)];
    Ok((policy, send(site, look, kind, 0..size)).into_response())
}

/// Sends `part` block by block. Each block is read in its own turn, so that a slow reader does not
/// delay other requests.
fn send(site: &Arc<Site>, look: Look, kind: &'static str, part: Range<u64>) -> Response {
    let begun = (Arc::clone(site), Arc::new(look), part);
    let blocks = try_unfold(begun, |(site, look, part)| async move {
        if part.is_empty() {
            return Ok(None);
        }
        let block = read(&site, &look, &part).await?;
        let rest = part.start + block.len() as u64..part.end;
        Ok::<_, WebError>(Some((block, (site, look, rest))))
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
    (kind, Body::from_stream(blocks)).into_response()
}

/// Reads the first block of `part`. If the file has become shorter, fails and thereby breaks off
/// the download, so that an incomplete file is not mistaken for a complete one.
async fn read(site: &Arc<Site>, look: &Arc<Look>, part: &Range<u64>) -> Result<Bytes> {
    let (look, at) = (Arc::clone(look), part.start);
    let most = BLOCK.min(usize::try_from(part.end - at).unwrap_or(BLOCK));
    let bytes = site.work.wait(move || Ok(look.bytes(at, most)?)).await?;
    if bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Bytes::from(bytes))
}

/// Parses `bytes=A-B`, `bytes=A-` or `bytes=-N`. Multiple ranges and malformed ranges select the
/// whole file.
fn requested(range: &str, size: u64) -> RequestedRange {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|r| r.split_once('-')) else {
        return RequestedRange::All;
    };
    let (start, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if last >= first => (first, size.min(last.saturating_add(1))),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(count)) if first.is_empty() => (size.saturating_sub(count), size),
        _ => return RequestedRange::All,
    };
    if start < end { RequestedRange::Part(start..end) } else { RequestedRange::Outside }
}

// Returns the header value that makes the browser save the file under `name`.
fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", address::encoded(name))
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        let part = |range: &str| match requested(range, 100) {
            RequestedRange::All => "all".to_owned(),
            RequestedRange::Outside => "outside".to_owned(),
            RequestedRange::Part(part) => format!("{}..{}", part.start, part.end),
        };
        for (range, expected) in [
            ("bytes=0-9", "0..10"),
            ("bytes=90-", "90..100"),
            ("bytes=-5", "95..100"),
            ("bytes=-500", "0..100"),
            ("bytes=50-500", "50..100"),
            ("bytes=100-", "outside"),
            ("bytes=9-1", "all"),
            ("bytes=0-1,5-6", "all"),
            ("lines=1-2", "all"),
            ("bytes=", "all"),
        ] {
            assert_eq!(part(range), expected, "{range}");
        }
    }

    #[test]
    fn a_name_stays_inside_its_quotes() {
        let header = disposition("a\"; filename=evil.html\r\n\u{202e}.txt");
        assert_eq!(header.matches('"').count(), 2);
        assert!(header.starts_with("attachment; filename=\"a___filename_evil.html"), "{header}");
        assert!(HeaderValue::from_str(&header).is_ok());
    }
}
