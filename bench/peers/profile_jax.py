"""What jax.profiler.ProfileData says of a profile, by the names of kernels alone, beside `tsxla profile --json FILE`: the shares of
products, attention and all else in the time of kernels. python profile_jax.py FILE.xplane.pb SUMMARY.json"""
import collections
import json
import re
import sys

import jax

ATTENTION = re.compile(r"cudnn|fmha|flash|sdpa", re.I)  # convolutions of cuDNN would count, too: there are none
PRODUCT = re.compile(r"gemm|gemv|nvjet|cutlass|cublas|dot|matmul|splitk", re.I)
COPY = re.compile(r"^mem(cpy|set)", re.I)

kernels, times = collections.Counter(), collections.Counter()
for plane in jax.profiler.ProfileData.from_file(sys.argv[1]).planes:
    if plane.name != "/device:GPU:0":
        continue
    for line in plane.lines:
        if not line.name.lower().startswith("stream"):
            continue
        for event in line.events:
            kind = ("attention" if ATTENTION.search(event.name) else
                    "products" if PRODUCT.search(event.name) else
                    "copies" if COPY.search(event.name) else "elementwise")
            times[kind] += event.duration_ns
            kernels[event.name] += event.duration_ns
all = sum(times.values())
ours = {c["name"]: c["time"] for c in json.load(open(sys.argv[2]))["categories"]}
busy = sum(t for name, t in ours.items() if name != "idle")
for kind in sorted(set(times) | set(ours) - {"idle"}):
    print(f"{kind:12} ProfileData {100 * times[kind] / all:6.2f}%   tsxla profile {100 * ours.get(kind, 0) / busy:6.2f}%")
print("kernel time", all / 1e6, "ms by ProfileData")
for name, ns in kernels.most_common(12):
    print(f"  {100 * ns / all:5.2f}% {name[:90]}")
