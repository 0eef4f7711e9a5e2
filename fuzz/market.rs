//! A small market for fuzz targets: two DSPs, three currencies, a fee, rules and deals.

use exchange_core::Market;
use exchange_serve::ExchangeConfig;

const CONFIG: &str = r#"
[exchange]
fee = "12.5%"
deals_first = true
tie_key = "00112233445566778899aabbccddeeff"
[exchange.supply_chain]
asi = "exchange.example"
[currency]
base = "USD"
rates = { EUR = "1.08", JPY = "0.0064" }
[[publisher]]
id = "blocked"
blocked = true
[[deal]]
id = "ABC-1234-6789"
discount = "20%"
[[deal]]
id = "XY-Agency2-0001"
dsps = ["b"]
fee = "1%"
priority = 7
[[floor]]
format = "video"
floor = "1.00 EUR"
[[floor]]
size = "300x250"
floor = "0.10 USD"
[[dsp]]
id = "a"
url = "http://127.0.0.1:1/"
seats = ["512", "Agency1"]
currencies = ["USD", "EUR", "JPY"]
[[dsp]]
id = "b"
url = "http://127.0.0.1:1/"
seats = ["Agency2"]
sizes = ["300x250"]
"#;

/// The market.
pub fn market() -> Market {
    let config = runtime::config::parse("fuzz", CONFIG, ExchangeConfig::read);
    config.expect("the configuration is right").expect("the exchange is on").market
}
