//! Stand-ins have what a model uses next: names, paths and places from any part of an output, more of
//! them than the beginning and the end of the output in as many bytes.

use crate::support::TestStore;

/// Outputs of each kind, and the least of them whose stand-in has all facts.
const OUTPUTS: usize = 10;
const COMPLETE: usize = 8;

/// An output, and what its reader uses: a path with a name after it, or a word.
struct Output {
    text: String,
    facts: Vec<(String, String)>,
}

/// Returns a number below `most` for each step, spread as by chance.
fn spread(seed: usize, step: usize, most: usize) -> usize {
    (seed * 7919 + step * 104_729 + seed * step * 31) % most
}

fn search(seed: usize) -> Output {
    let path = |n: usize| format!("src/part{}/module_{n}.py", n % 5);
    let hit = |n: usize| (path(n / 6), 11 * n + seed + 3);
    let text = |n: usize| {
        format!("{}:{}:        value = self.collation(params, {n}, name)", hit(n).0, hit(n).1)
    };
    let text = (0..130).map(|n| text(n) + "\n").collect();
    let fact = hit(spread(seed, 1, 130));
    Output { text, facts: vec![(fact.0, format!(":{}", fact.1))] }
}

fn paths(seed: usize) -> Output {
    let directory = |n: usize| format!("./src/main/java/org/example/store/part{}/", n / 11);
    let name = |n: usize| format!("Handler{}Test.java", (n * 37 + seed) % 997);
    let text = (0..150).map(|n| directory(n) + &name(n) + "\n").collect();
    let fact = spread(seed, 2, 150);
    Output { text, facts: vec![(directory(fact), name(fact))] }
}

fn source(seed: usize) -> Output {
    let verbs = ["load", "save", "find", "open", "parse", "check", "merge", "split"];
    let nouns = ["path", "name", "type", "unit", "text", "page", "user", "rule"];
    let name = |n: usize| format!("{}_{}", verbs[n / 8], nouns[(n + seed) % 8]);
    let function = |n: usize| {
        format!(
            "    def {}(self):\n        # What is returned here is described above.\n        \
             result = self.compute(self, values)\n        if result is None:\n            \
             raise ValueError\n        return result\n\n",
            name(n)
        )
    };
    let text = (0..60).map(function).collect();
    let facts = [3, 4].map(|step| (String::new(), name(spread(seed, step, 60))));
    Output { text, facts: facts.into() }
}

/// Returns true if the name stands on the line of its directory, or as a number below its path.
fn has(shown: &str, (place, name): &(String, String)) -> bool {
    let names = |line: &str| line.split(' ').any(|word| word.trim_end_matches(':') == name);
    let is_listed = |line: &str| line.strip_prefix(place.as_str()).is_some_and(names);
    let below = shown.lines().skip_while(|line| line != place).skip(1);
    let is_place = |line: &&str| line.starts_with([':', '+', ' ']);
    shown.contains(&format!("{place}{name}"))
        || shown.lines().any(is_listed)
        || below.take_while(is_place).any(names)
}

fn ends(text: &str, bytes: usize) -> String {
    let half = bytes / 2;
    format!("{}\n{}", &text[..half], &text[text.len() - half..])
}

#[test]
fn facts_of_any_part_are_there() {
    let store = TestStore::new();
    for make in [search, paths, source] {
        let (mut complete, mut of_ends) = (0, 0);
        for seed in 0..OUTPUTS {
            let Output { text, facts } = make(seed);
            let shown = store.ctxfs("put", &["--conversation", "c1"]).stdin(text.as_bytes()).text();
            assert!(shown.starts_with("[ctxfs]"), "{shown}");
            let ends = ends(&text, shown.len());
            complete += usize::from(facts.iter().all(|fact| has(&shown, fact)));
            of_ends += usize::from(facts.iter().all(|fact| has(&ends, fact)));
        }
        assert!(complete >= COMPLETE && complete > of_ends, "{complete}, {of_ends} of the ends");
    }
}
