"""The console: a page on which the operator of a party sees how it is; see `server`."""
