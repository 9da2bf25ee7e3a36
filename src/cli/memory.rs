//! The memory that a server keeps.

/// Makes all threads allocate from one pool. Otherwise each of them keeps what it has freed, and a
/// server that has analysed some large outputs never becomes small again.
///
/// To be called before there are threads.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe wrapper has mallopt")]
pub(super) fn share() {
    // SAFETY: `mallopt` takes two numbers and changes a setting of the allocator.
    let is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) } == 1;
    if !is_set {
        tracing::debug!("the allocator keeps a pool for each thread");
    }
}

/// Other allocators keep less.
#[cfg(not(target_env = "gnu"))]
pub(super) fn share() {}
