//! The bytes of each computed file.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;

use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::body::Body;
use crate::fs::body::Spool;
use crate::fs::metrics;
use crate::fs::node::Node;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::RenderedNode;
use crate::fs::rendered::Source;
use crate::fs::rendered::Text;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Sums;
use crate::store::Conversation;
use crate::store::Kind;
use crate::view;
use crate::view::Rendered;

impl Shared {
    /// The bytes of a computed file; of a view of another one, from its `text`. `again`: they have
    /// been computed before, so they must come from exactly the same moment.
    pub(crate) fn render_source(
        &self,
        key: &RenderedKey,
        rendered: &RenderedNode,
        text: Option<&Text>,
        again: bool,
    ) -> Result<Body> {
        let of = || rendered.of.as_ref().ok_or(FsError::Stale);
        match &key.source {
            Source::View { view, .. } => match text {
                Some(text) => self.render_view_of_view(of()?, text, view),
                None => self.render_view(rendered, of()?, view, &key.version, again),
            },
            Source::Search { query, .. } => self.render_search(of()?, query, &key.version, again),
            Source::Readme => Ok(Body::of(view::readme(&self.options.root()).into_bytes())),
            Source::Ignore { .. } => Ok(Body::of(view::ignore().into_bytes())),
            Source::Manifest { .. } => self.render_manifest(of()?),
            Source::Removed { name, .. } => self.render_removed(of()?, name),
            Source::Messages { .. } => {
                self.render_messages(of()?, key.version.size, key.version.facts)
            }
            Source::Status => Ok(Body::of(self.status()?.into_bytes())),
            Source::Metrics => Ok(Body::of(self.metrics()?.into_bytes())),
            Source::ProgramVersion => {
                Ok(Body::of(format!("{}\n", env!("CARGO_PKG_VERSION")).into_bytes()))
            }
        }
    }

    /// Every artifact that is on disk, oldest first, as references.
    fn render_manifest(&self, node: &Arc<Node>) -> Result<Body> {
        let id = node.conversation().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&id)?;
        let mut records = Self::present(&conversation)?;
        records.sort_by(|a, b| (a.created, &a.path).cmp(&(b.created, &b.path)));
        let mut with_places = records.into_iter().filter_map(|record| {
            let path = RelPath::from_text(&record.path).ok()?;
            let place = self.options.place(&id, &path);
            Some((record, place))
        });
        let room = |length| self.room_for_result(length);
        let spool = Spool::new(&self.cache, &room);
        view::manifest(&mut with_places, &mut &spool)?;
        Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
    }

    fn present(conversation: &Conversation) -> Result<Vec<Record>> {
        let mut found = Vec::new();
        for path in conversation.artifacts()? {
            let Ok(stat) = conversation.dir().stat_at(&path) else { continue };
            if stat.kind() == Kind::File {
                let record = conversation.record(&path)?;
                let mut record = record.unwrap_or_else(|| Conversation::fresh_record(&path, &stat));
                record.size = stat.size;
                found.push(record);
            }
        }
        Ok(found)
    }

    /// What was counted of all conversations that this tree has, up to now.
    fn sums(&self) -> Result<Sums> {
        self.save_counts();
        let mut sums = Sums::default();
        let shown = match &self.options.only {
            Some(id) => vec![id.clone()],
            None => self.store.conversations()?,
        };
        for id in shown {
            if let Some(conversation) = self.store.conversation(&id)? {
                sums.add(&conversation.counted()?);
            }
        }
        Ok(sums)
    }

    fn metrics(&self) -> Result<String> {
        let count = |number: usize| number as u64;
        let gauges = [
            ("ctxfs_uptime_seconds", "Since the server started.", self.started.elapsed().as_secs()),
            ("ctxfs_nodes", "Nodes that the kernel knows.", count(self.nodes.len())),
            ("ctxfs_open_handles", "Open files and directories.", count(self.handles.len())),
            ("ctxfs_waiting_to_seal", "Outputs to be sealed.", count(self.sealer.waiting())),
        ];
        let page = metrics::page(&self.sums()?, &gauges);
        page.map_err(|error| FsError::Io(std::io::Error::other(error)))
    }

    fn status(&self) -> Result<String> {
        let Sums { total, .. } = self.sums()?;
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "store": self.store.root(),
            "prefix": self.options.prefix,
            "only": self.options.only.as_ref().map(Component::to_text),
            "writeOnce": self.options.write_once,
            "passthrough": self.counters.passthrough.load(Relaxed) == 1,
            "confinement": &self.options.confinement,
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "nodes": self.nodes.len(),
            "openHandles": self.handles.len(),
            "keptViewBytes": self.bodies.weight(),
            "waitingToSeal": self.sealer.waiting(),
            "counters": self.counters.to_json(),
            "counted": total,
            "savedBytes": total.saved_bytes(),
            "savedTokens": total.saved_tokens(),
        });
        Ok(format!("{status:#}\n"))
    }
}
