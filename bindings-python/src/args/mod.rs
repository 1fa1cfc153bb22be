//! Arguments of Python, converted and checked.

pub(crate) mod arguments;
pub(crate) mod credentials;
pub(crate) mod text;
