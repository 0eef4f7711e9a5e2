//! The reason for a bid's fate, as a sentence with the values that decided.

use openrtb::{Bid, Text, bid_texts, parse_bid};
use units::{Cpm, Currency};

use super::auction::{ReplayedAuction, list, shown};
use crate::answering::response::bid_text;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::clearing::clear::ClearingEntry;
use crate::judging::judge::{JudgedBid, bid_macros_len};
use crate::market::Dsp;
use crate::market::size::AdSize;

impl ReplayedAuction<'_> {
    pub(super) fn why(&self, index: usize, fate: Fate) -> String {
        let judged = &self.judgement.bids[index];
        let Some(bid) = judged.bid.as_ref() else {
            return self.of_response(judged, fate);
        };
        match fate {
            Fate::WrongAuction | Fate::CurrencyNotAccepted => self.of_response(judged, fate),
            Fate::Malformed => malformed(bid),
            Fate::NoPrice => "it has no price".to_owned(),
            Fate::BadPrice => {
                "its price is no number above zero, or beyond any price once converted".to_owned()
            }
            Fate::NoMarkup => {
                "it has neither adm nor a nurl that may be called, nor adid".to_owned()
            }
            Fate::NoCreativeId => "it has no crid, which creative_id_required asks for".to_owned(),
            Fate::UnknownImp => {
                match self.auction.imps.iter().any(|imp| named(&bid.impid) == imp.id) {
                    true => "its DSP was not asked for this impression".to_owned(),
                    false => "the request has no impression of this id".to_owned(),
                }
            }
            Fate::DuplicateBid => "its id stands earlier in the same response".to_owned(),
            Fate::SeatUndeclared | Fate::SeatNotAllowed | Fate::SeatBlocked => {
                self.of_seat(judged, fate)
            }
            Fate::DealUnknown
            | Fate::DealNotOffered
            | Fate::DealSeat
            | Fate::DealAdvertiser
            | Fate::PrivateAuction => self.of_deal(judged, bid, fate),
            Fate::Size
            | Fate::Format
            | Fate::Protocol
            | Fate::Api
            | Fate::Duration
            | Fate::Insecure
            | Fate::Language
            | Fate::Advertiser
            | Fate::Category
            | Fate::Attribute
            | Fate::AdType
            | Fate::AppBundle => self.of_creative(bid, fate),
            Fate::BelowFloor | Fate::BelowDealFloor => self.of_floor(judged, fate),
            Fate::BudgetExhausted => "the account behind the seat cannot pay".to_owned(),
            Fate::GroupIncomplete
            | Fate::LostToHigherBid
            | Fate::LostToDeal
            | Fate::Offered
            | Fate::Won => self.of_clearing(judged, fate),
        }
    }

    fn dsp_of(&self, judged: &JudgedBid<'_>) -> &Dsp {
        &self.auction.market.dsps[self.answers[judged.answer].ask.dsp]
    }

    fn of_response(&self, judged: &JudgedBid<'_>, fate: Fate) -> String {
        let accepted = || list(self.dsp_of(judged).currencies.iter().map(Currency::code));
        match fate {
            Fate::WrongAuction => {
                let body =
                    std::str::from_utf8(self.answers[judged.answer].body).unwrap_or_default();
                let id = bid_texts(body).ok().and_then(|frame| frame.id);
                match id {
                    Some(id) => format!("the response's id is {}, not the auction's", shown(&id)),
                    None => "the response has no id".to_owned(),
                }
            }
            Fate::CurrencyNotAccepted => {
                format!("the response's cur is not among {}, or has no rate", accepted())
            }
            _ => self.unread(judged),
        }
    }

    fn unread(&self, judged: &JudgedBid<'_>) -> String {
        let text = bid_text(&self.answers, judged);
        let most = self.auction.market.bid_macros_max;
        match parse_bid(text).map(|bid| bid_macros_len(text, &bid)) {
            Ok(macros) => format!("it has {macros} macros, more than bid_macros_max = {most}"),
            Err(_) => "the bid is not JSON of the right types".to_owned(),
        }
    }

    fn of_seat(&self, judged: &JudgedBid<'_>, fate: Fate) -> String {
        let seat = self.seat_named(judged).map_or_else(String::new, |seat| shown(&seat));
        let request = self.auction.request;
        let names = |list: &Option<Vec<Text<'_>>>| names(list.as_deref());
        match fate {
            Fate::SeatNotAllowed => {
                format!("seat {seat} is not in wseat {}", names(&request.wseat))
            }
            Fate::SeatBlocked => format!("seat {seat} is in bseat {}", names(&request.bseat)),
            _ => {
                let own = list(self.dsp_of(judged).seats.iter());
                format!("seat {seat} is not among those that the DSP has declared, {own}")
            }
        }
    }

    fn of_deal(&self, judged: &JudgedBid<'_>, bid: &Bid<'_>, fate: Fate) -> String {
        let id = shown(named(&bid.dealid));
        let deals = self.auction.deals.iter().map(|deal| deal.deal);
        let deal = deals.into_iter().find(|deal| named(&deal.id) == named(&bid.dealid));
        match fate {
            Fate::DealUnknown => format!("the impression has no deal {id}"),
            Fate::DealNotOffered => format!("deal {id} is not for this DSP"),
            Fate::DealSeat => {
                let wseat = names(deal.and_then(|deal| deal.wseat.as_deref()));
                let seat = self.seat_named(judged).map_or_else(String::new, |seat| shown(&seat));
                format!("seat {seat} is not in the deal's wseat {wseat}")
            }
            Fate::DealAdvertiser => {
                let wadomain = names(deal.and_then(|deal| deal.wadomain.as_deref()));
                let own = names(bid.adomain.as_deref());
                format!("adomain {own} is not all in the deal's wadomain {wadomain}")
            }
            _ => "it is under no deal, and only bids under deals are welcome".to_owned(),
        }
    }

    fn of_creative(&self, bid: &Bid<'_>, fate: Fate) -> String {
        let request = self.auction.request;
        match fate {
            Fate::Size => match AdSize::given(bid.w, bid.h) {
                Some(size) => format!("{size} is not on offer"),
                None => "its size is not on offer".to_owned(),
            },
            Fate::Format => match bid.mtype {
                Some(mtype) => {
                    format!("mtype {mtype} is not on offer, or its markup is of another format")
                }
                None => "it has no mtype, and neither its markup nor protocol and dur tell which \
                         of the formats on offer it is"
                    .to_owned(),
            },
            Fate::Protocol => {
                let protocol = bid.protocol.unwrap_or_default();
                format!("protocol {protocol} is not among the impression's protocols")
            }
            Fate::Api => {
                let own = bid.apis.iter().flatten().copied().chain(bid.api);
                let own = list(own.map(|api| api.to_string()));
                format!("none of its API frameworks {own} is among the impression's api")
            }
            Fate::Duration => {
                let seconds = bid.dur.unwrap_or_default();
                format!("its {seconds} seconds are shorter or longer than the impression takes")
            }
            Fate::Insecure => "secure is 1, and its markup loads something over http:".to_owned(),
            Fate::Language => {
                let language = bid.language.as_deref().or(bid.langb.as_deref()).unwrap_or_default();
                format!("language {} is not welcome", shown(language))
            }
            Fate::Advertiser => {
                let (own, badv) = (names(bid.adomain.as_deref()), names(request.badv.as_deref()));
                format!("adomain {own} is in badv {badv}")
            }
            Fate::Category => format!(
                "cat {} is in bcat {}, or not in acat {}",
                names(bid.cat.as_deref()),
                names(request.bcat.as_deref()),
                names(request.acat.as_deref())
            ),
            Fate::Attribute => {
                let own = bid.attr.as_deref().unwrap_or_default().iter().map(u32::to_string);
                format!("one of its attributes {} is in battr", list(own))
            }
            Fate::AdType => "its markup is of a type in btype".to_owned(),
            _ => format!("bundle {} is in bapp", shown(named(&bid.bundle))),
        }
    }

    fn of_floor(&self, judged: &JudgedBid<'_>, fate: Fate) -> String {
        let currency = self.auction.currency;
        let what = match fate {
            Fate::BelowFloor => "the floor",
            _ => "its deal's floor",
        };
        match (self.worth(judged), judged.floor) {
            (_, Some(Cpm::MAX)) => format!("{what} is beyond any price"),
            (Some(worth), Some(floor)) => {
                format!("it is worth {worth} {currency}, and {what} is {floor} {currency}")
            }
            _ => "after its deal's discount it is worth nothing".to_owned(),
        }
    }

    fn of_clearing(&self, judged: &JudgedBid<'_>, fate: Fate) -> String {
        let entry = judged.entry.expect("a bid that is cleared has an entry");
        let entry = &self.judgement.entries[entry];
        if fate == Fate::GroupIncomplete {
            return self.of_group(entry);
        }
        let win = self.clearing.wins[entry.imp].expect("an impression with bids left is won");
        let winner = &self.judgement.entries[win.entry];
        let by = self.bid_name(self.judgement.bid_of(win.entry));
        let currency = self.auction.currency;
        let (own, best) = (entry.price, winner.price);
        match fate {
            Fate::Won => {
                let others = self.judgement.entries.iter().enumerate();
                let others = others.filter(|(index, other)| {
                    other.imp == entry.imp
                        && other.rank() != entry.rank()
                        && self.clearing.fates[*index].competed()
                });
                match others.count() {
                    0 => "no other bid for the impression was left".to_owned(),
                    1 => "it ranks before the other bid".to_owned(),
                    many => format!("it ranks before {many} other bids"),
                }
            }
            Fate::Offered => format!("it lost here to {by}, and is returned beside it"),
            _ if winner.class > entry.class => {
                format!("{by} is of class {}, above its {}", winner.class, entry.class)
            }
            _ if best == own => {
                format!("{by} is at {best} {currency} too, and comes first by the tie key")
            }
            _ => format!("{by} is at {best} {currency}, above its {own}"),
        }
    }

    fn of_group(&self, entry: &ClearingEntry) -> String {
        let group = entry.group.map(|group| &self.judgement.groups[group]);
        let Some(group) = group.filter(|group| group.possible) else {
            return "seatbid.group is 1, and one of its bids is for no impression on sale"
                .to_owned();
        };
        let imps = list(group.imps.iter().map(|imp| self.auction.imps[*imp].id));
        format!("seatbid.group is 1, and it did not win all of its impressions {imps}")
    }
}

fn malformed(bid: &Bid<'_>) -> String {
    if bid.lists_too_much() {
        let most = openrtb::BID_LIST_MAX;
        return format!(
            "it lists more than {most} domains, categories, attributes or API frameworks"
        );
    }
    "it lacks its id or its impid".to_owned()
}

fn named<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_deref().unwrap_or_default()
}

fn names(texts: Option<&[Text<'_>]>) -> String {
    list(texts.unwrap_or_default().iter().map(|text| &**text))
}

pub(super) fn pricing(kind: AuctionType) -> &'static str {
    match kind {
        AuctionType::FirstPrice => "first price",
        AuctionType::SecondPrice => "second price",
        AuctionType::Agreed => "agreed price",
    }
}
