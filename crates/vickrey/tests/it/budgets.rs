//! Budgets from end to end, in processes that are killed: what is authorised, billed, told and
//! recorded, beside what whoever calls them knows.

mod books;
mod killed;
mod life;
mod load;
mod spent;
mod stopped;
