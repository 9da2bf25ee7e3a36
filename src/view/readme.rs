use crate::Derived;
use crate::catalog::CATALOG;
use ctxfs_core::model::Root;

/// Returns the root's `README.md`, for an agent that knows nothing of the tree yet.
pub fn readme(root: &Root) -> String {
    let rows = CATALOG.iter().map(|derived| derived.view_type().readme);
    let views: Vec<&str> = rows.filter(|row| !row.is_empty()).collect();
    let text = include_str!("readme.md").replace("{views}", &views.join("\n"));
    let text = text.replace("{prefix}/<conversation>", &root.of("<conversation>"));
    text.replace("{prefix}/c7", &root.of("c7"))
}

/// Returns the `.ignore` of the root and of every artifact directory. It keeps views out of
/// recursive searches by ripgrep, fd and ag, which would find everything several times.
pub fn ignore() -> String {
    let mut text = "# Computed views. They repeat what stands beside them.\n".to_owned();
    for derived in CATALOG {
        let end = if matches!(derived, Derived::Dir(_)) { "/\n" } else { "\n" };
        text.extend(["*", derived.view_type().suffix, end]);
    }
    text + "**/history/messages.json\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_is_short_and_names_the_tree() {
        let text = readme(&Root::All("/mnt/ctx/".to_owned()));
        assert!(text.len() < 4096, "{}", text.len());
        assert!(text.contains("/mnt/ctx/<conversation>/artifacts/tool/"));
        assert!(!text.contains('{'));
        let text = readme(&Root::One("/mnt/ctx/".to_owned()));
        assert!(text.contains("/mnt/ctx/artifacts/tool/"));
        assert!(!text.contains('{') && !text.contains("c7") && !text.contains("<conversation>"));
        assert!(text.is_ascii());
    }

    #[test]
    fn every_view_is_ignored() {
        let want = "# Computed views. They repeat what stands beside them.\n\
             *.summary\n*.tail\n*.head\n*.grep/\n*.find/\n*.lines/\n*.errors\n*.terms\n*.wrap\n*.shape\n\
             *.jq/\n*.extract/\n*.pages/\n*.pretty\n*.meta.json\n*.ref.json\n*.envelope.json\n*.handle\n\
             *.preview\n**/history/messages.json\n";
        assert_eq!(ignore(), want);
    }
}
