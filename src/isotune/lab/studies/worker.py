"""A worker process: `python -m isotune.lab.studies.worker` makes the runs that standard input asks for.

Each line of standard input is a `Job`, and each line of standard output an `Answer`, both as JSON. The process ends at
once when its input ends, which happens too when the study that drives it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from queue import SimpleQueue
from threading import Thread

from pydantic import BaseModel

from isotune.errors import InputError
from isotune.kernels.memory import tune_process
from isotune.lab.studies.job import Job, Stopped, make


class Answer(BaseModel):
    """How a job ended."""

    problem: str = ""  # why the run failed; "" if it did not
    stopped: bool = False  # whether a signal stopped the run, or the run was never begun
    died: bool = False  # whether the worker process ended during the run


def main() -> None:
    """Makes runs until the input ends."""
    tune_process()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print belongs in the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the study, which stops its workers by SIGTERM
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read_input, args=(lines,), daemon=True).start()
    while True:
        answer = _answer(Job.model_validate_json(lines.get()))
        print(answer.model_dump_json(), file=answers, flush=True)


def _read_input(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _answer(job: Job) -> Answer:
    try:
        make(job)
    except Stopped:
        return Answer(stopped=True)
    except (InputError, OSError) as error:
        return Answer(problem=str(error))
    except Exception as error:  # the other runs go on, whatever went wrong in this one
        traceback.print_exc()
        return Answer(problem=f"{type(error).__name__}: {error}")
    return Answer()


if __name__ == "__main__":
    main()
