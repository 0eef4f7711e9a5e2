//! How long after the auction a notice counts, by format and place (section 7.2). A bidder's delay
//! `bid.exp` is advisory and not applied: by 7.2 a later impression may be billed.

use std::time::Duration;

use openrtb::codes::MediaType;
use openrtb::{BidRequest, Imp};

/// Seconds from auction to billing, by the first kind that applies; 7.2's rules of thumb by
/// default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Digital out of home (`dooh`): shown long after the auction.
    pub dooh_s: u32,
    /// Stitched into a stream by a server (`imp.ssai` 2 or 3).
    pub stitched_s: u32,
    /// Interstitials, video and audio.
    pub interstitial_s: u32,
    /// Native ads in applications, which may be cached.
    pub app_native_s: u32,
    /// Banners in applications, which may be cached.
    pub app_banner_s: u32,
    /// All others: browsers.
    pub web_s: u32,
    /// Limit of a request's own `imp.exp`.
    pub exp_max_s: u32,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            dooh_s: 24 * 3600,
            stitched_s: 24 * 3600,
            interstitial_s: 30 * 60,
            app_native_s: 10 * 60,
            app_banner_s: 5 * 60,
            web_s: 60,
            exp_max_s: 24 * 3600,
        }
    }
}

impl Lifetimes {
    /// Lifetimes with the names of their keys.
    pub fn named(&self) -> [(&'static str, Duration); 7] {
        let Self {
            dooh_s,
            stitched_s,
            interstitial_s,
            app_native_s,
            app_banner_s,
            web_s,
            exp_max_s,
        } = *self;
        [
            ("web", web_s),
            ("app_banner", app_banner_s),
            ("app_native", app_native_s),
            ("interstitial", interstitial_s),
            ("stitched", stitched_s),
            ("dooh", dooh_s),
            ("exp_max", exp_max_s),
        ]
        .map(|(name, seconds)| (name, Duration::from_secs(seconds.into())))
    }

    /// The lifetime of an ad on `imp` with one of `formats`, a set of [`MediaType::bit`]: the
    /// caller's `imp.exp` up to the limit, else the longest of the formats.
    pub(crate) fn seconds(&self, request: &BidRequest<'_>, imp: &Imp<'_>, formats: u8) -> u32 {
        if let Some(exp) = imp.exp.filter(|exp| *exp > 0) {
            return exp.min(self.exp_max_s);
        }
        let of = |format| self.usual_seconds(request, imp, format);
        MediaType::members(formats).map(of).max().unwrap_or(self.web_s)
    }

    fn usual_seconds(&self, request: &BidRequest<'_>, imp: &Imp<'_>, format: MediaType) -> u32 {
        let is_app = request.app.is_some();
        if request.dooh.is_some() {
            self.dooh_s
        } else if matches!(imp.ssai, Some(2 | 3)) {
            self.stitched_s
        } else if imp.instl == Some(1) || matches!(format, MediaType::Video | MediaType::Audio) {
            self.interstitial_s
        } else if is_app && format == MediaType::Native {
            self.app_native_s
        } else if is_app {
            self.app_banner_s
        } else {
            self.web_s
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{imp, request};

    #[track_caller]
    fn check(of_request: Value, of_imp: Value, format: MediaType, want: u32) {
        let mut of_request = of_request;
        of_request["imp"] = json!([imp(of_imp)]);
        let body = request(of_request);
        let request = openrtb::parse_request(&body).unwrap();
        let lifetimes = Lifetimes { exp_max_s: 4000, ..Lifetimes::default() };
        assert_eq!(lifetimes.seconds(&request, &request.imps()[0], format.bit()), want, "{body}");
    }

    #[test]
    fn by_what_is_shown_where() {
        use MediaType::{Audio, Banner, Native, Video};
        let (site, app, dooh) = (json!({"site": {}}), json!({"app": {}}), json!({"dooh": {}}));
        check(site.clone(), json!({}), Banner, 60);
        check(site.clone(), json!({}), Native, 60);
        check(json!({}), json!({}), Banner, 60);
        check(app.clone(), json!({}), Banner, 300);
        check(app.clone(), json!({}), Native, 600);
        for format in [Video, Audio] {
            check(app.clone(), json!({}), format, 1800);
            check(site.clone(), json!({}), format, 1800);
        }
        let request =
            openrtb::parse_request(r#"{"id":"r","imp":[{"id":"1","banner":{}}]}"#).unwrap();
        let either = Lifetimes::default().seconds(&request, &request.imps()[0], 0b11);
        assert_eq!(either, 1800, "the longest of those that it may be");
        check(app.clone(), json!({"instl": 1}), Banner, 1800);
        check(app.clone(), json!({"instl": 0}), Banner, 300);
        for (ssai, want) in [(0, 1800), (1, 1800), (2, 86_400), (3, 86_400)] {
            check(site.clone(), json!({"ssai": ssai}), Video, want);
        }
        check(dooh.clone(), json!({"instl": 1}), Banner, 86_400);
        // The caller's own value applies, up to the limit.
        check(app, json!({"exp": 120}), Banner, 120);
        check(dooh, json!({"exp": 5}), Video, 5);
        check(site.clone(), json!({"exp": 4001}), Banner, 4000);
        check(site, json!({"exp": 0}), Banner, 60);
    }
}
