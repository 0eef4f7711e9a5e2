//! Every problem of the exchange's keys, word for word, and the effect of their values.

use exchange_core::campaigns::{ACCOUNTS_MAX, BiddingLimits};
use runtime::config::{Section, default_toml, describe, parse};

use super::dsp::OWN_HEADERS;
use super::*;
use exchange_core::{AdSize, EnrichmentLoad};

const DSP: &str = "[[dsp]]\nid = \"d\"\nurl = \"http://127.0.0.1:9001/bid\"\n";

fn problems_of(text: &str) -> Vec<String> {
    let problems = parse("vickrey.toml", text, ExchangeConfig::read).err();
    let lines = problems.iter().flat_map(|problems| problems.iter().map(ToString::to_string));
    lines.collect()
}

#[track_caller]
fn check(text: &str, want: &[&str]) {
    assert_eq!(problems_of(text), want, "{text}");
}

#[track_caller]
fn check_exchange(key: &str, want: &str) {
    check(&format!("[exchange]\n{key}"), &[&format!("line 2: exchange.{want}")]);
}

/// A key of the only `[[dsp]]`.
#[track_caller]
fn check_dsp(key: &str, want: &str) {
    check(&format!("[exchange]\n{DSP}{key}"), &[&format!("line 5: dsp[0].{want}")]);
}

const PACER: &str = "[exchange.pacer]\naddress = \"pacer:7100\"\nid = \"x\"\nsecret = \"s\"\n";

fn paced_seat(dsp: &str, seat: &str) -> String {
    format!(
        "[[exchange.pacer.seat]]\ndsp = {dsp:?}\nseat = {seat:?}\naccount = \"a\"\ncampaign = \"c\"\n"
    )
}

#[test]
fn problems_of_a_remote_pacer() {
    let with = |pacer: &str, seats: &str| {
        problems_of(&format!("[exchange]\n{pacer}{seats}{DSP}seats = [\"s\"]\n"))
    };
    let good = paced_seat("d", "s");
    assert_eq!(with(PACER, &good), [""; 0]);
    let check = |pacer: &str, seats: &str, want: &str| {
        let problems = with(pacer, seats);
        assert!(matches!(&problems[..], [only] if only.contains(want)), "{want}: {problems:?}");
    };
    check(PACER, "", "seat = …: the pacer pays for nobody: add an [[exchange.pacer.seat]]");
    check(PACER, &(good.clone() + &good), "seat: `d/s` is named twice: remove one");
    check(PACER, &paced_seat("d", "t"), "seat: `d/t` is the seat of no [[dsp]]: correct it");
    check(PACER, &paced_seat("e", "s"), "seat: `e/s` is the seat of no [[dsp]]: correct it");
    let at = |address: &str| PACER.replace("pacer:7100", address);
    for address in ["pacer", "pacer:0", ":7100", "pacer:70000"] {
        check(&at(address), &good, "must be a host and a port, for example \"pacer.example:7100\"");
    }
    let tls = |keys: &str| format!("{PACER}[exchange.pacer.tls]\n{keys}\n");
    assert_eq!(with(&tls(""), &good), [""; 0]);
    check(&tls("certificate = \"x\""), &good, "key: is needed too: `certificate` and `key` go");
    check(&tls("key = \"x\""), &good, "certificate: is needed too: `certificate` and `key` go");
}

#[test]
fn tracking_signals_of_a_dsp_replace_the_usual() {
    let dsp = |id: &str, more: &str| {
        format!("[[dsp]]\nid = \"{id}\"\nurl = \"http://127.0.0.1:9/\"\n{more}\n")
    };
    let signals = |exchange: &str| {
        let text = [
            exchange.to_owned(),
            dsp("a", ""),
            dsp("b", "[dsp.privacy]\nlmt = false"),
            dsp("c", "[dsp.privacy]\ndnt = true"),
        ];
        let config = parse("test.toml", &text.concat(), ExchangeConfig::read);
        let config = config.unwrap_or_else(|problems| panic!("{problems}")).expect("it is on");
        let of = |dsp: &exchange_core::Dsp| (dsp.privacy.lmt, dsp.privacy.dnt);
        config.market.dsps.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(signals("[exchange]\n"), [(true, false), (false, false), (true, true)]);
    let strict = "[exchange]\n[exchange.privacy]\nlmt = true\ndnt = true\n";
    assert_eq!(signals(strict), [(true, true), (false, true), (true, true)]);
    let lax = "[exchange]\n[exchange.privacy]\nlmt = false\n";
    assert_eq!(signals(lax), [(false, false), (false, false), (false, true)]);
}

#[test]
fn the_default_file_loads_clean() {
    let text = default_toml(&describe(ExchangeConfig::read));
    check(&text, &[]);
    let config = parse("default", &text, ExchangeConfig::read).unwrap().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert!(config.market.dsps.is_empty());
}

#[test]
fn nodes_are_told_apart() {
    let node =
        |id: &str, url: &str| format!("[[exchange.notices.node]]\nid = {id}\nurl = \"{url}\"\n");
    let of = |nodes: &str| {
        let url = "[exchange]\n[exchange.notices]\nurl = \"http://a/n/\"\n";
        format!("{url}{nodes}")
    };
    check(
        &of(&(node("1", "http://b/n/") + &node("2", "http://[::1]:80/n/"))),
        &[
            "line 9: exchange.notices.node[1].url = \"http://[::1]:80/n/\": must be an http or https URL that \
         ends with `/`, of letters, digits and `-._~:/`",
        ],
    );
    check(
        &of(&(node("1", "http://b/n/") + &node("1", "http://c/n/"))),
        &["line 8: exchange.notices.node[1].id = 1: is used twice; choose another id"],
    );
}

#[test]
fn without_its_section_the_service_is_off() {
    assert!(parse("vickrey.toml", DSP, ExchangeConfig::read).unwrap().is_none());
}

/// Anyone can name a publisher, so bids are explained only with a key.
#[test]
fn how_an_auction_went_is_told_under_a_key() {
    let with = |listen: &str, keys: &str| {
        format!("[exchange]\nlisten = \"{listen}\"\n[[publisher]]\nid = \"p\"\n{keys}")
    };
    check(&with("127.0.0.1:80", "debug = true"), &[]);
    let why = "line 5: publisher[0].debug = true: would tell anybody what DSPs bid: set `key` too";
    check(&with("0.0.0.0:80", "debug = true"), &[why]);
    check(&with("0.0.0.0:80", "debug = true\nkey = \"a-long-enough-key-of-32-characters\""), &[]);
}

#[test]
fn exchange() {
    check_exchange("tmax = \"1ms\"", "tmax = \"1ms\": unknown key, remove it");
    check_exchange("tmax_mx = \"9ms\"", "tmax_mx = \"9ms\": unknown key, did you mean `tmax_max`?");
    check_exchange(
        "tmax_max = \"19ms\"",
        "tmax_max = \"19ms\": leaves DSPs no time: answer_reserve, network_margin and \
         dsp_time_min need 20ms",
    );
    check("[exchange]\ntmax_max = \"20ms\"", &[]);
    check_exchange("fee = \"100%\"", "fee = \"100%\": leaves the publisher nothing, must be less");
    check("[exchange]\nfee = \"99.9999%\"", &[]);
    check_exchange(
        "increment = \"1 JPY\"",
        "increment = \"1 JPY\": has no exchange rate: add JPY to `currency.rates`",
    );
    check_exchange(
        "tie_key = \"00\"",
        "tie_key: must be 32 hexadecimal digits, for example from `openssl rand -hex 16`",
    );
    check_exchange(
        "[exchange.supply_chain]",
        "supply_chain.asi: is missing, expected text, for example \"exchange.example\"",
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    let text = "[exchange]\nfee = \"100%\"\ntie_key = \"x\"\n[[floor]]\nfloor = \"1 JPY\"\n";
    assert_eq!(problems_of(text).len(), 3);
}

#[test]
fn direct_campaigns_are_bounded() {
    let direct = |keys: &str| {
        let config =
            parse("vickrey.toml", &format!("[exchange.direct]\n{keys}"), ExchangeConfig::read);
        config.unwrap().unwrap().direct
    };
    let default = BiddingLimits { matches_max: 1000, bids_max: 2 };
    assert_eq!(direct(""), default);
    let most = BiddingLimits { matches_max: 1_000_000, bids_max: ACCOUNTS_MAX };
    assert_eq!(direct("matches_max = 1000000\nbids_max = 3"), most);
    let least = BiddingLimits { matches_max: 1, bids_max: 1 };
    assert_eq!(direct("matches_max = 1\nbids_max = 1"), least);
    check(
        "[exchange.direct]\nmatches_max = 0\nbids_max = 4",
        &[
            "line 2: exchange.direct.matches_max = 0: must be from 1 to 1000000",
            "line 3: exchange.direct.bids_max = 4: must be from 1 to 3",
        ],
    );
    check(
        "[exchange.house]\nbids_max = 3",
        &["line 1: exchange.house: is now called `direct`, rename it"],
    );
}

#[test]
fn dsps() {
    let twice = "line 6: dsp[1].id = \"d\": is used twice; choose another id";
    check(&format!("[exchange]\n{DSP}{DSP}"), &[twice]);
    let ours = "is the id of direct campaigns, choose another";
    let direct = "[[dsp]]\nid = \"direct\"\nurl = \"http://127.0.0.1:9/bid\"\n";
    check(direct, &[&format!("line 2: dsp[0].id = \"direct\": {ours}")]);
    check_dsp("seats = []", "seats = []: must name a seat, or be absent");
    check_dsp("seats = [\"s\", \"\"]", "seats[1] = \"\": must not be empty");
    check_dsp("currencies = []", "currencies = []: must name a currency, or be absent");
    let no_rate = "has no exchange rate: add JPY to `currency.rates`";
    check_dsp("currencies = [\"JPY\"]", &format!("currencies[0] = \"JPY\": {no_rate}"));
    check_dsp(
        "currencies = [\"usd\"]",
        "currencies[0] = \"usd\": is not an ISO 4217 code such as `USD`",
    );
    check_dsp(
        "formats = [\"pop\"]",
        "formats[0] = \"pop\": must be one of banner, video, audio, native",
    );
    check_dsp(
        "sizes = [\"300\"]",
        "sizes[0] = \"300\": must be width x height, for example \"300x250\"",
    );
    check_dsp(
        "countries = [\"de\"]",
        "countries[0] = \"de\": must be three capitals of ISO 3166-1 alpha-3, for example \"DEU\"",
    );
    check_dsp("publisher_blocked = []", {
        "publisher_blocked = []: unknown key, did you mean `publishers_blocked`?"
    });
}

#[test]
fn enrichments() {
    let one = |keys: &str| {
        let keys = format!("key = \"user\"\nfields = [\"user.a\"]\n{keys}");
        format!("[[exchange.enrich]]\nname = \"e\"\n{keys}\n")
    };
    let user = "value = \"user.id\"\ninto = \"user.data\"";
    let enrichment = |keys: &str| {
        let config = parse("vickrey.toml", &one(keys), ExchangeConfig::read);
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        config.expect("it is on").market.enrichments.remove(0)
    };
    let usual = enrichment(user);
    assert!(!usual.is_required && usual.is_personal());
    assert_eq!(usual.stale, Duration::from_secs(600));
    assert!(!enrichment("value = \"page\"\ninto = \"ext\"").is_personal());
    let hour = Duration::from_secs(3_600);
    let load = EnrichmentLoad { query: "user".into(), every: hour };
    assert_eq!(enrichment(&format!("{user}\nload = \"user\"")).load, Some(load));
    assert_eq!(usual.load, None);
    assert!(enrichment("value = \"city\"\ninto = \"user.data\"").is_personal());
    check(
        &one("value = \"user.id\"\ninto = \"ext\""),
        &[
            "line 6: exchange.enrich[0].into = \"ext\": must be user.data for a value of user.id: DSPs \
           that get no user get no data about the user either",
        ],
    );
    check(
        &one(user).replace("\"user.a\"", ""),
        &["line 4: exchange.enrich[0].fields = []: needs at least one field"],
    );
    check(
        &one(user).replace("\"user.a\"", "\"user.a\", \"page.a\""),
        &[
            "line 4: exchange.enrich[0].fields = [\"user.a\", \"page.a\"]: DSPs could not tell two fields of one name apart",
        ],
    );
    check(
        &one(user).replace("user.a", "user"),
        &["line 4: exchange.enrich[0].fields[0] = \"user\": needs the form \"key.attribute\""],
    );
    check(
        &one(user).replace("\"e\"", "\"a b\""),
        &[
            "line 2: exchange.enrich[0].name = \"a b\": needs 1 to 64 letters, digits, dots, hyphens and \
           underscores",
        ],
    );
    check(
        &one(user).repeat(2),
        &["line 8: exchange.enrich[1].name = \"e\": is used twice; choose another name"],
    );
    let many = |count: usize| {
        (0..count).map(|at| one(user).replace("\"e\"", &format!("\"e{at}\""))).collect::<String>()
    };
    check(&many(16), &[]);
    let over =
        "line 98: exchange.enrich[16].name = \"e16\": is one too many: an exchange has at most 16";
    check(&many(17), &[over]);
}

#[test]
fn headers_of_dsps() {
    let own = "is written by the exchange itself, remove it";
    for name in OWN_HEADERS {
        let upper = name.to_uppercase();
        check_dsp(&format!("headers = {{ {upper} = \"?\" }}"), &format!("headers.{upper}: {own}"));
    }
    check_dsp("headers = { \"a b\" = \"?\" }", "headers.\"a b\": `a b` is not a header name");
    check_dsp("headers = { a = \"x\\r\\nb: y\" }", "headers.a: is not a header value");
    check(&format!("[exchange]\n{DSP}headers = {{ x-api-key = \"secret\" }}"), &[]);
}

#[test]
fn terms() {
    let twice = "is used twice; choose another id";
    let publisher = "[[publisher]]\nid = \"p\"\n";
    check(
        &format!("{publisher}{publisher}"),
        &[&format!("line 4: publisher[1].id = \"p\": {twice}")],
    );
    check(
        &format!("{publisher}fee = \"100%\""),
        &["line 3: publisher[0].fee = \"100%\": leaves the publisher nothing, must be less"],
    );
    let deal = "[[deal]]\nid = \"x\"\n";
    check(&format!("{deal}{deal}"), &[&format!("line 4: deal[1].id = \"x\": {twice}")]);
    check(
        &format!("{deal}dsps = [\"e\"]"),
        &["line 3: deal[0].dsps = [\"e\"]: `e` is no configured DSP's id"],
    );
    check(&format!("{DSP}{deal}dsps = [\"d\"]"), &[]);
    check(&format!("{DSP}{deal}dsps = [\"direct\"]"), &[]);
    check(
        &format!("{deal}discount = \"100%\""),
        &["line 3: deal[0].discount = \"100%\": gives the impression away, must be less"],
    );
    check(
        "[[floor]]\nfloor = \"1 JPY\"",
        &["line 2: floor[0].floor = \"1 JPY\": has no exchange rate: add JPY to `currency.rates`"],
    );
    check("[currency]\nrates = { JPY = \"0.0064\" }\n[[floor]]\nfloor = \"1 JPY\"", &[]);
}

#[test]
fn floors_of_a_publisher_are_for_it_alone() {
    let text = "[exchange]\n[[floor]]\nfloor = \"0.1 USD\"\n[[publisher]]\nid = \"p\"\n\
                [[publisher.floor]]\nfloor = \"0.5 USD\"\nformat = \"video\"\n\
                [[publisher.floor]]\nfloor = \"0.2 USD\"\n[[publisher]]\nid = \"q\"\n";
    let config = parse("vickrey.toml", text, ExchangeConfig::read).unwrap().unwrap();
    let floors = config.market.floors.iter();
    let floors: Vec<_> =
        floors.map(|rule| (rule.publisher.as_deref(), rule.floor.to_string())).collect();
    let of = |publisher, floor: &str| (publisher, floor.to_owned());
    assert_eq!(floors, [of(None, "0.1 USD"), of(Some("p"), "0.5 USD"), of(Some("p"), "0.2 USD")]);
    check(
        "[[publisher]]\nid = \"p\"\n[[publisher.floor]]\nfloor = \"1 JPY\"",
        &["line 4: publisher[0].floor[0].floor = \"1 JPY\": has no exchange rate: add JPY to \
           `currency.rates`"],
    );
    check(
        "[[floor]]\nfloor = \"1 USD\"\npublisher = \"p\"",
        &["line 3: floor[0].publisher: unknown key, remove it"],
    );
}

#[test]
fn rates() {
    let check_rate = |entry: &str, want: &str| {
        check(&format!("[currency]\nrates = {{ {entry} }}"), &[want]);
    };
    check_rate(
        "euro = \"1\"",
        "line 2: currency.rates.euro = \"1\": `euro` is not an ISO 4217 code such as `EUR`",
    );
    let above_zero = "must be a decimal number above zero, for example \"1.08\"";
    for worth in ["0", "-1", "one", ""] {
        check_rate(
            &format!("EUR = \"{worth}\""),
            &format!("line 2: currency.rates.EUR = \"{worth}\": {above_zero}"),
        );
    }
    check_rate(
        "EUR = \"1.08000000001\"",
        "line 2: currency.rates.EUR = \"1.08000000001\": has more than 11 digits, round it",
    );
    let base = "must not name `base`, USD, which is worth 1";
    check("[currency]\nrates = { USD = \"2\" }", &[&format!("line 2: currency.rates: {base}")]);
}

#[test]
fn what_a_dsp_is_made_of() {
    let text = format!(
        "[exchange]\nfee = \"10%\"\n{DSP}sizes = [\"300x250\"]\nformats = [\"video\"]\n\
         [[publisher]]\nid = \"p\"\nblocked = true\n[[deal]]\nid = \"x\"\ndsps = [\"d\", \"direct\"]\n"
    );
    let read = |s: &mut Section<'_>| ExchangeConfig::read(s);
    let config = parse("vickrey.toml", &text, read).unwrap().unwrap();
    let market = &config.market;
    assert_eq!(&*market.dsps[0].seats[0], "d", "its id is its only seat");
    assert_eq!(market.dsps[0].sizes, [AdSize::new(300, 250)]);
    assert_eq!(market.dsps[0].currencies, [Currency::USD]);
    assert_eq!(market.deals["x"].dsps, [0, 1], "direct campaigns come last");
    let terms = market.publishers.terms(Some("p"));
    assert!(terms.blocked);
    assert_eq!(terms.fee, market.publishers.others.fee, "the exchange's own");
    let DspAddress { host, port, options: endpoint } = &config.endpoints[0];
    assert_eq!((host.as_str(), *port, endpoint.path.expose()), ("127.0.0.1", 9001, "/bid"));
    assert_eq!(endpoint.authority, "127.0.0.1:9001");
}

#[test]
fn bodies_are_drawn_by_their_share() {
    let masks = "[exchange]\n[exchange.bodies.masks]\ngeo = \"cut\"\ngeo_decimals = ";
    check(&format!("{masks}6"), &[]);
    assert_eq!(problems_of(&format!("{masks}7")).len(), 1);
    let text = "[exchange]\n[exchange.bodies]\nsample = \"100%\"";
    let bodies = parse("vickrey.toml", text, ExchangeConfig::read).unwrap().unwrap().bodies;
    assert!((0..100).all(|_| bodies.draws()));
    let half = BodiesConfig { sample: Ppm::new(500_000).unwrap(), ..bodies };
    let drawn = (0..1000).filter(|_| half.draws()).count();
    assert!((300..700).contains(&drawn), "{drawn}");
    assert!(!BodiesConfig::default().draws());
}
