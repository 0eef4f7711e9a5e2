//! One file of rows under way, in either format.
//!
//! Knows neither where it stands nor when it is complete.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use serde_arrow::ArrayBuilder;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use crate::error::ExportError;
use crate::options::{Format, Limits};

/// Columns of a type of rows: its fields, in their order. Structs and lists of them are nested.
#[derive(Clone, Debug)]
pub struct Columns {
    fields: Vec<FieldRef>,
    schema: SchemaRef,
}

impl Columns {
    /// Those of `R`: integers, truth values, text, `Option` for what may be null, structs and lists.
    ///
    /// # Errors
    /// The type has something else.
    pub fn of<'de, R: Deserialize<'de>>() -> Result<Self, ExportError> {
        let options = TracingOptions::default()
            // The types that readers know best; a batch is far below 2 GiB.
            .sequence_as_large_list(false)
            .strings_as_large_utf8(false);
        let fields = Vec::<FieldRef>::from_type::<R>(options).map_err(|error| {
            let what = std::any::type_name::<R>().to_owned();
            ExportError::Row { what, format: Format::Parquet, reason: error.to_string() }
        })?;
        let schema = Arc::new(Schema::new(fields.clone()));
        Ok(Self { fields, schema })
    }

    /// The schema in Arrow's terms.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// Why a row could not be written.
#[derive(Debug)]
pub(crate) enum SheetError {
    /// The file system failed.
    Io(io::Error),
    /// The row is not what its columns say.
    Row(String),
}

impl From<io::Error> for SheetError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_arrow::Error> for SheetError {
    fn from(error: serde_arrow::Error) -> Self {
        Self::Row(error.to_string())
    }
}

impl From<serde_json::Error> for SheetError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Io(error.into()) } else { Self::Row(error.to_string()) }
    }
}

impl From<ParquetError> for SheetError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(source) => Self::Row(source.to_string()),
            },
            error => Self::Row(error.to_string()),
        }
    }
}

/// A file of rows under way.
pub(crate) enum Sheet<F: Write + Send> {
    /// A line by row.
    Jsonl(BufWriter<Counted<F>>),
    /// A batch by so many rows.
    Parquet(Box<Table<F>>),
}

impl<F: Write + Send> Sheet<F> {
    /// Begins a file.
    pub(crate) fn new(
        file: F,
        format: Format,
        columns: &Columns,
        limits: &Limits,
    ) -> Result<Self, SheetError> {
        let file = Counted { file: Some(file), bytes: 0 };
        Ok(match format {
            Format::Jsonl => Self::Jsonl(BufWriter::new(file)),
            Format::Parquet => Self::Parquet(Box::new(Table::new(file, columns, limits)?)),
        })
    }

    /// Adds a row whose record has so many bytes.
    pub(crate) fn push<R: Serialize>(&mut self, bytes: usize, row: &R) -> Result<(), SheetError> {
        match self {
            Self::Jsonl(lines) => {
                serde_json::to_writer(&mut *lines, row)?;
                Ok(lines.write_all(b"\n")?)
            }
            Self::Parquet(table) => table.push(bytes, row),
        }
    }

    /// Writes what is held and the file's end, and tells how long it is.
    pub(crate) fn finish(self) -> Result<(F, u64), SheetError> {
        match self {
            Self::Jsonl(mut lines) => {
                lines.flush()?;
                Ok(lines.get_mut().take())
            }
            Self::Parquet(table) => table.finish(),
        }
    }
}

/// A Parquet file, the rows that are not encoded yet, and how many they are.
pub(crate) struct Table<F: Write + Send> {
    rows: ArrayBuilder,
    rows_held: usize,
    bytes_held: usize,
    limits: Limits,
    writer: ArrowWriter<Counted<F>>,
}

impl<F: Write + Send> Table<F> {
    fn new(file: Counted<F>, columns: &Columns, limits: &Limits) -> Result<Self, SheetError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(limits.group_rows))
            .set_max_row_group_bytes(Some(limits.group_bytes))
            .build();
        Ok(Self {
            rows: ArrayBuilder::from_arrow(&columns.fields)?,
            rows_held: 0,
            bytes_held: 0,
            limits: *limits,
            writer: ArrowWriter::try_new(file, Arc::clone(&columns.schema), Some(properties))?,
        })
    }

    fn push<R: Serialize>(&mut self, bytes: usize, row: &R) -> Result<(), SheetError> {
        self.rows.push(row)?;
        self.rows_held += 1;
        self.bytes_held += bytes;
        if self.rows_held >= self.limits.batch_rows || self.bytes_held >= self.limits.batch_bytes {
            self.encode()?;
        }
        Ok(())
    }

    fn encode(&mut self) -> Result<(), SheetError> {
        (self.rows_held, self.bytes_held) = (0, 0);
        Ok(self.writer.write(&self.rows.to_record_batch()?)?)
    }

    fn finish(mut self) -> Result<(F, u64), SheetError> {
        self.encode()?;
        // Its `into_inner` would make text of what the file system says.
        self.writer.finish()?;
        Ok(self.writer.inner_mut().take())
    }
}

/// A file, and how much was written to it.
pub(crate) struct Counted<F> {
    /// `None` once it was taken out.
    file: Option<F>,
    bytes: u64,
}

impl<F> Counted<F> {
    fn take(&mut self) -> (F, u64) {
        (self.file.take().expect("a file is finished once"), self.bytes)
    }

    fn file(&mut self) -> &mut F {
        self.file.as_mut().expect("nothing is written to a file that is finished")
    }
}

impl<F: Write> Write for Counted<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file().write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}
