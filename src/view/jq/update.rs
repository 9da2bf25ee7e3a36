//! Assignments and paths as jq has them. The library updates a value in place while it follows a
//! path; jq first finds the paths in the value as it was, and then sets or deletes each. The results
//! differ if one update moves what another one means, and where a path leads through `null`.
//!
//! [`rewritten`] therefore turns operators into calls of the filters that [`filters`] returns.

use std::rc::Rc;

use jaq_core::box_iter::box_once;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{Filter, bome, v};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};
use jaq_core::{Bind, DataT, RunPtr, ValT as _, ValX};
use jaq_json::{Error, Num, Val, ValR};
use jaq_std::ValT as _;

use super::matching::{matches, pieces};

/// Maximum length of an array that an assignment makes longer.
const MAX_LENGTH: usize = 1 << 24;
/// A variable with a name that no filter can have.
const VALUE: &str = "$(value)";

type Text = &'static str;

/// Returns the filter `term` with each assignment and each computed index replaced by a call.
pub(super) fn rewritten(term: Term<&str>) -> Term<&str> {
    let each = |term: Box<Term<_>>| Box::new(rewritten(*term));
    let all = |terms: Vec<Term<_>>| terms.into_iter().map(rewritten).collect();
    match term {
        Term::BinOp(left, op, right) => {
            let (left, right) = (rewritten(*left), rewritten(*right));
            assignment(left, op, right)
        }
        Term::Str(format, parts) => {
            // As text, numbers have the form that jq gives them.
            let has_terms = parts.iter().any(|part| matches!(part, StrPart::Term(_)));
            let format = format.or(has_terms.then_some("@text"));
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(term) => StrPart::Term(rewritten(term)),
                other => other,
            });
            Term::Str(format, parts.collect())
        }
        Term::Arr(inner) => Term::Arr(inner.map(each)),
        Term::Obj(members) => {
            let member = |(key, value): (_, Option<_>)| (rewritten(key), value.map(rewritten));
            Term::Obj(members.into_iter().map(member).collect())
        }
        Term::Neg(inner) => Term::Neg(each(inner)),
        Term::Label(name, inner) => Term::Label(name, each(inner)),
        Term::Fold(name, of, pattern, parts) => {
            Term::Fold(name, each(of), in_pattern(pattern), all(parts))
        }
        Term::TryCatch(inner, catch) => Term::TryCatch(each(inner), catch.map(each)),
        Term::IfThenElse(branches, otherwise) => {
            let branch = |(cond, then)| (rewritten(cond), rewritten(then));
            let branches = branches.into_iter().map(branch).collect();
            Term::IfThenElse(branches, otherwise.map(each))
        }
        Term::Def(defs, inner) => {
            Term::Def(defs.into_iter().map(definition).collect(), each(inner))
        }
        Term::Call(name, args) => Term::Call(name, all(args)),
        Term::Path(of, Path(parts)) => {
            let part = |(part, opt)| (part_of(part), opt);
            Term::Path(each(of), Path(parts.into_iter().map(part).collect()))
        }
        plain @ (Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_)) => plain,
    }
}

/// Rewrites the body of a definition.
pub(super) fn definition(def: Def<&str>) -> Def<&str> {
    Def { body: rewritten(def.body), ..def }
}

fn assignment<'s>(
    left: Term<&'s str>,
    op: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let modify = |update| Term::Call("_modify", vec![left.clone(), update]);
    // `right` is computed once, from the value as it was.
    let with = |op| {
        let update = assignment(Term::Id, op, Term::Var(VALUE));
        let bind = BinaryOp::Pipe(Some(Pattern::Var(VALUE)));
        Term::BinOp(right.clone().into(), bind, modify(update).into())
    };
    match op {
        BinaryOp::Update => modify(right),
        BinaryOp::Assign => Term::Call("_assign", vec![left, right]),
        BinaryOp::UpdateMath(op) => with(BinaryOp::Math(op)),
        BinaryOp::UpdateAlt => with(BinaryOp::Alt),
        BinaryOp::Pipe(pattern) => {
            Term::BinOp(left.into(), BinaryOp::Pipe(pattern.map(in_pattern)), right.into())
        }
        BinaryOp::Math(Math::Div) => {
            let divisor = match right {
                Term::Num(digits) if digits.starts_with(|digit| ('1'..='9').contains(&digit)) => {
                    Term::Num(digits)
                }
                right => piped_any(right, "_divisor"),
            };
            Term::BinOp(left.into(), BinaryOp::Math(Math::Div), divisor.into())
        }
        op => Term::BinOp(left.into(), op, right.into()),
    }
}

fn in_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(parts) => Pattern::Arr(parts.into_iter().map(in_pattern).collect()),
        Pattern::Obj(members) => {
            let member = |(key, pattern)| (rewritten(key), in_pattern(pattern));
            Pattern::Obj(members.into_iter().map(member).collect())
        }
    }
}

// An index may be a number with a fraction, which jq rounds. A slice is the index that is its path,
// which may be one of `null`.
fn part_of<'s>(part: Part<Term<&'s str>>) -> Part<Term<&'s str>> {
    let bound = |name: Text, bound: Option<Term<&'s str>>, round: Text| {
        let bound =
            bound.map_or(Term::Call("null", vec![]), |bound| piped(rewritten(bound), round));
        (Term::Str(None, vec![StrPart::Str(name)]), Some(bound))
    };
    match part {
        Part::Index(index) => Part::Index(match rewritten(index) {
            index @ Term::Str(..) => index,
            index => piped(index, "_index"),
        }),
        Part::Range(None, None) => Part::Range(None, None),
        Part::Range(from, to) => {
            Part::Index(Term::Obj(vec![bound("start", from, "_index"), bound("end", to, "_end")]))
        }
    }
}

fn piped(term: Term<&str>, filter: Text) -> Term<&str> {
    match &term {
        Term::Num(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => term,
        _ => piped_any(term, filter),
    }
}

fn piped_any(term: Term<&str>, filter: Text) -> Term<&str> {
    Term::BinOp(term.into(), BinaryOp::Pipe(None), Term::Call(filter, vec![]).into())
}

/// Returns the filters that rewritten programs and the prelude call.
#[expect(clippy::default_trait_access, reason = "the type of a path has no public name")]
pub(super) fn filters<D: for<'a> DataT<V<'a> = Val>>() -> Vec<Filter<RunPtr<D>>> {
    let f = || Bind::Fun(());
    vec![
        ("_modify", [f(), f()].into(), |mut cv| {
            let (update, update_in) = cv.0.pop_fun();
            let (paths, paths_in) = cv.0.pop_fun();
            let found = paths.paths((paths_in, (cv.1.clone(), Default::default())));
            let found = found.map(|path| path.map(|(_, path)| path.iter().cloned().collect()));
            let found = found.collect::<Result<Vec<Vec<Val>>, _>>();
            let first = |value| update.run((update_in.clone(), value)).next().transpose();
            box_once(found.and_then(|found| modified(cv.1, found, first)))
        }),
        ("_setpath", v(2), |mut cv| {
            let (value, path) = (cv.0.pop_var(), cv.0.pop_var());
            bome(steps(path).and_then(|path| set(cv.1, &path, value)))
        }),
        ("_delpaths", v(1), |mut cv| {
            let paths = cv.0.pop_var();
            let paths = steps(paths).and_then(|paths| paths.into_iter().map(steps).collect());
            bome(paths.and_then(|paths| deleted(cv.1, paths)))
        }),
        ("_matches", v(2), |mut cv| {
            let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
            bome(matches(&cv.1, &pattern, &flags))
        }),
        ("_pieces", v(2), |mut cv| {
            let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
            bome(pieces(&cv.1, &pattern, &flags))
        }),
        ("from_entries", v(0), |cv| bome(from_entries(cv.1))),
        ("_divisor", v(0), |cv| {
            let is_zero = cv.1.as_f64() == Some(0.0);
            let error = || Error::str("cannot be divided because the divisor is zero");
            bome(if is_zero { Err(error()) } else { Ok(cv.1) })
        }),
        ("_index", v(0), |cv| bome(Ok(rounded(cv.1, f64::floor)))),
        ("_end", v(0), |cv| bome(Ok(rounded(cv.1, f64::ceil)))),
        ("tojson", v(0), |cv| bome(Ok(Val::from(printed(&cv.1).to_string())))),
    ]
}

fn from_entries(entries: Val) -> ValR {
    let member = |entry: Result<Val, Error>| {
        let (entry, mut key) = (entry?, Val::Null);
        let of = |name: &str| entry.clone().index(&Val::from(name.to_owned()));
        for name in ["key", "Key", "name", "Name"] {
            if !key.as_bool() {
                key = of(name)?;
            }
        }
        let Val::TStr(_) = key else {
            return Err(Error::str(format_args!("cannot use {key} as object key")));
        };
        let value = of("value")?;
        let has_value = value != Val::Null
            || matches!(&entry, Val::Obj(it) if it.contains_key(&Val::from("value".to_owned())));
        Ok((key, if has_value { value } else { of("Value")? }))
    };
    Ok(Val::obj(entries.values().map(member).collect::<Result<_, _>>()?))
}

fn steps(path: Val) -> Result<Vec<Val>, Error> {
    path.into_seq().map_err(|_| Error::str("a path must be an array"))
}

/// Replaces each value at `paths` by the first result of `update`, or deletes it if there is none.
/// Each path has its last step first.
fn modified<'a>(
    mut all: Val,
    paths: Vec<Vec<Val>>,
    update: impl Fn(Val) -> ValX<'a, Option<Val>, Val>,
) -> ValX<'a, Val> {
    let mut dead: Vec<Vec<Val>> = Vec::new();
    for mut path in paths {
        path.reverse();
        if dead.last().is_some_and(|dead| path.starts_with(dead)) {
            continue;
        }
        let value = get(&all, &path)?;
        // Without another reference to it, the value is changed in place. A slice takes no null.
        if value != Val::Null && !matches!(path.last(), Some(Val::Obj(_))) {
            all = set(all, &path, Val::Null)?;
        }
        match update(value)? {
            Some(value) => all = set(all, &path, value)?,
            None => dead.push(path),
        }
    }
    Ok(deleted(all, dead)?)
}

fn get(value: &Val, path: &[Val]) -> ValR {
    match (value, path) {
        (value, []) => Ok(value.clone()),
        (Val::Null, _) => Ok(Val::Null),
        (value, [first, rest @ ..]) => get(&value.clone().index(first)?, rest),
    }
}

fn set(mut value: Val, path: &[Val], new: Val) -> ValR {
    let [first, rest @ ..] = path else { return Ok(new) };
    let inner = |old: Val| set(old, rest, new);
    if value == Val::Null {
        value = match first {
            Val::TStr(_) => Val::obj(jaq_json::Map::default()),
            Val::Num(_) | Val::Obj(_) => Val::Arr(Rc::default()),
            _ => value,
        };
    }
    match (value, first) {
        (Val::Obj(mut members), Val::TStr(_)) => {
            let member = Rc::make_mut(&mut members).entry(first.clone()).or_default();
            *member = inner(std::mem::take(member))?;
            Ok(Val::Obj(members))
        }
        (Val::Arr(mut items), Val::Num(_)) => {
            let at = position(first, items.len())?;
            let items_mut = Rc::make_mut(&mut items);
            if at >= items_mut.len() {
                items_mut.resize(at + 1, Val::Null);
            }
            items_mut[at] = inner(std::mem::take(&mut items_mut[at]))?;
            Ok(Val::Arr(items))
        }
        (Val::Arr(mut items), Val::Obj(_)) => {
            let range = slice(first, items.len())?;
            let Val::Arr(new) = inner(items[range.clone()].iter().cloned().collect())? else {
                return Err(Error::str("a slice of an array can only be assigned another array"));
            };
            Rc::make_mut(&mut items).splice(range, new.iter().cloned());
            Ok(Val::Arr(items))
        }
        (value, _) => Err(Error::index(value, first.clone())),
    }
}

fn position(index: &Val, length: usize) -> Result<usize, Error> {
    let Some(index) = rounded(index.clone(), f64::floor).as_isize() else {
        return Err(Error::str(format_args!("cannot use {index} as an index")));
    };
    let at = if index < 0 { index + length as isize } else { index };
    match usize::try_from(at) {
        Err(_) => Err(Error::str("out of bounds negative array index")),
        Ok(at) if at >= MAX_LENGTH.max(length) => Err(Error::str("array index too large")),
        Ok(at) => Ok(at),
    }
}

fn slice(range: &Val, length: usize) -> Result<std::ops::Range<usize>, Error> {
    let bound = |name: &str, default: usize, round: fn(f64) -> f64| {
        let bound = match range.clone().index(&Val::from(name.to_owned()))? {
            Val::Null => return Ok(default),
            bound => rounded(bound, round).as_isize(),
        };
        let bound = bound.ok_or_else(|| Error::str("a bound of a slice must be a number"))?;
        let bound = if bound < 0 { bound + length as isize } else { bound };
        Ok::<_, Error>(bound.clamp(0, length as isize) as usize)
    };
    let (start, end) = (bound("start", 0, f64::floor)?, bound("end", length, f64::ceil)?);
    Ok(start..end.max(start))
}

/// Deletes the values at `paths`. Those in one array or object go at once, so none of them moves
/// another one.
fn deleted(value: Val, mut paths: Vec<Vec<Val>>) -> ValR {
    paths.sort();
    let paths: Vec<&[Val]> = paths.iter().map(Vec::as_slice).collect();
    deleted_in(value, &paths)
}

fn deleted_in(mut value: Val, paths: &[&[Val]]) -> ValR {
    if paths.iter().any(|path| path.is_empty()) {
        return Ok(Val::Null);
    }
    let mut keys = Vec::new();
    for same in paths.chunk_by(|a, b| a[0] == b[0]) {
        let key = &same[0][0];
        if same.iter().any(|path| path.len() == 1) {
            keys.push(key);
            continue;
        }
        let inner = get(&value, std::slice::from_ref(key))?;
        if inner != Val::Null {
            let rest: Vec<&[Val]> = same.iter().map(|path| &path[1..]).collect();
            value = set(value, std::slice::from_ref(key), deleted_in(inner, &rest)?)?;
        }
    }
    match value {
        _ if keys.is_empty() => Ok(value),
        Val::Null => Ok(Val::Null),
        Val::Obj(mut members) => {
            for key in keys {
                let Val::TStr(_) = key else { return Err(no_field(&Val::Obj(members), key)) };
                Rc::make_mut(&mut members).shift_remove(key);
            }
            Ok(Val::Obj(members))
        }
        Val::Arr(mut items) => {
            let mut dead = vec![false; items.len()];
            for key in keys {
                match key {
                    Val::Num(_) => {
                        let at = position(key, items.len()).ok();
                        at.and_then(|at| dead.get_mut(at)).into_iter().for_each(|it| *it = true);
                    }
                    Val::Obj(_) => dead[slice(key, items.len())?].fill(true),
                    _ => return Err(no_field(&Val::Arr(items), key)),
                }
            }
            let mut dead = dead.into_iter();
            Rc::make_mut(&mut items).retain(|_| !dead.next().unwrap_or_default());
            Ok(Val::Arr(items))
        }
        value => Err(no_field(&value, keys[0])),
    }
}

fn no_field(value: &Val, key: &Val) -> Error {
    Error::str(format_args!("cannot delete {key} of {value}"))
}

fn rounded(value: Val, round: fn(f64) -> f64) -> Val {
    match &value {
        Val::Num(Num::Float(_) | Num::Dec(_)) => {
            let number = round(value.as_f64().unwrap_or_default());
            if number.is_nan() { Val::Null } else { Val::from(number as isize) }
        }
        _ => value,
    }
}

/// Returns a value whose numbers print as jq prints them: without a fraction if they have none,
/// `null` instead of NaN, and the largest number instead of infinity. Numbers that stand in the
/// input are printed as they are written there.
pub(super) fn printed(value: &Val) -> Val {
    match value {
        Val::Num(Num::Float(number)) => number_of(*number),
        Val::Arr(items) if items.iter().any(has_float) => items.iter().map(printed).collect(),
        Val::Obj(members) if members.values().any(has_float) => {
            Val::obj(members.iter().map(|(key, value)| (key.clone(), printed(value))).collect())
        }
        value => value.clone(),
    }
}

fn has_float(value: &Val) -> bool {
    match value {
        Val::Num(Num::Float(_)) => true,
        Val::Arr(items) => items.iter().any(has_float),
        Val::Obj(members) => members.values().any(has_float),
        _ => false,
    }
}

fn number_of(number: f64) -> Val {
    if number.is_nan() {
        return Val::Null;
    }
    let number = number.clamp(f64::MIN, f64::MAX);
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let count = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
    // As `jvp_dtoa_fmt` decides.
    let is_short = (-5..count + 15).contains(&exponent);
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = if is_short {
        format!("{number}")
    } else {
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    };
    Val::Num(Num::Dec(Rc::new(text)))
}
