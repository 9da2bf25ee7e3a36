//! Ids for calls to which the client gives none.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Numbers of four digits at most.
const NUMBERS: u64 = 36_u64.pow(4);

/// Returns a new id: its time in milliseconds, and a number, as in `mib1x0cz-4k2a`.
///
/// The numbers of a process count on from a random one: two gateways before one conversation may
/// begin calls in the same millisecond.
pub(super) fn new_call() -> String {
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(Uuid::new_v4().as_u64_pair().1));
    let number = NEXT.fetch_add(1, Relaxed) % NUMBERS;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", base36(time.as_millis()), base36(u128::from(number)))
}

fn base36(mut number: u128) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
    }
    digits.iter().rev().collect()
}
