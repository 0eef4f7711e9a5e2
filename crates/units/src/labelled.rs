//! Lists and labels of enumerations, both from the names of their variants.

/// Adds `ALL` and `label` to an enumeration that derives `strum::VariantArray` and
/// `strum::IntoStaticStr`.
#[macro_export]
macro_rules! labelled {
    ($name:ident) => {
        impl $name {
            /// All variants, in declaration order.
            pub const ALL: [Self; <Self as ::strum::VariantArray>::VARIANTS.len()] =
                *<Self as ::strum::VariantArray>::VARIANTS.as_array().expect("it has that length");

            /// Its name in metrics, APIs and the rows of records.
            pub fn label(self) -> &'static str {
                self.into()
            }
        }
    };
}
