//! What is left of an output whose content was removed to make room: its `.summary`.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::sync::Arc;

use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::body::Body;
use crate::fs::node::DirNode;
use crate::fs::node::Node;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::Source;
use crate::fs::rendered::Version;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Stat;
use crate::store::Time;
use crate::view;
use crate::view::Derived;
use crate::view::Reading;
use crate::view::View;
use crate::view::readings;

/// Content that was removed, and where it was.
struct Removed {
    conversation: Component,
    path: RelPath,
    record: Record,
}

impl Shared {
    /// The summary of the removed content that `name` asks for.
    pub(crate) fn find_removed(
        &self,
        parent: &Arc<Node>,
        dir: &DirNode,
        name: &OsStr,
    ) -> Result<Arc<Node>> {
        let Removed { conversation, path, record } =
            self.removed(parent, name)?.ok_or(FsError::NotFound)?;
        let position = self.conversation(&conversation)?.position(&path)?;
        let mut hasher = DefaultHasher::new();
        (position, &path, &conversation).hash(&mut hasher);
        let version = Version { facts: hasher.finish(), ..Version::default() };
        let source = Source::Removed { of: parent.ino, name: path.file_name().to_owned() };
        let at = record.removed.map_or(0, |removal| removal.at);
        let origin = Stat { mtime: time(at), ctime: time(at), ..dir.dir.stat_self()? };
        self.rendered_node(RenderedKey { source, version }, Some(parent), origin)
    }

    /// Forgets the removed content whose summary `name` is; `FsError::NotFound` where it is none.
    pub(crate) fn forget_removed(&self, parent: &Arc<Node>, name: &OsStr) -> Result<()> {
        let Removed { conversation, path, .. } =
            self.removed(parent, name)?.ok_or(FsError::NotFound)?;
        self.conversation(&conversation)?.forget(&path)?;
        Ok(())
    }

    /// The summary of what the file `name` in the directory `parent` was.
    pub(crate) fn render_removed(&self, parent: &Node, name: &OsStr) -> Result<Body> {
        let (id, folder) = parent.place().ok_or(FsError::Stale)?;
        let path = RelPath::below(Some(&folder), name)?;
        let mut record = self.conversation(&id)?.removed(&path)?.ok_or(FsError::Stale)?;
        let removal = record.removed.take().ok_or(FsError::Stale)?;
        if let Some(redaction) = &self.options.redaction {
            redaction.mask_arguments(&mut record.provenance);
        }
        let place = self.options.place(&id, &path);
        Ok(Body::of(view::removed(&record, &removal, &place).into_bytes()))
    }

    fn removed(&self, parent: &Node, name: &OsStr) -> Result<Option<Removed>> {
        let is_summary = |reading: &Reading| {
            reading.base.is_none() && matches!(reading.derived, Derived::File(View::Summary))
        };
        let Some((stem, _)) = readings(name).find(|(_, reading)| is_summary(reading)) else {
            return Ok(None);
        };
        let Some((id, folder)) = parent.place().filter(|_| parent.holds_artifacts()) else {
            return Ok(None);
        };
        let conversation = self.conversation(&id)?;
        for (file, call) in names(stem, folder.as_os_str() == Folder::Tool.path()) {
            let Ok(path) = RelPath::below(Some(&folder), &file) else { continue };
            if let Some(record) = conversation.removed(&path)?
                && call.is_none_or(|call| {
                    record.provenance.call.as_ref().is_some_and(|said| call == &**said)
                })
            {
                return Ok(Some(Removed { conversation: id, path, record }));
            }
        }
        Ok(None)
    }
}

/// The files that `stem` may mean: itself, or the output of the call of that id.
fn names(stem: &OsStr, in_tools: bool) -> impl Iterator<Item = (OsString, Option<&OsStr>)> {
    let of_call = ["json", "txt"].into_iter().filter(move |_| in_tools).map(move |extension| {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(extension);
        (name, Some(stem))
    });
    std::iter::once((stem.to_owned(), None)).chain(of_call)
}

fn time(millis: i64) -> Time {
    let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
    Time { seconds: millis.div_euclid(1000), nanos }
}
