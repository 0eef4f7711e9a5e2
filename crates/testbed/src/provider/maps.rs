//! The map of a farm whose providers all know the items of a group, and each something of its own.

use std::fmt::Write as _;

/// The map of providers at these URLs: `item group=g` asks all of them. `limits` are lines that each
/// provider has, such as `concurrency = 8`.
pub fn farm_map(urls: &[String], limits: &str) -> String {
    let mut map = "[[key]]\nname = \"item\"\n\n[[key]]\nname = \"group\"\n".to_owned();
    for (at, url) in urls.iter().enumerate() {
        write!(
            map,
            "\n[[provider]]\nname = \"p{at}\"\nurl = \"{url}\"\n{limits}\n\n\
             [[provider.call]]\nname = \"items\"\ngives = [\"item\"]\npath = \"/items\"\n\
             fields = {{ name = \"item.name\", size = \"item.size\", p{at} = \"item.p{at}\" }}\n\n\
             [[provider.call.parameter]]\nname = \"group\"\nkey = \"group\"\nrequired = true\n"
        )
        .expect("a string takes all");
    }
    map
}
