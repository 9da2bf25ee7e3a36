/// A row of the catalog: the facts about one view that hold for every artifact.
#[expect(clippy::struct_excessive_bools, reason = "each is a question that some caller asks")]
pub(super) struct ViewType {
    // The end of the name of its file or directory: `.summary`, `.grep`.
    pub(super) suffix: &'static str,
    // Directories list it beside every artifact. The others are found by name only.
    pub(super) is_listed: bool,
    // It tells facts about the whole content, which has to be analysed first. The analysis and the
    // record belong to a generation, so the text is kept for that generation alone. Other views
    // read only the bytes that they show, so their texts may be kept on disk, under a key that
    // identifies the bytes.
    pub(super) needs_analysis: bool,
    pub(super) shows: Shows,
    pub(super) cost: RenderCost,
    // It counts masked secrets in its own form, because its first line is not free for a notice.
    pub(super) counts_masks: bool,
    // It is made to be given to a model in place of the artifact.
    pub(super) is_stand_in: bool,
    // The text that it prints has views in turn: those with `is_of_views`.
    pub(super) has_views: bool,
    // It is also a view of the texts that other views print.
    pub(super) is_of_views: bool,
    // Its beginning may be shown while the rest is being computed.
    pub(super) shows_beginning: bool,
    // The rows in the table of the root's `README.md`. `{prefix}` is the root of the tree.
    pub(super) readme: &'static str,
}

/// The part of an artifact's bytes that a view prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    // None as they are: it describes them, in text that is valid for any content.
    Facts,
    // A few lines, held back until they are known to have no NUL byte: the analysis may have seen
    // less than these lines.
    Lines,
    // Text of any length, which the view itself keeps free of NUL bytes.
    Text,
}

/// The kind of work that rendering a view takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderCost {
    /// A few small reads, however long the content is.
    Constant,
    /// A pass over the content, or over a part of it.
    Content,
    /// A run of a program that the reader wrote. It may take long even if the content is short.
    Program,
    /// The answer of a language model, which takes minutes and costs money.
    Model,
}

impl ViewType {
    /// A view that shows text of the artifact, and is not a view of views.
    pub(super) const TEXT: Self = Self {
        suffix: "",
        is_listed: false,
        needs_analysis: false,
        shows: Shows::Text,
        cost: RenderCost::Content,
        counts_masks: false,
        is_stand_in: false,
        has_views: false,
        is_of_views: false,
        shows_beginning: false,
        readme: "",
    };
    /// A view of some lines of the artifact, or of the text that another view prints.
    pub(super) const LINES: Self = Self { shows: Shows::Lines, is_of_views: true, ..Self::TEXT };
    /// A view that tells facts about the artifact.
    pub(super) const FACTS: Self =
        Self { needs_analysis: true, shows: Shows::Facts, counts_masks: true, ..Self::TEXT };

    /// Returns the suffix without its dot and without `.json`: `summary`, `meta`.
    pub(super) fn kind(&self) -> &'static str {
        let name = self.suffix.trim_start_matches('.');
        name.strip_suffix(".json").unwrap_or(name)
    }
}

/// Makes [`View`] and [`ViewDir`] from a table of views.
///
/// A row is `Variant = facts, render;` for a view that is a file, or `Variant(argument: Type) in
/// Directory = facts, render;` for the files of a directory. Their names are parsed by
/// `Type::parse` and printed by its `Display`. `facts` is a [`ViewType`]. `render` is a function of
/// the argument, if there is one, the subject, `expired` and the writer.
macro_rules! views {
    ($(
        $(#[$doc:meta])*
        $variant:ident $(($argument:ident: $type:ty) in $(#[$dir_doc:meta])* $dir:ident)? =
            $facts:expr, $render:expr;
    )*) => {
        /// A computed file. Printed as the end of its path: `.summary`, `.grep/-i timeout`.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum View {
            $($(#[$doc])* $variant $(($type))?,)*
        }

        /// A directory of views that are named by their arguments.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ViewDir {
            $($($(#[$dir_doc])* $dir,)?)*
        }

        /// Each view that is a file, and each directory of views, in the order of the table.
        pub(super) const CATALOG: &[Derived] =
            &[$(views!(@derived $variant $($dir)?),)*];

        impl View {
            pub(super) fn view_type(&self) -> &'static ViewType {
                match self {
                    $(Self::$variant { .. } => { const { &$facts } })*
                }
            }

            /// Writes the text without looking at the content first.
            pub(super) fn write(
                &self,
                subject: &Subject<'_>,
                expired: &dyn Fn() -> bool,
                out: &mut dyn std::io::Write,
            ) -> Result<Rendered, RenderError> {
                match self {
                    $(Self::$variant $(($argument))? => {
                        let render: fn(
                            $(&$type,)?
                            &Subject<'_>,
                            &dyn Fn() -> bool,
                            &mut dyn std::io::Write,
                        ) -> Result<Rendered, RenderError> = $render;
                        render($($argument,)? subject, expired, out)
                    })*
                }
            }
        }

        impl ViewDir {
            /// All directories, in the order of the catalog.
            pub const ALL: &[Self] = &[$($(Self::$dir,)?)*];

            pub(super) fn view_type(self) -> &'static ViewType {
                match self {
                    $($(Self::$dir => { const { &$facts } })?)*
                }
            }

            /// Returns the view of this name in the directory, or `None` if the name does not
            /// parse.
            pub fn view(self, name: &std::ffi::OsStr) -> Option<View> {
                match self {
                    $($(Self::$dir => <$type>::parse(name).map(View::$variant),)?)*
                }
            }
        }

        impl std::fmt::Display for View {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.view_type().suffix)?;
                match self {
                    $(Self::$variant $(($argument))? => { $(write!(f, "/{}", $argument)?;)? })*
                }
                Ok(())
            }
        }
    };
    (@derived $variant:ident) => { Derived::File(View::$variant) };
    (@derived $variant:ident $dir:ident) => { Derived::Dir(ViewDir::$dir) };
}

pub(super) use views;
