//! The structure of JSON values with counts and samples, merged as they pass.
//!
//! The tree has a place for each path: the root, each key of an object, the items of an array.
//! Memory is bounded by the constants here, whatever the values.

use crate::materialize::json::Events;
use crate::materialize::json::Scalar;
use crate::view::shape::range::Range;
use crate::view::shape::samples::Samples;

/// Levels that have places; what lies deeper is left out.
pub(super) const LEVELS: usize = 16;
/// From so many different keys on, an object is looked at as a possible map.
const MANY_KEYS: usize = 64;
/// Keys of an object that have places of their own: one with more is a map whatever it holds.
const MOST_KEYS: usize = 512;
/// Fewest keys of a map.
const FEWEST_KEYS: usize = 8;
/// Places in all, of at most some 600 bytes each.
const PLACES: usize = 4096;

/// What was seen at one path.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Values.
    pub(super) seen: u64,
    pub(super) nulls: u64,
    pub(super) bools: u64,
    pub(super) ints: u64,
    pub(super) floats: u64,
    /// Numbers that are whole, and those that are not or are too large.
    pub(super) whole: Range<i128>,
    pub(super) numbers: Range<f64>,
    pub(super) texts: u64,
    /// Bytes of strings, as written.
    pub(super) lengths: Range<u64>,
    /// Numbers and strings; keys, of a map.
    pub(super) samples: Samples,
    pub(super) arrays: u64,
    /// Items of arrays.
    pub(super) items: Range<u64>,
    pub(super) objects: u64,
    /// Keys of objects.
    pub(super) keys: Range<u64>,
    pub(super) fields: Vec<Field>,
    /// Whether its objects are maps: keys are data, and all values stand at one place.
    pub(super) map: bool,
    /// Where the items of arrays and the values of maps stand: what `[]` means.
    pub(super) each: Option<usize>,
    /// Something here was too deep, or there were too many paths.
    pub(super) hidden: bool,
}

/// A key, as written, and the place of its values.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) key: Box<[u8]>,
    pub(super) place: usize,
}

/// The tree.
#[derive(Debug, Default)]
pub(super) struct Outline {
    places: Vec<Place>,
    /// Places that merging left unused.
    unused: Vec<usize>,
    open: Vec<Open>,
    /// Open brackets without a place.
    below: u64,
}

/// An array or object that has not ended.
#[derive(Debug)]
struct Open {
    place: usize,
    array: bool,
    /// Items or keys so far.
    count: u64,
    /// The field expected next: objects of one kind have their keys in one order.
    next: usize,
    /// Where the value of the last key goes.
    value: Option<usize>,
}

impl Outline {
    pub(super) fn root(&self) -> Option<usize> {
        (!self.places.is_empty()).then_some(0)
    }

    pub(super) fn place(&self, index: usize) -> &Place {
        &self.places[index]
    }

    /// Tells maps from records now that all is seen.
    pub(super) fn settle(&mut self) {
        for index in 0..self.places.len() {
            let place = &self.places[index];
            if !place.map && place.fields.len() >= FEWEST_KEYS && self.alike(index) {
                self.make_map(index);
            }
        }
    }

    fn begin(&mut self, place: Option<usize>, array: bool) {
        match place {
            Some(place) if self.open.len() < LEVELS => {
                self.open.push(Open { place, array, count: 0, next: 0, value: None });
            }
            Some(place) => {
                self.places[place].hidden = true;
                self.below += 1;
            }
            None => self.below += 1,
        }
    }

    /// The place of the value that begins here.
    fn here(&mut self) -> Option<usize> {
        if self.below > 0 {
            return None;
        }
        let place = match self.open.last_mut() {
            None if self.places.is_empty() => self.new_place(),
            None => Some(0),
            Some(Open { array: false, value, .. }) => *value,
            Some(Open { place, count, .. }) => {
                *count += 1;
                let place = *place;
                self.each_of(place)
            }
        }?;
        self.places[place].seen += 1;
        Some(place)
    }

    fn each_of(&mut self, place: usize) -> Option<usize> {
        if self.places[place].each.is_none() {
            let each = self.new_place();
            self.places[place].hidden |= each.is_none();
            self.places[place].each = each;
        }
        self.places[place].each
    }

    /// Where the values of `key` go; `next` is where the key would be in order.
    fn value_of(&mut self, place: usize, key: &[u8], next: usize) -> (Option<usize>, usize) {
        if self.places[place].map {
            self.places[place].samples.push(key, key.len() as u64, true);
            return (self.each_of(place), next);
        }
        let fields = &self.places[place].fields;
        let is_it = |field: &Field| *field.key == *key;
        let found = if fields.get(next).is_some_and(is_it) {
            Some(next)
        } else {
            fields.iter().position(is_it)
        };
        match found {
            Some(index) => (Some(fields[index].place), index + 1),
            None => (self.new_field(place, key), next + 1),
        }
    }

    fn new_field(&mut self, place: usize, key: &[u8]) -> Option<usize> {
        let count = self.places[place].fields.len();
        let as_map = count >= MOST_KEYS || (count == MANY_KEYS && self.is_map(place));
        if as_map {
            self.make_map(place);
            return self.value_of(place, key, 0).0;
        }
        let Some(value) = self.new_place() else {
            self.places[place].hidden = true;
            return None;
        };
        self.places[place].fields.push(Field { key: key.into(), place: value });
        Some(value)
    }

    /// Whether an object with many keys is a map: the values of its keys are alike, or each
    /// object has others.
    fn is_map(&self, place: usize) -> bool {
        let Place { fields, objects, .. } = &self.places[place];
        let seen: u64 = fields.iter().map(|field| self.places[field.place].seen).sum();
        let sparse = *objects > 1 && seen * 2 < fields.len() as u64 * objects;
        let kind = |field: &Field| self.places[field.place].kind();
        sparse || (*objects == 1 && fields.iter().all(|field| kind(field) == kind(&fields[0])))
    }

    /// Whether the values of all keys are objects with the same keys.
    fn alike(&self, place: usize) -> bool {
        let fields = &self.places[place].fields;
        let keys = |field: &Field| {
            let value = &self.places[field.place];
            let mut keys: Vec<&[u8]> = value.fields.iter().map(|field| &*field.key).collect();
            keys.sort_unstable();
            (value.kind(), keys)
        };
        let first = keys(&fields[0]);
        !first.1.is_empty() && fields.iter().all(|field| keys(field) == first)
    }

    fn make_map(&mut self, place: usize) {
        let fields = std::mem::take(&mut self.places[place].fields);
        self.places[place].map = true;
        for Field { key, place: value } in fields {
            self.places[place].samples.push(&key, key.len() as u64, true);
            match self.places[place].each {
                Some(each) => self.merge(each, value),
                None => self.places[place].each = Some(value),
            }
        }
    }

    /// Takes what was seen at `from` as seen at `into`; `from` is unused then.
    fn merge(&mut self, into: usize, from: usize) {
        let other = std::mem::take(&mut self.places[from]);
        self.unused.push(from);
        self.places[into].add(&other);
        if other.map && !self.places[into].map {
            self.make_map(into);
        }
        for Field { key, place: value } in other.fields {
            let (target, _) = self.value_of(into, &key, 0);
            match target {
                Some(target) => self.merge(target, value),
                None => self.places[into].hidden = true,
            }
        }
        match (other.each, self.places[into].each) {
            (Some(value), Some(each)) => self.merge(each, value),
            (each, None) => self.places[into].each = each,
            (None, Some(_)) => {}
        }
    }

    fn new_place(&mut self) -> Option<usize> {
        if let Some(unused) = self.unused.pop() {
            return Some(unused);
        }
        if self.places.len() == PLACES {
            return None;
        }
        self.places.push(Place::default());
        Some(self.places.len() - 1)
    }
}

impl Place {
    /// Which types there are.
    fn kind(&self) -> [bool; 6] {
        let Self { nulls, bools, ints, floats, texts, arrays, objects, .. } = *self;
        [nulls, bools, ints + floats, texts, arrays, objects].map(|count| count > 0)
    }

    fn add_number(&mut self, written: &[u8]) {
        // One that may have been cut has lost its magnitude.
        let whole = Some(written).filter(|written| written.len() < super::SAMPLE_BYTES);
        let Some(text) = whole.and_then(|written| str::from_utf8(written).ok()) else { return };
        if let Ok(number) = text.parse::<i128>() {
            self.whole.push(number);
        } else if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            self.numbers.push(number);
        }
    }

    fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.nulls += other.nulls;
        self.bools += other.bools;
        self.ints += other.ints;
        self.floats += other.floats;
        self.whole.add(&other.whole);
        self.numbers.add(&other.numbers);
        self.texts += other.texts;
        self.lengths.add(&other.lengths);
        self.samples.add(&other.samples);
        self.arrays += other.arrays;
        self.items.add(&other.items);
        self.objects += other.objects;
        self.keys.add(&other.keys);
        self.hidden |= other.hidden;
    }
}

impl Events for Outline {
    const KEY_BYTES: usize = super::KEY_BYTES;
    const TEXT_BYTES: usize = super::SAMPLE_BYTES;

    fn scalar(&mut self, scalar: Scalar, written: &[u8]) {
        let Some(place) = self.here() else { return };
        let place = &mut self.places[place];
        match scalar {
            Scalar::Null => place.nulls += 1,
            Scalar::Bool => place.bools += 1,
            Scalar::Int => place.ints += 1,
            Scalar::Float => place.floats += 1,
        }
        if matches!(scalar, Scalar::Int | Scalar::Float) {
            place.samples.push(written, written.len() as u64, false);
            place.add_number(written);
        }
    }

    fn text(&mut self, start: &[u8], length: u64) {
        let Some(place) = self.here() else { return };
        let place = &mut self.places[place];
        place.texts += 1;
        place.lengths.push(length);
        place.samples.push(start, length, true);
    }

    fn begin_object(&mut self) {
        let place = self.here();
        if let Some(place) = place {
            self.places[place].objects += 1;
        }
        self.begin(place, false);
    }

    fn begin_array(&mut self) {
        let place = self.here();
        if let Some(place) = place {
            self.places[place].arrays += 1;
        }
        self.begin(place, true);
    }

    fn key(&mut self, key: &[u8]) {
        if self.below > 0 {
            return;
        }
        let Some(&Open { place, next, .. }) = self.open.last() else { return };
        let (value, next) = self.value_of(place, key, next);
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
            open.value = value;
            open.next = next;
        }
    }

    fn end(&mut self) {
        if self.below > 0 {
            self.below -= 1;
            return;
        }
        let Some(Open { place, array, count, .. }) = self.open.pop() else { return };
        let place = &mut self.places[place];
        if array { place.items.push(count) } else { place.keys.push(count) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::materialize::json::JsonReader;

    fn outline(text: &str) -> Outline {
        let mut reader = JsonReader::<Outline>::default();
        reader.push(text.as_bytes());
        reader.finish().1
    }

    #[test]
    fn paths_without_number_take_bounded_memory() {
        let mut text = String::from("[");
        for index in 0..20_000 {
            write!(text, "{{\"a{index}\":{{\"b{index}\":{{\"c{index}\":1}}}}}},").unwrap();
        }
        let found = outline(&text);
        assert!(found.places.len() <= PLACES);
        let fields: usize = found.places.iter().map(|place| place.fields.len()).sum();
        assert!(fields <= PLACES);
    }

    #[test]
    fn merged_places_are_used_again() {
        let values = (0..5_000).map(|n| format!("\"k{n}\":{{\"a\":{n},\"b\":[{n}],\"c\":{{}}}}"));
        let found = outline(&format!("{{{}}}", values.collect::<Vec<String>>().join(",")));
        assert!(found.places.len() < 5 * MANY_KEYS + 10, "{}", found.places.len());
        let root = found.place(0);
        assert!(root.map && root.fields.is_empty() && !root.hidden);
        let each = found.place(root.each.unwrap());
        assert_eq!((each.seen, each.objects, each.fields.len()), (5_000, 5_000, 3));
        let [a, b, c] = [0, 1, 2].map(|field: usize| found.place(each.fields[field].place));
        assert_eq!((a.ints, a.whole.ends()), (5_000, Some((0, 4_999))));
        assert_eq!((b.arrays, found.place(b.each.unwrap()).ints), (5_000, 5_000));
        assert_eq!(c.objects, 5_000);
    }
}
