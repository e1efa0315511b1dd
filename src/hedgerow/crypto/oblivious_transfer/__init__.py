"""Oblivious transfer between an ordered pair of peers, without I/O: messages in, messages out.

A `Sender` and a `Receiver` are the two ends for one ordered pair (sender's number, receiver's
number) in one session; m peers have m (m - 1) pairs, each with its own two objects. All messages
are arrays of uint8 or of the unsigned type of a ring, whose sizes follow from public numbers.

Set-up, two steps, once (`base`, `extension`)::

    sender = Sender(session, (0, 1))              receiver = Receiver(session, (0, 1))
    s1 = sender.begin()     # BEGIN_SENDER bytes    r1 = receiver.begin()    # BEGIN_RECEIVER bytes
                            # the two cross in one network step
                                                  r2 = receiver.plant(s1)  # PLANT bytes
    sender.finish(r1, r2)

A batch of n transfers, one message from receiver to sender (`extension`)::

    message, received = receiver.extend(choices, counter)   # message_bytes(n) bytes, ReceivedRows
    sent = sender.extend(message, n, counter)               # SentRows

`choices` are 0 or 1, shape (n,); `counter` is any number below 2^64 that names the batch in this
session on both sides, and is refused a second time (H953). Rows are used up by the first function
below that takes them (H953 as well); ``rows.split([n1, n2, ...])`` deals one batch out to several
uses. After a resume both call ``bind(new_session)``: new keys, same base transfers, and counters
begin anew.

What rows are good for, each with one message from sender to receiver (`transfers`)::

    send_random(sent) -> keys (2, n, 2) uint64                  receive_random(received) -> (n, 2)
    send_correlated(sent, x) -> y0, message                     # y = y0 + b x, or y0 ^ b x of bits
    receive_correlated(received, message, dtype, width=None) -> y
    send_chosen(sent, m0, m1) -> message                        # y = m0 if b = 0 else m1
    receive_chosen(received, message, dtype, width=None) -> y
    send_one_of(sent, messages) -> message                      # messages (n, B): y = messages[v]
    receive_one_of(received, index, message, B, dtype) -> y     # choices: index_bits(index, B)

x, m0, m1: shape (n,), or (n, width) for several words under one choice; of uint16, uint32, uint64,
or bool for bits, which are packed in messages (``np.packbits(..., bitorder="little")``).

All but one (`all_but_one`), B up to 256, a row of ``depth(B)`` transfers for each record::

    choices = path_bits(index, B)                       # (depth(B) n,), for receiver.extend
    trees, message = SenderTrees.send(sent, B)          # trees.seeds(slice) -> (k, B, 2) uint64
    trees = ReceiverTrees.receive(received, index, B, message)  # .seeds(slice), zeros at the index

The sender keeps 16 bytes per record, the receiver 16 per level; seeds are made block by block.
"""

from hedgerow.crypto.oblivious_transfer.all_but_one import ReceiverTrees, SenderTrees, path_bits
from hedgerow.crypto.oblivious_transfer.extension import (
    BEGIN_RECEIVER,
    BEGIN_SENDER,
    PLANT,
    Receiver,
    Sender,
    message_bytes,
)
from hedgerow.crypto.oblivious_transfer.rows import ReceivedRows, SentRows
from hedgerow.crypto.oblivious_transfer.transfers import (
    depth,
    index_bits,
    receive_chosen,
    receive_correlated,
    receive_one_of,
    receive_random,
    send_chosen,
    send_correlated,
    send_one_of,
    send_random,
)

__all__ = [
    "BEGIN_RECEIVER",
    "BEGIN_SENDER",
    "PLANT",
    "ReceivedRows",
    "Receiver",
    "ReceiverTrees",
    "Sender",
    "SenderTrees",
    "SentRows",
    "depth",
    "index_bits",
    "message_bytes",
    "path_bits",
    "receive_chosen",
    "receive_correlated",
    "receive_one_of",
    "receive_random",
    "send_chosen",
    "send_correlated",
    "send_one_of",
    "send_random",
]
