//! The memory that a server keeps.

/// Larger pieces are given back as soon as they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 2 << 20;

/// Makes all threads allocate from one pool. Otherwise each of them keeps what it has freed, and a
/// server that has analysed some large outputs never becomes small again. Large pieces do not come
/// from the pool: small ones that came after them would keep it from shrinking.
///
/// To be called before there are threads.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe wrapper has mallopt")]
pub(super) fn share() {
    for (setting, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE)] {
        // SAFETY: `mallopt` takes two numbers and changes a setting of the allocator.
        let is_set = unsafe { libc::mallopt(setting, value) } == 1;
        if !is_set {
            tracing::debug!(setting, "the allocator keeps more memory than it needs");
        }
    }
}

/// Other allocators keep less.
#[cfg(not(target_env = "gnu"))]
pub(super) fn share() {}
