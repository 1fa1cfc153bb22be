#!/bin/sh
# Runs rustdoc with its unstable options. If the variable were set for cargo, too, cargo
# would compile all dependencies again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
