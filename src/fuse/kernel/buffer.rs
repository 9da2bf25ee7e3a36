//! The buffer of a worker.

use std::cell::RefCell;

thread_local! {
    /// Grows to the largest request that the worker has served, and is kept.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `run` with `size` bytes of the worker's buffer, whatever they hold.
pub(super) fn with_buffer<T>(size: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        run(&mut buffer[..size])
    })
}
