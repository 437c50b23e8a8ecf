"""Event files of torch.utils.tensorboard, which test/tensorboard.test.ts writes again and compares.

    .venv/bin/pip install torch==2.13.0 tensorboard==2.21.0 pillow
    .venv/bin/python scripts/golden/event_files.py test/golden/event-files     # writes them
    .venv/bin/python scripts/golden/event_files.py --read FOLDER               # what TensorBoard reads in a folder, as JSON
"""

import io
import json
import os
import shutil
import sys

import numpy as np


def write(out):
    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(out, ignore_errors=True)
    w = SummaryWriter(out)
    t = lambda i: 1_700_000_000 + i  # noqa: E731
    w.add_scalar("loss", 0.5, 1, walltime=t(1))
    w.add_scalar("loss", 0.25, 2, walltime=t(2))
    w.add_scalar("new", 0.1, 3, walltime=t(3), new_style=True)
    w.add_scalar("double", 0.1, 3, walltime=t(3), double_precision=True, new_style=True)
    values = np.array([-1.5, 0.0, 1e-13, 0.25, 0.25, 3.0, 700.0])
    w.add_histogram("standard", values, 4, walltime=t(4))
    w.add_histogram("positive", np.abs(values[3:]), 4, walltime=t(4))
    w.add_histogram("ten", values, 4, bins=10, walltime=t(4))
    w.add_histogram("edges", values, 4, bins=[-2, 0, 0.25, 3], walltime=t(4))
    w.add_histogram("few", values, 4, max_bins=100, walltime=t(4))
    w.add_histogram("equal", np.full(3, 2.0), 4, bins=4, walltime=t(4))
    w.add_text("note", "**bold** <b>\u00fc</b>", 5, walltime=t(5))
    w.close()
    hp = SummaryWriter(os.path.join(out, "hparams"))
    hp.add_hparams({"lr": 0.1, "name": "a"}, {"loss": 0.25}, {"lr": [0.1, 0.2]}, run_name=".", global_step=7)
    hp.close()
    for folder, _, names in os.walk(out):
        for name in sorted(n for n in names if "tfevents" in n):
            # one name for each: the empty file of the hparams writer goes
            path = os.path.join(folder, name)
            if os.path.getsize(path) < 120:
                os.remove(path)
            else:
                os.rename(path, os.path.join(folder, "events.out.tfevents.1700000000.torch.1.0"))


def read(folder):
    from PIL import Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    pixels = lambda s: np.asarray(Image.open(io.BytesIO(s))).tolist()  # noqa: E731
    return {
        "scalars": {t: [(e.step, e.value) for e in accumulator.Scalars(t)] for t in tags["scalars"]},
        "histograms": {
            t: [(e.step, e.histogram_value.num, e.histogram_value.sum, list(e.histogram_value.bucket)) for e in accumulator.Histograms(t)]
            for t in tags["histograms"]
        },
        "images": {
            t: [(e.step, e.width, e.height, pixels(e.encoded_image_string)) for e in accumulator.Images(t)] for t in tags["images"]
        },
        "tensors": {
            t: [(e.step, [s.decode() for s in e.tensor_proto.string_val] or list(e.tensor_proto.float_val) or list(e.tensor_proto.double_val)) for e in accumulator.Tensors(t)]
            for t in tags["tensors"]
        },
        "hparams": hparams(accumulator),
    }


def hparams(accumulator):
    from tensorboard.plugins.hparams import metadata

    try:
        found = accumulator.PluginTagToContent("hparams")
    except KeyError:
        return None
    start = metadata.parse_session_start_info_plugin_data(found[metadata.SESSION_START_INFO_TAG])
    end = metadata.parse_session_end_info_plugin_data(found[metadata.SESSION_END_INFO_TAG])
    experiment = metadata.parse_experiment_plugin_data(found[metadata.EXPERIMENT_TAG])
    value = lambda v: getattr(v, v.WhichOneof("kind"))  # noqa: E731
    return {
        "values": {k: value(v) for k, v in sorted(start.hparams.items())},
        "status": end.status,
        "metrics": [m.name.tag for m in experiment.metric_infos],
    }


if sys.argv[1] == "--read":
    print(json.dumps(read(sys.argv[2])))
else:
    write(sys.argv[1])
