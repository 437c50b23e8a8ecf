"""Runs in a Ray worker: starts a node process with the user's script and serves its requests.

They exchange frames (src/train/protocol.ts): a line of JSON, then the number of raw bytes in its field `bytes`.
"""
import contextlib
import json
import math
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

import ray
import ray.train as rt

from .data import Feed

KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
REPORTS = "tsxla_reports"  # a metric of each checkpoint: the number of reports up to it
WORKER_ENV = "TSXLA_WORKER_ENV"  # the job's variable with the workers' environment, in base64
PATIENCE = 30  # seconds before a log line names the worker that is late


class WorkerFailed(RuntimeError):
    """A node process threw an error or died."""


class Mistake(RuntimeError):
    """The ranks are in different collectives."""


def numbers(metrics):
    """Decodes metrics: NaN and infinities, which JSON does not have, are strings."""
    return {name: float(value) if isinstance(value, str) else value for name, value in metrics.items()}


def texts(metrics):
    """Encodes metrics for `numbers`."""
    return {name: value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")
            for name, value in metrics.items()}


def reports_until(kept):
    """The number of reports up to the checkpoint that a run resumes from."""
    known = rt.get_all_reported_checkpoints(consistency_mode=rt.CheckpointConsistencyMode.COMMITTED) if kept else []
    return next((int(one.metrics.get(REPORTS, 0)) for one in known if one.checkpoint.path == kept.path), 0)


def read_frames(stream):
    """Frames of a worker: (header, bytes)."""
    for line in stream:
        header = json.loads(line)
        yield header, stream.read(header["bytes"]) if header.get("bytes") else b""


class Node:
    """The node process of this worker, with its pipes."""

    def __init__(self, command, env, spec):
        (output, out), (frames, up), (exit_status, status), (down, downwards) = (os.pipe() for _ in range(4))
        life, self.life = os.pipe()  # no other process inherits the write end
        ends = (life, status, out, up, down)
        keeper = [sys.executable, "-S", KEEPER, *map(str, ends), *command]
        subprocess.run(keeper, env=env, pass_fds=ends, input=json.dumps(spec), text=True, check=True)
        for fd in ends:
            os.close(fd)
        self.output, self.frames, self.status = (os.fdopen(fd, "rb") for fd in (output, frames, exit_status))
        self.down, self.writing = os.fdopen(downwards, "wb"), threading.Lock()

    def send(self, header, data=b""):
        with self.writing, contextlib.suppress(BrokenPipeError):
            self.down.write(json.dumps({**header, **({"bytes": len(data)} if data else {})}).encode() + b"\n" + data)
            self.down.flush()

    def exit_code(self):
        """Node's exit code: negative for a signal, None if the keeper was killed."""
        text = self.status.read()
        return int(text) if text else None

    def end(self):
        if self.life is not None:
            os.close(self.life)
            self.life = None


def work(config):
    """ray.train's train function: starts node and serves its frames until all ranks have ended."""
    with contextlib.ExitStack() as stack:
        kept = rt.get_checkpoint()
        Work(config, kept and stack.enter_context(kept.as_directory()), reports_until(kept)).run()


class Work:
    def __init__(self, config, checkpoint, before):
        self.desk, request = config["desk"], config["request"]
        env = dict(os.environ)
        self.rank, self.world, self.attempt = (int(env[name]) for name in ("RANK", "WORLD_SIZE", "TSXLA_ATTEMPT"))
        self.gloo = bool(env.pop("TSXLA_GLOO")) and self.world > 1 and request["spec"]["reduce"] == "engine"
        self.group = f"tsxla-{request['job']}-{self.attempt}"
        self.joined = request["spec"]["reduce"] == "xla"
        storage = rt.get_context().get_storage().experiment_fs_path
        self.shared = storage if os.path.isabs(storage) else None  # a folder that all machines share
        actor = "a Ray actor (Ray's gloo needs torch, which the workers' Python does not have)"
        spec = {**request["spec"], "attempt": self.attempt, "storage": self.shared, "checkpoint": checkpoint,
                "engine": "ray.util.collective with gloo" if self.gloo else actor}
        env = {**env, **request["env"]}
        for name in ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "TSXLA_ATTEMPT", WORKER_ENV):
            env.pop(name, None)
        self.outbox, self.inbox, self.sums = queue.Queue(), queue.Queue(), queue.Queue()
        self.before = before
        if self.rank == 0 and self.shared:
            self.open_history(first=self.attempt == request["attempt"])
        self.reported, self.mine, self.waiting, self.failure = -1, {}, False, None
        self.stopping = False
        self.met, self.left = 0, {}  # collectives of this rank so far, and of each rank that has ended
        self.protocol = request.get("protocol")
        self.node = Node(request["command"], env, spec)
        self.feeds = {name: Feed(rt.get_dataset_shard(name), self.node.send, self.wait) for name in request.get("datasets") or {}}

    def wait(self, waits):
        self.inbox.put(("waiting" if waits else "resumed", None))

    def open_history(self, first):
        """Opens the file of reports beside the checkpoints, one line for each report. A run that resumes removes the lines after
        its checkpoint. The first workers of a driver send the earlier reports: the engine may not have them."""
        self.history = open(os.path.join(self.shared, "history.jsonl"), "a+")
        self.history.seek(0)
        lines = self.history.readlines()[:self.before]
        self.history.truncate(sum(len(line.encode()) for line in lines))
        if first and lines:
            self.tell(type="history", metrics=[json.loads(line) for line in lines])

    def run(self):
        jobs = (self.send_events, self.read_output, self.read_frames, self.sum_up, self.watch_orders)
        threads = [threading.Thread(target=job, daemon=True) for job in jobs]
        try:
            for thread in threads:
                thread.start()
            self.serve()
        finally:
            self.node.end()
            self.outbox.put(None)
            threads[0].join(10)

    def tell(self, **event):
        self.outbox.put({"rank": self.rank, **event})

    def send_events(self):
        """Sends events in batches, so that a step does not wait for the network."""
        over = False
        while not over:
            batch = [self.outbox.get()]
            time.sleep(0.02)
            while not self.outbox.empty():
                batch.append(self.outbox.get())
            over = None in batch
            ray.get(self.desk.tell.remote([event for event in batch if event]))
            for _ in batch:
                self.outbox.task_done()

    def read_output(self):
        for line in self.node.output:
            self.tell(type="log", line=line.decode(errors="replace").rstrip("\n"))
        self.inbox.put(("output ended", None))

    def read_frames(self):
        """Dispatches frames. Collectives have a separate thread, because a rank that waits in one must still take part when
        another rank saves a checkpoint."""
        for header, data in read_frames(self.node.frames):
            if header["type"] == "rows":
                self.feeds[header["dataset"]].asked.put(header)
            elif header["type"] in ("reduce", "barrier"):
                self.inbox.put(("waiting", None))
                self.sums.put((header, data))
            else:
                self.inbox.put((header["type"], header))
        self.sums.put(None)
        self.inbox.put(("frames ended", None))

    def sum_up(self):
        try:
            self.answer_sums()
        except Exception as error:  # also if a peer is gone: the group is torn down then
            self.inbox.put(("sums failed", error))

    def answer_sums(self):
        import numpy as np

        if self.gloo:
            import ray.util.collective as collective

            collective.init_collective_group(self.world, self.rank, "gloo", self.group)
        while (item := self.sums.get()) is not None:
            header, data = item
            array = np.frombuffer(data, dtype="<f4").copy() if header["type"] == "reduce" else None
            place = (header.get("what", "barrier"), header.get("op"), 0 if array is None else array.size)
            # The desk waits without the time limit of gloo, and knows which rank is in another collective.
            why, total = self.meet(place, None if self.gloo else array)
            if why:
                raise Mistake(why)
            if self.gloo and array is not None:
                collective.allreduce(array, self.group)
                total = array
            self.inbox.put(("resumed", None))
            if array is None:
                self.node.send({"type": "ack", "id": header["id"]})
            else:
                result = total / np.float32(self.world) if header["op"] == "mean" else total
                self.node.send({"type": "reduced", "id": header["id"]}, result.tobytes())

    def meet(self, place, array):
        met = self.desk.meet.remote(self.rank, place, array)
        try:
            return ray.get(met, timeout=PATIENCE)
        except ray.exceptions.GetTimeoutError:
            came, late = ray.get(self.desk.late.remote())
            if came and came[0] == self.rank and late:
                self.tell(type="log", line=f"tsxla: worker {self.rank} has waited for worker {late[0]} at {place[0]} for {PATIENCE} s")
            return ray.get(met)

    def watch_orders(self):
        known = 0
        while (order := ray.get(self.desk.next_order.remote(known))) is not None:
            known += 1
            self.inbox.put(order)
        self.inbox.put(("all ended", None))

    def serve(self):
        """Handles the inbox in ray.train's thread, because ray.train.report must be called there."""
        saves, ended, done, all_ended = [], set(), False, False
        while not all_ended:
            try:
                kind, what = self.inbox.get(timeout=1 if self.stopping and self.left and self.waiting else None)
            except queue.Empty:
                self.node.end()  # it waits for a rank that was stopped and has ended
                continue
            if kind == "report":
                self.report(what)
            elif kind == "save":
                saves.append(what)
                self.remind(lambda what=what: what in saves, "a worker reported a checkpoint that this one has not reported yet: "
                            "if the run hangs, stop it, and let all workers report equally often")
            elif kind in ("waiting", "resumed"):
                self.waiting = kind == "waiting"
                self.met += self.waiting
            elif kind == "error":
                self.failure = {name: what.get(name) for name in ("name", "message", "stack", "final")}
            elif kind == "stop":
                self.stopping = True
                self.node.send({"type": "stop"})
            elif kind == "left":
                self.left.update([what])
                if len(self.left) == 1:
                    self.remind(lambda: self.rank not in self.left, f"the loop of worker {what[0]} ended and that of this one did "
                                "not: if the run hangs, stop it, and let all workers take the same number of steps, as with "
                                "prepareDataLoader")
            elif kind == "sums failed" and self.stopping:
                self.node.end()
            elif kind == "sums failed" and isinstance(what, Mistake):
                self.fail(str(what))
            elif kind == "sums failed":
                self.tell(type="error", name=type(what).__name__, message=str(what), stack="")
                raise what
            elif kind == "done":
                done = True
            elif kind in ("output ended", "frames ended"):
                ended.add(kind)
                if len(ended) == 2:
                    self.finish(done)
            elif kind == "hello":
                if self.protocol and what["protocol"] != self.protocol:
                    self.fail(f"it has tsxla {what['tsxla']} with protocol {what['protocol']}, and the program that submitted the "
                              f"run has protocol {self.protocol}: install the same version of tsxla in both")
                self.tell(type="hello", attempt=self.attempt, reports=self.before, tsxla=what.get("tsxla"))
            all_ended = kind == "all ended"
            gone = [rank for rank, met in self.left.items() if met < self.met]
            if gone and self.waiting and not self.stopping:
                self.fail(f"it waits for worker {gone[0]}, whose loop has ended: all workers must take the same number of "
                          "steps: prepareDataLoader gives each of them the same number of batches")
            # A rank takes part in a save once its own part is known: it has reported that far, or cannot report any more.
            while saves and (self.reported >= saves[0][0] or self.waiting or len(ended) == 2):
                self.save(*saves.pop(0))

    def remind(self, is_so, line):
        """An XLA collective hangs silently if a rank does not join it: logs the line if `is_so` still holds after PATIENCE."""
        def look():
            time.sleep(PATIENCE)
            if is_so() and self.node.life is not None:
                self.tell(type="log", line=f"tsxla: {PATIENCE} s ago {line}")

        if self.joined:
            threading.Thread(target=look, daemon=True).start()

    def fail(self, why):
        """Fails the run without a restart, which would fail in the same way."""
        self.tell(type="error", name="WorkerError", message=why, stack="", final=True)
        self.outbox.join()
        raise WorkerFailed(f"rank {self.rank}: {why}")

    def report(self, header):
        self.reported = header["id"]
        if self.rank == 0:
            self.tell(type="report", metrics=header["metrics"])
        if self.rank == 0 and self.shared:
            self.history.write(json.dumps(header["metrics"]) + "\n")
        if header.get("checkpoint"):
            self.mine[header["id"]] = header
            self.desk.save.remote(header["id"], header["metrics"])

    def save(self, report, metrics):
        """Saves with all ranks: ray.train copies the parts into one folder and commits it; then the workers are notified."""
        mine = self.mine.pop(report, None)
        folder = mine and mine["checkpoint"]
        # In a shared folder all ranks have written into one checkpoint: rank 0 copies it and then removes it.
        common = bool(folder and self.shared and folder.startswith(self.shared + os.sep))
        part = rt.Checkpoint.from_directory(folder) if folder and not (common and self.rank) else None
        if self.rank == 0 and self.shared:
            self.history.flush()
        reports = self.before + report // 2  # ids of reports are even
        rt.report({**numbers(mine["metrics"] if mine else metrics), REPORTS: reports}, checkpoint=part)
        if mine:
            done = rt.get_all_reported_checkpoints(consistency_mode=rt.CheckpointConsistencyMode.COMMITTED)
            path = next(one.checkpoint.path for one in done if one.metrics.get(REPORTS) == reports)
            if common and part:
                shutil.rmtree(folder, ignore_errors=True)
            self.tell(type="checkpoint", path=path, metrics=mine["metrics"])
            self.node.send({"type": "ack", "id": report})

    def finish(self, done):
        code = self.node.exit_code()
        if self.failure and not self.stopping:
            self.tell(type="error", **self.failure)
            raise WorkerFailed(f"rank {self.rank}: {self.failure['name']}: {self.failure['message']}")
        if (code != 0 or not done) and not self.stopping:
            how = "its keeper was killed" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
            self.tell(type="crash", how=how)
            raise WorkerFailed(f"rank {self.rank} ended with {how}" + ("" if code else ", before its loop had ended"))
        if self.rank == 0 and self.shared:
            self.history.close()
        self.outbox.join()  # the run may end right after this
        self.desk.finish.remote(self.rank, self.met)
