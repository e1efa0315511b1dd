"""One file per published protocol, put together from learners, secret arrays and the ledger."""
