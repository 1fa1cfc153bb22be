#!/bin/sh
# Runs rustdoc with its unstable options. Set for cargo, the variable would compile dependencies anew.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
