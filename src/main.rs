//! The `ctxfs` program, which is a call of [`ctxfs::cli::main`].

fn main() -> std::process::ExitCode {
    ctxfs::cli::main()
}
