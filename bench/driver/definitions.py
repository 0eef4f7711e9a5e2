"""Generates files of any number of accounts and campaigns for the exchange.

Owns their content. Must not know what is measured with them.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

# Flights begin well before a run and end after it.
FLIGHT = timedelta(days=30)

# Sizes of a campaign's creatives; the reference request has only the first.
SIZES = ("300x250", "728x90")

# Countries; the reference request comes from the USA, from `publisher-7`.
COUNTRIES = ("USA", "GBR", "DEU", "FRA", "ESP", "BRA", "JPN", "IND", "CAN", "AUS")
PUBLISHER = 7


@dataclass(frozen=True)
class Campaigns:
    """Campaigns of one kind, from a hundred to a hundred thousand."""

    count: int
    accounts: int
    # One of `one_in` campaigns matches the reference request; 1 means all.
    one_in: int
    # The lowest value of 1000 impressions, in dollars; other campaigns have up to 19 cents more.
    value: str
    # Daily budget of each, in dollars.
    daily_budget: str = "1000.00"


def account(name: str, seats: tuple[str, ...] = ()) -> str:
    """An account without limits, which pays for these seats."""
    text = f'[[account]]\nid = "{name}"\ncurrency = "USD"\n'
    return text + (f"seats = {list(seats)}\n" if seats else "").replace("'", '"') + "\n"


def targeting(number: int, of: Campaigns) -> str:
    """A country and a publisher. Campaigns that match the reference request belong to many
    accounts; half of the others mismatch by country, half by publisher."""
    if (number + number // of.accounts) % of.one_in == 0:
        country, publisher = COUNTRIES[0], PUBLISHER
    elif number % 2:
        country, publisher = COUNTRIES[1 + number % 9], PUBLISHER
    else:
        country, publisher = COUNTRIES[0], PUBLISHER + 1 + number % 100
    return f'countries = ["{country}"], publishers = ["publisher-{publisher}"]'


def campaign(number: int, of: Campaigns, now: datetime, generation: int = 0) -> str:
    """A campaign and its creatives. `generation` changes its limits."""
    start, end = (f"{now + by:%Y-%m-%dT%H:%M:%SZ}" for by in (-FLIGHT, FLIGHT))
    name = f"campaign-{number}"
    daily = f"{float(of.daily_budget) + generation:.2f}"
    value = f"{float(of.value) + number * 7 % 20 / 100:.2f}"
    text = (
        f'[[campaign]]\nid = "{name}"\naccount = "account-{number % of.accounts}"\n'
        f'start = "{start}"\nend = "{end}"\ndaily_budget = "{daily}"\n'
        # The first bid is the full value: the strategy's later bids are not measured.
        f'bid = {{ value = "{value}" }}\nstrategy = {{ start = "1" }}\n'
        f"targeting = {{ {targeting(number, of)} }}\n"
    )
    for size in SIZES:
        text += (
            f'[[campaign.creative]]\nid = "{name}-{size}"\nformat = "banner"\nsize = "{size}"\n'
            f"markup = \"<a href='https://{name}.example/'><img src='https://cdn.example/{name}/"
            f'{size}.png\'></a>"\ndomains = ["{name}.example"]\n'
        )
    return text + "\n"


def write(folder: Path, of: Campaigns, generation: int = 0) -> None:
    """A file for each account, with all its campaigns."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).replace(hour=0, minute=0, second=0)
    for number in range(of.accounts):
        (folder / f"account-{number}.toml").write_text(file_text(of, number, now, generation))


def file_text(of: Campaigns, number: int, now: datetime, generation: int) -> str:
    """The file of one account: the campaigns with its number modulo `accounts`."""
    own = range(number, of.count, of.accounts)
    text = account(f"account-{number}")
    return text + "".join(campaign(each, of, now, generation) for each in own)
