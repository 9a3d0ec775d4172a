"""Publishes the policy, tickets for evaluations and lessons to the workers."""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.learning.lesson_office import LessonOffice
from tfagents_system.records.lesson_rows import LessonRecord
from tfagents_system.records.run_history import returns_of
from tfagents_system.services.tickets import TicketOffice
from tfagents_system.services.variables import VariablePublisher


class Publications:
    """Publishes the policy, and with it what the learner has decided for all workers."""

    def __init__(
        self,
        run: Run,
        client: Any,
        variables: Sequence[tf.Variable],
        fence: Fence,
        train_step: int,
    ):
        """Sends no request yet.

        Args:
          run: The run.
          client: Connection to the replay server.
          variables: The policy's variables, read at each `publish`.
          fence: Fence of this start of the learner; once superseded, nothing is published.
          train_step: Number of train steps done.
        """
        self._fence = fence
        courses = run.curriculum.courses
        self._publisher = VariablePublisher(client, variables, num_courses=len(courses))
        recorded = functools.partial(returns_of, run.paths)
        self.tickets = TicketOffice(client, variables, run.params, run.paths.evaluation, recorded)
        record = LessonRecord(run.paths.episodes)
        self.lessons = LessonOffice(
            courses, run.paths.lessons, record, train_step, run.num_train_steps
        )

    def publish(self, train_step: int, is_last: bool, timeout_secs: float = 5.0) -> bool:
        """Publishes due tickets, then the policy with the lessons; returns whether all is done."""
        self._fence.look()
        self.lessons.decide(train_step)
        are_handed_out = self.tickets.hand_out_if_due(train_step, is_last)
        is_published = self._publisher.publish(
            train_step, self.tickets.num_tickets, timeout_secs, self.lessons.lessons
        )
        return is_published and are_handed_out
