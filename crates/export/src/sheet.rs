//! An open file of rows, in either format.

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
use crate::options::{ExportLimits, FileFormat};

/// The columns of a row type: its fields in order, with nested structs and lists.
#[derive(Clone, Debug)]
pub struct TableColumns {
    fields: Vec<FieldRef>,
    schema: SchemaRef,
}

impl TableColumns {
    /// The columns of `R`, which may have integers, booleans, strings, `Option` for nullable
    /// columns, structs and lists.
    pub fn of<'de, R: Deserialize<'de>>() -> Result<Self, ExportError> {
        let options = TracingOptions::default()
            // The most widely supported types; a batch is far below 2 GiB.
            .sequence_as_large_list(false)
            .strings_as_large_utf8(false);
        let fields = Vec::<FieldRef>::from_type::<R>(options).map_err(|error| {
            let what = std::any::type_name::<R>().to_owned();
            ExportError::Row { what, format: FileFormat::Parquet, reason: error.to_string() }
        })?;
        let schema = Arc::new(Schema::new(fields.clone()));
        Ok(Self { fields, schema })
    }

    /// The Arrow schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// Why a row was not written.
#[derive(Debug)]
pub(crate) enum RowFileError {
    /// The file system failed.
    Io(io::Error),
    /// The row does not match the columns.
    Row(String),
}

impl From<io::Error> for RowFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_arrow::Error> for RowFileError {
    fn from(error: serde_arrow::Error) -> Self {
        Self::Row(error.to_string())
    }
}

impl From<serde_json::Error> for RowFileError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Io(error.into()) } else { Self::Row(error.to_string()) }
    }
}

impl From<ParquetError> for RowFileError {
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

/// An open file of rows.
pub(crate) enum RowFile<F: Write + Send> {
    /// One line per row.
    Jsonl(BufWriter<CountingWriter<F>>),
    /// Rows encoded in batches.
    Parquet(Box<ParquetFile<F>>),
}

impl<F: Write + Send> RowFile<F> {
    /// Begins a file.
    pub(crate) fn new(
        file: F,
        format: FileFormat,
        columns: &TableColumns,
        limits: &ExportLimits,
    ) -> Result<Self, RowFileError> {
        let file = CountingWriter { file: Some(file), bytes: 0 };
        Ok(match format {
            FileFormat::Jsonl => Self::Jsonl(BufWriter::new(file)),
            FileFormat::Parquet => {
                Self::Parquet(Box::new(ParquetFile::new(file, columns, limits)?))
            }
        })
    }

    /// Adds a row whose record has this many bytes.
    pub(crate) fn push<R: Serialize>(&mut self, bytes: usize, row: &R) -> Result<(), RowFileError> {
        match self {
            Self::Jsonl(lines) => {
                serde_json::to_writer(&mut *lines, row)?;
                Ok(lines.write_all(b"\n")?)
            }
            Self::Parquet(table) => table.push(bytes, row),
        }
    }

    /// Writes the rest and the end of the file; returns its length.
    pub(crate) fn finish(self) -> Result<(F, u64), RowFileError> {
        match self {
            Self::Jsonl(mut lines) => {
                lines.flush()?;
                Ok(lines.get_mut().take())
            }
            Self::Parquet(table) => table.finish(),
        }
    }
}

/// A Parquet file and the rows that are not encoded yet.
pub(crate) struct ParquetFile<F: Write + Send> {
    rows: ArrayBuilder,
    rows_held: usize,
    bytes_held: usize,
    limits: ExportLimits,
    writer: ArrowWriter<CountingWriter<F>>,
}

impl<F: Write + Send> ParquetFile<F> {
    fn new(
        file: CountingWriter<F>,
        columns: &TableColumns,
        limits: &ExportLimits,
    ) -> Result<Self, RowFileError> {
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

    fn push<R: Serialize>(&mut self, bytes: usize, row: &R) -> Result<(), RowFileError> {
        self.rows.push(row)?;
        self.rows_held += 1;
        self.bytes_held += bytes;
        if self.rows_held >= self.limits.batch_rows || self.bytes_held >= self.limits.batch_bytes {
            self.encode()?;
        }
        Ok(())
    }

    fn encode(&mut self) -> Result<(), RowFileError> {
        (self.rows_held, self.bytes_held) = (0, 0);
        Ok(self.writer.write(&self.rows.to_record_batch()?)?)
    }

    fn finish(mut self) -> Result<(F, u64), RowFileError> {
        self.encode()?;
        // `into_inner` would turn the file system's error into text.
        self.writer.finish()?;
        Ok(self.writer.inner_mut().take())
    }
}

/// Counts the bytes written to a file.
pub(crate) struct CountingWriter<F> {
    /// None once it is finished.
    file: Option<F>,
    bytes: u64,
}

impl<F> CountingWriter<F> {
    fn take(&mut self) -> (F, u64) {
        (self.file.take().expect("a file is finished once"), self.bytes)
    }

    fn file(&mut self) -> &mut F {
        self.file.as_mut().expect("nothing is written to a file that is finished")
    }
}

impl<F: Write> Write for CountingWriter<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file().write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}
