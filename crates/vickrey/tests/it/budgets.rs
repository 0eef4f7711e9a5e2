//! Budgets end to end, in processes that are killed: what is authorised, billed, reported and
//! recorded, compared with the callers' own counts.

mod books;
mod killed;
pub mod life;
mod load;
mod spent;
mod stopped;
