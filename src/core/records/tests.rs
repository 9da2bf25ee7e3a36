use super::*;

use proptest::prelude::*;

/// Returns the records of `text`, each with its number, line and text.
fn records(text: &str) -> Vec<(u64, u64, String)> {
    let content = text.as_bytes().to_vec();
    let form = RecordForm::of(&content).unwrap();
    let mut all = Vec::new();
    let late = each(&content, &form, &|| false, &mut |record| {
        let (start, end) = (record.start as usize, record.end as usize);
        if record.text.len() < RECORD_BYTES && !record.text.is_empty() {
            assert_eq!(record.text, &content[start..end], "{record:?}");
        }
        all.push((record.number, record.line, String::from_utf8_lossy(record.text).into_owned()));
        ControlFlow::Continue(())
    });
    assert_eq!(late.unwrap(), None);
    all
}

/// Returns the fields of record `number` as `name=value`, without attributes.
fn fields(text: &str, number: u64) -> Vec<String> {
    let content = text.as_bytes().to_vec();
    let form = RecordForm::of(&content).unwrap();
    let mut found = Vec::new();
    each(&content, &form, &|| false, &mut |record| {
        if record.number == number {
            let header = record.header.map(|(start, end)| &content[start as usize..end as usize]);
            found = form.fields((record.start, record.text), header, &[]);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let found = found.into_iter().filter(|field| !field.is_attribute);
    found.map(|field| format!("{}={}", field.name, field.value)).collect()
}

/// Calls `part` with each number below `count`, and joins the results.
fn joined(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn form(text: &str) -> String {
    RecordForm::of(&text.as_bytes().to_vec()).unwrap().to_string()
}

const CARDS: &str = "<!DOCTYPE html><html><head><title>Shop</title><script>if (a<b) {}</script>\
    </head><body><div class=\"grid\"><article class=\"card first\"><h2>Blue Kettle</h2>\
    <span class=\"price\">29.99</span><p>Ships on <b>4 August</b> &amp; later</p></article>\
    <article class=\"card\"><h2>Red Kettle</h2><span class=\"price\">31.50</span>\
    <p>Ships on <b>9 May</b></p></article></div></body></html>";

#[test]
fn cards_of_a_page_are_records() {
    assert_eq!(form(CARDS), "elements (article.card)");
    assert_eq!(records(CARDS).len(), 2);
    assert_eq!(fields(CARDS, 1), ["=Blue Kettle", "price=29.99", "=Ships on 4 August & later"]);
}

#[test]
fn rows_of_an_html_table_have_the_names_of_its_header() {
    let page = "<table>\n<thead><tr><th>Name</th><th></th><th>City</th></tr></thead>\n\
        <tr><td>Ann<td>7<td>Bonn\n<tr><td>Bob<td>8<td>Kiel\n</table>";
    assert_eq!(records(page).len(), 2);
    assert_eq!(fields(page, 2), ["Name=Bob", "=8", "City=Kiel"]);
    assert_eq!(records(page)[1].1, 4);
}

/// The header cell of a row names the values of this row, and no others.
#[test]
fn a_header_cell_beside_values_names_these() {
    let page = "<TABLE><TR><TH>Price</TH><TD>5</TD></TR>\n<TR><TH>Weight</TH><TD>3 kg</TD></TR>\n\
        <tr><td>none</td></tr></TABLE>";
    assert_eq!(records(page).len(), 3);
    assert_eq!(fields(page, 1), ["=Price", "Price=5"]);
    assert_eq!(fields(page, 2), ["=Weight", "Weight=3 kg"]);
    assert_eq!(fields(page, 3), ["=none"]);
}

#[test]
fn definition_lists_name_their_values() {
    let item = |name: &str| format!("<li><dl><dt>Name:</dt><dd>{name}</dd></dl></li>");
    let page = format!("<ul>{}{}</ul>", item("a"), item("b"));
    assert_eq!(fields(&page, 2), ["=Name:", "Name=b"]);
}

#[test]
fn elements_of_xml_are_records() {
    let feed = "<?xml version=\"1.0\"?><rss><channel><title>x</title>\
        <item><title>One</title><pubDate>Mon</pubDate></item>\
        <item><title><![CDATA[Two <b>]]></title><pubDate>Tue</pubDate></item></channel></rss>";
    assert_eq!(fields(feed, 2), ["title=Two <b>", "pubDate=Tue"]);
    let report = "<testsuite><testcase name=\"a\" time=\"1\"/><testcase name=\"b\" time=\"2\"/>\
        </testsuite>";
    assert_eq!(records(report).len(), 2);
}

#[test]
fn rows_may_have_newlines_in_quotes() {
    let text =
        "id,note,city\n1,\"two\nlines\",Bonn\n2,\"say \"\"hi\"\", ok\",Kiel\n3,5\" pipe,Ulm\n";
    let numbers: Vec<(u64, u64)> = records(text).iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(numbers, [(1, 2), (2, 4), (3, 5)]);
    assert_eq!(fields(text, 1), ["id=1", "note=two lines", "city=Bonn"]);
    assert_eq!(fields(text, 2), ["id=2", "note=say \"hi\", ok", "city=Kiel"]);
    assert_eq!(fields(text, 3), ["id=3", "note=5\" pipe", "city=Ulm"]);
}

#[test]
fn lines_above_the_header_are_no_records() {
    let text = "# exported today\n\nid,city\n1,Bonn\n2,Kiel\n";
    assert_eq!(fields(text, 2), ["id=2", "city=Kiel"]);
    assert_eq!(records(text)[0].1, 4);
}

#[test]
fn a_quote_without_an_end_costs_its_line() {
    let rows = joined(9000, |n| format!("{n},\"open {n},x\n"));
    let text = format!("id,note,city\n1,a,x\n2,b,x\n{rows}");
    assert!(records(&text).len() > 4000, "{}", records(&text).len());
}

#[test]
fn frames_of_a_table_are_left_out() {
    let mysql = "+----+------+\n| id | name |\n+----+------+\n|  1 | ann  |\n|  2 | bob  |\n+----+------+\n";
    assert_eq!(fields(mysql, 2), ["id=2", "name=bob"]);
    let psql = " id | name \n----+------\n  1 | ann\n  2 | bob\n(2 rows)\n";
    assert_eq!(records(psql).len(), 2);
    assert_eq!(fields(psql, 1), ["id=1", "name=ann"]);
}

#[test]
fn aligned_columns_have_names() {
    let pods = "NAME        READY   STATUS    AGE\nweb-1       1/1     Running   3d\n\
        database-7  0/1     Pending   10m\n";
    assert_eq!(fields(pods, 2), ["NAME=database-7", "READY=0/1", "STATUS=Pending", "AGE=10m"]);
    let free = "        total   used\nMem:     2468    999\nSwap:      10      1\n";
    assert_eq!(fields(free, 2), ["=Swap:", "total=10", "used=1"]);
    let pip = "Package  Version\n-------- -------\nannotate 0.7.0\nanyio    4.1\n";
    assert_eq!(fields(pip, 2), ["Package=anyio", "Version=4.1"]);
    let shifted = " r   free   buff  cache   si\n15 14591912 383780 7769712    0\n\
        14 14591000 383780 7769712    0\n";
    assert_eq!(form(shifted), "lines");
    let ps = "USER         PID %CPU COMMAND\nroot           1  0.0 /sbin/init splash\n\
        www-data    2041 12.5 nginx: worker\n";
    assert_eq!(fields(ps, 2), ["USER=www-data", "PID=2041", "%CPU=12.5", "COMMAND=nginx: worker"]);
}

#[test]
fn stanzas_have_their_names() {
    let text = "Package: a\nVersion: 1\nDescription: one\n two\n\nPackage: b\nVersion: 2\n\n\
        Package: c\nVersion: 3\n";
    assert_eq!(form(text), "stanzas of `name: value` lines");
    let lines: Vec<u64> = records(text).iter().map(|it| it.1).collect();
    assert_eq!(lines, [1, 6, 9]);
    assert_eq!(fields(text, 1), ["Package=a", "Version=1", "Description=one two"]);
}

#[test]
fn the_first_line_of_a_stanza_may_stand_out() {
    let device = |n: usize| {
        format!(
            "0{n}:00.0 Bridge: Intel {n}\n\tSubsystem: Card {n}\n\tFlags: bus master,\n\t\tlate: {n}\n\n"
        )
    };
    let text = joined(4, device);
    let want = ["=02:00.0 Bridge: Intel 2", "Subsystem=Card 2", "Flags=bus master, late: 2"];
    assert_eq!(fields(&text, 3), want);
}

#[test]
fn entries_have_the_lines_that_continue_them() {
    let text = "2026-01-02 10:00:00 ERROR failed\n  at a.B\n2026-01-02 10:00:01 INFO on\n\
        2026-01-02 10:00:02 INFO off\n";
    assert_eq!(records(text).len(), 3);
    assert_eq!(records(text)[0].2, "2026-01-02 10:00:00 ERROR failed\n  at a.B");
}

/// A block is searched for its end in this many bytes only.
#[test]
fn a_long_block_goes_on_as_the_next_record() {
    let line = "a line of some thirty bytes or so\n";
    let text =
        format!("{}{}", "10:00:00 x\n".repeat(3), line.repeat(3 * RECORD_BYTES / line.len()));
    let found = records(&text);
    assert_eq!(found.len(), 2 + 4);
    let lines: Vec<String> = found.iter().map(|it| it.2.clone() + "\n").collect();
    assert_eq!(lines.concat(), text);
}

#[test]
fn items_of_an_array_are_records() {
    let text = "{\"n\": 2, \"items\": [\n {\"id\": 1, \"s\": \"a ], \\\" {\"},\n {\"id\": 2, \"t\": [1, {\"u\": 2}]}\n]}";
    assert_eq!(fields(text, 1), ["id=1", "s=\"a ], \\\" {\""]);
    assert_eq!(fields(text, 2), ["id=2", "t=[1, {\"u\": 2}]"]);
    assert_eq!(records(text)[1].1, 3);
    assert_eq!(form("{\"a\": 1}\n{\"a\": 2}\n"), "lines");
    assert_eq!(fields("{\"a\": 1}\n{\"a\": 2}\n", 2), ["a=2"]);
}

#[test]
fn what_has_no_form_is_lines() {
    for text in ["", "\n", "one\ntwo\n", "a, b\nc\n", "fn main() {\n    a < b;\n}\n", "<3 you\n"] {
        assert_eq!(form(text), "lines", "{text:?}");
    }
}

#[test]
fn a_long_line_is_cut_and_the_next_is_whole() {
    let text = format!("{}\nend\n", "x".repeat(3 * RECORD_BYTES));
    let found = records(&text);
    assert_eq!((found.len(), found[0].2.len()), (2, RECORD_BYTES));
    assert_eq!(found[1], (2, 2, "end".to_owned()));
}

proptest! {
    #[test]
    fn any_text_has_records_in_order(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("<tr><td>"), Just("</td></tr>"), Just("<ul>"), Just("<li>"), Just("a: b\n"),
                Just("\n"), Just("\""), Just(","), Just("{\"a\":"), Just("}"), Just("["),
                Just("12:00:01 x\n"), Just("<!--"), Just("<a b='"), Just("<script>"), Just("&#x"),
                Just("| a | b |\n"), Just("x"), Just("<p class=q>"), Just("\u{e9}"),
            ],
            0..60,
        ),
        ahead in prop_oneof![Just(""), Just("<html>"), Just("a,b\n1,2\n3,4\n"), Just("[{}")],
    ) {
        let text = format!("{ahead}{}", parts.concat());
        let found = records(&text);
        let numbers: Vec<u64> = found.iter().map(|it| it.0).collect();
        prop_assert_eq!(numbers, (1..=found.len() as u64).collect::<Vec<_>>());
        for number in 1..=found.len() as u64 {
            fields(&text, number);
        }
    }
}

/// A walk reads in blocks. The records must not depend on where these end.
#[test]
fn blocks_do_not_matter() {
    let card = |n: usize| {
        format!("<div class=\"card\" title='a > b {n}'><h2>Name {n}</h2><p>Text<br>{n}</p></div>\n")
    };
    let cards = joined(9000, card);
    let page = format!("<html><body>{cards}</body></html>");
    let found = records(&page);
    assert_eq!(found.len(), 9000);
    for (number, (_, _, text)) in found.iter().enumerate() {
        assert_eq!(text, card(number).trim_end(), "{number}");
    }
}
