"""`zklock.aio.Election` and `zklock.aio.Leadership`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from types import CoroutineType, TracebackType
from typing import Any, cast, final

from zklock import _zklock
from zklock._decorators import awaitable, check_any_body
from zklock._errors import Error
from zklock._rounds import failed
from zklock._zklock import Candidate, Notice
from zklock.aio._client import Client, source
from zklock.aio._lease import Lease
from zklock.aio._scope import Scope, leave_scope
from zklock.aio._tasks import call_soon, outcome, represent, running_loop, this_task, this_task_if_any


@final
class Leadership(Lease):
    """Proof of leadership, returned by `Election.campaign()`: a `Lease` of the election's lock.

    >>> async with election.lead() as leadership:
    ...     leadership.check()

    The election keeps the lease until the leadership is resigned or lost, even if the program drops the
    lease.
    """

    __slots__ = ()

    def resign(self, wait: bool = True, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Let the next candidate lead. This is another name for `release()`.

        >>> async with election.lead() as leadership:
        ...     await leadership.resign()
        """
        return self.release(wait, timeout)


@final
class Election:
    """A candidate in the election at a path. It can also be used only to observe the leader.

    >>> election = aio.Election(client, "/elections/scheduler", id="scheduler-1")
    >>> async with election.lead() as leadership:
    ...     await run_scheduler(leadership.fencing_token)

    An election object is one candidate, even if several tasks campaign. See `zklock.Election` for the
    details.
    """

    __slots__ = ("__weakref__", "_inner")

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        *,
        id: str | None = None,  # noqa: A002
        options: _zklock.ClientOptions | None = None,
    ) -> None:
        self._inner = _zklock.Election(source(client), path, id=id, options=options)

    @property
    def path(self) -> str:
        """The path of the election."""
        return self._inner.path

    @property
    def id(self) -> str:
        """The candidate's id."""
        return self._inner.id

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads. Sends no request. See `zklock.Election.is_leader`."""
        return self._inner.is_leader

    def campaign(
        self, timeout: float | None = -1, *, connect_timeout: float | None = None
    ) -> Coroutine[Any, Any, Leadership]:
        """Become a candidate, wait until it leads, and return the leadership. See `zklock.Election.campaign`.

        >>> leadership = await election.campaign(timeout=5)
        >>> await leadership.resign()

        If the call is cancelled, the candidate is withdrawn.
        """
        return self._lead_on(this_task_if_any(), _zklock.Timeout(True, timeout, connect_timeout))

    def lead(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Lead:
        """Return an async context manager that campaigns, and resigns at the end of the block.

        >>> async with election.lead(timeout=5):
        ...     election.is_leader
        True

        A loss of the leadership cancels the task inside the block. The end of the block then raises
        `LockLost`.
        """
        return Lead(self, _zklock.Timeout(True, timeout, connect_timeout))

    def run(self, body: Callable[[Leadership], Awaitable[object]]) -> Coroutine[Any, Any, None]:
        """Lead whenever possible: campaign, await `body(leadership)`, resign, and campaign again.

        >>> await election.run(schedule)

        A loss of the leadership cancels the body, as in `lead()`, and another campaign follows. Cancelling
        the call cancels the body, and the candidate resigns. See `zklock.Election.run` for the pauses between
        campaigns, and for the conditions under which the call returns.
        """
        check_any_body(body)
        return self._run(body)

    def leader(self) -> Coroutine[Any, Any, Candidate | None]:
        """Return the candidate that leads or is about to lead, or None. See `zklock.Election.leader`.

        >>> async with election.lead():
        ...     (await election.leader()).id
        'scheduler-1'
        """
        return outcome(_zklock.start_leader(self._inner))

    def candidates(self) -> Coroutine[Any, Any, list[Candidate]]:
        """Return the candidates, in the order in which they will lead.

        >>> async with election.lead():
        ...     [candidate.id for candidate in await election.candidates()]
        ['scheduler-1']
        """
        return outcome(_zklock.start_candidates(self._inner))

    async def observe(self) -> AsyncGenerator[Candidate | None]:
        """Yield the current leader, now and after each change, or None while there is no candidate.

        >>> async with election.lead():
        ...     async for leader in election.observe():
        ...         print(leader.id)
        ...         break
        scheduler-1

        The caller need not be a candidate. The client watches only one node, regardless of the number of
        candidates. If the leader changes several times before the caller reads the next value, only the last
        change is yielded.
        """
        leaders = _zklock.observe(self._inner)
        while True:
            yield await outcome(_zklock.start_next_leader(leaders))

    def on_leader(self, callback: Callable[[Candidate | None], object]) -> Notice:
        """Make the event loop call `callback` with the leader, now and after each change. See `observe()`.

        >>> notice = election.on_leader(lambda leader: print("leads:", leader))
        >>> notice.cancel()

        See `zklock.Election.on_leader`.
        """
        event_loop = running_loop()
        return self._inner.on_leader(
            _zklock.NotifyEventLoop(lambda leader: call_soon(event_loop, callback, leader))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        function, (_, *how) = self._inner.__reduce__()
        return function, (Election, *how)

    def __repr__(self) -> str:
        return represent(self._inner)

    async def _run(self, body: Callable[[Leadership], Awaitable[object]]) -> None:
        rounds = _zklock.Rounds(self._inner)
        while (pause := await self._round(rounds, body)) is not None:
            await outcome(rounds.start_pause(pause))

    async def _round(
        self, rounds: _zklock.Rounds, body: Callable[[Leadership], Awaitable[object]]
    ) -> float | None:
        if rounds.are_over():
            return None
        leadership: Leadership | None = None
        try:
            async with self.lead() as leadership:
                rounds.begin()
                await awaitable(body(leadership))
        except Error as error:
            return failed(rounds, leadership, error)
        return rounds.end()

    async def _campaign(self, caller: _zklock.Owner | None, wait_limit: _zklock.Timeout) -> Leadership:
        inner = await outcome(_zklock.start_campaign(self._inner, caller, wait_limit))
        return Leadership(inner)

    async def _lead_on(self, caller: _zklock.Owner | None, wait_limit: _zklock.Timeout) -> Leadership:
        inner = await outcome(_zklock.start_campaign(self._inner, caller, wait_limit))
        leadership = Leadership(inner)
        _zklock.keep(self._inner, inner, leadership)
        return leadership


@final
class Lead:
    """The result of `Election.lead()`. It can be entered more than once."""

    __slots__ = ("_election", "_scopes", "_wait_limit")

    def __init__(self, election: Election, wait_limit: _zklock.Timeout) -> None:
        self._election = election
        self._wait_limit = wait_limit
        self._scopes = _zklock.Scopes()

    def __aenter__(self) -> CoroutineType[Any, Any, Leadership]:
        entering = self._enter(this_task(), _zklock.Site(sys._getframe(1)))
        return cast("CoroutineType[Any, Any, Leadership]", entering)

    def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> CoroutineType[Any, Any, None]:
        site = _zklock.Site(sys._getframe(1))
        return leave_scope(self._scopes.leave(this_task_if_any(), site, value is not None), value)

    async def _enter(self, owner: _zklock.Owner, site: _zklock.Site) -> Leadership:
        leadership = await self._election._campaign(owner, self._wait_limit)
        self._scopes.push(owner, leadership._inner, Scope(leadership), site)
        return leadership
