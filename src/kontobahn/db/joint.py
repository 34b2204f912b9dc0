"""Units that are done as a set: those that wait at the same moment change each row once, and write what they add in one statement.

One after another, each unit of a group would lock, change and wait on its own, though all of them may concern the same row. Such a
unit is only a request; one function does all requests of a group. It asks in rounds, each answered with the first rows of its
questions, and then writes. What it does must be right whatever other units do between its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from kontobahn.db.database import Row, Tx, Unit

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Question(NamedTuple):
    """A statement whose first row is needed."""

    sql: str
    params: tuple[Any, ...]


def ask(sql: str, *params: Any) -> Question:
    return Question(sql, params)


# What becomes of a request for which nothing was changed, because it takes more than a few plain statements.
LEFT_OUT: Final = object()

# Yields the questions of a round, is sent their answers, and returns what becomes of each request. The first round may only touch
# what is its own; from the second on, all but the first question hardly wait for somebody else's lock. It notifies nobody.
Rounds = Generator[Sequence[Question], Sequence[Row | None], Sequence[Any]]
Joint = Callable[[Tx, Sequence[Any]], Rounds]


class JointUnit(Protocol[P, T_co]):
    joint: Joint
    request: Callable[P, Any]

    def __call__(self, tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


def done_by(
    joint: Joint, *, otherwise: Callable[Concatenate[Tx, P], T]
) -> Callable[[Callable[P, Any]], JointUnit[P, T]]:
    """Makes a unit of a function that says what is requested. `otherwise` does the whole of it, if it is LEFT_OUT."""

    def decorate(request: Callable[P, Any]) -> JointUnit[P, T]:
        def unit(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T:
            result = do_alone(tx, joint, request(*args, **kwargs))
            return otherwise(tx, *args, **kwargs) if result is LEFT_OUT else cast(T, result)

        unit.__name__, unit.__doc__ = request.__name__, request.__doc__
        made = cast(JointUnit[P, T], unit)
        made.joint, made.request = joint, request
        return made

    return decorate


def run_rounds(rounds: Rounds, answer: Callable[[Sequence[Question]], Sequence[Row | None]]) -> Sequence[Any]:
    answers: Sequence[Row | None] | None = None
    try:
        while True:
            # The first `send` begins it.
            answers = answer(rounds.send(cast(Any, answers)))
    except StopIteration as end:
        return cast(Sequence[Any], end.value)


def do_alone(tx: Tx, joint: Joint, request: Any) -> Any:
    """Meets one request; or returns LEFT_OUT."""
    (result,) = run_rounds(joint(tx, [request]), one_by_one(tx))
    return result


def one_by_one(tx: Tx) -> Callable[[Sequence[Question]], Sequence[Row | None]]:
    return lambda questions: [tx.one(question.sql, *question.params) for question in questions]


class UnitSet(NamedTuple):
    """Units that one function does as a set: where they stand in their group, and what they request."""

    joint: Joint
    positions: list[int]
    requests: list[Any]

    def run(self, tx: Tx, answer: Callable[[Sequence[Question]], Sequence[Row | None]]) -> dict[int, Any]:
        """Returns the results of those that were not left out, by position."""
        results = zip(self.positions, run_rounds(self.joint(tx, self.requests), answer), strict=True)
        return {position: result for position, result in results if result is not LEFT_OUT}


def joint_sets(units: Sequence[Unit]) -> list[UnitSet]:
    """The sets of two or more among these units."""
    sets: dict[Joint, UnitSet] = {}
    for position, unit in enumerate(units):
        fn: Any = unit.fn
        if hasattr(fn, "joint"):
            found = sets.setdefault(fn.joint, UnitSet(fn.joint, [], []))
            found.positions.append(position)
            found.requests.append(fn.request(*unit.args, **unit.kwargs))
    return [found for found in sets.values() if len(found.positions) > 1]
