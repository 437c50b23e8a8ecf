"""Writes test/golden/gguf: blocks of ggml's formats for fixed inputs, and a small GGUF file with all value types.

    python scripts/golden/gguf.py        (needs gguf==0.19 and numpy)
"""
import json
import os
import sys

sys.path.pop(0)  # this file is called gguf, too
import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

OUT = os.path.join(os.path.dirname(__file__), "../../test/golden/gguf")
os.makedirs(OUT, exist_ok=True)
random = np.random.default_rng(0)

normal = random.standard_normal((4, 256)).astype(np.float32)
odd = np.zeros((4, 256), np.float32)  # zeros, ties, one large weight, very small ones
odd[1] = (np.arange(256, dtype=np.float32) - 128) / 2
odd[2] = random.standard_normal(256).astype(np.float32) * 0.01
odd[2, 100] = -300
odd[3] = random.standard_normal(256).astype(np.float32) * 1e-6
x = np.concatenate([normal, odd])
blocks = {"x": x.tobytes().hex()}
for name in ["Q8_0", "Q4_0", "Q5_0", "BF16", "F16"]:
    made = gguf.quants.quantize(x, T[name])
    blocks[name] = {
        "bytes": made.tobytes().hex(),
        "values": gguf.quants.dequantize(made.view(np.uint8) if name == "BF16" else made, T[name]).astype(np.float32).tobytes().hex(),
    }
# Any bytes are blocks of Q4_K, but for scales that are not finite.
raw = random.integers(0, 256, (6, 144), dtype=np.uint8)
raw[:, :4] = np.array([0.25, -0.5], np.float16).view(np.uint8)
blocks["Q4_K"] = {"bytes": raw.tobytes().hex(), "values": gguf.quants.dequantize(raw, T.Q4_K).tobytes().hex()}
with open(os.path.join(OUT, "blocks.json"), "w") as f:
    json.dump(blocks, f)

w = gguf.GGUFWriter(os.path.join(OUT, "every.gguf"), "llama")
w.add_uint8("a.u8", 200)
w.add_int8("a.i8", -100)
w.add_uint16("a.u16", 60000)
w.add_int16("a.i16", -30000)
w.add_uint32("a.u32", 4000000000)
w.add_int32("a.i32", -2000000000)
w.add_float32("a.f32", 0.5)
w.add_uint64("a.u64", 2**63)
w.add_int64("a.i64", -(2**62))
w.add_float64("a.f64", 0.1)
w.add_bool("a.bool", True)
w.add_string("a.string", "größe 語")
w.add_array("a.strings", ["one", "", "ü"])
w.add_array("a.ints", [1, -2, 3])
w.add_array("a.floats", [0.5, -1.5])
w.add_key_value("a.bools", [True, False], V.ARRAY, V.BOOL)
w.add_tensor("f32", x[:2, :3].copy())
w.add_tensor("f16", x[:1, :5].astype(np.float16))
for name in ["Q8_0", "Q4_0", "Q5_0", "BF16"]:
    w.add_tensor(name, gguf.quants.quantize(x[:2, :64].copy(), T[name]), raw_dtype=T[name])
w.add_tensor("Q4_K", raw[:2], raw_dtype=T.Q4_K)
w.add_tensor("i32", np.arange(6, dtype=np.int32).reshape(3, 2))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
