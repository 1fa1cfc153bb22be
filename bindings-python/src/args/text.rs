//! Text arguments. A Python `str` can contain lone surrogates, which have no UTF-8 form. Without this check
//! they would raise a `UnicodeEncodeError` that does not name the argument.

use std::marker::PhantomData;
use std::ops::Deref;

use pyo3::exceptions::PyUnicodeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use zklock::internal::bad_argument;

use crate::args::checked::wrong_type;
use crate::args::names::Argument;
use crate::errors::Failure;

/// A text argument.
pub(crate) struct Text<A>(String, PhantomData<A>);

impl<A> Text<A> {
    /// Wraps a default value or a given value.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned(), PhantomData)
    }
}

impl<A> Deref for Text<A> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<A> AsRef<str> for Text<A> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl<A> From<Text<A>> for String {
    fn from(text: Text<A>) -> Self {
        text.0
    }
}

impl<'a, 'py, A: Argument> FromPyObject<'a, 'py> for Text<A> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let text = object.cast::<PyString>().map_err(|_| wrong_type(A::NAME, "a str", &object))?;
        match text.to_cow() {
            Ok(text) => Ok(Self(text.into_owned(), PhantomData)),
            Err(error) if error.is_instance_of::<PyUnicodeError>(py) => {
                let shown = py.import("builtins")?.call_method1("ascii", (text,))?;
                let problem = format!("contains a lone surrogate, which is not a character: {shown}");
                Err(Failure::from(bad_argument(A::NAME, problem)).into())
            }
            Err(error) => Err(error),
        }
    }
}
