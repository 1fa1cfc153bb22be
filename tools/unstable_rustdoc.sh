#!/bin/sh
# Runs rustdoc with its unstable options. The variable is set only for rustdoc, because cargo would compile all
# dependencies again with it.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
