//! Makes the linker leave Node's own symbols undefined, so that the host process can provide them.

fn main() {
    napi_build::setup();
}
