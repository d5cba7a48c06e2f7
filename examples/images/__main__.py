"""python -m examples.images [url]: thumbnails by priority, previews later, broken ones set aside.

One queue with strict priorities: what a person waits for (9) goes before the nightly batch (1),
even though it was sent after it. A preview is wanted only after a second, so it is sent with a
delay. A job that can never work is rejected and ends among the dead letters with its reason.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

import penstock
from examples.images.picture import plasma
from penstock import App, Reject

JOBS = "image-jobs"
DEAD = "image-jobs-dlq"
PERSON, BATCH = 9, 1
PREVIEW_DELAY_SECONDS = 1.0
SECONDS_MAX = 60.0


class Job(msgspec.Struct, frozen=True):
    """Make a picture smaller."""

    name: str
    seed: int
    factor: int = 4


def make_app(url: str, directory: Path, done: dict[str, float]) -> App:
    """One worker, which resizes one picture after the other in a thread."""
    app = App(url, name="images")

    @app.worker(JOBS, concurrency=1, prefetch=1)
    def resize(job: Job) -> None:
        if job.factor < 1:
            raise Reject(f"{job.name} cannot be made {job.factor} times smaller")
        (directory / f"{job.name}.png").write_bytes(plasma(job.seed).thumbnail(job.factor).png())
        done[job.name] = time.monotonic()

    return app


async def send_jobs(client: penstock.Client) -> int:
    """A batch, then some that a person waits for, previews for later, and one that is broken."""
    jobs = client.queue(JOBS, codec=Job)
    await jobs.create(
        priorities="strict", deliveries_max=3, dead_letter=DEAD, lease=10, exist_ok=True
    )
    batch = [Job(f"batch-{number}", number) for number in range(8)]
    await jobs.send_many(batch, priority=BATCH)
    await jobs.send(Job("broken", 1, factor=0), priority=PERSON)
    people = [Job(f"person-{number}", 100 + number) for number in range(3)]
    await jobs.send_many(people, priority=PERSON)
    previews = [Job(f"preview-{number}", 200 + number, factor=8) for number in range(2)]
    await jobs.send_many(previews, priority=PERSON, delay=PREVIEW_DELAY_SECONDS)
    return len(batch) + len(people) + len(previews)


def _read_all(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.glob("*.png"))]


async def main() -> int:
    """Send, work, and tell in which order it was done."""
    parser = argparse.ArgumentParser(prog="python -m examples.images", description=__doc__)
    parser.add_argument("url", nargs="?", default="memory:", help="where the broker is")
    options = parser.parse_args()
    done: dict[str, float] = {}
    """Names, in the order in which they were done, and when."""
    with tempfile.TemporaryDirectory() as directory:
        app = make_app(options.url, Path(directory), done)
        async with asyncio.timeout(SECONDS_MAX):
            client = await app.client()
            began = time.monotonic()
            expected = await send_jobs(client)
            async with app:
                while len(done) < expected:  # noqa: ASYNC110 - a thread fills it
                    await asyncio.sleep(0.05)
                [dead] = await client.receive(DEAD, wait=20)
                print("done, in this order:", " ".join(done))
                print(f"set aside: {dead.body['name']}, because: {dead.dead_reason}")
                await dead.ack()
        sizes = [len(picture) for picture in _read_all(Path(directory))]
        print(f"{len(sizes)} pictures, {sum(sizes)} bytes")
    people, batch, previews = (
        [when for name, when in done.items() if name.startswith(kind)]
        for kind in ("person", "batch", "preview")
    )
    is_in_order = max(people) < min(batch)
    return 0 if is_in_order and min(previews) - began >= PREVIEW_DELAY_SECONDS else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
