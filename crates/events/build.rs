//! Generates Rust from `proto/`: prost's messages, the field numbers for the hand-written readers
//! and writers, and a list of both for the test that they never change.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const FILES: [&str; 8] = [
    "vickrey/v1/auction.proto",
    "vickrey/v1/codes.proto",
    "vickrey/v1/gap.proto",
    "vickrey/v1/generation.proto",
    "vickrey/v1/lot.proto",
    "vickrey/v1/publication.proto",
    "vickrey/v1/settlements.proto",
    "vickrey/v1/watermark.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let set = protox::compile(FILES, [&folder])?;
    let (mut numbers, mut schema) = (String::new(), String::new());
    for message in set.file.iter().flat_map(|file| &file.message_type) {
        let name = snake_case(message.name());
        writeln!(numbers, "/// Of `{}`.\npub mod {name} {{", message.name())?;
        for field in &message.field {
            let (name, number) = (field.name(), field.number());
            writeln!(numbers, "    /// Of `{name}`.")?;
            writeln!(numbers, "    pub const {}: u32 = {number};", name.to_uppercase())?;
            let presence = if field.proto3_optional() { "OPTIONAL" } else { "" };
            let (label, kind) = (field.label().as_str_name(), field.r#type().as_str_name());
            let kind = format!("{label} {presence} {kind} {}", field.type_name());
            let kind = kind.replace("LABEL_OPTIONAL", "").replace("LABEL_", "");
            let kind: Vec<_> = kind.split_whitespace().collect();
            writeln!(schema, "{}.{name} = {number} {}", message.name(), kind.join(" "))?;
        }
        writeln!(numbers, "}}")?;
    }
    for known in set.file.iter().flat_map(|file| &file.enum_type) {
        for value in &known.value {
            writeln!(schema, "{} = {}", value.name(), value.number())?;
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    std::fs::write(out.join("numbers.rs"), numbers)?;
    std::fs::write(out.join("schema.txt"), schema)?;
    prost_build::Config::new().compile_fds(set)?;
    Ok(())
}

/// `NotAsked` as `not_asked`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
