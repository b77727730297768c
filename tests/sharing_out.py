"""How two workers share the tests: by file, and those of one model's window together."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

EVERY_MODEL = "tests/views/every_model/"


class BySharedFixture(LoadFileScheduling):
    """Gives a worker what shares a fixture: the tests of a file, or those of all files that have one window."""

    def _split_scope(self, nodeid: str) -> str:
        """What a test is given out with."""
        if nodeid.startswith(EVERY_MODEL):
            return EVERY_MODEL + nodeid.partition("[")[2]
        return super()._split_scope(nodeid)
