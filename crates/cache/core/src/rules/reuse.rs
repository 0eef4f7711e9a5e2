//! Whether a stored response answers a request (RFC 9111, sections 4.2 and 4.2.4; RFC 5861).
//!
//! Which stored responses match a request is decided in `vary`.

use crate::fields::dates::{Seconds, UnixSeconds};
use crate::rules::control::{MaxStale, RequestControl, ResponseControl};
use crate::rules::freshness::InitialAge;

/// A stored response, as far as it decides about its reuse.
#[derive(Clone, Copy, Debug)]
pub struct StoredFreshness<'s> {
    /// Its directives.
    pub control: &'s ResponseControl,
    /// For how long it is fresh, from its generation on.
    pub lifetime: Seconds,
    /// Its age.
    pub age: InitialAge,
    /// Whether it was purged softly, or made invalid by another request: it is stale.
    pub is_invalidated: bool,
}

/// What an operator adds to what messages say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReuseRules {
    /// Whether directives of requests count. Caches in front of an origin often ignore them, so that
    /// clients cannot make the origin answer each request.
    pub obeys_requests: bool,
    /// How stale a response may be while it is validated, if it does not say so.
    pub stale_while_revalidate: Seconds,
    /// How stale a response may be if the origin fails, if it does not say so.
    pub stale_if_error: Seconds,
}

/// What to do with a request that a stored response matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Answer with the stored response.
    Serve(ServedFreshness),
    /// Answer with it, and validate it meanwhile.
    ServeAndValidate(ServedFreshness),
    /// Validate it first.
    Validate,
    /// Answer 504: the client wants nothing that must be fetched.
    Unavailable,
}

/// How fresh a response is that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedFreshness {
    /// Its age.
    pub age: Seconds,
    /// For how much longer it is fresh. None if it is stale.
    pub fresh_for: Option<Seconds>,
    /// For how long it has been stale.
    pub stale_for: Seconds,
}

impl StoredFreshness<'_> {
    /// How fresh it is now. A response that is as old as its lifetime is stale.
    pub const fn at(&self, now: UnixSeconds) -> ServedFreshness {
        let age = self.age.current(now);
        let (left, stale_for) =
            (self.lifetime.0.saturating_sub(age.0), age.0.saturating_sub(self.lifetime.0));
        let is_fresh = !self.is_invalidated && left > 0;
        let fresh_for = if is_fresh { Some(Seconds(left)) } else { None };
        ServedFreshness { age, fresh_for, stale_for: Seconds(stale_for) }
    }

    /// Whether it must not be served stale, whatever allows that.
    fn must_be_valid(&self) -> bool {
        self.control.no_cache.is_whole() || self.control.must_revalidate
    }

    /// Decides about a request that it matches.
    pub fn reuse(&self, request: &RequestControl, now: UnixSeconds, rules: ReuseRules) -> Reuse {
        let ignored = RequestControl::default();
        let wanted = if rules.obeys_requests { request } else { &ignored };
        let served = self.at(now);
        let is_young = wanted.max_age.is_none_or(|max_age| served.age <= max_age);
        let is_usable = !self.control.no_cache.is_whole() && !wanted.no_cache && is_young;
        let reuse = match served.fresh_for {
            _ if !is_usable => None,
            Some(fresh_for) => {
                let is_enough = wanted.min_fresh.is_none_or(|least| least <= fresh_for);
                is_enough.then_some(Reuse::Serve(served))
            }
            None => self.reuse_stale(wanted, now, rules),
        };
        reuse.unwrap_or(match wanted.only_if_cached {
            true => Reuse::Unavailable,
            false => Reuse::Validate,
        })
    }

    fn reuse_stale(
        &self,
        wanted: &RequestControl,
        now: UnixSeconds,
        rules: ReuseRules,
    ) -> Option<Reuse> {
        let served = self.at(now);
        let stale_for = served.stale_for;
        let wants_fresh =
            wanted.min_fresh.is_some() || wanted.max_age.is_some() && wanted.max_stale.is_none();
        if self.must_be_valid() || wants_fresh {
            return None;
        }
        let may_wait = self.may_wait(rules);
        if Seconds(0) < may_wait && stale_for <= may_wait {
            return Some(match wanted.only_if_cached {
                true => Reuse::Serve(served),
                false => Reuse::ServeAndValidate(served),
            });
        }
        let is_accepted = match wanted.max_stale? {
            MaxStale::Any => true,
            MaxStale::For(most) => stale_for <= most,
        };
        let is_allowed = !self.control.has_s_maxage && !self.is_invalidated;
        (is_accepted && is_allowed).then_some(Reuse::Serve(served))
    }

    /// How stale it may be while it is validated: zero if it must be validated first. What the
    /// response itself allows holds beside `s-maxage`, since its origin has sent both.
    fn may_wait(&self, rules: ReuseRules) -> Seconds {
        self.own_or(self.control.stale_while_revalidate, rules.stale_while_revalidate)
    }

    fn own_or(&self, own: Option<Seconds>, default: Seconds) -> Seconds {
        own.unwrap_or(if self.control.has_s_maxage { Seconds(0) } else { default })
    }

    /// Whether it may be served because the origin failed when it was to be validated.
    pub fn serves_errors(
        &self,
        request: &RequestControl,
        now: UnixSeconds,
        rules: ReuseRules,
    ) -> bool {
        let of_response = self.own_or(self.control.stale_if_error, rules.stale_if_error);
        let of_request = request.stale_if_error.filter(|_| rules.obeys_requests);
        let most = of_response.max(of_request.unwrap_or_default());
        !self.must_be_valid() && Seconds(0) < most && self.at(now).stale_for <= most
    }
}

#[cfg(test)]
mod tests;
