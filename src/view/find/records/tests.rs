use std::ffi::OsStr;

use crate::ViewDir;
use crate::fixture::Fixture;

fn find(text: &str, words: &str) -> String {
    Fixture::new(text).text(&ViewDir::Find.view(OsStr::new(words)).unwrap())
}

const NAMES: [&str; 8] = [
    "Aurora Lamp",
    "Basalt Bowl",
    "Cedar Chair",
    "Dune Desk",
    "Ember Oven",
    "Fjord Fan",
    "Grove Globe",
    "Harbor Hook",
];

/// A page of products on one line.
fn shop() -> String {
    let card = |(number, name): (usize, &&str)| {
        format!(
            "<div class=\"card tile\" data-sku=\"SKU-{number}\"><h3>{name}</h3><p class=\"text\">\
             A fine thing for every home, made to last for many years.</p><span class=\"price\">\
             {}.99</span><ul><li>Delivery: {} August</li><li>Stock: {}</li></ul></div>",
            10 * (number + 1),
            number + 3,
            number * 7,
        )
    };
    let cards: String = NAMES.iter().enumerate().map(card).collect();
    format!(
        "<!doctype html><html><head><title>Shop</title><style>.card{{}}</style></head><body>\
         <nav><a href=\"/a\">Home</a><a href=\"/b\">Delivery</a></nav><main>{cards}</main>\
         <footer>All prices in euro</footer></body></html>"
    )
}

#[test]
fn a_card_has_its_own_values_and_no_others() {
    let page = shop();
    let found = find(&page, "delivery of the Cedar Chair");
    assert!(found.contains("Cedar Chair\n") && found.contains("Delivery: 5 August\n"), "{found}");
    assert!(!found.contains("4 August") && !found.contains("6 August"), "{found}");
    assert!(found.contains("\n# X.record/"), "{found}");
    let price = find(&page, "price Dune Desk");
    assert!(price.contains("price: 40.99\n") && !price.contains("30.99"), "{price}");
    let sku = find(&page, "SKU-6");
    assert!(sku.contains("data-sku: SKU-6\n") && sku.contains("Grove Globe\n"), "{sku}");
}

#[test]
fn a_row_of_a_page_has_the_names_of_its_columns() {
    let row = |n: usize| format!("<tr><td>host-{n}</td><td>{}</td><td>up</td></tr>\n", n * 3);
    let rows: String = (0..40).map(row).collect();
    let page = format!(
        "<html><body><h1>Hosts</h1><table>\n<tr><th>Name</th><th>Load</th><th>State</th></tr>\n\
         {rows}</table></body></html>"
    );
    let found = find(&page, "load of host-17");
    assert!(found.contains("Name: host-17\n"), "{found}");
    assert!(found.contains("Load: 51\n"), "{found}");
    assert!(!found.contains("host-16") && !found.contains("host-18"), "{found}");
}

#[test]
fn a_cell_of_a_wide_table_comes_with_its_name() {
    let names: Vec<String> = (0..1000).map(|n| format!("metric_{n}")).collect();
    let row = |account: usize| {
        let cells: Vec<String> = (0..1000).map(|n| format!("{}", account * 1000 + n)).collect();
        format!("ACC-{account:04},{}\n", cells.join(","))
    };
    let rows: String = (1..50).map(row).collect();
    let table = format!("account,{}\n{rows}", names.join(","));
    let found = find(&table, "metric_617 of ACC-0042");
    assert!(found.contains("account: ACC-0042\n"), "{found}");
    assert!(found.contains("metric_617: 42617\n"), "{found}");
    assert!(!found.contains("ACC-0041") && !found.contains("41617"), "{found}");
    assert!(found.contains("\n# X.record/42: "), "{found}");
    assert!(found.starts_with("# metric_617 ACC-0042: 2 of 2 words"), "{found}");
}

#[test]
fn text_outside_of_records_is_found_too() {
    let page = shop().replace("<main>", "<p>Orders above 50 euro are free of charge.</p><main>");
    let found = find(&page, "orders free of charge");
    assert!(found.contains("Orders above 50 euro are free of charge."), "{found}");
}

#[test]
fn words_far_apart_in_a_stanza_count() {
    let package = |n: usize| {
        let more: Vec<String> = (0..12).map(|m| format!("Field-{m}: value {m} of {n}\n")).collect();
        let more = more.concat();
        format!("Package: lib{n}\n{more}Version: 1.{n}\nDescription: a library\n with more\n\n")
    };
    let text: String = (0..30).map(package).collect();
    let found = find(&text, "version of lib17");
    assert!(found.contains("Package: lib17\n") && found.contains("Version: 1.17\n"), "{found}");
    assert!(!found.contains("1.16") && !found.contains("1.18"), "{found}");
}

/// Every record has the names of its fields: they lead to none.
#[test]
fn names_alone_lead_to_no_record() {
    let entry = |n: usize| {
        format!("<entry alpha_3_code=\"C{n}\" numeric_code=\"{n}\" name=\"Country {n}\"/>\n")
    };
    let entries: String = (100..150).map(entry).collect();
    let text = format!("<?xml version=\"1.0\"?>\n<all>\n{entries}</all>\n");
    let found = find(&text, "numeric code of C117");
    assert!(found.contains("numeric_code: 117\n"), "{found}");
    assert!(!found.contains("numeric_code: 116") && !found.contains("code: 100"), "{found}");
    assert_eq!(found.matches("X.record/").count(), 1, "{found}");
}
