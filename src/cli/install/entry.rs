//! The entries that the settings of hosts get, as data.

use crate::hooks::Host;

/// An entry in a JSON file.
#[derive(Debug, Clone)]
pub(super) enum JsonEntry {
    /// A call of the hook.
    Hook(HookEntry),
    /// A text in a list.
    Text(TextEntry),
    /// A member of an object.
    Member(MemberEntry),
    /// A variable among those of the object `env`, whoever has set it before.
    Variable(ValueEntry),
    /// A number at the top that the host demands. It stays as long as anything else is there.
    Demanded(&'static str, u32),
}

/// A call of the hook at an event.
#[derive(Debug, Clone)]
pub(super) struct HookEntry {
    /// The host that is named to the hook.
    pub(super) host: Host,
    /// The event, which is the name of a list in `hooks`.
    pub(super) event: &'static str,
    /// The tools, as a regular expression; `None` for all, or where the event has none.
    pub(super) matcher: Option<&'static str>,
    /// The command line.
    pub(super) command: String,
    /// The names and units of the host.
    pub(super) dialect: &'static HookDialect,
}

/// The names and units of hooks in the settings of a host.
#[derive(Debug)]
pub(super) struct HookDialect {
    /// The name of the command line.
    pub(super) command: &'static str,
    /// The name of the time that the host waits.
    pub(super) timeout: &'static str,
    /// A minute, in the unit of the host.
    pub(super) minute: u32,
    /// True if the list of an event holds groups with a matcher and a list `hooks` of their own.
    pub(super) grouped: bool,
}

/// A text in a list.
#[derive(Debug, Clone)]
pub(super) struct TextEntry {
    /// The names that lead to the list.
    pub(super) path: &'static [&'static str],
    /// The text.
    pub(super) text: String,
}

/// A text as a member of an object.
#[derive(Debug, Clone)]
pub(super) struct MemberEntry {
    /// The names that lead to the object.
    pub(super) path: &'static [&'static str],
    /// The name of the member.
    pub(super) name: String,
    /// Its value.
    pub(super) value: &'static str,
}

/// A variable and its value.
#[derive(Debug, Clone)]
pub(super) struct ValueEntry {
    /// The name of the variable.
    pub(super) name: &'static str,
    /// Its value.
    pub(super) value: String,
    /// The value that it had in the settings, if a copy of them does not tell.
    pub(super) former: Option<String>,
    /// True if it takes the place of another value; otherwise that stays.
    pub(super) replaces: bool,
    /// Returns true for a value that an installation has put there.
    pub(super) is_ours: fn(&str) -> bool,
}
