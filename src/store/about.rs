//! `about.json` of a conversation: whose session it is. Its id, which is often a UUID, does not tell.
//!
//! The file is an ordinary file of the conversation. Readers of a mount, archives and other hosts
//! have it too. Since any program may write it, it is only shown, and nothing depends on it.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::{Conversation, Dir, StoreError, file_io, layout};
use ctxfs_core::model::Component;

const MAX_BYTES: u64 = 16 << 10;

/// Facts about a conversation as a whole, each absent if it is not known.
///
/// - `directory`: the directory in which the session began, usually a project's
/// - `host`: the name of the agent host, such as `claude-code`
/// - `prompt`: the first words of the user
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Returns the facts in `about.json`. If the file cannot be read or is not of this form, no fact is
/// known.
pub fn of(conversation: &Conversation) -> About {
    read(conversation.dir()).unwrap_or_default()
}

/// Returns the facts about the conversation `id` of the store at `root` without opening the store,
/// for a program that is often started. Returns `None` if there is no such conversation.
pub fn of_id(root: &Path, id: &Component) -> Option<About> {
    let dir = Dir::open(&layout::conversation_path(root, id)).ok()?;
    Some(read(&dir).unwrap_or_default())
}

/// Adds the facts that are not known yet. A fact that is known stays as it is.
pub fn add(conversation: &Conversation, newer: About) -> Result<(), StoreError> {
    let known = of(conversation);
    let about = About {
        directory: known.directory.clone().or(newer.directory),
        host: known.host.clone().or(newer.host),
        prompt: known.prompt.clone().or(newer.prompt),
    };
    if about == known {
        return Ok(());
    }
    let (dir, name) = (conversation.dir(), OsStr::new(layout::ABOUT));
    let text = serde_json::to_string(&about).map_err(io::Error::from);
    let replace = |text: String| file_io::replace_file(dir, name, (text + "\n").as_bytes(), false);
    let written = text.and_then(replace);
    written.map_err(|error| StoreError::io("write", &conversation.path().join(name), error))
}

fn read(dir: &Dir) -> io::Result<About> {
    let file = dir.open_file(layout::ABOUT.as_ref(), OFlags::RDONLY)?;
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn what_is_known_stays_and_the_rest_is_added() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let path = temporary.path().join("context/c7/about.json");
        assert_eq!(of(&conversation), About::default());
        add(&conversation, About::default()).unwrap();
        assert!(!path.exists(), "nothing is known");
        let known = |text: &str| Some(text.to_owned());
        let first = About { directory: known("/p"), ..About::default() };
        add(&conversation, first).unwrap();
        let later = About { directory: known("/q"), host: known("codex"), prompt: known("fix it") };
        add(&conversation, later).unwrap();
        let text = "{\"directory\":\"/p\",\"host\":\"codex\",\"prompt\":\"fix it\"}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn what_another_program_wrote_harms_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let path = temporary.path().join("context/c7/about.json");
        for text in
            ["", "[1]", "{\"prompt\":7}", &format!("{{\"prompt\":\"{}", "x".repeat(1 << 20))]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(of(&conversation), About::default(), "{text:.20}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(of(&conversation), About::default());
        assert!(
            add(&conversation, About { host: Some("pi".to_owned()), ..About::default() }).is_err()
        );
    }
}
