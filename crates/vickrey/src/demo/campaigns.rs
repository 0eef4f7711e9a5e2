//! The demo's own campaigns: their definitions, and what they spend. Their budgets end while it runs.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use console::style;
use units::Nanos;

use super::args::DemoArgs;
use super::bidder;
use super::format::{decimal, utc};
use crate::config::budgets::{CampaignBudgets, standing};

/// Widest bar, in characters.
const BAR: u64 = 24;

/// A campaign: its strategy, what an impression is worth to it as a CPM in micros, and its budget as a share
/// of what all requests at that price would cost.
struct CampaignPlan {
    id: &'static str,
    strategy: &'static str,
    cpm_micros: u64,
    budget_percent: u64,
}

const PLANS: [CampaignPlan; 2] = [
    CampaignPlan { id: "sprint", strategy: "asap", cpm_micros: 6_000_000, budget_percent: 5 },
    CampaignPlan { id: "steady", strategy: "even", cpm_micros: 5_000_000, budget_percent: 8 },
];

impl CampaignPlan {
    fn budget(&self, args: &DemoArgs) -> Nanos {
        let requests = args.duration.as_secs().max(1).saturating_mul(args.rate.into());
        // A CPM in micros is the nanos of one impression.
        let all = self.cpm_micros.saturating_mul(requests);
        Nanos::new(all / 100 * self.budget_percent)
    }
}

pub(super) fn define(folder: &Path, args: &DemoArgs) -> io::Result<()> {
    let mut text = String::from("[[account]]\nid = \"acme\"\ncurrency = \"USD\"\n");
    let now = SystemTime::now();
    let (start, end) = (utc(now), utc(now + args.duration + Duration::from_secs(2)));
    for plan in &PLANS {
        let CampaignPlan { id, strategy, cpm_micros, .. } = plan;
        let (budget, price) = (decimal(plan.budget(args).get(), 9), decimal(*cpm_micros, 6));
        let _ = write!(
            text,
            "\n[[campaign]]\nid = \"{id}\"\naccount = \"acme\"\nstart = \"{start}\"\nend = \"{end}\"\n\
             budget = \"{budget}\"\nbid = {{ price = \"{price}\" }}\n\
             strategy = {{ name = \"{strategy}\" }}\n"
        );
        for size in ["300x250", "728x90", "320x50", "160x600", "970x250", "300x600"] {
            let _ = write!(
                text,
                "[[campaign.creative]]\nid = \"{id}-{size}\"\nformat = \"banner\"\nsize = \"{size}\"\n\
                 markup = \"<a href='https://{id}.example/'>{id}</a>\"\ndomains = [\"{id}.example\"]\n"
            );
        }
    }
    std::fs::create_dir_all(folder)?;
    bidder::define(folder, args)?;
    std::fs::write(folder.join("acme.toml"), text)
}

/// A heading, and a line for each campaign with its spend, target and budget.
pub(super) fn lines(budgets: &CampaignBudgets, args: &DemoArgs) -> Vec<String> {
    let heading =
        format!("{:<17} {:>9} {:>9} {:>9}", "campaigns (USD)", "spent", "target", "budget");
    let mut lines = vec![style(heading).bold().to_string()];
    for plan in &PLANS {
        let name = format!("{} ({})", plan.id, plan.strategy);
        lines.push(line(budgets, plan.id, &name, plan.budget(args)));
    }
    lines.push(line(budgets, bidder::CAMPAIGN, "bidder (pacer)", bidder::budget(args)));
    lines
}

fn line(budgets: &CampaignBudgets, id: &str, name: &str, budget: Nanos) -> String {
    let (of, target) = standing(budgets, id);
    let (of, budget) = (of.unwrap_or(Nanos::ZERO).get(), budget.get());
    let target = target.map_or_else(|| "–".to_owned(), |target| decimal(target.get(), 9));
    let width = of.saturating_mul(BAR).checked_div(budget).unwrap_or(0).min(BAR);
    let bar = "█".repeat(usize::try_from(width).unwrap_or(0));
    let (of, budget) = (decimal(of, 9), decimal(budget, 9));
    format!("  {name:<15} {of:>9} {target:>9} {budget:>9}  {}", style(bar).green())
}

/// The same in a few words.
pub(super) fn brief(budgets: &CampaignBudgets) -> String {
    let of = |plan: &CampaignPlan| {
        let spent = standing(budgets, plan.id).0.unwrap_or(Nanos::ZERO);
        format!(" {} {}", plan.id, decimal(spent.get(), 9))
    };
    format!("  campaigns{}", PLANS.iter().map(of).collect::<String>())
}
