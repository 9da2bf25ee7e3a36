//! The `ctxfs` program, which is a call of [`ctxfs_cli::main`].

fn main() -> std::process::ExitCode {
    ctxfs_cli::main()
}
