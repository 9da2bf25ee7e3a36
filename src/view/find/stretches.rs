//! Passes over content on several threads. Each thread processes stretches of whole lines. The
//! results are consumed in order.

use std::{io, thread};

use crate::find::scan::PassExtent;
use ctxfs_core::model::Content;
use ctxfs_core::parallel::{self, CloseOnDrop, OrderedPass, PassBounds};

// Approximate size of a stretch in bytes.
pub(super) const STRETCH_BYTES: u64 = 128 << 10;
// Maximum number of stretches that are being processed or whose results wait for an earlier result.
const BOUNDS: PassBounds = PassBounds { results: 8, bytes: usize::MAX, reserved: 0 };
// Smaller content is processed without additional threads.
const MIN_THREADED_BYTES: u64 = 4 << 20;
const THREAD_NAME: &str = "ctxfs-finder";
// Number of bytes that are read at once to find the start of a line.
const LINE_SEARCH_BYTES: u64 = 4 << 10;

#[derive(Clone, Copy)]
pub(super) struct ContentSlice<'a> {
    pub(super) content: &'a dyn Content,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Content for ContentSlice<'_> {
    fn len(&self) -> u64 {
        self.end - self.start
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        self.content.read_at(self.start + offset, &mut buffer[..most])
    }

    fn is_over(&self) -> bool {
        self.content.is_over()
    }
}

/// Consecutive whole lines. `from` begins with the first of these lines and extends to the end of
/// the content. `last` is an offset in the last of these lines. Readers find the end of that line
/// themselves.
pub(super) struct Stretch<'a> {
    from: ContentSlice<'a>,
    last: u64,
}

impl Stretch<'_> {
    pub(super) fn lines(&self) -> (&dyn Content, u64) {
        (&self.from, self.last)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Stretches<'a> {
    content: &'a dyn Content,
    length: u64,
    threads: usize,
}

// `newlines` is the number of newlines before the stretch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StretchStart {
    pub(super) newlines: u64,
    pub(super) offset: u64,
}

impl<'a> Stretches<'a> {
    pub(super) fn of(content: &'a dyn Content, length: u64) -> Self {
        let threads = if content.len() < MIN_THREADED_BYTES { 1 } else { parallel::threads() };
        Self { content, length, threads }
    }

    /// Calls `look` for each stretch on several threads, and passes the results to `take` in order.
    /// Each thread has its own state, created by `start`. `look` must return early once its last
    /// argument returns true.
    pub(super) fn each<S, T: Send>(
        self,
        expired: &dyn Fn() -> bool,
        start: impl Fn() -> S + Sync,
        look: impl Fn(&mut S, &Stretch<'_>, &dyn Fn() -> bool) -> io::Result<(T, PassExtent)> + Sync,
        mut take: impl FnMut(StretchStart, T),
    ) -> io::Result<PassExtent> {
        let count = self.content.len().div_ceil(self.length) as usize;
        let pass = OrderedPass::new(count, BOUNDS);
        // The start, the result and the extent of a stretch; `None` if no line begins in it.
        let look = |state: &mut S, number: usize, stop: &dyn Fn() -> bool| {
            let mut looked = || {
                let Some(stretch) = self.stretch(number as u64)? else { return Ok(None) };
                let (seen, extent) = look(state, &stretch, stop)?;
                io::Result::Ok(Some((stretch.from.start, seen, extent)))
            };
            (looked(), 0)
        };
        thread::scope(|scope| {
            let _close = CloseOnDrop(&pass);
            parallel::spawn(scope, THREAD_NAME, self.threads, || {
                let mut state = start();
                pass.help(|number, stop| look(&mut state, number, stop));
            });
            let (mut state, mut all, mut taken) = (start(), PassExtent::default(), 0);
            let mut next = || pass.next(|number, stop| look(&mut state, number, stop), expired);
            // After time ran out, the stretches that were begun still count, each up to the place
            // where its search ended.
            while let Some(outcome) = next().or_else(|| pass.next_begun()) {
                taken += 1;
                let Some((offset, seen, extent)) = outcome? else { continue };
                take(StretchStart { newlines: all.newlines, offset }, seen);
                all.newlines += extent.newlines;
                all.bytes = offset + extent.bytes;
                all.out_of_time = extent.out_of_time;
                if all.out_of_time {
                    return Ok(all);
                }
            }
            all.out_of_time = taken < count;
            if !all.out_of_time {
                all.bytes = self.content.len();
            }
            Ok(all)
        })
    }

    /// Returns the lines that begin in the stretch `number`, or `None` if no line begins there. The
    /// last line may extend far beyond the stretch, so its end is not searched here.
    fn stretch(&self, number: u64) -> io::Result<Option<Stretch<'a>>> {
        let (from, length) = (number * self.length, self.content.len());
        let to = length.min(from + self.length);
        let start = if number == 0 { Some(0) } else { self.line_after(from - 1, to - 1)? };
        Ok(start.map(|start| Stretch {
            from: ContentSlice { content: self.content, start, end: length },
            last: to - 1 - start,
        }))
    }

    // Returns the offset after the first newline between `from` and `to`.
    fn line_after(&self, mut from: u64, to: u64) -> io::Result<Option<u64>> {
        while from < to {
            let block = self.content.bytes(from, LINE_SEARCH_BYTES.min(to - from) as usize)?;
            if let Some(at) = memchr::memchr(b'\n', &block) {
                return Ok(Some(from + at as u64 + 1));
            }
            if block.is_empty() {
                break;
            }
            from += block.len() as u64;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::prelude::*;

    use crate::find::scan;

    /// Returns the bytes of a stretch, and its extent.
    fn read(stretch: &Stretch<'_>, stop: &dyn Fn() -> bool) -> (Vec<u8>, PassExtent) {
        let mut bytes = Vec::new();
        let extent = scan::scan(stretch.lines(), None, stop, 7, |segment| {
            bytes.extend_from_slice(segment.text);
            bytes.push(b'\n');
        })
        .unwrap();
        bytes.truncate(extent.bytes as usize);
        (bytes, extent)
    }

    /// Returns the stretches with their starts, and the total extent.
    fn stretches(
        text: &[u8],
        length: u64,
        threads: usize,
        expired: &dyn Fn() -> bool,
    ) -> (Vec<(StretchStart, Vec<u8>)>, PassExtent) {
        let content = text.to_vec();
        let mut taken = Vec::new();
        let look =
            |(): &mut (), stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| Ok(read(stretch, stop));
        let all = Stretches { content: &content, length, threads };
        let extent = all.each(expired, || (), look, |start, bytes| taken.push((start, bytes)));
        (taken, extent.unwrap())
    }

    #[test]
    fn time_can_run_out() {
        for threads in [1, 3] {
            let (taken, extent) = stretches(&b"line\n".repeat(1000), 100, threads, &|| true);
            assert!(extent.out_of_time);
            assert_eq!(
                extent.bytes,
                taken.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>()
            );
        }
    }

    /// The content has some short lines, followed by a line that does not end.
    #[test]
    fn time_runs_out_inside_a_line() {
        struct Endless;
        impl Content for Endless {
            fn len(&self) -> u64 {
                1 << 40
            }

            fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(0);
                let lines = 100_u64.saturating_sub(offset).min(buffer.len() as u64) as usize;
                for (at, byte) in buffer[..lines].iter_mut().enumerate() {
                    *byte = b"line\n"[(offset as usize + at) % 5];
                }
                Ok(buffer.len())
            }
        }
        for threads in [1, 3] {
            let asked = std::cell::Cell::new(0);
            let expired = || {
                asked.set(asked.get() + 1);
                asked.get() > 20
            };
            let mut lines = Vec::new();
            let look = |(): &mut (), stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
                let mut found = Vec::new();
                let extent = scan::scan(stretch.lines(), None, stop, 4096, |segment| {
                    if segment.text == b"line" {
                        found.push(segment.line);
                    }
                })?;
                Ok((found, extent))
            };
            let all = Stretches { content: &Endless, length: 4096, threads };
            let extent = all.each(&expired, || (), look, |_, found| lines.extend(found)).unwrap();
            assert!(extent.out_of_time && extent.bytes >= 100, "{extent:?}");
            assert_eq!(lines, (1..=20).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn errors_and_panics_end_it() {
        let content = b"line\n".repeat(1000);
        let each = |panics: bool| {
            let look = |(): &mut (), stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
                if stretch.from.start < 2000 {
                    return Ok(((), read(stretch, stop).1));
                }
                assert!(!panics, "as it should");
                Err(io::Error::other("a bad disk"))
            };
            let all = Stretches { content: &content, length: 100, threads: 3 };
            all.each(&|| false, || (), look, |_, ()| ())
        };
        assert_eq!(each(false).unwrap_err().to_string(), "a bad disk");
        assert!(catch_unwind(AssertUnwindSafe(|| each(true))).is_err());
    }

    proptest! {
        #[test]
        fn stretches_are_whole_lines_in_order(
            text in "([a-c]{0,30}\n){0,40}[a-c]{0,9}",
            length in 1u64..50,
            threads in 1usize..4,
        ) {
            let (taken, extent) = stretches(text.as_bytes(), length, threads, &|| false);
            let (mut offset, mut newlines) = (0, 0);
            for (start, bytes) in &taken {
                prop_assert_eq!((start.offset, start.newlines), (offset, newlines));
                offset += bytes.len() as u64;
                newlines += crate::scan::newlines(bytes);
                prop_assert!(bytes.ends_with(b"\n") || offset == text.len() as u64);
            }
            prop_assert_eq!((extent.bytes, extent.newlines), (text.len() as u64, newlines));
            prop_assert_eq!(offset, text.len() as u64);
        }
    }
}
