//! What providers there are, and which keys their calls take and give. The files of the map are read
//! elsewhere; this checks what they say as a whole.

mod check;
mod model;
mod statement;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use check::{MapPlace, MapProblem, check};
pub use model::{
    CallId, CallPages, CallParameter, DATABASE, FOLDER, KeyParameter, LookupProvider, MapKey,
    PageCount, ParameterSource, ProviderCall, ProviderMap, RecordForm, RecordFormat,
};
pub use statement::{SqlStatement, UnreadableStatement};
