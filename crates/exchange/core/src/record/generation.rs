//! The record of a configuration's generation, as far as clearing depends on it: written when the
//! generation comes into force, read by replays.

use std::collections::HashMap;
use std::time::Duration;

use events::{
    Bytes, MalformedRecord, MessageReader, MessageWriter, RECORD_BYTES_MAX, VERSION, Varint,
    check_version, fields,
};
use units::{Cpm, Currency, Ppm, Price, Ratio};

use super::codes::SchemaCode;
use super::decode::DSPS_MAX;
use super::elements::{code, cpm, currency, ppm};
use crate::market::enrichment::{ENRICHMENTS_MAX, Enrichment};
use crate::market::rates::Rates;
use crate::market::sold::SoldDeal;
use crate::market::{DealTerms, Dsp, Market, PublisherTerms, Publishers};

const MARGIN: usize = 32;

/// Limit of sold deals.
pub const SOLD_DEALS_MAX: usize = 1_000;
/// Limit of the bytes of a sold deal's name, id, seat and publisher together.
pub const SOLD_DEAL_TEXT_MAX: usize = 440;
/// Bytes of a sold deal's numbers, and of all tags and lengths.
const SOLD_DEAL_NUMBERS_MAX: usize = 80;

const _: () = assert!(
    SOLD_DEALS_MAX * (SOLD_DEAL_TEXT_MAX + SOLD_DEAL_NUMBERS_MAX) <= RECORD_BYTES_MAX / 2,
    "half a record is left for the configuration"
);

/// Limit of the bytes of an enrichment's name.
pub const ENRICHMENT_NAME_MAX: usize = 64;
/// Bytes of an enrichment in the record, with its longest name.
const ENRICHMENT_RECORD_MAX: usize = ENRICHMENT_NAME_MAX + 64;

/// Limit of rates: several times the currencies of ISO 4217.
const RATES_MAX: usize = 1024;

/// A generation that comes into force.
#[derive(Clone, Copy, Debug)]
pub struct GenerationInForce<'g> {
    /// Never used before on this node.
    pub number: u64,
    /// Start, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// Its rules.
    pub market: &'g Market,
    /// Value of one unit of each currency in the base currency, as the decimal text of the rates.
    pub rates: &'g [(Currency, &'g str)],
    /// The configuration file, secrets masked.
    pub toml: &'g [u8],
    /// Number of the catalogue of campaigns and seat accounts; 0 without a catalogue.
    pub campaigns: u64,
}

/// Why a generation cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnrecordableGeneration {
    /// The text of a currency's rate differs from the market's rate.
    #[error("the rate of {0} is not the one in force")]
    Rate(Currency),
    /// Too long even without the file.
    #[error(
        "{0} bytes are more than a record holds: configure fewer publishers, deals or seats, or sell fewer deals"
    )]
    TooLong(usize),
}

/// The configuration by which auctions of one generation were cleared.
#[derive(Clone, Debug)]
pub struct GenerationRecord {
    /// Its number.
    pub number: u64,
    /// Start, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// Currency of revenue.
    pub base: Currency,
    /// Exchange rates.
    pub rates: Rates,
    /// Added to a second price.
    pub increment: Price,
    /// Whether deals without a priority came before open bids.
    pub deals_first: bool,
    /// Whether bids without `crid` were refused.
    pub creative_id_required: bool,
    /// DSPs, in market order.
    pub dsps: Vec<DspRecord>,
    /// Terms of publishers, without permission to explain tests.
    pub publishers: Publishers,
    /// Terms of deals.
    pub deals: HashMap<Box<str>, DealTerms>,
    /// Sold deals, to which deals of auctions refer by position.
    pub sold: Vec<SoldDeal>,
    /// The configuration file, secrets masked. None if it was too long.
    pub toml: Option<Vec<u8>>,
    /// Number of the catalogue of campaigns and seat accounts; 0 without a catalogue.
    pub campaigns: u64,
    /// Data added to requests, to which auctions refer by position.
    pub enrichments: Vec<EnrichmentRecord>,
}

/// Data added to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrichmentRecord {
    /// Its name.
    pub name: Box<str>,
    /// The value of the request that it is about.
    pub value: Box<str>,
    /// Where it is added.
    pub place: Box<str>,
    /// Whether an auction without it is not held.
    pub is_required: bool,
}

/// A DSP, to which auctions refer by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DspRecord {
    /// Its id.
    pub id: Box<str>,
    /// Its seats, the default first.
    pub seats: Vec<Box<str>>,
    /// Currencies in which it may bid.
    pub currencies: Vec<Currency>,
    /// Longest wait for its answer.
    pub timeout: Duration,
}

/// Appends the record of a generation to `out`, without the file if that does not fit.
///
/// # Errors
/// If its auctions could not be replayed; nothing is written then.
pub fn encode_generation(
    generation: &GenerationInForce<'_>,
    out: &mut Vec<u8>,
) -> Result<(), UnrecordableGeneration> {
    check_rates(generation)?;
    let GenerationInForce { number, since_unix_ms, market, rates, toml, campaigns } = *generation;
    use fields::generation as field;
    let mut record = MessageWriter::new(out);
    record.uint(field::VERSION, VERSION.into());
    record.uint(field::NUMBER, number);
    record.uint(field::SINCE_UNIX_MS, since_unix_ms);
    record.text(field::BASE_CURRENCY, market.currency.code());
    for (currency, worth) in rates {
        record.message(field::RATES, |out| {
            out.text(fields::rate::CURRENCY, currency.code());
            out.text(fields::rate::WORTH, worth);
        });
    }
    record.message(field::INCREMENT, |out| write_price(out, market.increment));
    record.flag(field::DEALS_FIRST, market.deals_first);
    record.flag(field::CREATIVE_ID_REQUIRED, market.creative_id_required);
    for dsp in &market.dsps {
        record.message(field::DSPS, |out| write_dsp(out, dsp));
    }
    // Sorted by id, so that equal configurations have equal bytes.
    let mut named: Vec<_> = market.publishers.named.iter().collect();
    named.sort_unstable_by_key(|(id, _)| *id);
    for (id, terms) in named {
        record.message(field::PUBLISHERS, |out| write_publisher(out, id, terms));
    }
    let others = &market.publishers.others;
    record.message(field::OTHERS, |out| write_publisher(out, "", others));
    let mut deals: Vec<_> = market.deals.iter().collect();
    deals.sort_unstable_by_key(|(id, _)| *id);
    for (id, terms) in deals {
        record.message(field::DEALS, |out| write_deal(out, id, terms));
    }
    // They follow the file, whose room depends on them.
    let sold_len: usize = market.sold.iter().map(sold_len_max).sum();
    let enrichments_len = market.enrichments.len() * ENRICHMENT_RECORD_MAX;
    let len = record.len() + sold_len + enrichments_len + MARGIN;
    if len > RECORD_BYTES_MAX {
        record.truncate(0);
        return Err(UnrecordableGeneration::TooLong(len));
    }
    record
        .present_bytes(field::TOML, Some(toml).filter(|toml| len + toml.len() <= RECORD_BYTES_MAX));
    record.uint(field::CAMPAIGNS, campaigns);
    for sold in market.sold.iter() {
        record.message(field::SOLD, |out| write_sold(out, sold));
    }
    for enrichment in &market.enrichments {
        record.message(field::ENRICHMENTS, |out| write_enrichment(out, enrichment));
    }
    record.finish();
    Ok(())
}

fn check_rates(generation: &GenerationInForce<'_>) -> Result<(), UnrecordableGeneration> {
    let GenerationInForce { market, rates, .. } = *generation;
    let base = market.currency;
    let of_dsps = market.dsps.iter().flat_map(|dsp| &dsp.currencies).copied();
    let needed = of_dsps.chain([market.increment.currency]).filter(|currency| *currency != base);
    for currency in rates.iter().map(|(currency, _)| *currency).chain(needed) {
        let recorded =
            rates.iter().find(|(recorded, _)| *recorded == currency).map(|(_, worth)| worth);
        let recorded = recorded.and_then(|worth| Ratio::parse(worth));
        let is_base = currency == base;
        if is_base || recorded != market.rates.ratio(currency, base) {
            return Err(UnrecordableGeneration::Rate(currency));
        }
    }
    Ok(())
}

fn write_price(out: &mut MessageWriter<'_>, price: Price) {
    out.uint(fields::price::MICROS, price.amount.micros());
    out.text(fields::price::CURRENCY, price.currency.code());
}

fn write_dsp(out: &mut MessageWriter<'_>, dsp: &Dsp) {
    use fields::dsp as field;
    out.text(field::ID, &dsp.id);
    for seat in dsp.seats.iter() {
        out.present_text(field::SEATS, Some(seat));
    }
    for currency in &dsp.currencies {
        out.text(field::CURRENCIES, currency.code());
    }
    let timeout = u32::try_from(dsp.timeout.as_millis()).unwrap_or(u32::MAX);
    out.uint(field::TIMEOUT_MS, timeout.into());
}

fn write_publisher(out: &mut MessageWriter<'_>, id: &str, terms: &PublisherTerms) {
    use fields::publisher as field;
    out.text(field::ID, id);
    out.flag(field::IS_BLOCKED, terms.blocked);
    out.uint(field::FEE_PPM, terms.fee.get().into());
    out.uint(field::NOTICES, terms.notices.number());
    out.uint(field::BIDS_RETURNED, terms.bids.number());
}

fn write_deal(out: &mut MessageWriter<'_>, id: &str, terms: &DealTerms) {
    use fields::deal_terms as field;
    out.text(field::ID, id);
    out.packed(field::DSPS, terms.dsps.iter().map(|dsp| *dsp as u64));
    out.present_uint(field::FEE_PPM, terms.fee.map(|fee| fee.get().into()));
    out.uint(field::DISCOUNT_PPM, terms.discount.get().into());
    out.present_uint(field::PRIORITY, terms.priority.map(u64::from));
}

fn write_enrichment(out: &mut MessageWriter<'_>, enrichment: &Enrichment) {
    use fields::enrichment as field;
    out.text(field::NAME, &enrichment.name);
    out.text(field::VALUE, enrichment.value.label());
    out.text(field::PLACE, enrichment.place.label());
    out.flag(field::IS_REQUIRED, enrichment.is_required);
}

/// Most bytes of a sold deal in the record.
const fn sold_len_max(sold: &SoldDeal) -> usize {
    sold.text_len() + SOLD_DEAL_NUMBERS_MAX
}

fn write_sold(out: &mut MessageWriter<'_>, sold: &SoldDeal) {
    use fields::sold_deal as field;
    out.text(field::NAME, &sold.name);
    out.text(field::ID, &sold.id);
    out.position(field::DSP, sold.dsp);
    out.text(field::SEAT, &sold.seat);
    out.message(field::PRICE, |out| write_price(out, sold.price));
    out.present_text(field::PUBLISHER, sold.publisher.as_deref());
    out.uint(field::STARTS_UNIX_MS, sold.starts_ms);
    out.uint(field::ENDS_UNIX_MS, sold.ends_ms);
    out.uint(field::PRIORITY, sold.priority.into());
}

impl GenerationRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// If it is malformed or of an unknown version.
    pub fn decode(record: &[u8]) -> Result<Self, MalformedRecord> {
        use fields::generation as number;
        let mut reader = MessageReader::of_record(record)?;
        check_version(reader.take(number::VERSION, Varint::uint)?.unwrap_or(0))?;
        let number = reader.take(number::NUMBER, Varint::uint)?.unwrap_or(0);
        let since_unix_ms = reader.take(number::SINCE_UNIX_MS, Varint::uint)?.unwrap_or(0);
        let base = reader.take(number::BASE_CURRENCY, currency)?;
        let base = base.ok_or(MalformedRecord::Value(number::BASE_CURRENCY))?;
        let worth = list(&mut reader, number::RATES, RATES_MAX, read_rate)?;
        let increment = reader.take(number::INCREMENT, read_price)?;
        let mut generation = Self {
            number,
            since_unix_ms,
            base,
            rates: Rates::new(worth.into_iter().chain([(base, Ratio::ONE)])),
            increment: increment.ok_or(MalformedRecord::Value(number::INCREMENT))?,
            deals_first: reader.take(number::DEALS_FIRST, Varint::flag)?.unwrap_or(false),
            creative_id_required: reader
                .take(number::CREATIVE_ID_REQUIRED, Varint::flag)?
                .unwrap_or(false),
            dsps: list(&mut reader, number::DSPS, DSPS_MAX, read_dsp)?,
            publishers: Publishers::default(),
            deals: HashMap::new(),
            sold: Vec::new(),
            toml: None,
            campaigns: 0,
            enrichments: Vec::new(),
        };
        reader.each(number::PUBLISHERS, |field| {
            let (id, terms) = read_publisher(field)?;
            generation.publishers.named.insert(id.into(), terms);
            Ok::<_, MalformedRecord>(())
        })?;
        if let Some((_, terms)) = reader.take(number::OTHERS, read_publisher)? {
            generation.publishers.others = terms;
        }
        reader.each(number::DEALS, |field| {
            let (id, terms) = read_deal(field)?;
            generation.deals.insert(id.into(), terms);
            Ok::<_, MalformedRecord>(())
        })?;
        generation.toml = reader.take(number::TOML, Bytes::bytes)?.map(<[u8]>::to_vec);
        generation.campaigns = reader.take(number::CAMPAIGNS, Varint::uint)?.unwrap_or(0);
        generation.sold = list(&mut reader, number::SOLD, SOLD_DEALS_MAX, read_sold)?;
        generation.enrichments =
            list(&mut reader, number::ENRICHMENTS, ENRICHMENTS_MAX, read_enrichment)?;
        reader.finish()?;
        Ok(generation)
    }
}

fn list<'b, T>(
    reader: &mut MessageReader<'b>,
    number: u32,
    max: usize,
    read: impl Fn(Bytes<'b>) -> Result<T, MalformedRecord>,
) -> Result<Vec<T>, MalformedRecord> {
    let mut elements = Vec::new();
    reader.each(number, |field| {
        if elements.len() == max {
            return Err(MalformedRecord::TooMany(number));
        }
        elements.push(read(field)?);
        Ok(())
    })?;
    Ok(elements)
}

fn read_rate(field: Bytes<'_>) -> Result<(Currency, Ratio), MalformedRecord> {
    use fields::rate as number;
    let mut reader = field.message()?;
    let currency = reader.take(number::CURRENCY, currency)?;
    let worth = reader.take(number::WORTH, |field: Bytes<'_>| field.parsed(Ratio::parse))?;
    reader.finish()?;
    currency.zip(worth).ok_or(MalformedRecord::Value(number::CURRENCY))
}

fn read_price(field: Bytes<'_>) -> Result<Price, MalformedRecord> {
    use fields::price as number;
    let mut reader = field.message()?;
    let amount = reader.take(number::MICROS, cpm)?.unwrap_or(Cpm::ZERO);
    let currency = reader.take(number::CURRENCY, currency)?;
    reader.finish()?;
    Ok(Price { amount, currency: currency.ok_or(MalformedRecord::Value(number::CURRENCY))? })
}

fn read_dsp(field: Bytes<'_>) -> Result<DspRecord, MalformedRecord> {
    use fields::dsp as number;
    let mut reader = field.message()?;
    let id = reader.take(number::ID, Bytes::text)?.unwrap_or("").into();
    let (mut seats, mut currencies) = (Vec::new(), Vec::new());
    reader.each(number::SEATS, |field: Bytes<'_>| {
        seats.push(field.text()?.into());
        Ok::<_, MalformedRecord>(())
    })?;
    reader.each(number::CURRENCIES, |field| {
        currencies.push(currency(field)?);
        Ok::<_, MalformedRecord>(())
    })?;
    let timeout_ms = reader.take(number::TIMEOUT_MS, Varint::uint32)?.unwrap_or(0);
    reader.finish()?;
    Ok(DspRecord { id, seats, currencies, timeout: Duration::from_millis(timeout_ms.into()) })
}

fn read_publisher(field: Bytes<'_>) -> Result<(&str, PublisherTerms), MalformedRecord> {
    use fields::publisher as number;
    let mut reader = field.message()?;
    let id = reader.take(number::ID, Bytes::text)?.unwrap_or("");
    let terms = PublisherTerms {
        blocked: reader.take(number::IS_BLOCKED, Varint::flag)?.unwrap_or(false),
        fee: reader.take(number::FEE_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        notices: code(&mut reader, number::NOTICES)?,
        bids: code(&mut reader, number::BIDS_RETURNED)?,
        debug: false,
    };
    reader.finish()?;
    Ok((id, terms))
}

fn read_deal(field: Bytes<'_>) -> Result<(&str, DealTerms), MalformedRecord> {
    use fields::deal_terms as number;
    let mut reader = field.message()?;
    let id = reader.take(number::ID, Bytes::text)?.unwrap_or("");
    let dsps = |field: Bytes<'_>| {
        let mut dsps = Vec::new();
        field.packed(|dsp| {
            dsps.push(dsp as usize);
            Ok(())
        })?;
        Ok(dsps)
    };
    let terms = DealTerms {
        dsps: reader.take(number::DSPS, dsps)?.unwrap_or_default(),
        fee: reader.take(number::FEE_PPM, ppm)?,
        discount: reader.take(number::DISCOUNT_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        priority: reader.take(number::PRIORITY, class)?,
    };
    reader.finish()?;
    Ok((id, terms))
}

fn read_sold(field: Bytes<'_>) -> Result<SoldDeal, MalformedRecord> {
    use fields::sold_deal as number;
    let mut reader = field.message()?;
    let sold = SoldDeal {
        name: reader.take(number::NAME, Bytes::text)?.unwrap_or("").into(),
        id: reader.take(number::ID, Bytes::text)?.unwrap_or("").into(),
        dsp: reader.take(number::DSP, Varint::position)?.unwrap_or(0),
        seat: reader.take(number::SEAT, Bytes::text)?.unwrap_or("").into(),
        price: reader
            .take(number::PRICE, read_price)?
            .ok_or(MalformedRecord::Value(number::PRICE))?,
        publisher: reader.take(number::PUBLISHER, Bytes::text)?.map(Box::from),
        starts_ms: reader.take(number::STARTS_UNIX_MS, Varint::uint)?.unwrap_or(0),
        ends_ms: reader.take(number::ENDS_UNIX_MS, Varint::uint)?.unwrap_or(0),
        priority: reader.take(number::PRIORITY, class)?.unwrap_or(0),
    };
    reader.finish()?;
    Ok(sold)
}

fn read_enrichment(field: Bytes<'_>) -> Result<EnrichmentRecord, MalformedRecord> {
    use fields::enrichment as number;
    let mut reader = field.message()?;
    let mut text = |number| Ok(reader.take(number, Bytes::text)?.unwrap_or("").into());
    let (name, value, place) = (text(number::NAME)?, text(number::VALUE)?, text(number::PLACE)?);
    let is_required = reader.take(number::IS_REQUIRED, Varint::flag)?.unwrap_or(false);
    reader.finish()?;
    Ok(EnrichmentRecord { name, value, place, is_required })
}

fn class(field: Varint) -> Result<u8, MalformedRecord> {
    field.known(|class| u8::try_from(class).ok())
}
