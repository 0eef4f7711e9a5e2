//! Errors in texts that users write, such as filters, queries and configurations: where the error is,
//! what to do, and which word was meant. Pure; it must not know any language.

mod diagnostic;
mod words;

pub use diagnostic::Diagnostic;
pub use words::{listed, nearest, shortened};
