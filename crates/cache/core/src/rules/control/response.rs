//! What a response allows and forbids.

use http::HeaderName;

use super::directives::{Argument, Directive, delta, set_first};
use crate::fields::dates::Seconds;

/// The directives of a response that a shared cache obeys (RFC 9111, section 5.2.2; RFC 5861).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// For how long it is fresh: `s-maxage`, else `max-age`. An invalid number is zero.
    pub max_age: Option<Seconds>,
    /// Whether `s-maxage` is present: it forbids stale answers (section 5.2.2.10), and allows to
    /// store answers to authenticated requests.
    pub has_s_maxage: bool,
    /// Must not be reused without validation.
    pub no_cache: FieldScope,
    /// Must not be stored.
    pub no_store: bool,
    /// Must not be stored by a shared cache.
    pub private: FieldScope,
    /// May be stored, whatever else would forbid it.
    pub public: bool,
    /// Must not be served stale: `must-revalidate`, or `proxy-revalidate`.
    pub must_revalidate: bool,
    /// Whether `must-revalidate` itself is present: it allows to store answers to authenticated
    /// requests, which `proxy-revalidate` does not.
    pub has_must_revalidate: bool,
    /// May be stored only by a cache that understands its status.
    pub must_understand: bool,
    /// Is not worth validating while it is fresh (RFC 8246).
    pub immutable: bool,
    /// For how long it may be served stale while it is validated.
    pub stale_while_revalidate: Option<Seconds>,
    /// For how long it may be served stale if the origin fails.
    pub stale_if_error: Option<Seconds>,
    /// Whether these are of a targeted field, which stands in for `Cache-Control` and `Expires`
    /// (RFC 9213, section 2.2).
    pub is_targeted: bool,
}

/// What part of a response a directive concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldScope {
    /// None of it: the directive is absent.
    #[default]
    Nothing,
    /// These header fields.
    Fields(Vec<HeaderName>),
    /// The whole response.
    Whole,
}

impl FieldScope {
    /// Whether it is the whole response.
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// The fields that it names alone.
    pub fn fields(&self) -> &[HeaderName] {
        match self {
            Self::Fields(names) => names,
            Self::Nothing | Self::Whole => &[],
        }
    }

    /// Adds what another occurrence of the directive concerns.
    fn widen(&mut self, argument: &Argument<'_>) {
        let names = match argument {
            Argument::Absent | Argument::Malformed => None,
            Argument::Value(list) => {
                let parts = list.split(',').map(|name| name.trim_matches([' ', '\t']));
                let parts = parts.filter(|name| !name.is_empty());
                parts.map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect()
            }
        };
        let names: Option<Vec<HeaderName>> = names;
        match (&mut *self, names.filter(|names| !names.is_empty())) {
            (Self::Whole, _) => (),
            // Without a sound list, the directive counts as if it had none.
            (_, None) => *self = Self::Whole,
            (Self::Nothing, Some(names)) => *self = Self::Fields(names),
            (Self::Fields(known), Some(names)) => known.extend(names),
        }
    }
}

/// Collects a response's directives.
#[derive(Default)]
pub(super) struct ControlReader {
    control: ResponseControl,
    max_age: Option<Seconds>,
    s_maxage: Option<Seconds>,
}

impl ControlReader {
    pub(super) fn take(&mut self, directive: &Directive<'_>) {
        let (control, argument) = (&mut self.control, &directive.argument);
        if directive.is("max-age") {
            set_first(&mut self.max_age, delta(argument).unwrap_or_default());
        } else if directive.is("s-maxage") {
            set_first(&mut self.s_maxage, delta(argument).unwrap_or_default());
        } else if directive.is("stale-while-revalidate") {
            set_first(&mut control.stale_while_revalidate, delta(argument).unwrap_or_default());
        } else if directive.is("stale-if-error") {
            set_first(&mut control.stale_if_error, delta(argument).unwrap_or_default());
        } else if directive.is("no-cache") {
            control.no_cache.widen(argument);
        } else if directive.is("private") {
            control.private.widen(argument);
        }
        control.no_store |= directive.is("no-store");
        control.public |= directive.is("public");
        control.has_must_revalidate |= directive.is("must-revalidate");
        control.must_revalidate |= directive.is("proxy-revalidate");
        control.must_understand |= directive.is("must-understand");
        control.immutable |= directive.is("immutable");
    }

    pub(super) fn finish(self) -> ResponseControl {
        let Self { mut control, max_age, s_maxage } = self;
        control.has_s_maxage = s_maxage.is_some();
        control.max_age = s_maxage.or(max_age);
        control.must_revalidate |= control.has_must_revalidate;
        control
    }
}
