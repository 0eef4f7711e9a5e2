//! Changes of a request for DSPs: our id, their floors, our node in the supply chain, what we know
//! about the request, and privacy.
//! [`openrtb::OutboundView`] makes the differences between DSPs.

use openrtb::{DurFloor, Editor, FloorPrice, Outbound};
use units::Cpm;

use super::enrich::{add_data, data_len};
use super::privacy;
use crate::auction::Auction;
use crate::auction::terms::{AuctionDeal, AuctionType, ImpTerms, convert_back, gross, or_max};

/// The request for DSPs. `body` is the text from which `auction.request` was parsed.
pub fn outbound<'a>(auction: &Auction<'a>, body: &'a str) -> Outbound<'a> {
    let mut editor = Editor::with_room(body, auction.request, data_len(auction));
    let id = auction.request.id.as_ref().expect("validation requires an id");
    editor.replace(id.span(body), &format!("\"{}\"", auction.id));
    for (index, terms) in auction.imps.iter().enumerate() {
        show_imp_floors(&mut editor, body, index, auction);
        let deals = &auction.deals[terms.deals_start..][..terms.imp.deals().len()];
        for (deal_index, deal) in deals.iter().enumerate() {
            let raw = terms.imp.deals()[deal_index].raw();
            show_deal_floors(&mut editor, body, terms, deal, raw);
        }
        if !terms.sold.is_empty() {
            let sold = auction.deals[terms.sold.clone()].iter().filter_map(|deal| deal.sold);
            let texts: Vec<_> = sold.map(|at| &*auction.market.sold.shown(at).text).collect();
            editor.add_deals(index, terms.sold.start, &texts);
        }
    }
    append_node(&mut editor, body, auction);
    add_data(&mut editor, auction);
    privacy::limit(&mut editor, auction.request);
    editor.finish()
}

fn show_imp_floors(editor: &mut Editor<'_>, body: &str, index: usize, auction: &Auction<'_>) {
    let terms = &auction.imps[index];
    let shown = convert_back(terms.shown_floor(), terms.rate);
    match &terms.imp.bidfloor {
        Some(floor) if shown > floor.amount => {
            editor.replace(floor.span(body), &shown.to_string());
        }
        None if shown > Cpm::ZERO => {
            let span = auction.request.imps()[index].span(body);
            editor.add_member(&span, "bidfloor", &shown.to_string());
        }
        _ => (),
    }
    let raise = |net| convert_back(or_max(gross(net, terms.rate, terms.fee)), terms.rate);
    for media in terms.imp.video.iter().chain(&terms.imp.audio) {
        raise_all(editor, body, media.mincpmpersec.iter(), raise);
        raise_all(editor, body, duration_floors(media.durfloors.as_deref()), raise);
    }
}

fn show_deal_floors(
    editor: &mut Editor<'_>,
    body: &str,
    imp: &ImpTerms<'_>,
    deal: &AuctionDeal<'_>,
    raw: &str,
) {
    if deal.auction_type == AuctionType::Agreed {
        return;
    }
    // `net` is in the currency `from`; bids are in `to`.
    let raise = |net, from, to| {
        let paid = convert_back(or_max(gross(net, from, deal.fee)), to);
        or_max(deal.discount().added_to(paid))
    };
    if deal.has_own_floor() {
        let raise = |net| raise(net, deal.rate, deal.rate);
        raise_all(editor, body, deal.deal.bidfloor.iter(), raise);
        raise_all(editor, body, deal.deal.mincpmpersec.iter(), raise);
        raise_all(editor, body, duration_floors(deal.deal.durfloors.as_deref()), raise);
        return;
    }
    // It inherits the impression's floor, but not its fee nor the rules for open bids: if that
    // makes a difference the deal gets its own. One number cannot show floors by duration.
    let net = imp.imp.bidfloor.map_or(Cpm::ZERO, |floor| floor.amount);
    let differs = raise(net, imp.rate, imp.rate) != convert_back(imp.shown_floor(), imp.rate);
    if differs && !imp.has_timed_floor() {
        let span = editor.span_of(raw);
        let to = if deal.deal.bidfloorcur.is_some() { deal.rate } else { imp.rate };
        editor.add_member(&span, "bidfloor", &raise(net, imp.rate, to).to_string());
        if deal.deal.bidfloorcur.is_none() {
            let currency = format!("\"{}\"", imp.floor_currency);
            editor.add_member(&span, "bidfloorcur", &currency);
        }
    }
}

fn duration_floors<'f>(
    ranges: Option<&'f [DurFloor<'f>]>,
) -> impl Iterator<Item = &'f FloorPrice<'f>> {
    ranges.unwrap_or_default().iter().filter_map(|range| range.bidfloor.as_ref())
}

fn raise_all<'f>(
    editor: &mut Editor<'_>,
    body: &str,
    floors: impl Iterator<Item = &'f FloorPrice<'f>>,
    raise: impl Fn(Cpm) -> Cpm,
) {
    for floor in floors {
        let raised = raise(floor.amount);
        if raised != floor.amount {
            editor.replace(floor.span(body), &raised.to_string());
        }
    }
}

/// Section 3.2.25. `sid` is required and is the publisher's id: without one, nothing is appended.
fn append_node(editor: &mut Editor<'_>, body: &str, auction: &Auction<'_>) {
    let request = auction.request;
    let (Some(own), Some(sid)) = (&auction.market.supply_chain, request.publisher_id()) else {
        return;
    };
    let text = |key: &str, value: &Option<Box<str>>| match value {
        Some(value) => format!(",\"{key}\":\"{}\"", openrtb::escaped(value)),
        None => String::new(),
    };
    let node = format!(
        "{{\"asi\":\"{}\",\"sid\":\"{}\",\"rid\":\"{}\",\"hp\":1{}{}}}",
        openrtb::escaped(&own.asi),
        openrtb::escaped(sid),
        auction.id,
        text("name", &own.name),
        text("domain", &own.domain),
    );
    let source = request.source.as_ref();
    let chain = source.and_then(|source| source.chain());
    if let Some(nodes) = chain.and_then(|chain| chain.nodes.as_ref()) {
        editor.append(&nodes.span(body), &node);
        return;
    }
    if chain.is_some() {
        return; // We cannot repair a chain without nodes.
    }
    // The publisher calls us directly: the chain starts, complete, with us.
    let chain = format!("{{\"ver\":\"1.0\",\"complete\":1,\"nodes\":[{node}]}}");
    match request.source_span() {
        Some(source) => editor.add_member(&source, "schain", &chain),
        None => {
            let root = editor.root();
            editor.add_member(&root, "source", &format!("{{\"schain\":{chain}}}"));
        }
    }
}

#[cfg(test)]
mod tests;
