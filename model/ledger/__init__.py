"""The shape ledger: every operation with its shape and price, and what a run says to it."""
