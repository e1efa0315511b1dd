"""How long a plan will take and what it will send, before anything is spent.

`traffic` goes through the protocol's own programs where no party lives (`hedgerow.net.rehearsal`),
or with stand-ins for tables where messages follow from what is found; `seconds` turns what they
would send and compute into time on this machine and a network.
"""
