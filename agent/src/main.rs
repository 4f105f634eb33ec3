//! The agent's executable. All code is in the library, so that fuzz targets can
//! reach it.

fn main() -> std::process::ExitCode {
    landfall_agent::run()
}
