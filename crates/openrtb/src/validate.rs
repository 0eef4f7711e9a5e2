//! What makes a bid request invalid. Order: body, request, then each impression in turn.

use units::{Currency, Multiplier};

use crate::fields;
use crate::imp::{DEALS_MAX, DURFLOORS_MAX, Deal, FORMATS_MAX, Format, IMPS_MAX, Imp, LIST_MAX};
use crate::invalid::{InvalidReason, InvalidRequest};
use crate::json::Text;
use crate::json::{self, shown};
use crate::request::BidRequest;

/// Most codes in one list of an impression: attributes, ad types, protocols, API frameworks and
/// required durations.
pub const CODES_MAX: usize = 64;

/// Most bytes of non-ASCII advertiser domains in one request: converting them to ASCII takes far
/// longer than comparing them.
pub const IDN_BYTES_MAX: usize = 32_768;

/// Most seats in the `wseat` of all deals of one request: every DSP is looked up in all of them.
pub const DEAL_SEATS_MAX: usize = 2048;

/// Parses and checks a bid request. What it returns borrows from `body`.
pub fn parse_request(body: &str) -> Result<BidRequest<'_>, InvalidRequest> {
    let mut request: BidRequest<'_> = json::parse_of_any_depth(body)?;
    // Parsers accept an array for an object; edits need an object.
    request.fields = fields::scan_fields(body)?;
    check_request(&request)?;
    let mut deals = 0;
    for (index, imp) in request.imps().iter().enumerate() {
        check_imp(imp, &|key| format!("imp[{index}]{key}"))?;
        let id = imp.id.as_deref();
        if request.imps()[..index].iter().any(|earlier| earlier.id.as_deref() == id) {
            let problem = format!("`{}` stands twice", id.map_or("", |id| shown(id)));
            return Err(InvalidRequest::at(
                InvalidReason::Duplicate,
                format!("imp[{index}].id"),
                problem,
            ));
        }
        deals += imp.deals().len();
    }
    check_domains(&request)?;
    if deals > DEALS_MAX {
        let problem = format!("more than {DEALS_MAX} deals in one request");
        return Err(InvalidRequest::at(InvalidReason::TooMany, "imp", problem));
    }
    let deals = request.imps().iter().flat_map(|imp| imp.deals());
    let seats = deals.map(|deal| deal.wseat.as_ref().map_or(0, Vec::len));
    if seats.sum::<usize>() > DEAL_SEATS_MAX {
        let problem = format!("more than {DEAL_SEATS_MAX} seats in the `wseat` of all deals");
        return Err(InvalidRequest::at(InvalidReason::TooMany, "imp", problem));
    }
    Ok(request)
}

fn check_request(request: &BidRequest<'_>) -> Result<(), InvalidRequest> {
    required(request.id.as_deref(), || "id".to_owned())?;
    match request.imps().len() {
        0 => {
            return Err(InvalidRequest::at(
                InvalidReason::Missing,
                "imp",
                "required: at least one impression",
            ));
        }
        1..=IMPS_MAX => (),
        _ => {
            let problem = format!("more than {IMPS_MAX} impressions");
            return Err(InvalidRequest::at(InvalidReason::TooMany, "imp", problem));
        }
    }
    let channels = [request.site.is_some(), request.app.is_some(), request.dooh.is_some()];
    if channels.into_iter().filter(|present| *present).count() > 1 {
        let problem = "only one of `site`, `app` and `dooh` may stand in a request";
        return Err(InvalidRequest::at(InvalidReason::SeveralChannels, "", problem));
    }
    let lists = [
        ("wseat", &request.wseat),
        ("bseat", &request.bseat),
        ("wlang", &request.wlang),
        ("wlangb", &request.wlangb),
        ("acat", &request.acat),
        ("bcat", &request.bcat),
        ("badv", &request.badv),
        ("bapp", &request.bapp),
    ];
    for (key, list) in lists {
        check_length(list.as_deref(), LIST_MAX, || key.to_owned())?;
    }
    check_length(request.cur.as_ref().map(|cur| cur.as_slice()), LIST_MAX, || "cur".to_owned())?;
    if let Some(at) = request.at.filter(|at| !(1..=2).contains(at)) {
        let problem =
            format!("auction type {at} is not offered; 1 (first price) and 2 (second) are");
        return Err(InvalidRequest::at(InvalidReason::Unsupported, "at", problem));
    }
    for (index, code) in request.cur.iter().flat_map(|cur| cur.iter()).enumerate() {
        check_currency(Some(code), || format!("cur[{index}]"))?;
    }
    Ok(())
}

/// Every domain is read once per auction, in whichever list.
fn check_domains(request: &BidRequest<'_>) -> Result<(), InvalidRequest> {
    let deals = request.imps().iter().flat_map(|imp| imp.deals());
    let domains = request.badv.iter().chain(deals.filter_map(|deal| deal.wadomain.as_ref()));
    let beyond = domains.flatten().filter(|domain| !domain.is_ascii());
    if beyond.map(|domain| domain.len()).sum::<usize>() > IDN_BYTES_MAX {
        let problem = format!(
            "more than {IDN_BYTES_MAX} bytes of domains that are not ASCII: write them as `xn--`"
        );
        return Err(InvalidRequest::at(InvalidReason::TooMany, "badv", problem));
    }
    Ok(())
}

fn check_imp(imp: &Imp<'_>, path: &dyn Fn(&str) -> String) -> Result<(), InvalidRequest> {
    required(imp.id.as_deref(), || path(".id"))?;
    if imp.formats() == 0 {
        let problem = "offers no format: one of `banner`, `video`, `audio`, `native` is required";
        return Err(InvalidRequest::at(InvalidReason::NoFormat, path(""), problem));
    }
    let format = imp.banner.as_ref().and_then(|banner| banner.format.as_deref());
    check_length(format, FORMATS_MAX, || path(".banner.format"))?;
    let is_size = |size: &Format| size.w.zip(size.h).or(size.wratio.zip(size.hratio)).is_some();
    if let Some(index) = format.unwrap_or_default().iter().position(|size| !is_size(size)) {
        let problem = "is no size: `w` and `h`, or `wratio` and `hratio`, are required";
        return Err(InvalidRequest::at(
            InvalidReason::NoFormat,
            path(&format!(".banner.format[{index}]")),
            problem,
        ));
    }
    check_codes(imp, path)?;
    let mimes = [
        (".video.mimes", imp.video.as_ref().map(|video| video.mimes.as_deref())),
        (".audio.mimes", imp.audio.as_ref().map(|audio| audio.mimes.as_deref())),
    ];
    for (key, mimes) in mimes {
        if let Some(None | Some([])) = mimes {
            let problem = "required: at least one MIME type";
            return Err(InvalidRequest::at(InvalidReason::NoFormat, path(key), problem));
        }
        check_length(mimes.flatten(), LIST_MAX, || path(key))?;
    }
    if let Some(native) = &imp.native {
        required(native.request.as_ref(), || path(".native.request"))?;
        if native.request.as_deref().is_some_and(|request| !json::is_json(request)) {
            let problem = "is not JSON: a JSON-encoded Native Ads request is required";
            return Err(InvalidRequest::at(
                InvalidReason::NotJson,
                path(".native.request"),
                problem,
            ));
        }
    }
    check_currency(imp.bidfloorcur.as_ref(), || path(".bidfloorcur"))?;
    check_quantity(imp, path)?;
    for (index, deal) in imp.deals().iter().enumerate() {
        check_deal(deal, &|key| path(&format!(".pmp.deals[{index}]{key}")))?;
        if imp.deals()[..index].iter().any(|earlier| earlier.id == deal.id) {
            let problem = "a deal with this id stands earlier in the impression";
            let path = path(&format!(".pmp.deals[{index}].id"));
            return Err(InvalidRequest::at(InvalidReason::Duplicate, path, problem));
        }
    }
    Ok(())
}

/// Every bid is compared with these lists.
fn check_codes(imp: &Imp<'_>, path: &dyn Fn(&str) -> String) -> Result<(), InvalidRequest> {
    let (banner, native) = (imp.banner.as_ref(), imp.native.as_ref());
    for (key, codes) in [
        (".banner.btype", banner.and_then(|banner| banner.btype.as_deref())),
        (".banner.battr", banner.and_then(|banner| banner.battr.as_deref())),
        (".banner.api", banner.and_then(|banner| banner.api.as_deref())),
        (".native.battr", native.and_then(|native| native.battr.as_deref())),
        (".native.api", native.and_then(|native| native.api.as_deref())),
    ] {
        check_length(codes, CODES_MAX, || path(key))?;
    }
    for (of, media) in [(".video", &imp.video), (".audio", &imp.audio)] {
        let Some(media) = media else { continue };
        for (key, codes) in [
            ("battr", media.battr.as_deref()),
            ("api", media.api.as_deref()),
            ("protocols", media.protocols.as_deref()),
            ("rqddurs", media.rqddurs.as_deref()),
        ] {
            check_length(codes, CODES_MAX, || path(&format!("{of}.{key}")))?;
        }
        let durfloors = media.durfloors.as_deref();
        check_length(durfloors, DURFLOORS_MAX, || path(&format!("{of}.durfloors")))?;
    }
    Ok(())
}

fn check_quantity(imp: &Imp<'_>, path: &dyn Fn(&str) -> String) -> Result<(), InvalidRequest> {
    let Some(qty) = &imp.qty else { return Ok(()) };
    let Some(multiplier) = &qty.multiplier else {
        return Err(InvalidRequest::at(
            InvalidReason::Missing,
            path(".qty.multiplier"),
            "required",
        ));
    };
    if Multiplier::parse(multiplier.raw()).is_err() {
        let problem = format!(
            "`{}` is not a number above zero and at most {}",
            shown(multiplier.raw()),
            Multiplier::MAX
        );
        return Err(InvalidRequest::at(InvalidReason::WrongType, path(".qty.multiplier"), problem));
    }
    Ok(())
}

fn check_deal(deal: &Deal<'_>, path: &dyn Fn(&str) -> String) -> Result<(), InvalidRequest> {
    required(deal.id.as_ref(), || path(".id"))?;
    check_currency(deal.bidfloorcur.as_ref(), || path(".bidfloorcur"))?;
    check_length(deal.wadomain.as_deref(), LIST_MAX, || path(".wadomain"))?;
    check_length(deal.durfloors.as_deref(), DURFLOORS_MAX, || path(".durfloors"))?;
    match deal.at {
        None | Some(1 | 2) => Ok(()),
        Some(3) if deal.bidfloor.is_some() => Ok(()),
        Some(3) => {
            let problem = "required with `at` 3, where it is the agreed price";
            Err(InvalidRequest::at(InvalidReason::Missing, path(".bidfloor"), problem))
        }
        Some(at) => {
            let problem = format!("auction type {at} is not offered to deals; 1, 2 and 3 are");
            Err(InvalidRequest::at(InvalidReason::Unsupported, path(".at"), problem))
        }
    }
}

/// Every list costs time for each bid or auction, so a list longer than any real one is refused.
fn check_length<T>(
    list: Option<&[T]>,
    max: usize,
    path: impl Fn() -> String,
) -> Result<(), InvalidRequest> {
    match list {
        Some(list) if list.len() > max => Err(InvalidRequest::at(
            InvalidReason::TooMany,
            path(),
            format!("more than {max} entries"),
        )),
        _ => Ok(()),
    }
}

fn required(text: Option<&Text<'_>>, path: impl Fn() -> String) -> Result<(), InvalidRequest> {
    match text.map(|text| &**text) {
        None => Err(InvalidRequest::at(InvalidReason::Missing, path(), "required")),
        Some("") => {
            Err(InvalidRequest::at(InvalidReason::Missing, path(), "required: it is empty"))
        }
        Some(_) => Ok(()),
    }
}

fn check_currency(
    code: Option<&Text<'_>>,
    path: impl Fn() -> String,
) -> Result<(), InvalidRequest> {
    match code {
        Some(code) if Currency::parse(code).is_none() => {
            let problem = format!("`{}` is not an ISO 4217 code such as `USD`", shown(code));
            Err(InvalidRequest::at(InvalidReason::WrongType, path(), problem))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
