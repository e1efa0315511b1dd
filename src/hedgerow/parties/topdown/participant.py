"""`Participant`: a member of a consortium in a DP-TopDown run, from its account to the model.

In which order it checks, keeps and charges is in `hedgerow.parties.topdown.accounted`; the
coordinator is reached as `hedgerow.parties.topdown.post` says.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import check_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.post import Post, Tell, take_part
from hedgerow.trees.model import model_from_json, read_model


class Participant(AccountedRun):
    """A party in a run; use `take_part` to see it through.

    Parameters
    ----------
    config : PartyConfig
    policy : Policy
    job : TopDownJob
        This party's own copy.
    private : bool
        Whether its noise is drawn as it must be.

    Raises
    ------
    HedgerowError
        H850 if a party of the job is no member in its role, H858 if policy or account refuse.
    """

    def __init__(
        self, config: PartyConfig, policy: Policy, job: TopDownJob, *, private: bool
    ) -> None:
        self.config = config
        job.check_members(config)
        check_keys(config)
        super().__init__(config.name, config.state, policy, job, private=private)

    @abstractmethod
    def _finished(self) -> None:
        """Forget what is not needed any more, once the model is here."""

    @property
    def model(self) -> Path:
        """Where the model is, or will be."""
        return self.folder / "model.json"

    def take_part(self, tell: Tell = lambda what, number, names: None) -> Path:
        """Answer the coordinator to the end; return where the model is.

        The model is what the coordinator says that it is: that it fits the job is checked, that it
        follows from the answers of all parties cannot be.
        """
        path = self.model
        if path.exists():
            # It was replaced as a whole, so it is all there.
            read_model(path)
            return path
        post = Post(self.config, self.job)

        def answer(ask: bytes) -> bytes | None:
            # `Post` has compared the hash of the job: who asks means this one.
            before = self._charged
            self.charge()
            if not before:
                tell("charged", 0, ())
            return self.answer(ask)

        try:
            data = take_part(
                post,
                answer,
                private=self.private,
                patience=self.job.timeouts.join,
                tell=tell,
            )
            if model_from_json(data).model.domain != self.job.domain:
                raise Code.BAD_REPLY.error(
                    expected=f"a tree under the domain of the job, of {post.coordinator.name}",
                    found="one under another domain",
                )
            with replacing(path) as file:
                file.write(data)
            self._finished()
            post.taken()
        finally:
            post.close()
        return path
