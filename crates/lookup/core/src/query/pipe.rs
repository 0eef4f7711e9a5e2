//! The stages behind `|`.

use diagnostics::Diagnostic;

use super::ast::{Aggregate, AggregateFunction, GrepItem, PipeStage};
use super::cursor::TokenCursor;
use super::token::TokenKind;
use super::value::ValueKind;

/// Names of stages that are no aggregates.
const STAGES: [&str; 4] = ["grep", "sort", "unique", "limit"];

impl TokenCursor<'_> {
    /// Reads the stages of a query, of which each begins with `|`.
    pub fn pipe(&mut self) -> Result<Vec<PipeStage>, Diagnostic> {
        let mut stages = Vec::new();
        while self.take(&TokenKind::Pipe) {
            if let Some(PipeStage::Aggregate(_)) = stages.last() {
                let remedy = "write aggregates last, with commas: `| sum(a.b), max(a.b)`";
                return Err(self.unexpected("nothing comes behind aggregates", remedy));
            }
            self.check_room(stages.len(), "stages")?;
            stages.push(self.stage()?);
            if !matches!(self.peek(), None | Some(TokenKind::Pipe)) {
                let remedy = match stages.last() {
                    Some(PipeStage::Sort { .. }) => {
                        "it orders by one field; to order by more, sort by the first one last: \
                         `| sort a.c | sort a.b`"
                    }
                    _ => "write `|` before the next stage, and commas between items",
                };
                return Err(self.unexpected("the stage ends here", remedy));
            }
        }
        Ok(stages)
    }

    fn stage(&mut self) -> Result<PipeStage, Diagnostic> {
        let names =
            || STAGES.into_iter().chain(AggregateFunction::ALL.map(AggregateFunction::name));
        let Some(name) = self.peek_word() else {
            let known: Vec<_> = names().collect();
            let remedy = format!("stages are {}", diagnostics::listed(&known));
            return Err(self.unexpected("a stage is missing", remedy));
        };
        let at = self.here();
        if AggregateFunction::ALL.iter().any(|function| function.name() == name) {
            return Ok(PipeStage::Aggregate(self.items(Self::aggregate)?));
        }
        self.advance();
        match name {
            "grep" => Ok(PipeStage::Grep(self.items(Self::grep_item)?)),
            "sort" => self.sort(),
            "unique" => Ok(PipeStage::Unique),
            "limit" => self.limit(),
            _ => Err(self.unknown(at, "stage", name, names())),
        }
    }

    /// Reads items with commas between them.
    fn items<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let mut items = vec![read(self)?];
        while self.take(&TokenKind::Comma) {
            self.check_room(items.len(), "items")?;
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn grep_item(&mut self) -> Result<GrepItem, Diagnostic> {
        let field = self.field("write one to keep it, as in `grep file.name`, or compare it")?;
        let Some(&TokenKind::Comparison(comparison)) = self.peek() else {
            return Ok(GrepItem { field, comparison: None });
        };
        self.advance();
        Ok(GrepItem { field, comparison: Some((comparison, self.value(ValueKind::Any)?)) })
    }

    fn sort(&mut self) -> Result<PipeStage, Diagnostic> {
        let Some(word) = self.peek_word() else {
            let remedy =
                "write one, as in `sort file.size`, or `sort file.size-` for the largest first";
            return Err(self.unexpected("a field is missing", remedy));
        };
        let (field, is_descending) = match word.strip_suffix('-') {
            Some(field) => (field, true),
            None => (word, false),
        };
        self.check_field(field, self.here())?;
        self.advance();
        Ok(PipeStage::Sort { field: field.to_owned(), is_descending })
    }

    fn limit(&mut self) -> Result<PipeStage, Diagnostic> {
        let count = self.peek_word().and_then(|word| word.parse().ok()).filter(|count| 0 < *count);
        let count = count.ok_or_else(|| {
            let problem = format!("`limit` needs a whole number from 1 to {}", u64::MAX);
            self.unexpected(problem, "for example `limit 10`")
        })?;
        self.advance();
        Ok(PipeStage::Limit(count))
    }

    fn aggregate(&mut self) -> Result<Aggregate, Diagnostic> {
        const FORM: &str = "write the field in parentheses, as in `sum(file.size)`";
        let name = self.peek_word().unwrap_or_default();
        let known = AggregateFunction::ALL.into_iter();
        let Some(function) = known.clone().find(|function| function.name() == name) else {
            let names = known.map(AggregateFunction::name);
            return Err(self.unknown(self.here(), "aggregate", name, names));
        };
        self.advance();
        if !self.take(&TokenKind::OpenParenthesis) {
            return Err(self.unexpected(format!("`{name}` of what?"), FORM));
        }
        let field = self.field(FORM)?;
        if !self.take(&TokenKind::CloseParenthesis) {
            return Err(self.unexpected("the parenthesis is not closed", FORM));
        }
        Ok(Aggregate { function, field })
    }
}
