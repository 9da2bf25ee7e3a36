//! Sortable tables, and the pages of long lists.

use maud::{Markup, html};

use crate::address::query;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) by: String,
    pub(super) descends: bool,
}

/// A column of a table: its name in addresses, its heading, and its default order.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) descends: bool,
    pub(super) is_number: bool,
}

impl Order {
    // Returns the requested order. An unknown column name selects the default column.
    pub(super) fn requested(columns: &[Column], sort: &str, order: &str, default: &str) -> Self {
        let known = |name: &str| columns.iter().find(|column| column.name == name);
        let column = known(sort).or_else(|| known(default)).unwrap_or(&columns[0]);
        let descends = match order {
            "asc" => false,
            "desc" => true,
            _ => column.descends,
        };
        Self { by: column.name.to_owned(), descends }
    }

    fn name(&self) -> &'static str {
        if self.descends { "desc" } else { "asc" }
    }
}

/// Returns the row of headings. Each heading is a link that sorts by its column. `kept` holds the
/// other query parameters of the page.
pub(super) fn headings(columns: &[Column], order: &Order, kept: &[(&str, &str)]) -> Markup {
    html! {
        tr {
            @for column in columns {
                @let is_it = column.name == order.by;
                @let next = if is_it { !order.descends } else { column.descends };
                @let pairs = [kept, &[("sort", column.name), ("order", if next { "desc" } else { "asc" })]].concat();
                th scope="col" .number[column.is_number]
                    aria-sort=[is_it.then_some(if order.descends { "descending" } else { "ascending" })] {
                    a href=(query(&pairs)) { (column.title) }
                }
            }
        }
    }
}

pub(super) fn pager(
    label: &str,
    page: usize,
    pages: usize,
    order: &Order,
    kept: &[(&str, &str)],
) -> Markup {
    let link = |page: usize| {
        let page = page.to_string();
        let own = [("sort", &*order.by), ("order", order.name()), ("page", &*page)];
        query(&[kept, &own].concat())
    };
    html! {
        nav.pager aria-label=(label) {
            @if pages > 1 {
                @if page > 1 { a rel="prev" href=(link(page - 1)) { "Previous" } " " }
                span { "page " (page) " of " (pages) }
                @if page < pages { " " a rel="next" href=(link(page + 1)) { "Next" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column { name: "name", title: "Name", descends: false, is_number: false },
        Column { name: "size", title: "Size", descends: true, is_number: true },
    ];

    #[test]
    fn unknown_orders_are_the_default() {
        let order = Order::requested(COLUMNS, "evil\"", "sideways", "size");
        assert_eq!(order, Order { by: "size".into(), descends: true });
        let order = Order::requested(COLUMNS, "size", "asc", "name");
        let shown = headings(COLUMNS, &order, &[("q", "a b")]).into_string();
        assert!(shown.contains("href=\"?q=a%20b&amp;sort=size&amp;order=desc\""), "{shown}");
        assert!(shown.contains("aria-sort=\"ascending\""));
        let pages = pager("Pages", 2, 3, &order, &[]).into_string();
        assert!(pages.contains("rel=\"prev\"") && pages.contains("page=3"), "{pages}");
    }
}
