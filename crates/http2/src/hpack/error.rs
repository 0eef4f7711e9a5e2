//! What makes a header block malformed.

/// Why a header block cannot be decoded. It ends the connection, because both tables differ from
/// then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// It ends within a field.
    #[error("a header block ends within a field")]
    Truncated,
    /// An integer beyond every valid length or index.
    #[error("a header block has an integer that is too large")]
    IntegerTooLarge,
    /// No such entry.
    #[error("a header block names an entry that does not exist")]
    UnknownIndex,
    /// A string is not Huffman-coded as it says.
    #[error("a header block has a malformed Huffman string")]
    Huffman,
    /// Larger than we allow, or not at the beginning of a block.
    #[error("a header block resizes the dynamic table as it may not")]
    SizeUpdate,
}
