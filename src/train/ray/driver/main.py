"""tsxla's driver on a Ray cluster: the entry point of the job that src/train/ray/run.ts submits. Python 3.9 or later.

    python -m tsxla_driver.main '<request as JSON>'     or @file

It places the workers with ray.train, each of which runs node (worker.py), and prints events for the engine as lines
'@tsxla {json}', and the workers' output as the log.
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
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")  # checkpoints are acknowledged at health checks; Ray's default is 2 s
os.environ.setdefault("RAY_TRAIN_METRICS_ENABLED", "0")
try:  # the settings above are read when these are imported
    import ray  # noqa: E402
    import ray.train as rt  # noqa: E402
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # noqa: E402
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402
except ImportError as lacking:  # a restart would fail in the same way
    reason = (f"the cluster's Python {sys.executable} cannot import ray.train ({str(lacking).rstrip('.')}): run "
              "pip install 'ray[default,train]' on every machine, or pass --python (ray: { python }) for another Python")
    print("@tsxla " + json.dumps({"type": "failed", "why": "controller", "message": reason}), flush=True)
    sys.exit(1)

from .data import NoFiles, dataset_of  # noqa: E402
from .start import Missing, NodeConfig, Over  # noqa: E402
from .worker import REPORTS, WORKER_ENV, texts, work  # noqa: E402

RESOURCES, MISSING = 75, 78  # exit codes: the cluster cannot place the workers; a worker lacks something
ENDING = 10  # seconds of the job's grace period that are reserved for the time after the workers have ended


class Desk:
    """An actor beside the driver. It collects the workers' events, and coordinates their checkpoints, ends and collectives."""

    def __init__(self, attempt):
        self.events = []
        self.attempt = attempt
        self.changed = asyncio.Condition()
        self.open, self.over = True, None  # over: why no new group of workers may begin
        self._group(0)

    def _group(self, world):
        self.world, self.orders, self.finished, self.came, self.met = world, [], set(), {}, None

    async def begin(self, world):
        """Begins a new group of workers. Returns its number, or why it may not begin."""
        if self.over:
            return self.over
        self._group(world)
        self.attempt += 1
        return self.attempt - 1

    async def state(self):
        """The number of the next group, and why it may not begin, or None."""
        return self.attempt, self.over

    async def end(self):
        """The group of workers was shut down."""
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
            if event.get("final"):  # a restart would fail in the same way
                self.over = f"rank {event['rank']}: {event['name']}: {event['message']}"
        await self._change()

    async def listen(self):
        """The events since the last call; None once there will be no more."""
        await self._until(lambda: self.events or not self.open)
        events, self.events = self.events, []
        return events or None

    async def close(self):
        self.open = False
        await self._change()

    async def save(self, report, metrics):
        """A rank reported a checkpoint in the report with this number: orders all ranks to save it together."""
        if all(kind != "save" or what[0] != report for kind, what in self.orders):
            await self._order("save", (report, metrics))

    async def _order(self, kind, what=None):
        self.orders.append((kind, what))
        await self._change()

    async def next_order(self, known):
        """The order after the first `known` ones, for all ranks, or None once every rank has ended."""
        await self._until(lambda: len(self.orders) > known or self._all_ended())
        return self.orders[known] if len(self.orders) > known else None

    def _all_ended(self):
        return len(self.finished) >= self.world

    async def finish(self, rank, met):
        """A rank has ended, after `met` collectives."""
        self.finished.add(rank)
        await self._order("left", (rank, met))

    async def stop(self):
        """Asks the workers to save and leave, and waits until they have. No new group may begin."""
        self.over = "the run was stopped"
        await self._order("stop")
        await self._until(self._all_ended)

    async def meet(self, rank, place, array=None):
        """Waits until every rank has called it. Returns an error if their places differ, or None, and the sum of their arrays."""
        met = self.met = self.met or asyncio.get_running_loop().create_future()
        self.came[rank] = place, array
        if len(self.came) == self.world:
            places, arrays = zip(*(self.came[rank] for rank in range(self.world)))
            why = odd_one(places)
            met.set_result((why, sum(arrays) if array is not None and not why else None))
            self.came, self.met = {}, None
        return await met

    async def late(self):
        """The ranks that wait in the current collective, and the ranks that are missing."""
        return [sorted(self.came), [rank for rank in range(self.world) if rank not in self.came]]


def odd_one(places):
    """An error if a rank is in another collective than rank 0: the ranks would wait for each other forever."""
    odd = next((rank for rank, place in enumerate(places) if place != places[0]), None)
    return None if odd is None else (
        f"worker 0 is at {shown(places[0])}, and worker {odd} at {shown(places[odd])}: all workers must make the same calls in the same order, "
        "with tensors of the same sizes")


def shown(place):
    """The collective that a rank is in, for errors."""
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
    unseen = ("node:", "memory", "object_store")  # never requested by users, like the names of placement groups below
    shown = {name: count for name, count in resources.items() if not name.startswith(unseen) and "_group_" not in name}
    return ", ".join(f"{name} {count:g}" for name, count in sorted(shown.items())) or "nothing"


def unplaceable(request, trainer):
    scaling = trainer.scaling_config
    want = f"{scaling.num_workers} x ({amounts(scaling._resources_per_worker_not_none)})"
    if scaling.topology:
        want += f" on a slice {scaling.accelerator_type} {scaling.topology}"
    return (f"the cluster could not place the workers within {request['start_timeout']} s: requested {want}; "
            f"the cluster has {amounts(ray.cluster_resources())}; free: {amounts(ray.available_resources())}")


def main(request):
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(request["start_timeout"])
    if request["device"] == "cpu":  # CPU nodes are not preempted, and the watcher is an additional process
        os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
    deaths = 0
    while (code := run(request, is_last=0 <= request["max_failures"] <= deaths)) is None:
        deaths += 1
    return code


def run(request, is_last):
    """Returns the exit code, or None if a worker died at its start and may be restarted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    ray.init(log_to_driver=False, logging_level="warning")
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    desk = ray.remote(Desk).options(num_cpus=0, scheduling_strategy=here).remote(request["attempt"])

    def stop(*_):
        """Ray stops a job with SIGTERM and kills it some seconds later. The workers are asked to stop first; then SIGINT makes
        ray.train end the run in order."""
        wait = int(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", 3)) - ENDING
        with contextlib.suppress(ray.exceptions.RayError):  # also the timeout
            ray.get(desk.stop.remote(), timeout=max(wait, 0))
        signal.alarm(ENDING)  # ray.train ignores SIGINT while it starts workers: the alarm ends this process and so the job
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, stop)
    say({"type": "driver", "pid": os.getpid(), "ray": ray.__version__})
    thread = threading.Thread(target=follow, args=(desk, True), daemon=True)
    thread.start()
    try:
        return fit(request, desk, is_last)
    except Exception as error:  # errors of ray.train before the run begins, such as storage that cannot be written
        failed = {"type": "failed", "why": "controller", "message": f"{type(error).__name__}: {error}"}
        ray.get(desk.tell.remote([failed]))
        return 1
    finally:
        if request.get("storage"):  # unfinished checkpoints of workers that were killed
            shutil.rmtree(os.path.join(request["storage"], request["name"], ".saving"), ignore_errors=True)
        ray.get(desk.close.remote())
        thread.join(10)
        ray.shutdown()  # ends workers that ray.train could not start completely


def trainer_of(request, desk):
    keep = request["checkpoints"]
    asked = request.get("datasets") or {}
    return DataParallelTrainer(
        work,
        train_loop_config={"request": request, "desk": desk},
        backend_config=NodeConfig(request, desk),
        datasets={name: dataset_of(one, request["scaling"]["num_workers"]) for name, one in asked.items()},
        scaling_config=rt.ScalingConfig(**request["scaling"]),
        run_config=rt.RunConfig(
            name=request["name"],
            storage_path=request.get("storage"),
            checkpoint_config=rt.CheckpointConfig(**keep),
            # By default ray.train retries a request that cannot be satisfied forever.
            failure_config=rt.FailureConfig(max_failures=request["max_failures"], controller_failure_limit=0),
        ),
    )


def make_storage(storage, name):
    """Checks the storage first: Ray's own error has thirty lines."""
    if storage and "://" not in storage:
        if glob.glob(os.path.join(glob.escape(os.path.join(storage, name)), "checkpoint-[0-9]*")):
            raise FileExistsError(errno.EEXIST, f"{name} has checkpoints of a run without Ray, which have another format")
        os.makedirs(storage, exist_ok=True)
        if not os.access(storage, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def died_at_start(cause):
    """Whether a worker died before its training began. ray.train counts that as a controller failure, for which no retry is
    configured; the driver handles it as a failure of a worker."""
    return isinstance(cause, ray.exceptions.RayActorError) or "actors failed to initialize" in str(cause)


def fit(request, desk, is_last):
    """Runs ray.train's trainer. Returns as `run` does."""
    try:
        trainer = trainer_of(request, desk)
    except NoFiles as error:
        ray.get(desk.tell.remote([{"type": "failed", "why": "controller", "message": str(error)}]))
        return 1
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
    # Ray sorts them by score; sorted by name they are in the order in which they were kept.
    kept = sorted(result.best_checkpoints or [], key=lambda pair: pair[0].path)
    for _, metrics in kept:
        metrics.pop(REPORTS, None)
    checkpoints = [{"path": checkpoint.path, "metrics": texts(metrics)} for checkpoint, metrics in kept]
    ray.get(desk.tell.remote([{"type": "result", "checkpoints": checkpoints, "path": result.path}]))
    return 0


if __name__ == "__main__":
    given = sys.argv[1]
    asked = json.loads(open(given[1:]).read() if given.startswith("@") else given)
    asked["env"].update(json.loads(base64.b64decode(os.environ.get(WORKER_ENV, "e30="))))  # default: {}
    sys.exit(main(asked))
