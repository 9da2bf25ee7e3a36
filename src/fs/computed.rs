//! The bytes of each computed file.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde_json::json;

use crate::fs::Counters;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::analysis::Found;
use crate::fs::analysis::SNIFFED;
use crate::fs::body::Body;
use crate::fs::body::Spool;
use crate::fs::node::Node;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::RenderedNode;
use crate::fs::rendered::Source;
use crate::fs::rendered::Version;
use crate::materialize::analyze;
use crate::model::Place;
use crate::model::Record;
use crate::model::Subject;
use crate::store::Artifact;
use crate::store::Conversation;
use crate::store::Kind;
use crate::store::said_of;
use crate::store::stat_file;
use crate::view;
use crate::view::RenderError;
use crate::view::View;

impl Shared {
    /// The bytes of a computed file. `again`: they have been computed before, so they must come
    /// from exactly the same moment.
    pub(crate) fn render_source(
        &self,
        key: &RenderedKey,
        rendered: &RenderedNode,
        again: bool,
    ) -> Result<Body> {
        let of = || rendered.of.as_ref().ok_or(FsError::Stale);
        match &key.source {
            Source::View { view, .. } => self.render_view(of()?, view, &key.version, again),
            Source::Readme => Ok(Body::of(view::readme(&self.options.prefix).into_bytes())),
            Source::Ignore { .. } => Ok(Body::of(view::ignore().as_bytes().to_vec())),
            Source::Manifest { .. } => self.render_manifest(of()?),
            Source::Status => Ok(Body::of(self.status().into_bytes())),
            Source::ProgramVersion => {
                Ok(Body::of(format!("{}\n", env!("CARGO_PKG_VERSION")).into_bytes()))
            }
        }
    }

    fn render_view(
        &self,
        node: &Arc<Node>,
        view: &View,
        version: &Version,
        again: bool,
    ) -> Result<Body> {
        let file = node.as_file()?;
        let reader = file.reader()?;
        let (stat, changes) = {
            let writing = file.writing();
            (stat_file(&reader)?, writing.changes)
        };
        if again && *version != self.version_at(node, &stat, changes)? {
            return Err(FsError::Stale);
        }
        let started = Instant::now();
        let expired = || started.elapsed() >= self.options.view_deadline;
        let mut record = self.record(node, &stat)?;
        record.said.update(&said_of(&reader)?);
        let found = if needs_analysis(view) {
            self.analysis(node, &reader, Some(&record), &expired)?
        } else {
            sniff(&reader, stat.size)?
        };
        let length =
            if found.whole && needs_analysis(view) { found.analysis.bytes } else { stat.size };
        record.size = length;
        let content = Artifact::new(reader, length);
        let (id, path) = node.place().ok_or(FsError::Stale)?;
        let place = Place::new(&self.options.prefix, &id.to_text(), &path);
        let subject = Subject {
            content: &content,
            analysis: &found.analysis,
            record: &record,
            place: &place,
            limits: &self.limits,
        };
        let mut spool = Spool::new(self.store.root());
        let rendered = view::render(view, &subject, &expired, &mut spool).map_err(refused)?;
        if !rendered.whole {
            // Whoever looks it up again gets another try.
            Counters::add(&self.counters.views_out_of_time, 1);
            file.writing().changes += 1;
        }
        Ok(spool.finish(rendered.notice)?)
    }

    /// Every artifact that is on disk, oldest first, as references.
    fn render_manifest(&self, node: &Arc<Node>) -> Result<Body> {
        let id = node.conversation().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&id)?;
        let mut records = Self::present(&conversation)?;
        records.sort_by(|a, b| (a.created, &a.path).cmp(&(b.created, &b.path)));
        let mut with_places = records.into_iter().filter_map(|record| {
            let path = crate::model::RelPath::new(&record.path).ok()?;
            let place = Place::new(&self.options.prefix, &id.to_text(), &path);
            Some((record, place))
        });
        let mut spool = Spool::new(self.store.root());
        view::manifest(&mut with_places, &mut spool)?;
        Ok(spool.finish(None)?)
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

    fn status(&self) -> String {
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "store": self.store.root(),
            "prefix": self.options.prefix,
            "writeOnce": self.options.write_once,
            "passthrough": self.counters.passthrough.load(Relaxed) == 1,
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "nodes": self.nodes.len(),
            "openHandles": self.handles.len(),
            "keptViewBytes": self.bodies.weight(),
            "waitingToSeal": self.sealer.waiting(),
            "counters": self.counters.to_json(),
        });
        format!("{status:#}\n")
    }
}

/// Views that speak of the whole content; the others look at what they show.
fn needs_analysis(view: &View) -> bool {
    match view {
        View::Summary | View::Meta | View::Ref => true,
        View::Tail | View::Head | View::Lines(_) | View::Page(_) | View::Grep(_) | View::Pretty => {
            false
        }
    }
}

/// The analysis of the first bytes alone: enough to tell text from binary, and the same whether
/// or not the artifact has been sealed.
fn sniff(reader: &Arc<std::fs::File>, length: u64) -> Result<Found> {
    let start = Artifact::new(Arc::clone(reader), length.min(SNIFFED));
    Ok(Found { analysis: Arc::new(analyze(&start)?), whole: length <= SNIFFED })
}

fn refused(error: RenderError) -> FsError {
    match error {
        RenderError::NotFound => FsError::NotFound,
        RenderError::Io(error) => FsError::Io(error),
    }
}
