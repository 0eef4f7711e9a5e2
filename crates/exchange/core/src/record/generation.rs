//! One generation of the configuration, as far as auctions are cleared by it: written when it comes
//! in force, and read by whoever holds its auctions again.

use std::collections::HashMap;
use std::time::Duration;

use events::{Field, Malformed, RECORD_BYTES_MAX, Reader, VERSION, Writer, check_version, fields};
use units::{Cpm, Currency, Ppm, Price, Ratio};

use crate::record::codes::Coded;
use crate::record::decode::DSPS_MAX;
use crate::record::elements::{cpm, ppm};
use crate::{BidsReturned, DealTerms, Dsp, Market, NoticeMode, PublisherTerms, Publishers, Rates};

/// Room for what ends a record, and for a key and a length.
const MARGIN: usize = 16;

/// Most rates in a record: several times the currencies of ISO 4217.
const RATES_MAX: usize = 1024;

/// A generation that comes in force.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'g> {
    /// Never used before on this node.
    pub number: u64,
    /// From when, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// Its rules.
    pub market: &'g Market,
    /// What one unit of each currency but the base is worth in that, as decimal text: what the
    /// market's rates were read from.
    pub rates: &'g [(Currency, &'g str)],
    /// The file, secrets masked.
    pub toml: &'g [u8],
}

/// Why a generation cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecordable {
    /// What is said of a currency is not what the market has.
    #[error("the rate of {0} is not the one in force")]
    Rate(Currency),
    /// Even without the file.
    #[error("{0} bytes are more than a record holds: configure fewer publishers, deals or seats")]
    TooLong(usize),
}

/// What auctions of one generation were cleared by.
#[derive(Clone, Debug)]
pub struct GenerationFacts {
    /// Which.
    pub number: u64,
    /// From when, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// In which revenue is counted.
    pub base: Currency,
    /// What currencies were worth.
    pub rates: Rates,
    /// What a second price adds.
    pub increment: Price,
    /// Whether deals without a priority came before open bids.
    pub deals_first: bool,
    /// Whether a bid without `crid` was refused.
    pub creative_id_required: bool,
    /// In market order.
    pub dsps: Vec<DspFacts>,
    /// What was agreed with publishers; whether tests may be explained is not recorded.
    pub publishers: Publishers,
    /// What was agreed about deals.
    pub deals: HashMap<Box<str>, DealTerms>,
    /// The file, secrets masked; `None` when it was too long.
    pub toml: Option<Vec<u8>>,
}

/// A DSP, as auctions name it by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DspFacts {
    /// Its id.
    pub id: Box<str>,
    /// Its seats, the default first.
    pub seats: Vec<Box<str>>,
    /// Currencies in which it may bid.
    pub currencies: Vec<Currency>,
    /// Longest wait for its answer.
    pub timeout: Duration,
}

/// Writes the record of a generation behind what `out` holds. The file is left out where it does not
/// fit.
///
/// # Errors
///
/// When its auctions could not be held again from it; nothing is written then.
pub fn encode_generation(generation: &InForce<'_>, out: &mut Vec<u8>) -> Result<(), Unrecordable> {
    check_rates(generation)?;
    let InForce { number, since_unix_ms, market, rates, toml } = *generation;
    use fields::generation as field;
    let mut record = Writer::new(out);
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
    record.message(field::INCREMENT, |out| {
        out.uint(fields::price::MICROS, market.increment.amount.micros());
        out.text(fields::price::CURRENCY, market.increment.currency.code());
    });
    record.flag(field::DEALS_FIRST, market.deals_first);
    record.flag(field::CREATIVE_ID_REQUIRED, market.creative_id_required);
    for dsp in &market.dsps {
        record.message(field::DSPS, |out| write_dsp(out, dsp));
    }
    // By id, so that the same configuration has the same bytes.
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
    let len = record.len() + MARGIN;
    if len > RECORD_BYTES_MAX {
        record.truncate(0);
        return Err(Unrecordable::TooLong(len));
    }
    record
        .present_bytes(field::TOML, Some(toml).filter(|toml| len + toml.len() <= RECORD_BYTES_MAX));
    record.finish();
    Ok(())
}

/// Whether `rates` say what the market's rates are, of every currency that it may need.
fn check_rates(generation: &InForce<'_>) -> Result<(), Unrecordable> {
    let InForce { market, rates, .. } = *generation;
    let base = market.currency;
    let of_dsps = market.dsps.iter().flat_map(|dsp| &dsp.currencies).copied();
    let needed = of_dsps.chain([market.increment.currency]).filter(|currency| *currency != base);
    for currency in rates.iter().map(|(currency, _)| *currency).chain(needed) {
        let told = rates.iter().find(|(told, _)| *told == currency).map(|(_, worth)| worth);
        let told = told.and_then(|worth| Ratio::parse(worth));
        let is_base = currency == base;
        if is_base || told != market.rates.ratio(currency, base) {
            return Err(Unrecordable::Rate(currency));
        }
    }
    Ok(())
}

fn write_dsp(out: &mut Writer<'_>, dsp: &Dsp) {
    use fields::dsp as field;
    out.text(field::ID, &dsp.id);
    for seat in &dsp.seats {
        out.present_text(field::SEATS, Some(seat));
    }
    for currency in &dsp.currencies {
        out.text(field::CURRENCIES, currency.code());
    }
    let timeout = u32::try_from(dsp.timeout.as_millis()).unwrap_or(u32::MAX);
    out.uint(field::TIMEOUT_MS, timeout.into());
}

fn write_publisher(out: &mut Writer<'_>, id: &str, terms: &PublisherTerms) {
    use fields::publisher as field;
    out.text(field::ID, id);
    out.flag(field::IS_BLOCKED, terms.blocked);
    out.uint(field::FEE_PPM, terms.fee.get().into());
    out.uint(field::NOTICES, terms.notices.number());
    out.uint(field::BIDS_RETURNED, terms.bids.number());
}

fn write_deal(out: &mut Writer<'_>, id: &str, terms: &DealTerms) {
    use fields::deal_terms as field;
    out.text(field::ID, id);
    out.packed(field::DSPS, terms.dsps.iter().map(|dsp| *dsp as u64));
    out.present_uint(field::FEE_PPM, terms.fee.map(|fee| fee.get().into()));
    out.uint(field::DISCOUNT_PPM, terms.discount.get().into());
    out.present_uint(field::PRIORITY, terms.priority.map(u64::from));
}

impl GenerationFacts {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// When it is none, or of a version that is not known.
    pub fn decode(record: &[u8]) -> Result<Self, Malformed> {
        use fields::generation as number;
        let mut reader = Reader::of_record(record)?;
        let (mut version, mut last) = (0, 0);
        let (mut base, mut worth, mut increment) = (None, Vec::new(), None);
        let mut facts = Self {
            number: 0,
            since_unix_ms: 0,
            base: Currency::USD,
            rates: Rates::default(),
            increment: Price { amount: Cpm::ZERO, currency: Currency::USD },
            deals_first: false,
            creative_id_required: false,
            dsps: Vec::new(),
            publishers: Publishers::default(),
            deals: HashMap::new(),
            toml: None,
        };
        while let Some(field) = reader.next_in_order(&mut last)? {
            match field.number {
                number::VERSION => version = field.uint()?,
                number::NUMBER => facts.number = field.uint()?,
                number::SINCE_UNIX_MS => facts.since_unix_ms = field.uint()?,
                number::BASE_CURRENCY => base = Some(field.parsed(Currency::parse)?),
                number::RATES if worth.len() == RATES_MAX => {
                    return Err(Malformed::TooMany(field.number));
                }
                number::RATES => worth.push(read_rate(field)?),
                number::INCREMENT => increment = Some(read_price(field)?),
                number::DEALS_FIRST => facts.deals_first = field.flag()?,
                number::CREATIVE_ID_REQUIRED => facts.creative_id_required = field.flag()?,
                number::DSPS if facts.dsps.len() == DSPS_MAX => {
                    return Err(Malformed::TooMany(field.number));
                }
                number::DSPS => facts.dsps.push(read_dsp(field)?),
                number::PUBLISHERS => {
                    let (id, terms) = read_publisher(field)?;
                    facts.publishers.named.insert(id.into(), terms);
                }
                number::OTHERS => facts.publishers.others = read_publisher(field)?.1,
                number::DEALS => {
                    let (id, terms) = read_deal(field)?;
                    facts.deals.insert(id.into(), terms);
                }
                number::TOML => facts.toml = Some(field.bytes()?.to_vec()),
                _ => (), // Of a later release, which says that it may be overlooked.
            }
        }
        check_version(version)?;
        facts.base = base.ok_or(Malformed::Value(number::BASE_CURRENCY))?;
        facts.increment = increment.ok_or(Malformed::Value(number::INCREMENT))?;
        facts.rates = Rates::new(worth.into_iter().chain([(facts.base, Ratio::ONE)]));
        Ok(facts)
    }
}

fn read_rate(field: Field<'_>) -> Result<(Currency, Ratio), Malformed> {
    use fields::rate as number;
    let (mut currency, mut worth) = (None, None);
    let mut reader = field.message()?;
    while let Some(field) = reader.next()? {
        match field.number {
            number::CURRENCY => currency = Some(field.parsed(Currency::parse)?),
            number::WORTH => worth = Some(field.parsed(Ratio::parse)?),
            _ => (),
        }
    }
    currency.zip(worth).ok_or(Malformed::Value(field.number))
}

fn read_price(field: Field<'_>) -> Result<Price, Malformed> {
    use fields::price as number;
    let (mut amount, mut currency) = (Cpm::ZERO, None);
    let mut reader = field.message()?;
    while let Some(field) = reader.next()? {
        match field.number {
            number::MICROS => amount = cpm(field)?,
            number::CURRENCY => currency = Some(field.parsed(Currency::parse)?),
            _ => (),
        }
    }
    let currency = currency.ok_or(Malformed::Value(field.number))?;
    Ok(Price { amount, currency })
}

fn read_dsp(field: Field<'_>) -> Result<DspFacts, Malformed> {
    use fields::dsp as number;
    let (mut id, mut seats, mut currencies, mut timeout_ms) = ("", Vec::new(), Vec::new(), 0);
    let mut reader = field.message()?;
    while let Some(field) = reader.next()? {
        match field.number {
            number::ID => id = field.text()?,
            number::SEATS => seats.push(field.text()?.into()),
            number::CURRENCIES => currencies.push(field.parsed(Currency::parse)?),
            number::TIMEOUT_MS => timeout_ms = field.uint32()?,
            _ => (),
        }
    }
    let timeout = Duration::from_millis(timeout_ms.into());
    Ok(DspFacts { id: id.into(), seats, currencies, timeout })
}

fn read_publisher(field: Field<'_>) -> Result<(&str, PublisherTerms), Malformed> {
    use fields::publisher as number;
    let (mut id, mut blocked, mut fee) = ("", false, Ppm::ZERO);
    let (mut notices, mut bids) = (None, None);
    let mut reader = field.message()?;
    while let Some(field) = reader.next()? {
        match field.number {
            number::ID => id = field.text()?,
            number::IS_BLOCKED => blocked = field.flag()?,
            number::FEE_PPM => fee = ppm(field)?,
            number::NOTICES => notices = Some(NoticeMode::read(field)?),
            number::BIDS_RETURNED => bids = Some(BidsReturned::read(field)?),
            _ => (),
        }
    }
    let (notices, bids) = notices.zip(bids).ok_or(Malformed::Value(field.number))?;
    Ok((id, PublisherTerms { blocked, fee, notices, bids, debug: false }))
}

fn read_deal(field: Field<'_>) -> Result<(&str, DealTerms), Malformed> {
    use fields::deal_terms as number;
    let (mut id, mut terms) = ("", DealTerms::default());
    let mut reader = field.message()?;
    while let Some(field) = reader.next()? {
        match field.number {
            number::ID => id = field.text()?,
            number::DSPS => field.packed(|dsp| {
                terms.dsps.push(dsp as usize);
                Ok(())
            })?,
            number::FEE_PPM => terms.fee = Some(ppm(field)?),
            number::DISCOUNT_PPM => terms.discount = ppm(field)?,
            number::PRIORITY => {
                terms.priority = Some(field.known(|class| u8::try_from(class).ok())?);
            }
            _ => (),
        }
    }
    Ok((id, terms))
}
