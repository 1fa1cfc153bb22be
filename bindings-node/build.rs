//! Lets the linker leave Node's own symbols open, for the host process to fill in.

fn main() {
    napi_build::setup();
}
