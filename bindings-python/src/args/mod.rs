//! Arguments of Python, converted and checked.

pub(crate) mod arguments;
pub(crate) mod checked;
pub(crate) mod credentials;
pub(crate) mod names;
pub(crate) mod text;
