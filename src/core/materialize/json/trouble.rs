//! Finds the fields of records that indicate errors, based on the shape of the stream.

use crate::materialize::json::filter::{
    Projection, ShapePath, best_field, is_map, key_step, merge_fields, record_fields,
};
use crate::materialize::json::roles::FieldRole;
use crate::materialize::json::shape::{Shape, ShapeNode};
use crate::materialize::json::tally::{FieldTally, HARMLESS, TroubleWord};
use crate::model::Trouble;

const REPORTED: usize = 3;
const COUNTS: usize = 8;
const SELECTED: usize = 3;
// Maximum size in bytes of all results of a filter, and maximum number of results.
pub(super) const RESULT_BYTES: u64 = 1900;
pub(super) const RESULTS: u64 = 10;
const LEVELS: usize = 24;

/// A field that indicates errors. Fields at several nodes are one group if their paths are equal.
///
/// `records` are the nodes of two records: the one that contains the field, and the one around it.
/// `others` are further nodes of records that contain the field. `mixed` is true if some values at
/// the nodes of such records are not objects.
struct TroubleGroup<'s> {
    path: ShapePath,
    records: [Option<&'s ShapeNode>; 2],
    others: Vec<&'s ShapeNode>,
    tally: FieldTally,
    of: u64,
    mixed: bool,
    worst: u8,
    has_message: bool,
}

struct TroubleSearch<'s> {
    shape: &'s Shape,
    groups: Vec<TroubleGroup<'s>>,
}

/// Returns the fields that indicate errors, worst first. Also returns a filter for the first of
/// these fields. The filter selects the records with the worst values. If `lines` is true, each
/// line is a record.
pub(super) fn of(shape: &Shape, lines: bool) -> (Vec<Trouble>, Option<String>) {
    let mut search = TroubleSearch { shape, groups: Vec::new() };
    if let Some(root) = shape.nodes.first() {
        search.visit(root, &ShapePath::root(), [lines.then_some(root), None], LEVELS);
    }
    let mut groups = search.groups;
    for group in &mut groups {
        group.judge(shape);
    }
    groups.retain(|group| group.worst < HARMLESS);
    groups.sort_by_key(|group| (group.worst, !group.has_message, group.path.depth()));
    let filter = groups.first().map(|worst| worst.filter(shape, lines));
    let trouble = groups.iter().take(REPORTED).map(|group| group.trouble(shape)).collect();
    (trouble, filter)
}

impl<'s> TroubleSearch<'s> {
    fn visit(
        &mut self,
        node: &'s ShapeNode,
        path: &ShapePath,
        records: [Option<&'s ShapeNode>; 2],
        levels: usize,
    ) {
        if levels == 0 {
            return;
        }
        if let (Some(tally), [Some(_), _]) = (self.shape.tally(node), records) {
            self.add(path, records, tally, node.seen);
        }
        let [inner, _] = records;
        let each = |node: &'s ShapeNode| [Some(node), inner];
        if let Some(item) = node.item.map(|item| &self.shape.nodes[item]) {
            self.visit(item, &path.each(), each(item), levels - 1);
        }
        let is_map = is_map(self.shape, node);
        for field in &node.fields {
            let value = &self.shape.nodes[field.node];
            if is_map {
                self.visit(value, &path.each_value(), each(value), levels - 1);
            } else if let Some(step) = key_step(&field.key) {
                self.visit(value, &path.key(&step), records, levels - 1);
            }
        }
        if let Some(rest) = node.rest.map(|rest| &self.shape.nodes[rest]) {
            self.visit(rest, &path.each_value(), each(rest), levels - 1);
        }
    }

    fn add(
        &mut self,
        path: &ShapePath,
        records: [Option<&'s ShapeNode>; 2],
        tally: &FieldTally,
        of: u64,
    ) {
        let mixed = records[0].is_some_and(|record| record.objects < record.seen);
        let Some(known) = self.groups.iter_mut().find(|group| group.path == *path) else {
            self.groups.push(TroubleGroup {
                path: path.clone(),
                records,
                others: Vec::new(),
                tally: tally.clone(),
                of,
                mixed,
                worst: HARMLESS,
                has_message: false,
            });
            return;
        };
        known.tally.add(tally);
        known.of += of;
        known.mixed |= mixed;
        let keys = |record: Option<&ShapeNode>| record.map_or(0, |record| record.fields.len());
        if keys(records[0]) > keys(known.records[0]) {
            known.others.extend(known.records[0]);
            known.records = records;
        } else {
            known.others.extend(records[0]);
        }
    }
}

impl TroubleGroup<'_> {
    fn judge(&mut self, shape: &Shape) {
        let fields = self.records[0].map(|node| record_fields(shape, node)).unwrap_or_default();
        let of_lint = !self.tally.is_lint() || best_field(&fields, FieldRole::Kind).is_some();
        let worst = self.tally.counts().first().map_or(HARMLESS, |(word, _)| word.rank());
        self.worst = if of_lint { worst } else { HARMLESS };
        self.has_message = best_field(&fields, FieldRole::Message).is_some();
    }

    fn trouble(&self, shape: &Shape) -> Trouble {
        let counts = self.tally.counts().into_iter().take(COUNTS);
        Trouble {
            path: self.path.text(),
            of: self.of,
            least: shape.partial,
            counts: counts.map(|(word, count)| (word.text(), count)).collect(),
            records: self.tally.records(),
        }
    }

    // Returns a filter such as `-c -m10 .[]|select(.errorCount>0)|{filePath,errorCount}`.
    fn filter(&self, shape: &Shape, lines: bool) -> String {
        let [mut inner, outer] = self
            .records
            .map(|node| node.map(|node| record_fields(shape, node)).unwrap_or_default());
        for other in &self.others {
            merge_fields(&mut inner, &record_fields(shape, other));
        }
        let selected = (!self.selects_one()).then(|| self.path.field());
        let made = Projection::of_trouble(&inner, selected);
        let certain = usize::from(!lines);
        let vague = self.is_vague();
        let steps = self.path.split().filter(|_| !vague && !made.has(&inner, FieldRole::Place));
        let place = Projection::of_place(&outer).zip(steps);
        let chosen = format!("{}{}", if vague { "objects|" } else { "" }, self.condition());
        let printed = if made.parts.is_empty() {
            "|keys[:20]".to_owned()
        } else {
            format!("|{}", made.text())
        };
        let bytes = made.bytes + place.as_ref().map_or(0, |(place, _)| place.bytes);
        let program = match place {
            Some((place, (to_outer, to_inner))) => {
                let (to_outer, to_inner) = (to_outer.filter(certain), to_inner.filter(0));
                format!("{to_outer}|{}+({to_inner}|{chosen}{printed})", place.text())
            }
            None if self.path.depth() == 0 => format!("{chosen}{printed}"),
            None if vague => format!("{}|{chosen}{printed}", self.path.record().vague_filter()),
            None => format!("{}|{chosen}{printed}", self.path.record().filter(certain)),
        };
        let most = (RESULT_BYTES / (bytes + 4)).clamp(1, RESULTS);
        format!("-c -m{most} {program}")
    }

    // Returns true if some values on the path may be of another kind than the path requires.
    fn is_vague(&self) -> bool {
        let is_mixed = |node: &ShapeNode| node.objects < node.seen;
        self.mixed || self.path.is_vague() || self.records[1].is_some_and(is_mixed)
    }

    fn selected(&self) -> Vec<TroubleWord> {
        let counts = self.tally.counts();
        let worst = counts.iter().filter(|(word, _)| word.rank() == self.worst);
        worst.take(SELECTED).map(|(word, _)| *word).collect()
    }

    fn selects_one(&self) -> bool {
        matches!(self.selected().as_slice(), [word] if !word.is_range())
    }

    // Returns a condition such as `select(.severity=="CRITICAL")`.
    fn condition(&self) -> String {
        let value = self.path.field();
        let value = if value.is_empty() { "." } else { value };
        // The first key needs no `?`, because it belongs to an object.
        let value = match value.matches('.').count() {
            0 | 1 => value.to_owned(),
            2 => format!("{value}?"),
            _ => format!("({value})?"),
        };
        let selected = self.selected();
        let is = selected.iter().map(|word| word.condition(&value)).collect::<Vec<String>>();
        format!("select({})", is.join(" or "))
    }
}
