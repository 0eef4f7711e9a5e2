//! The getters of a section, one per form of value. They must not know any service's keys, nor how
//! files are read and problems are recorded.

use std::net::SocketAddr;
use std::ops::RangeBounds;
use std::path::Path;
use std::time::Duration;

use units::{Currency, Ppm, Price};

use crate::config::declaration::presence::{NoDefault, Presence};
use crate::config::declaration::{Form, Role};
use crate::config::effective::EffectiveKey;
use crate::config::problem::KeyKind;
use crate::config::section::{ExpectedValue, KeyDeclaration, Section};
use crate::config::values::given::{GivenFault, GivenValue, WrongValue};
use crate::config::values::quantity::{Bounds, Quantity, WholeNumber};
use crate::config::values::secret::{self, Secret};
use crate::config::values::{self, HttpUrl};

/// Getters of text in one form.
macro_rules! textual {
    ($($doc:literal $getter:ident -> $value:ty: $form:ident, $parse:path;)*) => {$(
        #[doc = $doc]
        pub fn $getter<P: Presence<Literal = &'static str>>(
            &mut self,
            key: &'static str,
            presence: P,
            doc: &'static str,
        ) -> P::Out<$value> {
            self.textual(KeyDeclaration { key, presence, form: Form::$form, doc }, $parse)
        }
    )*};
}

impl Section<'_> {
    textual! {
        "Non-empty text."
        text -> String: Text, values::text;
        "A price with its currency, written `\"0.50 USD\"`."
        price -> Price: Price, values::price;
        "A currency, written `\"USD\"`."
        currency -> Currency: Currency, values::currency;
        "An IP address and a port, written `\"127.0.0.1:8080\"`."
        socket_address -> SocketAddr: SocketAddress, values::socket_address;
        "A URL without TLS, written `\"http://host:port/path\"`."
        url -> HttpUrl: Url, values::http_url;
    }

    /// Text that `parse` turns into a value or refuses with a remedy, a lower-case fragment.
    pub fn parsed<T, P: Presence<Literal = &'static str>>(
        &mut self,
        key: &'static str,
        presence: P,
        parse: impl Fn(&str) -> Result<T, String>,
        doc: &'static str,
    ) -> P::Out<T> {
        self.textual(KeyDeclaration { key, presence, form: Form::Text, doc }, parse)
    }

    /// `true` or `false`.
    pub fn boolean<P>(&mut self, key: &'static str, presence: P, doc: &'static str) -> P::Out<bool>
    where
        P: Presence<Literal = bool>,
    {
        self.single(KeyDeclaration { key, presence, form: Form::Boolean, doc }, |given| match given
        {
            GivenValue::Boolean(value) => Ok(*value),
            _ => Err(WrongValue::Type),
        })
    }

    /// A whole number in `range`.
    pub fn integer<N: WholeNumber, P: Presence<Literal = u64>>(
        &mut self,
        key: &'static str,
        presence: P,
        range: impl RangeBounds<N>,
        doc: &'static str,
    ) -> P::Out<N> {
        let bounds = whole_bounds(&range);
        self.single(KeyDeclaration { key, presence, form: Form::Number(bounds), doc }, |given| {
            whole(&bounds, given)
        })
    }

    /// A duration in `range`, exact to the microsecond: `"250us"`, `"5ms"`, `"2s"`, `"1m"`, `"1h"`.
    pub fn duration<P: Presence<Literal = &'static str>>(
        &mut self,
        key: &'static str,
        presence: P,
        range: impl RangeBounds<Duration>,
        doc: &'static str,
    ) -> P::Out<Duration> {
        let micros = |end: &Duration| u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        let bounds = Bounds::of(Quantity::Duration, &range, micros);
        self.single(KeyDeclaration { key, presence, form: Form::Number(bounds), doc }, |given| {
            bounds.read(given).map(Duration::from_micros)
        })
    }

    /// A size in `range` with a unit: `"512B"`, `"64KiB"`, `"1MiB"`, `"1GiB"`.
    pub fn bytes<P: Presence<Literal = &'static str>>(
        &mut self,
        key: &'static str,
        presence: P,
        range: impl RangeBounds<usize>,
        doc: &'static str,
    ) -> P::Out<usize> {
        let bounds = Bounds::of(Quantity::Bytes, &range, |&end| end.count());
        self.single(KeyDeclaration { key, presence, form: Form::Number(bounds), doc }, |given| {
            whole(&bounds, given)
        })
    }

    /// A share of at most the whole, written `"2.5%"` or `"25000ppm"`.
    pub fn ppm<P>(&mut self, key: &'static str, presence: P, doc: &'static str) -> P::Out<Ppm>
    where
        P: Presence<Literal = &'static str>,
    {
        let whole = u64::from(Ppm::ONE.get());
        let bounds = Bounds { quantity: Quantity::Ratio, min: 0, max: Some(whole) };
        self.single(KeyDeclaration { key, presence, form: Form::Number(bounds), doc }, |given| {
            let parts = u32::try_from(bounds.read(given)?).ok().and_then(Ppm::new);
            Ok(parts.expect("the bounds end at the whole"))
        })
    }

    /// A text that no message or page shows: literal, or a reference, `"env:NAME"` to an
    /// environment variable or `"file:PATH"` to a file, relative to the configuration file; a final
    /// newline of the file is dropped. The declared literal is an example.
    pub fn secret<P>(&mut self, key: &'static str, presence: P, doc: &'static str) -> P::Out<Secret>
    where
        P: NoDefault + Presence<Literal = &'static str>,
    {
        let written = presence.written();
        let (source, inputs) = (self.source, self.inputs);
        let file = self.given(key).map(|given| given.place.file);
        let found =
            self.read::<_, P>(key, ExpectedValue { form: &Form::Secret, written }, |given| {
                let folder = file.map_or(Path::new(""), |file| source.folder(file));
                let secret = match given {
                    GivenValue::Text(text) => {
                        secret::resolve(text, folder, inputs).map_err(WrongValue::Value)
                    }
                    _ => Err(WrongValue::Type),
                };
                secret.map_err(|wrong| vec![GivenFault { element: None, wrong }])
            });
        let role = || Role::Value { form: Form::Secret, need: P::NEED, written };
        self.describe(key, doc, KeyKind::Secret, role);
        self.record(key, found.clone().map_or(EffectiveKey::Absent, EffectiveKey::Secret));
        // The fallback for a missing secret is never used: the configuration is refused.
        P::out(found, || Secret::new(""))
    }

    /// One of several words, each with its value.
    pub fn one_of<T: Clone, P: Presence<Literal = &'static str>>(
        &mut self,
        key: &'static str,
        presence: P,
        known: &[(&'static str, T)],
        doc: &'static str,
    ) -> P::Out<T> {
        let form = Form::OneOf(known.iter().map(|(name, _)| *name).collect());
        self.textual(KeyDeclaration { key, presence, form, doc }, |text| {
            values::one_of(text, known)
        })
    }

    /// A list of texts, each of which `parse` turns into a value or refuses with a remedy.
    pub fn texts<T, P: Presence<Literal = &'static [&'static str]>>(
        &mut self,
        key: &'static str,
        presence: P,
        parse: impl Fn(&str) -> Result<T, String>,
        doc: &'static str,
    ) -> P::Out<Vec<T>> {
        self.list(KeyDeclaration { key, presence, form: Form::Texts, doc }, |given| match given {
            GivenValue::Text(text) => Ok(parse(text)?),
            _ => Err(WrongValue::Type),
        })
    }

    /// A list of whole numbers, each in `range`.
    pub fn integers<N: WholeNumber, P: Presence<Literal = &'static [u64]>>(
        &mut self,
        key: &'static str,
        presence: P,
        range: impl RangeBounds<N>,
        doc: &'static str,
    ) -> P::Out<Vec<N>> {
        let bounds = whole_bounds(&range);
        self.list(KeyDeclaration { key, presence, form: Form::Integers(bounds), doc }, |given| {
            whole(&bounds, given)
        })
    }

    fn textual<T, P: Presence>(
        &mut self,
        declared: KeyDeclaration<P>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> P::Out<T> {
        self.single(declared, |given| match given {
            GivenValue::Text(text) => Ok(parse(text)?),
            _ => Err(WrongValue::Type),
        })
    }

    fn single<T, P: Presence>(
        &mut self,
        declared: KeyDeclaration<P>,
        read: impl Fn(&GivenValue<'_>) -> Result<T, WrongValue>,
    ) -> P::Out<T> {
        self.value(declared, |given| {
            read(given).map_err(|wrong| vec![GivenFault { element: None, wrong }])
        })
    }

    fn list<T, P: Presence>(
        &mut self,
        declared: KeyDeclaration<P>,
        read: impl Fn(&GivenValue<'_>) -> Result<T, WrongValue>,
    ) -> P::Out<Vec<T>> {
        self.value(declared, |given| {
            let GivenValue::List(elements) = given else {
                return Err(vec![GivenFault { element: None, wrong: WrongValue::Type }]);
            };
            let (mut values, mut faults) = (Vec::new(), Vec::new());
            for (index, element) in elements.iter().enumerate() {
                let at = || Some((index, element.span.clone()));
                match read(&element.given) {
                    Ok(value) => values.push(value),
                    Err(wrong) => faults.push(GivenFault { element: at(), wrong }),
                }
            }
            if faults.is_empty() { Ok(values) } else { Err(faults) }
        })
    }
}

/// The range of an integer type; its end is stated only if the declaration states one.
fn whole_bounds<N: WholeNumber>(range: &impl RangeBounds<N>) -> Bounds {
    Bounds::of(Quantity::Integer, range, |&end| end.count())
}

fn whole<N: WholeNumber>(bounds: &Bounds, given: &GivenValue<'_>) -> Result<N, WrongValue> {
    let number = bounds.at_most(N::MAX).read(given)?;
    Ok(N::try_from(number).ok().expect("the bounds end within the type"))
}
