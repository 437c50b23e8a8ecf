"""tsxla's driver on a Ray cluster: the entry point of the job that src/train/ray/run.ts submits. Python 3.9 or later.

    python -m tsxla_driver.main '<request as JSON>'     or @file

It places the workers with ray.train, each of which runs node (worker.py), and prints what they say: what the engine must
know as '@tsxla {json}', the rest as the log.
"""
import asyncio
import base64
import contextlib
import errno
import glob
import json
import os
import shutil
import signal
import sys
import threading

os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # workers stay in the uploaded project
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")  # checkpoints are acknowledged at these: 2 s by default
os.environ.setdefault("RAY_TRAIN_METRICS_ENABLED", "0")
import ray  # noqa: E402  (the settings above are read when these are imported)
import ray.train as rt  # noqa: E402
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from .start import Missing, NodeConfig, Over  # noqa: E402
from .worker import REPORTS, WORKER_ENV, texts, work  # noqa: E402

RESOURCES, MISSING = 75, 78  # exit codes: the cluster cannot place the workers; a worker lacks something
ENDING = 10  # seconds of those that Ray gives us to end, for what comes when the workers have ended


class Desk:
    """An actor beside the driver: what workers print and report, what all of them are to do, and their sums."""

    def __init__(self, attempt):
        self.events = []
        self.attempt = attempt
        self.changed = asyncio.Condition()
        self.open, self.over = True, None  # why no other workers may begin
        self._group(0)

    def _group(self, world):
        self.world, self.orders, self.finished, self.came, self.met = world, [], set(), {}, None

    async def begin(self, world):
        """A new group of workers: its number, or why there is none."""
        if self.over:
            return self.over
        self._group(world)
        self.attempt += 1
        return self.attempt - 1

    async def state(self):
        """The number of the next group, and why there is to be none."""
        return self.attempt, self.over

    async def end(self):
        """The group is gone."""
        self._group(0)
        await self._change()

    async def _change(self):
        async with self.changed:
            self.changed.notify_all()

    async def _until(self, holds):
        async with self.changed:
            await self.changed.wait_for(holds)

    async def tell(self, events):
        self.events += events
        for event in events:
            if event.get("final"):  # a mistake, which would be one again
                self.over = f"rank {event['rank']}: {event['name']}: {event['message']}"
        await self._change()

    async def listen(self):
        """What was told since the last call; None when there will be no more."""
        await self._until(lambda: self.events or not self.open)
        events, self.events = self.events, []
        return events or None

    async def close(self):
        self.open = False
        await self._change()

    async def save(self, report, metrics):
        """A rank has a checkpoint of its report with this number: all of them come together to save it."""
        if all(kind != "save" or what[0] != report for kind, what in self.orders):
            await self._order("save", (report, metrics))

    async def _order(self, kind, what=None):
        self.orders.append((kind, what))
        await self._change()

    async def next_order(self, known):
        """What all ranks are to do or to know after the first `known`, or None when every rank has ended."""
        await self._until(lambda: len(self.orders) > known or self._all_ended())
        return self.orders[known] if len(self.orders) > known else None

    def _all_ended(self):
        return len(self.finished) >= self.world

    async def finish(self, rank, met):
        """A rank has ended, which had waited for the others so often."""
        self.finished.add(rank)
        await self._order("left", (rank, met))

    async def stop(self):
        """The workers may save and leave; it returns when they have, and no others will begin."""
        self.over = "it was stopped"
        await self._order("stop")
        await self._until(self._all_ended)

    async def meet(self, rank, place, array=None):
        """Waits until every rank has come; gives what is wrong with where they are, or None, and the sum of their arrays."""
        met = self.met = self.met or asyncio.get_running_loop().create_future()
        self.came[rank] = place, array
        if len(self.came) == self.world:
            places, arrays = zip(*(self.came[rank] for rank in range(self.world)))
            why = odd_one(places)
            met.set_result((why, sum(arrays) if array is not None and not why else None))
            self.came, self.met = {}, None
        return await met

    async def late(self):
        """Who has come to the meeting that is under way, and who has not."""
        return [sorted(self.came), [rank for rank in range(self.world) if rank not in self.came]]


def odd_one(places):
    """A rank that is elsewhere would be waited for without end."""
    odd = next((rank for rank, place in enumerate(places) if place != places[0]), None)
    return None if odd is None else (
        f"worker 0 is at {shown(places[0])}, and worker {odd} at {shown(places[odd])}: workers must do the same in the same order, "
        "with tensors of the same sizes")


def shown(place):
    """Where a rank is among what all do together, in words."""
    what, _, size = place
    return f"{what} of {size} number{'s' * (size != 1)}" if size else what


def say(event):
    print("@tsxla " + json.dumps(event), flush=True)


def follow(desk, prefix):
    while (events := ray.get(desk.listen.remote())) is not None:
        for event in events:
            if event["type"] == "log":
                print(f"[rank {event['rank']}] {event['line']}" if prefix else event["line"], flush=True)
            else:
                say(event)


def amounts(resources):
    unseen = ("node:", "memory", "object_store")  # nobody asked for those, nor for what a placement group is called
    shown = {name: count for name, count in resources.items() if not name.startswith(unseen) and "_group_" not in name}
    return ", ".join(f"{name} {count:g}" for name, count in sorted(shown.items())) or "nothing"


def unplaceable(request, trainer):
    scaling = trainer.scaling_config
    want = f"{scaling.num_workers} x ({amounts(scaling._resources_per_worker_not_none)})"
    if scaling.topology:
        want += f" on a slice {scaling.accelerator_type} {scaling.topology}"
    return (f"the cluster could not place the workers within {request['start_timeout']} s: wanted {want}; "
            f"in all {amounts(ray.cluster_resources())}; free {amounts(ray.available_resources())}")


def main(request):
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(request["start_timeout"])
    if request["device"] == "cpu":  # nobody takes CPUs back early, and the watcher is a process more to start
        os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
    deaths = 0
    while (code := run(request, is_last=0 <= request["max_failures"] <= deaths)) is None:
        deaths += 1
    return code


def run(request, is_last):
    """The exit code, or None where a worker died at its start and this was not the last time that it may."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    ray.init(log_to_driver=False, logging_level="warning")
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    desk = ray.remote(Desk).options(num_cpus=0, scheduling_strategy=here).remote(request["attempt"])

    def stop(*_):
        """Ray stops a job with SIGTERM, and kills what is left of it some seconds later. Workers are told first; ray.train's
        own way to end a run in order listens to SIGINT."""
        wait = int(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", 3)) - ENDING
        with contextlib.suppress(ray.exceptions.RayError):  # also that the time is over
            ray.get(desk.stop.remote(), timeout=max(wait, 0))
        signal.alarm(ENDING)  # ray.train hears nothing while it starts workers: then all of it ends with this process
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, stop)
    say({"type": "driver", "pid": os.getpid(), "ray": ray.__version__})
    thread = threading.Thread(target=follow, args=(desk, True), daemon=True)
    thread.start()
    try:
        return fit(request, desk, is_last)
    except Exception as error:  # what ray.train refuses before it begins: a storage that cannot be written, ...
        failed = {"type": "failed", "why": "controller", "message": f"{type(error).__name__}: {error}"}
        ray.get(desk.tell.remote([failed]))
        return 1
    finally:
        if request.get("storage"):  # what workers were writing when they were ended
            shutil.rmtree(os.path.join(request["storage"], request["name"], ".saving"), ignore_errors=True)
        ray.get(desk.close.remote())
        thread.join(10)
        ray.shutdown()  # ends what ray.train leaves of workers that it could not start


def trainer_of(request, desk):
    keep = request["checkpoints"]
    return DataParallelTrainer(
        work,
        train_loop_config={"request": request, "desk": desk},
        backend_config=NodeConfig(request, desk),
        scaling_config=rt.ScalingConfig(**request["scaling"]),
        run_config=rt.RunConfig(
            name=request["name"],
            storage_path=request.get("storage"),
            checkpoint_config=rt.CheckpointConfig(**keep),
            # By default a request that cannot be satisfied is tried for ever.
            failure_config=rt.FailureConfig(max_failures=request["max_failures"], controller_failure_limit=0),
        ),
    )


def make_storage(storage, name):
    """Ray would say it in thirty lines."""
    if storage and "://" not in storage:
        if glob.glob(os.path.join(glob.escape(os.path.join(storage, name)), "checkpoint-[0-9]*")):
            raise FileExistsError(errno.EEXIST, f"{name} has checkpoints of a run without Ray, which keeps them in another way")
        os.makedirs(storage, exist_ok=True)
        if not os.access(storage, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def died_at_start(cause):
    """Whether a worker died before its training began. ray.train tries that again as often as a request that cannot be
    satisfied: never. To us it is the death of a worker as any other."""
    return isinstance(cause, ray.exceptions.RayActorError) or "actors failed to initialize" in str(cause)


def fit(request, desk, is_last):
    """As `run`."""
    trainer = trainer_of(request, desk)
    try:
        make_storage(request.get("storage"), request["name"])
        result = trainer.fit()
    except OSError as error:
        message = f"{request['storage']} cannot keep checkpoints: {error.strerror or error}: choose another storagePath or name"
        ray.get(desk.tell.remote([{"type": "failed", "why": "controller", "message": message}]))
        return 1
    except rt.WorkerGroupError as error:
        failures = [str(failure).strip().splitlines()[-1] for failure in error.worker_failures.values()]
        ray.get(desk.tell.remote([{"type": "failed", "why": "workers", "message": "; ".join(failures)}]))
        return 1
    except rt.ControllerError as error:
        cause = error.controller_failure
        if isinstance(cause, Over):
            why, message, code = "workers", str(cause), 1
        elif isinstance(cause, Missing):
            why, message, code = "missing", str(cause), MISSING
        elif type(cause).__name__ in ("WorkerGroupStartupTimeoutError", "InsufficientClusterResourcesError"):
            why, message, code = "resources", unplaceable(request, trainer), RESOURCES
        elif died_at_start(cause):
            request["attempt"], over = ray.get(desk.state.remote())
            if not is_last and not over:
                return None
            why, message, code = "workers", "a worker died before its training began", 1
        else:
            why, message, code = "controller", f"{type(cause).__name__}: {cause}", 1
        ray.get(desk.tell.remote([{"type": "failed", "why": why, "message": message}]))
        return code
    # Ray lists them by their score: by their names they are in the order in which they were kept.
    kept = sorted(result.best_checkpoints or [], key=lambda pair: pair[0].path)
    for _, metrics in kept:
        metrics.pop(REPORTS, None)
    checkpoints = [{"path": checkpoint.path, "metrics": texts(metrics)} for checkpoint, metrics in kept]
    ray.get(desk.tell.remote([{"type": "result", "checkpoints": checkpoints, "path": result.path}]))
    return 0


if __name__ == "__main__":
    given = sys.argv[1]
    asked = json.loads(open(given[1:]).read() if given.startswith("@") else given)
    asked["env"].update(json.loads(base64.b64decode(os.environ.get(WORKER_ENV, "e30="))))  # {} if there is none
    sys.exit(main(asked))
