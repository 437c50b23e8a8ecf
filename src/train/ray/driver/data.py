"""Ray Data for node: creates the run's datasets, splits them, and passes a worker's shard to node as files."""
import glob
import json
import os
import queue
import random
import threading


class NoFiles(FileNotFoundError):
    """A dataset has no files; the message is for the user."""


def expanded(path):
    """The files that match a pattern, sorted. Ray itself takes only files and folders."""
    if "://" in path or not glob.has_magic(path):
        if "://" not in path and not os.path.exists(path):
            raise NoFiles(f"{path} does not exist on the cluster: the files of a rayDataset must be at the same path on all machines")
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise NoFiles(f"no file matches {path} on the cluster: the files of a rayDataset must be at the same path on all machines")
    return found


PAD = "tsxla_pad"  # the column of padding rows, which make the number of rows divisible by the number of workers


def dataset_of(asked, workers):
    """Creates a dataset. ray.train gives all workers the same number of rows and drops the rest. So that nothing is dropped,
    padding rows are added, which Feed leaves out."""
    import pyarrow
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    paths = [file for path in asked["paths"] for file in expanded(path)]
    columns, options = asked["columns"], {}
    seed = random.randrange(2**31) if asked["seed"] is None else asked["seed"]
    if asked["shuffle"] == "files":
        options["shuffle"] = ray.data.FileShuffleConfig(seed=seed)
    if asked["format"] == "parquet" and columns:
        options["columns"] = columns
    read = {"parquet": ray.data.read_parquet, "json": ray.data.read_json,
            "csv": ray.data.read_csv, "text": ray.data.read_text}[asked["format"]]
    dataset = read(paths, **options)
    pads = 0 if asked["equal"] else -dataset.count() % workers
    if columns and asked["format"] != "parquet":
        dataset = dataset.select_columns(columns)
    if asked["shuffle"] is True:
        dataset = dataset.random_shuffle(seed=ray.data.RandomSeedConfig(seed=seed))  # a new order each epoch
    return dataset.union(ray.data.from_arrow(pyarrow.table({PAD: [True] * pads}))) if pads else dataset


class Feed:
    """Passes a worker's shard to its node process: one block for each request, as a Parquet file in node's folder."""

    def __init__(self, shard, answer, waits):
        self.shard, self.answer, self.waits = shard, answer, waits
        self.asked, self.files = queue.Queue(), 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        blocks = iter(())
        while True:
            header = self.asked.get()
            try:
                if header["begin"]:
                    getattr(blocks, "close", lambda: None)()  # node left the previous epoch early
                    blocks = iter(self.shard.iter_batches(batch_size=None, batch_format="pyarrow"))
                    self.waits(True)  # all workers begin an epoch together
                block = next((block for block in blocks if block.num_rows and block.column_names != [PAD]), None)
                answer = {} if block is None else {"file": self.write(block, header["folder"])}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"}
            if header["begin"]:
                self.waits(False)
            self.answer({"type": "rows", "id": header["id"]}, json.dumps(answer).encode())

    def write(self, block, folder):
        import pyarrow.parquet as parquet

        self.files += 1
        file = os.path.join(folder, f"rows-{id(self)}-{self.files}.parquet")
        parquet.write_table(block, file, compression="none", row_group_size=8192)
        return file
