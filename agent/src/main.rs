//! The agent's program; everything is in the library, where fuzz targets reach it.

fn main() -> std::process::ExitCode {
    landfall_agent::run()
}
