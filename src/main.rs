//! The `ctxfs` program: parse, run, map the result to an exit code.

fn main() -> std::process::ExitCode {
    ctxfs::cli::main()
}
