"""What two meters have to agree on."""

from hedgerow.net.meter import Reading


def same_bytes(one: Reading, other: Reading) -> bool:
    """Whether parties, steps, rounds, payload and wire bytes agree; waiting may differ."""
    public = [
        {key: (t.rounds, t.payload, t.wire) for key, t in reading.traffic.items()}
        for reading in (one, other)
    ]
    return one.parties == other.parties and public[0] == public[1]
