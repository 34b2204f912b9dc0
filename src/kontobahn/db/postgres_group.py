"""Short writes that wait at the same moment share one commit on PostgreSQL too, each in its own savepoint.

A commit waits for the disk, and whoever holds a busy row makes the others wait as long: committed one by one, the writes of one
organisation cannot be quicker than the disk, however many processes serve it. One thread runs them together instead. A unit that
fails does not affect the others. Only the first unit of a group may wait for a lock: a later one that would wait is left to the
next group, so no group waits for another while that one waits for it, and nobody waits behind a stranger's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from psycopg import errors as pg

from kontobahn.clock import Clock
from kontobahn.db.database import Outcome, Question, Unit, joint_sets, notify_listeners, settle_all
from kontobahn.db.postgres_session import (
    CONFLICTS,
    Failed,
    Pipeline,
    PostgresSession,
    PostgresTx,
    take_answer,
    translate_error,
)

MAX_UNITS_PER_COMMIT = 64
# Whoever waits longer as the first goes on alone, where waiting holds up nobody; a later one hardly waits at all.
_THEN = "; SET LOCAL lock_timeout = '250ms'; SAVEPOINT unit"
_HARDLY_WAIT = "SET LOCAL lock_timeout = '5ms'"
# The owner of what was sent for the units that are done as sets.
_SETS = -1
_WOULD_WAIT = (pg.LockNotAvailable, *CONFLICTS)


class GroupWriter:
    """`begin` returns a session with a transaction begun; `run_alone` takes a unit that cannot be run in a group."""

    def __init__(
        self,
        begin: Callable[[PostgresSession | None, str, str], PostgresSession],
        run_alone: Callable[[Unit], None],
        listeners: dict[str, list[Callable[[], None]]],
        clock: Clock,
    ) -> None:
        self._begin = begin
        self._run_alone = run_alone
        self._listeners = listeners
        self._clock = clock
        self._units: SimpleQueue[Unit | None] = SimpleQueue()
        self._session: PostgresSession | None = None
        self._thread = threading.Thread(target=self._serve, name="postgres-group", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit) -> None:
        self._units.put(unit)

    def refuse_waiting(self, refusal: Exception) -> None:
        """Refuses the units that have not begun."""
        with suppress(Empty):
            while (unit := self._units.get_nowait()) is not None:
                unit.promise.settle(None, refusal)
            self._units.put(None)

    def close(self) -> None:
        """Finishes what is queued, then closes."""
        self._units.put(None)
        self._thread.join()

    def _serve(self) -> None:
        batch: list[Unit] = []
        last = False
        while not last or batch:
            last = self._fill(batch) or last
            if batch:
                batch = self._commit_together(batch)
        if self._session is not None:
            self._session.close()

    def _fill(self, batch: list[Unit]) -> bool:
        """Adds what is waiting; waits only for a first unit. Returns whether it was the end."""
        left_over = len(batch)
        with suppress(Empty):
            while len(batch) < MAX_UNITS_PER_COMMIT:
                unit = self._units.get_nowait() if batch else self._units.get()
                if unit is None:
                    return True
                batch.append(unit)
        # Groups of several processes that take their locks in the same order seldom wait for each other.
        batch[left_over:] = sorted(batch[left_over:], key=lambda unit: unit.organization_id)
        return False

    def _commit_together(self, batch: list[Unit]) -> list[Unit]:
        """Runs the units in one transaction, and returns those that still have to be run."""
        group, failure = _Group(batch), None
        try:
            self._session = self._begin(self._session, "READ COMMITTED", _THEN)
            group.run(Pipeline(self._session), self._clock)
        except BaseException as error:
            # Nothing of this group was written, or (OutcomeUnknown) nobody knows. Its connection is closed: what is still on its
            # way cannot be told apart any more.
            failure = translate_error(error)
            if self._session is not None:
                self._session.close()
        outcomes = group.outcomes(failure)
        for unit, _, own_error in outcomes:
            if unit.notices and own_error is None:
                notify_listeners(self._listeners, unit)
        settle_all(outcomes)
        for unit in group.alone:
            self._run_alone(unit)
        return group.left


class _Group:
    """The units of one transaction, and what becomes of them."""

    def __init__(self, batch: list[Unit]) -> None:
        self._batch = batch
        # By the position in the batch.
        self._done: dict[int, Any] = {}
        self._errors: dict[int, BaseException] = {}
        self._alone: set[int] = set()
        self._left: set[int] = set()
        # Those of `_done` that were done as sets: they are undone together, or not at all.
        self._joint: set[int] = set()

    def run(self, pipeline: Pipeline, clock: Clock) -> None:
        """Runs the units and commits. What a unit has sent may fail while later ones run: these are then run again."""
        self._run_joint(pipeline, clock)
        position = 0
        while True:
            while position < len(self._batch):
                position = position + 1 if self._is_over(position) else self._run_one(pipeline, position, clock)
            failed = pipeline.commit()
            if failed is None:
                return
            position = self._go_back(pipeline, failed)

    def _is_over(self, position: int) -> bool:
        return position in self._joint or position in self._left

    def _run_joint(self, pipeline: Pipeline, clock: Clock) -> None:
        """Runs the units that are done as sets. If anything fails, all of it is undone: they are run one after another then."""
        sets = joint_sets(self._batch)
        if not sets:
            return
        pipeline.owner = _SETS
        try:
            for found in sets:
                tx = PostgresTx(pipeline, clock.now(), self._batch[found.positions[0]])
                self._done |= found.run(tx, _Asker(pipeline))
        except BaseException:
            pipeline.settle()
            pipeline.put("ROLLBACK TO unit", ())
            self._done.clear()
            return
        self._joint = set(self._done)
        self._begin_next(pipeline)

    def _run_one(self, pipeline: Pipeline, position: int, clock: Clock) -> int:
        """Returns the position to go on at."""
        pipeline.owner = position
        unit = self._batch[position]
        try:
            self._done[position] = unit.fn(PostgresTx(pipeline, clock.now(), unit), *unit.args, **unit.kwargs)
            self._begin_next(pipeline)
            return position + 1
        except BaseException as error:
            return self._go_back(pipeline, pipeline.settle() or Failed(position, error))

    def _begin_next(self, pipeline: Pipeline) -> None:
        pipeline.put("RELEASE unit", ())
        if len(self._done) == 1:
            pipeline.put(_HARDLY_WAIT, ())
        pipeline.put("SAVEPOINT unit", ())

    def _go_back(self, pipeline: Pipeline, failed: Failed) -> int:
        """To where the unit that failed began. Returns the position to go on at."""
        pipeline.put("ROLLBACK TO unit", ())
        position, error = failed
        if position == _SETS:
            # The statements of the sets failed: none of them is done now, nor anything after them.
            self._joint.clear()
            self._done.clear()
            self._errors.clear()
            self._alone.clear()
            self._left.clear()
            return 0
        self._done = {done: result for done, result in self._done.items() if done < position or done in self._joint}
        if not isinstance(error, _WOULD_WAIT):
            self._errors[position] = translate_error(error)
        elif self._done:
            self._left = set(range(position, len(self._batch))) - self._joint
        else:
            self._alone.add(position)
        return position + 1

    def outcomes(self, failure: BaseException | None) -> list[Outcome]:
        """Returns what to tell the callers of the units that were run; `failure` is that of the whole transaction."""
        return [
            (unit, None, error)
            if (error := self._errors.get(position, failure))
            else (unit, self._done[position], None)
            for position, unit in enumerate(self._batch)
            if position not in self._alone and position not in self._left
        ]

    @property
    def alone(self) -> list[Unit]:
        """Those that cannot be run in a group, because they wait for somebody's lock."""
        return [self._batch[position] for position in self._alone]

    @property
    def left(self) -> list[Unit]:
        """Those for the next group."""
        return [self._batch[position] for position in sorted(self._left)]


class _Asker:
    """Puts the questions of a set, a round at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._is_first_round = True

    def __call__(self, questions: Sequence[Question]) -> list[Any]:
        for number, question in enumerate(questions):
            self._pipeline.put(question.sql, question.params, wanted=True)
            if number == 0 and not self._is_first_round:
                self._pipeline.put(_HARDLY_WAIT, ())
        self._is_first_round = False
        answers = self._pipeline.answers() if questions else []
        return [take_answer(question, result) for question, result in zip(questions, answers, strict=True)]
