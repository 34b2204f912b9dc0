"""Units that PostgreSQL may run in step with others: all ask their first question, then all their second, and so on.

One after another, each unit of a group waits for the server as often as it asks; in step, the whole group waits once for each
question. What such a unit does must be right whatever other units do between its statements, and once it has changed something it
must go on to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from kontobahn.db.database import Row, Tx

P = ParamSpec("P")
T = TypeVar("T")


class Question(NamedTuple):
    """A statement whose first row is needed."""

    sql: str
    params: tuple[Any, ...]


def ask(sql: str, *params: Any) -> Question:
    return Question(sql, params)


# What a unit yields: a question, answered with the first row; or None, to sit out a step.
Steps = Generator[Question | None, Row | None, T]


class OutOfStep(Exception):
    """Nothing has been changed yet, and what has to be done now takes more than a few plain statements."""


class SteppedUnit(Protocol[P, T]):
    steps: Callable[Concatenate[Tx, P], Steps[T]]

    def __call__(self, tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T: ...


def in_steps(
    otherwise: Callable[Concatenate[Tx, P], T],
) -> Callable[[Callable[Concatenate[Tx, P], Steps[T]]], SteppedUnit[P, T]]:
    """Makes a unit of a generator. `otherwise` does the whole of it, on its own, if that is OutOfStep."""

    def decorate(steps: Callable[Concatenate[Tx, P], Steps[T]]) -> SteppedUnit[P, T]:
        def unit(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T:
            running, answer = steps(tx, *args, **kwargs), None
            try:
                while True:
                    question = running.send(answer)
                    answer = None if question is None else tx.one(question.sql, *question.params)
            except StopIteration as end:
                return cast(T, end.value)
            except OutOfStep:
                return otherwise(tx, *args, **kwargs)

        unit.__name__, unit.__doc__ = steps.__name__, steps.__doc__
        stepped = cast(SteppedUnit[P, T], unit)
        stepped.steps = steps
        return stepped

    return decorate
