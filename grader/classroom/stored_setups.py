"""The setups of a gradebook, and those whose results count.

Each row of the table `applied` adds a step or undoes the last one; a row whose `why` is "together"
belongs to the step before it.
"""

import msgspec

from grader.classroom import database, setups
from grader.classroom.merged_entries import BookPart
from grader.classroom.setups import Setup


class StoredSetups(BookPart):
    """The setups of a gradebook, by their numbers."""

    def number_of(self, setup: Setup) -> int:
        """The number of a setup; a new setup is added."""
        with self._db as db:
            db.execute(
                "INSERT OR IGNORE INTO setup (sha256, device, facts) VALUES (?, ?, ?)",
                (setup.sha256, setup.device, msgspec.json.encode(setup).decode()),
            )
        number = self.find(setup)
        assert number is not None
        return number

    def find(self, setup: Setup) -> int | None:
        """The number of a setup; None if the gradebook does not have it."""
        row = self._db.execute("SELECT id FROM setup WHERE sha256 = ?", (setup.sha256,)).fetchone()
        return row and int(row["id"])

    def get(self, number: int) -> Setup:
        """The setup with this number."""
        row = self._db.execute("SELECT facts FROM setup WHERE id = ?", (number,)).fetchone()
        return msgspec.json.decode(row["facts"], type=Setup)

    def _steps(self) -> list[dict[str, int]]:
        """The changes of the setups that count, by device, without those that were undone."""
        steps: list[dict[str, int]] = []
        for row in self._db.execute("SELECT device, setup, why FROM applied ORDER BY id"):
            device, setup = row["device"], int(row["setup"])
            before = [n for n, step in enumerate(steps) if device in step or row["why"] != "undo"]
            if row["why"] not in ("undo", "together"):
                steps.append({device: setup})
            elif not before:
                raise database.DamagedBook("the first change of what counts needs another")
            elif row["why"] == "undo":
                del steps[before[-1]]
            else:
                steps[-1][device] = setup
        return steps

    def in_force(self) -> dict[str, int]:
        """The number of the setup whose results count on each device that has one.

        A setup does not count before the other device has a setup that belongs together with it.
        """
        steps = self._steps()
        for count in range(len(steps), 0, -1):
            found = {device: setup for step in steps[:count] for device, setup in step.items()}
            first, *others = map(self.get, found.values())
            if all(setups.belong_together(first, other) for other in others):
                return found
        return {}

    def current(self, device: str) -> int | None:
        """The number of the setup whose results count on a device; None before the first."""
        return self.in_force().get(device)

    def apply(self, *numbers: int, why: str, who: str = "") -> None:
        """Make the results of setups count from now on, as one step: one setup for each device."""
        with self._db as db:
            db.executemany(
                "INSERT INTO applied (device, setup, who, why, at) VALUES (?, ?, ?, ?, ?)",
                [
                    (
                        self.get(setup).device,
                        setup,
                        who or database.user(),
                        "together" if place else why,
                        database.now(),
                    )
                    for place, setup in enumerate(numbers)
                ],
            )

    def undo(self, *, who: str = "") -> bool:
        """Make the results before the last step count again; return whether there were any."""
        steps = self._steps()
        if len(steps) < 2:
            return False
        setup = next(iter(steps[-1].values()))
        self.apply(setup, why="undo", who=who)
        return True

    def partner_of(self, setup: Setup) -> int | None:
        """The newest setup with results on the other device that belongs together with this one."""
        rows = self._db.execute(
            "SELECT DISTINCT setup.id FROM setup JOIN grade ON grade.setup = setup.id"
            " WHERE device IN ('cpu', 'cuda') AND device != ? ORDER BY setup.id DESC",
            (setup.device,),
        )
        found = (int(row["id"]) for row in rows)
        return next((n for n in found if setups.belong_together(setup, self.get(n))), None)

    def under_way(self) -> dict[str, int]:
        """How many sources have a result on each device of which no result counts yet."""
        rows = self._db.execute(
            "SELECT device, setup.id, COUNT(*) AS count FROM setup JOIN grade"
            " ON grade.setup = setup.id WHERE device IN ('cpu', 'cuda') AND fault = ''"
            " GROUP BY setup.id ORDER BY setup.id"
        ).fetchall()
        counting = self.in_force()
        return {row["device"]: row["count"] for row in rows if row["device"] not in counting}

    def unfinished(self) -> list[tuple[int, int, str]]:
        """The regrades that stopped: the setup that counts, the new one, and how much it graded.

        Of each device, it is the newest setup that never counted.
        """
        every = self._db.execute("SELECT COUNT(DISTINCT sources) FROM attempt").fetchone()[0]
        rows = self._db.execute(
            "SELECT device, MAX(setup.id) AS id, (SELECT COUNT(*) FROM grade"
            " WHERE grade.setup = MAX(setup.id) AND fault = '') AS count FROM setup"
            " WHERE id IN (SELECT setup FROM grade) AND id NOT IN (SELECT setup FROM applied)"
            " GROUP BY device"
        ).fetchall()
        counting = self.in_force()
        found = [(counting.get(row["device"], 0), row["id"], row["count"]) for row in rows]
        return [
            (old, new, f"{n} of {every}")
            for old, new, n in found
            if 0 < old < new and n < every and not self.get(new).is_part
        ]

    def last_other(self, device: str, current: int) -> int | None:
        """The newest setup on a device that has results and is not the current one."""
        row = self._db.execute(
            "SELECT MAX(setup.id) AS last FROM setup JOIN grade ON grade.setup = setup.id"
            " WHERE device = ? AND setup.id != ?",
            (device, current),
        ).fetchone()
        return row["last"] and int(row["last"])

    def before(self, device: str) -> int | None:
        """The setup that counted on a device before the current one; None if there was none."""
        counted = [step[device] for step in self._steps() if device in step]
        return counted[-2] if len(counted) > 1 else None
