//! The `ctxfs` program. It calls [`ctxfs_cli::main`].

fn main() -> std::process::ExitCode {
    ctxfs_cli::main()
}
