"""The tasks by name. A task's folder is imported when it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING

from elmo.config import suggest

if TYPE_CHECKING:
    from elmo.tasks.task import Task

TASKS = {
    "bcn": "elmo.tasks.classification.bcn",
    "classification": "elmo.tasks.classification.task",
    "coref": "elmo.tasks.coref.task",
    "snli": "elmo.tasks.snli.task",
    "squad": "elmo.tasks.squad.task",
    "srl": "elmo.tasks.srl.task",
    "tagging": "elmo.tasks.tagging.task",
}


def task_named(name: str) -> "Task":
    """The task of a name.

    Raises:
        ValueError: If there is none; the nearest is suggested.
    """
    if name not in TASKS:
        raise ValueError(f'there is no task "{name}".{suggest(name, TASKS)}')
    task: Task = import_module(TASKS[name]).TASK
    return task
