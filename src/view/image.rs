use std::io;

use ctxfs_core::model::Subject;

// Previews and colour profiles may come before the dimensions.
const HEAD_BYTES: usize = 256 << 10;

/// Returns `800 x 600`, in pixels, or `None` if the artifact is not an image or does not tell.
pub(super) fn dimensions(subject: &Subject<'_>) -> io::Result<Option<String>> {
    if !subject.analysis.mime.starts_with("image/") {
        return Ok(None);
    }
    let head = subject.content.bytes(0, HEAD_BYTES)?;
    let size = imagesize::blob_size(&head).ok();
    Ok(size.map(|size| format!("{} x {}", size.width, size.height)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn dimensions_of(bytes: &[u8], mime: &str) -> Option<String> {
        let mut fixture = Fixture::new(bytes);
        mime.clone_into(&mut fixture.analysis.mime);
        dimensions(&fixture.subject()).unwrap()
    }

    #[test]
    fn images_say_how_large_they_are() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58\x08\x02\0\0\0";
        let gif = b"GIF89a\x40\x01\xf0\0\0\0\0;";
        let profile = [b"\xff\xe2\x9c\x40".as_slice(), &vec![0; 40_000 - 2]].concat();
        let frame = b"\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        let jpeg = [b"\xff\xd8".as_slice(), &profile, &profile, frame].concat();
        assert_eq!(dimensions_of(png, "image/png").as_deref(), Some("800 x 600"));
        assert_eq!(dimensions_of(gif, "image/gif").as_deref(), Some("320 x 240"));
        assert_eq!(dimensions_of(&jpeg, "image/jpeg").as_deref(), Some("640 x 480"));
    }

    #[test]
    fn what_does_not_say_is_not_guessed() {
        assert_eq!(dimensions_of(b"\x89PNG\r\n\x1a\n", "image/png"), None);
        assert_eq!(dimensions_of(b"<svg width='3' height='4'/>", "image/svg+xml"), None);
        assert_eq!(dimensions_of(b"GIF89a\x40\x01\xf0\0\0\0\0;", "text/plain"), None);
    }
}
