"""Accounts: what can happen to one, and what it comes to."""

import msgspec

import penstock
from penstock.patterns import AggregateStore, VersionConflict

ACCOUNTS = "accounts"
ATTEMPTS_MAX = 100


class Opened(msgspec.Struct, frozen=True, tag=True):
    """An account was opened."""

    owner: str


class Deposited(msgspec.Struct, frozen=True, tag=True):
    """Money came."""

    cents: int


class Withdrawn(msgspec.Struct, frozen=True, tag=True):
    """Money went."""

    cents: int


Event = Opened | Deposited | Withdrawn


class Account(msgspec.Struct, frozen=True):
    """An account as its events tell it."""

    owner: str = ""
    cents: int = 0


def after(account: Account, event: Event) -> Account:
    """The account after an event."""
    match event:
        case Opened(owner):
            return Account(owner, account.cents)
        case Deposited(cents):
            return Account(account.owner, account.cents + cents)
        case Withdrawn(cents):
            return Account(account.owner, account.cents - cents)


def accounts_of(client: penstock.Client) -> AggregateStore[Event, Account]:
    """The store of all accounts."""
    return AggregateStore(client, ACCOUNTS, event=Event, state=Account, initial=Account, fold=after)


async def withdraw(accounts: AggregateStore[Event, Account], name: str, cents: int) -> bool:
    """Take money if there is enough, whatever others do at the same time; False if there is not."""
    for _ in range(ATTEMPTS_MAX):
        account = await accounts.load(name)
        if account.state.cents < cents:
            return False
        try:
            await accounts.append(name, [Withdrawn(cents)], expected_version=account.version)
        except VersionConflict:
            continue  # Somebody was quicker: look again.
        return True
    raise penstock.Unavailable(f"{name} is too busy")
