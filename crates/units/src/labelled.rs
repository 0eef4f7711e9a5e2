//! Enumerations whose variants have a list and a label each, both from their names.

/// Gives an enumeration that derives `strum::VariantArray` and `strum::IntoStaticStr` its `ALL` and its
/// `label`.
#[macro_export]
macro_rules! labelled {
    ($name:ident) => {
        impl $name {
            /// All there are, in declaration order.
            pub const ALL: [Self; <Self as ::strum::VariantArray>::VARIANTS.len()] =
                *<Self as ::strum::VariantArray>::VARIANTS.as_array().expect("it has that length");

            /// What metrics, APIs and the rows of records call it.
            pub fn label(self) -> &'static str {
                self.into()
            }
        }
    };
}
