//! Whether a key has a default, may be absent, or must be given, and how declarations write values.
//! It must not know how a value is read.

use crate::config::declaration::Need;
use crate::config::values::written::WrittenValue;

/// A default or an example in a declaration: `"250ms"`, `64`, `true`, `&["USD"]`, `&[0, 1]`.
pub trait Literal: Copy {
    /// The same type without the length of a list.
    type As;

    /// The value for documents and for reading.
    fn written(self) -> WrittenValue;
}

impl Literal for &'static str {
    type As = &'static str;

    fn written(self) -> WrittenValue {
        WrittenValue::Text(self)
    }
}

impl Literal for u64 {
    type As = Self;

    fn written(self) -> WrittenValue {
        WrittenValue::Integer(self)
    }
}

impl Literal for bool {
    type As = Self;

    fn written(self) -> WrittenValue {
        WrittenValue::Boolean(self)
    }
}

impl<T: WrittenItem, const N: usize> Literal for &'static [T; N] {
    type As = &'static [T];

    fn written(self) -> WrittenValue {
        T::written(self)
    }
}

/// An element of a declared list.
pub trait WrittenItem: Copy + 'static {
    /// The list for documents and for reading.
    fn written(list: &'static [Self]) -> WrittenValue;
}

impl WrittenItem for &'static str {
    fn written(list: &'static [Self]) -> WrittenValue {
        WrittenValue::Texts(list)
    }
}

impl WrittenItem for u64 {
    fn written(list: &'static [Self]) -> WrittenValue {
        WrittenValue::Integers(list)
    }
}

/// How an absent key is treated. A bare literal is a default; [`Optional`] and [`Required`] contain
/// an example.
pub trait Presence {
    /// The kind of literal that the form requires.
    type Literal;
    /// The getter's return type for a value of type `T`.
    type Out<T>;

    /// Whether the key has a default, may be absent, or must be given.
    const NEED: Need;

    /// The default or the example.
    fn written(self) -> WrittenValue;
    /// The getter's result. None means that the value is absent or bad; `fallback` then reads
    /// [`written`](Self::written).
    fn out<T>(found: Option<T>, fallback: impl FnOnce() -> T) -> Self::Out<T>;
}

impl<L: Literal> Presence for L {
    type Literal = L::As;
    type Out<T> = T;

    const NEED: Need = Need::Default;

    fn written(self) -> WrittenValue {
        Literal::written(self)
    }

    fn out<T>(found: Option<T>, fallback: impl FnOnce() -> T) -> T {
        found.unwrap_or_else(fallback)
    }
}

/// An optional key: the getter returns an `Option`. Contains an example.
#[derive(Clone, Copy, Debug)]
pub struct Optional<L>(pub L);

impl<L: Literal> Presence for Optional<L> {
    type Literal = L::As;
    type Out<T> = Option<T>;

    const NEED: Need = Need::Optional;

    fn written(self) -> WrittenValue {
        Literal::written(self.0)
    }

    fn out<T>(found: Option<T>, _: impl FnOnce() -> T) -> Option<T> {
        found
    }
}

impl<L: Literal> NoDefault for Optional<L> {}

/// A required key without a fallback, checked together with others. Contains an example.
#[derive(Clone, Copy, Debug)]
pub struct RequiredOption<L>(pub L);

impl<L: Literal> Presence for RequiredOption<L> {
    type Literal = L::As;
    type Out<T> = Option<T>;

    const NEED: Need = Need::Required;

    fn written(self) -> WrittenValue {
        Literal::written(self.0)
    }

    fn out<T>(found: Option<T>, _: impl FnOnce() -> T) -> Option<T> {
        found
    }
}

/// A required key. Contains an example, which stands in for a missing value.
#[derive(Clone, Copy, Debug)]
pub struct Required<L>(pub L);

impl<L: Literal> Presence for Required<L> {
    type Literal = L::As;
    type Out<T> = T;

    const NEED: Need = Need::Required;

    fn written(self) -> WrittenValue {
        Literal::written(self.0)
    }

    fn out<T>(found: Option<T>, fallback: impl FnOnce() -> T) -> T {
        found.unwrap_or_else(fallback)
    }
}

impl<L: Literal> NoDefault for Required<L> {}

/// A presence without a default: a secret with a default would not be secret.
pub trait NoDefault: Presence {}
