"""What sites and servers of a vertical ID3 on secret counts send each other."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.protocols.vertical_id3.messages import Blobs, Message, Numbers, Sites, register

SIZES, BEST, SAME = 0, 1, 2
"""What servers are asked: sizes of intersections, the site with the best gain, equality of ids."""


@register
@dataclass(frozen=True)
class SealedSet(Message):
    """What a site shares with the servers for a call, in groups; one sealed part for each server.

    To the site that asks, which passes the parts on.
    """

    KIND = 19
    what: int
    groups: int
    parts: Blobs


@register
@dataclass(frozen=True)
class AskServers(Message):
    """A question to one server, with its part of every site of the ring."""

    KIND = 20
    what: int
    counter: int
    ring: Sites
    groups: Numbers
    parts: Blobs


@register
@dataclass(frozen=True)
class BeginServers(Message):
    """The first question: are the ids the same? With it the sizes that the sites announced.

    `attributes` of each site, and the `values` of all of them, site after site.
    """

    KIND = 21
    job: bytes
    counter: int
    records: int
    attributes: Numbers
    values: Numbers
    parts: Blobs


@register
@dataclass(frozen=True)
class Half(Message):
    """Half of an answer, uniform by itself; from server 0 or 1 to the site that asked."""

    KIND = 22
    what: int
    half: bytes
