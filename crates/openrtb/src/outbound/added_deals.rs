//! Deals that a request lacks, added to its impressions for the DSPs that are offered them.
//!
//! All other DSPs receive the request's own bytes. Which DSP is offered a deal is the view's.

use std::ops::Range;

use super::{BodyEdit, DealRange, Editor, PieceContent, PieceGate};
use crate::members::named;

/// Where added deals go in an impression, and the text around them.
struct DealsPlace {
    /// What they replace; empty if they are inserted.
    replaced: Range<usize>,
    open: &'static str,
    close: &'static str,
}

impl Editor<'_> {
    /// Adds `deals`, each the JSON text of an object, to the impression at position `imp`. Their
    /// positions among all deals of the view count from `first`, behind the request's own.
    pub fn add_deals(&mut self, imp: usize, first: usize, deals: &[&str]) {
        let request = self.request;
        let start = request.imps()[..imp].iter().map(|imp| imp.deals().len()).sum::<usize>();
        let own = DealRange::new(start..start + request.imps()[imp].deals().len());
        let added = DealRange::new(first..first + deals.len());
        let DealsPlace { replaced, open, close } = self.deals_place(imp);
        let imp = u8::try_from(imp).expect("impressions are at most IMPS_MAX");
        if !replaced.is_empty() {
            let what = PieceContent::Inbound(replaced.clone());
            let gate = Some(PieceGate::NoneAdded { imp, added });
            self.edits.push(BodyEdit { replaced: replaced.clone(), what, gate });
        }
        let any = PieceGate::Added { imp, added };
        self.insert_for(any, &replaced, open);
        for (deal, text) in (added.start..added.end).zip(deals) {
            let earlier = DealRange { start: added.start, end: deal };
            let comma = PieceGate::BeforeAdded { imp, own, earlier, deal };
            self.insert_for(comma, &replaced, ",");
            self.insert_for(PieceGate::Deal { imp, deal }, &replaced, text);
        }
        self.insert_for(any, &replaced, close);
    }

    fn insert_for(&mut self, gate: PieceGate, replaced: &Range<usize>, text: &str) {
        let what = self.insert(text);
        self.edits.push(BodyEdit { replaced: replaced.clone(), what, gate: Some(gate) });
    }

    fn deals_place(&self, imp: usize) -> DealsPlace {
        let imp = &self.request.imps()[imp];
        if let Some(last) = imp.deals().last() {
            let end = last.span(self.body).end;
            return DealsPlace { replaced: end..end, open: "", close: "" };
        }
        let Some(pmp) = named(Some(imp.raw()), "pmp").next() else {
            let inside = imp.span(self.body).start + 1;
            // An impression has an id, which follows.
            let (open, close) = ("\"pmp\":{\"deals\":[", "]},");
            return DealsPlace { replaced: inside..inside, open, close };
        };
        let span = self.span_of(pmp);
        if !pmp.starts_with('{') {
            return DealsPlace { replaced: span, open: "{\"deals\":[", close: "]}" };
        }
        if let Some(deals) = named(Some(pmp), "deals").next() {
            return DealsPlace { replaced: self.span_of(deals), open: "[", close: "]" };
        }
        let close = if self.is_empty_container(&span) { "]" } else { "]," };
        let inside = span.start + 1;
        DealsPlace { replaced: inside..inside, open: "\"deals\":[", close }
    }
}

#[cfg(test)]
mod tests;
