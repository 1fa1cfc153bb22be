//! Conversion and checks of Python arguments.

pub(crate) mod arguments;
pub(crate) mod checked;
pub(crate) mod credentials;
pub(crate) mod names;
pub(crate) mod text;
