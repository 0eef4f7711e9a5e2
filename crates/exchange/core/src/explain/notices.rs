//! The response and the notices as they would be sent. Tokens are sealed with a key that opens
//! nothing elsewhere, opened to show their contents, and replaced by names, so none can be called.

use openrtb::{NoticeKind, string};

use super::auction::{FinishedAuction, NOTICES_MAX, ReplayedAuction};
use super::document::{
    ExplainedBeacon, ExplainedMarkupCall, ExplainedNotice, ExplainedNotices, ExplainedUnmarked,
    ExplainedUnsent,
};
use crate::answering::notice_url::NotSent as Unsent;
use crate::answering::values::{self, Occasion};
use crate::answering::win_markup::{FetchedMarkup, MarkupRequest, markup_wanted};
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing;
use crate::judging::judge::Judgement;
use crate::market::NoticeMode;
use crate::notices::conclude::{ClearedAuction, Conclusion, Sealing, conclude};
use crate::notices::token::{Claims, KeyRing};

/// Seals only tokens that are opened at once and never handed out.
const KEY: [u8; 32] = *b"explains auctions, seals nothing";

/// Bars winners whose ad is served on a win notice that must not be called. Returns whether it did.
pub(super) fn bar_unreachable(
    finished: &FinishedAuction<'_>,
    auction: &Auction<'_>,
    judgement: &mut Judgement<'_>,
    clearing: &Clearing,
) -> bool {
    if finished.sealed.is_none() {
        return false;
    }
    let wanted = markup_wanted(auction, judgement, clearing, &[]);
    let mut barred = false;
    for wanted in wanted.iter().filter(|wanted| wanted.url.is_err() && !wanted.is_preloaded) {
        judgement.bar(wanted.entry, Fate::NoMarkup);
        barred = true;
    }
    barred
}

impl ReplayedAuction<'_> {
    pub(super) fn conclusion(&self) -> (Option<String>, ExplainedNotices, usize) {
        let keys = KeyRing::new(&[KEY]).expect("there is a key");
        let fetched = self.fetched();
        let sealing = self.finished.sealed.map(|(base, lifetimes)| Sealing {
            keys: &keys,
            base,
            node: 0,
            now_unix_s: 0,
            lifetimes,
            fetched: &fetched,
            reserved: &[],
        });
        let cleared = ClearedAuction {
            answers: &self.answers,
            judgement: &self.judgement,
            clearing: &self.clearing,
            sales: &self.sales,
        };
        let conclusion = conclude(self.auction, &cleared, sealing.as_ref());
        let mut notices = self.notices(&conclusion, sealing.is_some());
        let mut response = conclusion.response;
        if let (Some(text), Some(sealing)) = (&mut response, &sealing) {
            let (named, later) = name_tokens(text, sealing);
            (*text, notices.later) = (named, later);
        }
        if let Some(text) = &response {
            notices.callers = self.callers(text, sealing.is_some());
        }
        let omitted = [
            omit_surplus(&mut notices.for_markup),
            omit_surplus(&mut notices.now),
            omit_surplus(&mut notices.later),
            omit_surplus(&mut notices.callers),
            omit_surplus(&mut notices.not_sent),
            omit_surplus(&mut notices.unmarked),
        ];
        (response, notices, omitted.iter().sum())
    }

    fn notices(&self, conclusion: &Conclusion, are_sealed: bool) -> ExplainedNotices {
        let billed = conclusion.billed.iter().filter_map(|billed| billed.notice.as_ref());
        let now = conclusion.immediate.iter().chain(billed).map(|notice| ExplainedNotice {
            dsp: self.dsp_id(notice.dsp),
            kind: notice.kind.label().to_owned(),
            url: notice.url.clone(),
        });
        let not_sent = conclusion.unsent.iter().map(|unsent| ExplainedUnsent {
            dsp: self.dsp_id(unsent.dsp),
            kind: unsent.kind.label().to_owned(),
            reason: unsent.reason.label().to_owned(),
        });
        let without_beacon = conclusion.without_beacon.iter().map(|(dsp, why)| ExplainedUnmarked {
            dsp: self.dsp_id(*dsp),
            reason: why.label().to_owned(),
        });
        ExplainedNotices {
            for_markup: if are_sealed { self.for_markup() } else { Vec::new() },
            now: now.collect(),
            later: Vec::new(),
            callers: Vec::new(),
            not_sent: not_sent.collect(),
            unmarked: without_beacon.collect(),
        }
    }

    /// Win notices called before the response, and not afterwards. Their results are unknown.
    fn fetched(&self) -> Vec<FetchedMarkup> {
        let wanted = self.markup_requests().into_iter().filter(|wanted| wanted.url.is_ok());
        let called = |MarkupRequest { entry, price, .. }| FetchedMarkup {
            entry,
            price,
            markup: String::new(),
        };
        wanted.map(called).collect()
    }

    fn markup_requests(&self) -> Vec<MarkupRequest> {
        markup_wanted(self.auction, &self.judgement, &self.clearing, &[])
    }

    fn for_markup(&self) -> Vec<ExplainedMarkupCall> {
        let wanted = self.markup_requests();
        let calls = wanted.into_iter().map(|wanted| ExplainedMarkupCall {
            bid: self.judgement.bid_of(wanted.entry) + 1,
            problem: wanted.url.as_ref().err().map(|why: &Unsent| why.label().to_owned()),
            url: wanted.url.ok(),
        });
        calls.collect()
    }

    fn callers(&self, response: &str, are_sealed: bool) -> Vec<ExplainedNotice> {
        if are_sealed && self.auction.publisher_terms().notices != NoticeMode::PassThrough {
            return Vec::new(); // The URLs are ours.
        }
        let mut notices = Vec::new();
        for sale in &self.sales {
            let judged = &self.judgement.bids[sale.bid];
            for kind in [NoticeKind::Win, NoticeKind::Billing, NoticeKind::Loss] {
                let occasion = Occasion::of_passed(kind);
                let values = values::of_returned(self.auction, &self.judgement, sale, occasion);
                let raw = judged.bid.as_ref().and_then(|bid| bid.notice_url(kind));
                let Some(raw) = raw.map(|raw| values.substitute(raw)) else { continue };
                assert!(response.contains(&raw), "the response contains the token");
                notices.extend(string(&raw).map(|url| ExplainedNotice {
                    dsp: self.dsp_id(self.answers[judged.answer].ask.dsp),
                    kind: kind.label().to_owned(),
                    url: url.into_owned(),
                }));
            }
        }
        notices
    }
}

/// `response` with each token replaced by a name, and the tokens' contents.
fn name_tokens(response: &str, sealing: &Sealing<'_>) -> (String, Vec<ExplainedBeacon>) {
    let base = sealing.base.as_str();
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut out = String::with_capacity(response.len());
    let mut later: Vec<ExplainedBeacon> = Vec::new();
    let mut pieces = response.split(base);
    out.extend(pieces.next());
    for piece in pieces {
        out.push_str(base);
        let end = piece.bytes().take_while(|byte| is_of_token(byte)).count();
        let (token, rest) = piece.split_at(end);
        match sealing.keys.open(token, sealing.now_unix_s) {
            Ok(claims) => {
                let name = format!("TOKEN-{}", later.len() + 1);
                out.push_str(&name);
                later.push(explained_beacon(name, &claims));
            }
            // A DSP's own markup may contain such a URL.
            Err(_) => out.push_str(token),
        }
        out.push_str(rest);
    }
    (out, later)
}

fn explained_beacon(token: String, claims: &Claims<'_>) -> ExplainedBeacon {
    ExplainedBeacon {
        token,
        dsp: super::auction::shown(&claims.dsp),
        kind: claims.kind.label().to_owned(),
        url: Some(claims.url.to_string()).filter(|url| !url.is_empty()),
        relays_markup: claims.relays_markup,
    }
}

fn omit_surplus<T>(list: &mut Vec<T>) -> usize {
    let omitted = list.len().saturating_sub(NOTICES_MAX);
    list.truncate(NOTICES_MAX);
    omitted
}
