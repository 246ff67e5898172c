"""Two-phase CAS: conditional writes on an object store that has none, decided by a transactional store."""

from slate_engine.store.two_phase.open import open_transactions
from slate_engine.store.two_phase.recovery import Collected
from slate_engine.store.two_phase.store import TwoPhaseStore
from slate_engine.store.two_phase.transactions import TransactionStore

__all__ = ["Collected", "TransactionStore", "TwoPhaseStore", "open_transactions"]
