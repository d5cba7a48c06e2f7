"""The worker runtime: functions that work off queues.

App, worker             declare functions, and run them: `penstock work module:app`
Task                    a declared function: call it, or send it messages
Retry                   what becomes of failures, by exception; `fixed`, `linear`, `exponential`
                        and `jittered` waits, `broker` and `dead`
RetryLater, Reject      what a function can say about its message by raising; `NonRetryable`
CircuitBreaker          stop asking a dependency that fails; `CircuitOpen`
Pool                    workers that are reserved for priorities or queues
Scaling                 let the number of workers follow the lag
Cron, Every, Missed     when periodic tasks are due
AppStatistics           what workers have done: `WorkerStatistics` for each
"""

from penstock.workers.app import App
from penstock.workers.breaker import CircuitBreaker, CircuitOpen
from penstock.workers.cron import Cron
from penstock.workers.default import default_app, worker
from penstock.workers.pools import Pool
from penstock.workers.retry import Retry, broker, dead, exponential, fixed, jittered, linear
from penstock.workers.runner import AppStatistics
from penstock.workers.scale import Scaling
from penstock.workers.schedules import Every, Missed, Schedule
from penstock.workers.statistics import WorkerStatistics
from penstock.workers.task import Task
from penstock.workers.verdicts import NonRetryable, Reject, RetryLater

__all__ = [
    "App",
    "AppStatistics",
    "CircuitBreaker",
    "CircuitOpen",
    "Cron",
    "Every",
    "Missed",
    "NonRetryable",
    "Pool",
    "Reject",
    "Retry",
    "RetryLater",
    "Scaling",
    "Schedule",
    "Task",
    "WorkerStatistics",
    "broker",
    "dead",
    "default_app",
    "exponential",
    "fixed",
    "jittered",
    "linear",
    "worker",
]
