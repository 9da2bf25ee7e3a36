//! The type of a view: the facts that hold for every artifact, and the macro that reads a table of
//! them.

/// A row of the catalog: the facts about one view.
#[expect(clippy::struct_excessive_bools, reason = "each is a question that some caller asks")]
pub(super) struct ViewType {
    /// The end of its file's name, or of its directory's: `.summary`, `.grep`.
    pub(super) suffix: &'static str,
    /// True if directories list it beside every artifact. The others are found by name only.
    pub(super) is_listed: bool,
    /// True if it tells facts about the whole content, which has to be analysed first.
    ///
    /// The analysis and the record belong to a generation, so the text is kept for that generation
    /// alone. Other views read only the bytes that they show. Their texts may be kept on disk,
    /// under a key that identifies the bytes.
    pub(super) needs_analysis: bool,
    /// The part of the artifact's bytes that it prints.
    pub(super) shows: Shows,
    /// The work that rendering takes.
    pub(super) cost: RenderCost,
    /// True if it counts masked secrets in its own form, because its first line is not free for a
    /// notice.
    pub(super) counts_masks: bool,
    /// True if it is made to be given to a model in place of the artifact.
    pub(super) is_stand_in: bool,
    /// True if the text that it prints has views in turn: those with `is_of_views`.
    pub(super) has_views: bool,
    /// True if it is also a view of the texts that other views print.
    pub(super) is_of_views: bool,
    /// True if its beginning may be shown while the rest is being computed.
    pub(super) shows_beginning: bool,
    /// Its rows in the table of the root's `README.md`. `{prefix}` is the root of the tree.
    pub(super) readme: &'static str,
}

/// The part of an artifact's bytes that a view prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// None as they are: it describes them, in text that is valid for any content.
    Facts,
    /// A few lines, held back until they are known to have no NUL byte: the analysis may have seen
    /// less than these lines.
    Lines,
    /// Text of any length, which the view itself keeps free of NUL bytes.
    Text,
}

/// The work that rendering a view takes.
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

/// Makes [`View`](super::View) and [`ViewDir`](super::ViewDir) from a table of views.
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
        /// One computed file.
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
            /// Returns its row of the catalog.
            pub(super) fn view_type(&self) -> &'static ViewType {
                match self {
                    $(Self::$variant { .. } => { const { &$facts } })*
                }
            }

            /// Writes its text without looking at the content first.
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
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$dir,)?)*];

            /// Returns its row of the catalog.
            pub(super) fn view_type(self) -> &'static ViewType {
                match self {
                    $($(Self::$dir => { const { &$facts } })?)*
                }
            }

            /// Returns the view of this name in the directory, or none if the name does not parse.
            pub fn view(self, name: &std::ffi::OsStr) -> Option<View> {
                match self {
                    $($(Self::$dir => <$type>::parse(name).map(View::$variant),)?)*
                }
            }
        }

        /// Prints the end of the view's path: `.summary`, `.grep/-i timeout`.
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
