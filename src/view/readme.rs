//! The files that explain a tree to those that walk it.

use crate::model::Root;

/// The root's `README.md`, for an agent that lands there cold.
pub fn readme(root: &Root) -> String {
    let conversation = root.of("<conversation>");
    let text = include_str!("readme.md").replace("{prefix}/<conversation>", &conversation);
    text.replace("{prefix}/c7", &root.of("c7"))
}

/// `.ignore` of the root and of every artifact directory: keeps views out of recursive searches by
/// ripgrep, fd and ag, which would find everything several times.
pub fn ignore() -> &'static str {
    "# Computed views. They repeat what stands beside them.\n\
     *.summary\n\
     *.tail\n\
     *.head\n\
     *.grep/\n\
     *.lines/\n\
     *.errors\n\
     *.terms\n\
     *.wrap\n\
     *.shape\n\
     *.jq/\n\
     *.pages/\n\
     *.pretty\n\
     *.meta.json\n\
     *.ref.json\n\
     *.envelope.json\n\
     *.handle\n\
     *.preview\n\
     **/history/messages.json\n"
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::view::name::split;

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
        for line in ignore().lines().filter(|line| line.starts_with("*.")) {
            let name = line.replace('*', "x").replace('/', "");
            assert!(split(OsStr::new(&name)).is_some(), "{line}");
        }
        assert_eq!(ignore().lines().count(), 19);
    }
}
