//! Argument types with clear conversion errors: each error names the Python argument and the expected Python
//! type.
//!
//! Without these types, pyo3's errors would name Rust types, and most would not name the argument.

use std::marker::PhantomData;
use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::args::credentials::Tls;
use crate::args::names::Argument;

/// Returns the error for an argument of the wrong type.
pub(crate) fn wrong_type(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let class = given.get_type().fully_qualified_name();
    let class = class.map_or_else(|_| "this".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} must be {expected}, not {class}"))
}

/// A bool. Numbers are refused, because a misplaced positional argument is often a number.
pub(crate) struct Flag<A>(pub(crate) bool, PhantomData<A>);

/// A number of seconds.
pub(crate) struct Number<A>(pub(crate) f64, PhantomData<A>);

/// A whole number. A number that does not fit into the type is clamped, so that the later range check reports
/// it.
pub(crate) struct Integer<A>(pub(crate) i64, PhantomData<A>);

impl<A> Flag<A> {
    /// Wraps a default value or a given value.
    pub(crate) const fn of(value: bool) -> Self {
        Self(value, PhantomData)
    }
}

impl<A> Number<A> {
    /// Wraps a default value or a given value.
    pub(crate) const fn of(value: f64) -> Self {
        Self(value, PhantomData)
    }
}

impl<A> Integer<A> {
    /// Wraps a default value or a given value.
    pub(crate) const fn of(value: i64) -> Self {
        Self(value, PhantomData)
    }
}

impl<A> Integer<A> {
    /// Returns the number as a float. A number that does not fit into 32 bits becomes -1, so that the range
    /// check refuses it.
    pub(crate) fn to_number(&self) -> f64 {
        i32::try_from(self.0).map_or_else(|_| u32::try_from(self.0).map_or(-1.0, f64::from), f64::from)
    }
}

impl<'a, 'py, A: Argument> FromPyObject<'a, 'py> for Flag<A> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Self::of).map_err(|_| wrong_type(A::NAME, "True or False", &object))
    }
}

impl<'a, 'py, A: Argument> FromPyObject<'a, 'py> for Number<A> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(number) => Ok(Self::of(number)),
            // The integer is larger than the largest float.
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Self::of(if object.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY }))
            }
            Err(_) => Err(wrong_type(A::NAME, "a number", &object)),
        }
    }
}

impl<'a, 'py, A: Argument> FromPyObject<'a, 'py> for Integer<A> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(number) => Ok(Self::of(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Self::of(if object.lt(0)? { i64::MIN } else { i64::MAX }))
            }
            Err(_) => Err(wrong_type(A::NAME, "a whole number", &object)),
        }
    }
}

/// Path of a file.
pub(crate) struct FilePath<A>(pub(crate) PathBuf, PhantomData<A>);

impl<'a, 'py, A: Argument> FromPyObject<'a, 'py> for FilePath<A> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(path) => Ok(Self(path, PhantomData)),
            Err(_) => Err(wrong_type(A::NAME, "a path: str or os.PathLike", &object)),
        }
    }
}

/// Data of a node.
pub(crate) struct Data<'a>(pub(crate) &'a [u8]);

impl<'a, 'py> FromPyObject<'a, 'py> for Data<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Self).map_err(|_| wrong_type("data", "bytes", &object))
    }
}

/// Credentials of a client.
pub(crate) struct Auth(pub(crate) Vec<(String, Vec<u8>)>);

impl<'a, 'py> FromPyObject<'a, 'py> for Auth {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        const EXPECTED: &str =
            "a list of pairs of scheme and credential, such as [(\"digest\", \"user:password\")]";
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
            return Err(wrong_type("auth", EXPECTED, &object));
        }
        let pairs = object.try_iter().map_err(|_| wrong_type("auth", EXPECTED, &object))?;
        let mut all = Vec::new();
        for pair in pairs {
            let pair = pair?;
            let wrong = |given: &Bound<'py, PyAny>| {
                let given = given.get_type().fully_qualified_name()?;
                Err(PyTypeError::new_err(format!(
                    "auth must be {EXPECTED}, but one of them is of type {given}"
                )))
            };
            let Ok((scheme, credential)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                return wrong(&pair);
            };
            let Ok(scheme) = scheme.extract::<String>() else { return wrong(&scheme) };
            // The error must not show the credential.
            match (credential.extract::<String>(), credential.cast::<PyBytes>()) {
                (Ok(text), _) => all.push((scheme, text.into_bytes())),
                (_, Ok(bytes)) => all.push((scheme, bytes.as_bytes().to_vec())),
                _ => return wrong(&credential),
            }
        }
        Ok(Self(all))
    }
}

/// Pair of user and password.
pub(crate) struct Sasl(pub(crate) (String, String));

impl<'a, 'py> FromPyObject<'a, 'py> for Sasl {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(pair) => Ok(Self(pair)),
            // The general error would say that a tuple is not a pair.
            Err(_) if object.is_instance_of::<PyTuple>() => {
                Err(PyTypeError::new_err("sasl must be a pair of user and password, both str"))
            }
            Err(_) => Err(wrong_type("sasl", "a pair of user and password", &object)),
        }
    }
}

/// TLS files of a client.
pub(crate) struct TlsFiles(pub(crate) Tls);

impl<'a, 'py> FromPyObject<'a, 'py> for TlsFiles {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Self).map_err(|_| wrong_type("tls", "a zklock.Tls", &object))
    }
}
