//! Creative attributes by number, and those blocked by a request, whose block list is read only
//! once.

use std::collections::HashMap;

use openrtb::{BidRequest, Text};

use super::index::Bits;
use crate::auction::domains::{normal_domain, suffixes};
use crate::auction::lists::RequestLists;
use crate::campaigns::creative::{AdMetadata, Creative};
use crate::creatives::rules::TAXONOMY_WITH_CHILDREN;

#[derive(Clone, Debug, Default)]
pub(in crate::campaigns) struct TextNumbers {
    of: HashMap<Box<str>, u32>,
}

impl TextNumbers {
    pub(in crate::campaigns) fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.of.get(text) {
            return *known;
        }
        let number = u32::try_from(self.of.len()).expect("texts fit their numbers");
        self.of.insert(text.into(), number);
        number
    }

    pub(in crate::campaigns) fn get(&self, text: &str) -> Option<u32> {
        self.of.get(text).copied()
    }

    pub(in crate::campaigns) fn len(&self) -> usize {
        self.of.len()
    }
}

#[derive(Clone, Debug, Default)]
struct NestedNumbers {
    numbers: TextNumbers,
    /// Without the texts themselves; most share a few wider ones.
    within: HashMap<Box<str>, Vec<u32>>,
}

impl NestedNumbers {
    fn number<'t>(&mut self, text: &str, wider: impl Iterator<Item = &'t str>) -> u32 {
        let known = self.numbers.len();
        let number = self.numbers.number(text);
        if number as usize == known {
            for wider in wider.filter(|wider| *wider != text) {
                match self.within.get_mut(wider) {
                    Some(within) => within.push(number),
                    None => drop(self.within.insert(wider.into(), vec![number])),
                }
            }
        }
        number
    }

    fn mark(&self, wider: &str, set: &mut Bits) {
        self.numbers.get(wider).into_iter().for_each(|number| set.set(number));
        let within = self.within.get(wider);
        within.into_iter().flatten().for_each(|number| set.set(*number));
    }
}

#[derive(Clone, Debug, Default)]
pub(in crate::campaigns) struct AdTerms {
    domains: NestedNumbers,
    categories: NestedNumbers,
    bundles: TextNumbers,
    languages: Vec<Box<str>>,
    /// Shared by creatives of a campaign with the same attributes.
    sets: Vec<AdAttributes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::campaigns) struct AdAttributes {
    pub(in crate::campaigns) domains: Box<[u32]>,
    categories: Box<[u32]>,
    taxonomy: u32,
    bundle: Option<u32>,
    language: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::campaigns) struct BlockedAttributes {
    domains: Bits,
    categories: Bits,
    lists_welcome: bool,
    categories_welcome: Bits,
    taxonomy: u32,
    bundles: Bits,
    languages: Bits,
}

impl AdTerms {
    pub(in crate::campaigns) fn add(&mut self, creative: &Creative) -> u32 {
        let attributes = self.numbered(&creative.metadata);
        if self.sets.last() != Some(&attributes) {
            self.sets.push(attributes);
        }
        u32::try_from(self.sets.len() - 1).expect("creatives fit their numbers")
    }

    pub(in crate::campaigns) fn attributes(&self, number: u32) -> &AdAttributes {
        &self.sets[number as usize]
    }

    /// Drops what is needed only for building.
    pub(in crate::campaigns) fn shrink_to_fit(&mut self) {
        self.sets.shrink_to_fit();
        for nested in [&mut self.domains, &mut self.categories] {
            nested.within.values_mut().for_each(Vec::shrink_to_fit);
        }
    }

    fn numbered(&mut self, metadata: &AdMetadata) -> AdAttributes {
        let mut domain = |domain: &str| {
            let domain = normal_domain(domain);
            self.domains.number(&domain, suffixes(&domain))
        };
        let domains = metadata.domains.iter().map(|text| domain(text)).collect();
        let mut category = |category: &str| self.categories.number(category, prefixes(category));
        let categories = metadata.categories.iter().map(|text| category(text)).collect();
        let bundle = metadata.bundle.as_ref().map(|bundle| self.bundles.number(bundle.trim()));
        let language = metadata.language.as_ref().map(|language| {
            let known = self.languages.iter().position(|known| known == language);
            let at = known.unwrap_or_else(|| {
                self.languages.push(language.clone());
                self.languages.len() - 1
            });
            u32::try_from(at).expect("languages are few")
        });
        AdAttributes { domains, categories, taxonomy: metadata.taxonomy, bundle, language }
    }

    pub(in crate::campaigns) fn block(
        &self,
        request: &BidRequest<'_>,
        lists: &RequestLists,
        blocked: &mut BlockedAttributes,
    ) {
        blocked.domains.reset(self.domains.numbers.len());
        self.mark_domains(request.badv.as_deref(), &mut blocked.domains);
        blocked.taxonomy = request.cattax.unwrap_or(TAXONOMY_WITH_CHILDREN);
        blocked.categories.reset(self.categories.numbers.len());
        self.mark_categories(request.bcat.as_deref(), blocked.taxonomy, &mut blocked.categories);
        let acat = request.acat.as_deref().filter(|acat| !acat.is_empty());
        blocked.lists_welcome = acat.is_some();
        blocked.categories_welcome.reset(self.categories.numbers.len());
        self.mark_categories(acat, blocked.taxonomy, &mut blocked.categories_welcome);
        blocked.bundles.reset(self.bundles.len());
        let bapp = request.bapp.iter().flatten();
        for bundle in bapp.filter_map(|app| self.bundles.get(app.trim())) {
            blocked.bundles.set(bundle);
        }
        blocked.languages.reset(self.languages.len());
        for (number, language) in (0..).zip(&self.languages) {
            if !lists.admit_language(request, language) {
                blocked.languages.set(number);
            }
        }
    }

    /// Adds the domains within any of `listed` to `set`.
    pub(in crate::campaigns) fn mark_domains(&self, listed: Option<&[Text<'_>]>, set: &mut Bits) {
        for domain in listed.unwrap_or_default() {
            self.domains.mark(&normal_domain(domain), set);
        }
    }

    pub(in crate::campaigns) fn domains_len(&self) -> usize {
        self.domains.numbers.len()
    }

    fn mark_categories(&self, listed: Option<&[Text<'_>]>, taxonomy: u32, set: &mut Bits) {
        for category in listed.unwrap_or_default() {
            if taxonomy == TAXONOMY_WITH_CHILDREN {
                self.categories.mark(category, set);
            } else if let Some(same) = self.categories.numbers.get(category) {
                set.set(same);
            }
        }
    }
}

impl BlockedAttributes {
    pub(in crate::campaigns) fn admits(&self, attributes: &AdAttributes) -> bool {
        let categories = || {
            let any = |set: &Bits| attributes.categories.iter().any(|category| set.has(*category));
            attributes.categories.is_empty()
                || attributes.taxonomy != self.taxonomy
                || (!any(&self.categories)
                    && (!self.lists_welcome || any(&self.categories_welcome)))
        };
        !attributes.domains.iter().any(|domain| self.domains.has(*domain))
            && attributes.bundle.is_none_or(|bundle| !self.bundles.has(bundle))
            && attributes.language.is_none_or(|language| !self.languages.has(language))
            && categories()
    }
}

fn prefixes(category: &str) -> impl Iterator<Item = &str> {
    let dashes = category.bytes().enumerate().filter(|(_, byte)| *byte == b'-');
    dashes.map(|(at, _)| &category[..at]).chain(std::iter::once(category))
}
