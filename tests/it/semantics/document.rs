//! The examples of a page: fenced blocks marked `console`.

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Example<'a> {
    /// The number of headings of the second level before it.
    pub(super) section: usize,
    /// The text after `console`: more options of `ctxfs mount`.
    pub(super) options: Vec<&'a str>,
    pub(super) steps: Vec<Step<'a>>,
}

/// A command, and the lines that it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step<'a> {
    /// Its line in the page, from 1.
    pub(super) line: usize,
    pub(super) command: &'a str,
    pub(super) expected: Vec<&'a str>,
}

/// Returns all examples of `page`, in order.
pub(super) fn examples(page: &str) -> Vec<Example<'_>> {
    let mut found = Vec::new();
    let mut section = 0;
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        match (inside, line.strip_prefix("```console")) {
            (false, Some(options)) => {
                let options = options.split_whitespace().collect();
                found.push(Example { section, options, steps: Vec::new() });
                inside = true;
            }
            (false, None) => section += usize::from(line.starts_with("## ")),
            (true, _) if line == "```" => inside = false,
            (true, _) => {
                let example = found.last_mut().expect("a block has begun");
                take(line, number, &mut example.steps);
            }
        }
    }
    assert!(!inside, "a block does not end");
    found
}

fn take<'a>(line: &'a str, number: usize, steps: &mut Vec<Step<'a>>) {
    match (line.strip_prefix("$ "), steps.last_mut()) {
        (Some(command), _) => steps.push(Step { line: number, command, expected: Vec::new() }),
        (None, Some(step)) => step.expected.push(line),
        (None, None) => panic!("line {number}: a block begins with `$ `"),
    }
}

#[test]
fn a_page_is_taken_apart() {
    let page = "# T\n```sh\n$ not\n```\n## A\n```console --x y\n$ a\n1\n\n$ b\n```\n## B\n```console\n$ c\n```\n";
    let step = |line, command, expected: &[&'static str]| Step {
        line,
        command,
        expected: expected.to_vec(),
    };
    let expected = [
        Example {
            section: 1,
            options: vec!["--x", "y"],
            steps: vec![step(7, "a", &["1", ""]), step(10, "b", &[])],
        },
        Example { section: 2, options: vec![], steps: vec![step(14, "c", &[])] },
    ];
    assert_eq!(examples(page), expected);
}
