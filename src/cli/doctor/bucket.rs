//! The bucket that hosts share, if the settings name one.

use std::path::Path;

use crate::doctor::check::{Check, Level};
use crate::remote;
use crate::settings::Settings;

const NAME: &str = "bucket";

/// Asks the bucket who it is and, if this host has sent something there, what time it is.
pub(super) fn checks(settings: &Settings, store: &Path) -> Vec<Check> {
    match remote::health(settings, store) {
        None => Vec::new(),
        Some(Err(error)) => {
            let mend = "local work goes on; docs/REMOTE.md, `When it is broken`, tells what to do";
            vec![Check::bad(NAME, Level::Warning, format!("{error:#}"), mend)]
        }
        Some(Ok((url, clock))) => {
            let off = clock.map(|clock| {
                let found = format!("this host's clock is {clock}");
                Check::bad("clock", Level::Warning, found, "timedatectl set-ntp true")
            });
            [Check::ok(NAME, url)].into_iter().chain(off).collect()
        }
    }
}
