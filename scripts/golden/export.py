"""What llama.cpp's own converter writes of small random models of every architecture, for test/export/gguf.test.ts.

    python scripts/golden/export.py LLAMA_CPP      # needs torch, transformers 5 and the source of llama.cpp; writes test/golden/export.json

Of each model: its config.json, the metadata, and of each tensor its shape and the beginning of the SHA-256 of its bytes (F32).
Weights are those of models.py. Of byte-level tokenizers (tokenizers.py): the metadata that is made of them.
"""
import gzip
import hashlib
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "gguf-py"))
sys.path.insert(0, sys.argv[1])
HERE = Path(__file__).resolve().parent
sys.path.remove(str(HERE))  # files here are called gguf and tokenizers, too
import gguf
import torch
from conversion import get_model_class
from conversion.base import ModelBase, TextModel
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, CONFIG_MAPPING

sys.path.append(str(HERE))
from models import MODELS as SHARED, SIZES, in_files, longrope, rope, weight

OUT = HERE.parents[1] / "test/golden/export.json"
GEMMA = dict(head_dim=8, query_pre_attn_scalar=8, sliding_window=6)
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
MODELS = {name: SHARED[name] for name in ["llama", "llama-tied-biases", "llama-linear", "llama-yarn", "llama-llama3", "mistral", "qwen2", "qwen3-yarn",
                                          "phi3", "phi3-longrope", "olmo2", "gpt2", "qwen3-moe", "mixtral"]}
MODELS |= {
    "qwen3": ("qwen3", dict(head_dim=16, tie_word_embeddings=True)),
    "gemma2": ("gemma2", GEMMA),
    "gemma3": ("gemma3_text", dict(GEMMA, num_hidden_layers=7, layer_types=[KINDS[0]] * 5 + [KINDS[1], KINDS[0]],
               rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                    full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0)))),
    "gemma3-pattern": ("gemma3_text", dict(GEMMA, layer_types=KINDS)),
    "smollm3": ("smollm3", dict(num_hidden_layers=4, no_rope_layer_interval=4)),
}


def build(name: str, folder: Path) -> dict:
    """A folder of the model; config.json."""
    kind, own = MODELS[name]
    sizes = dict(SIZES)
    if kind == "gpt2":
        sizes = dict(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=None)
    config = CONFIG_MAPPING[kind](**{**sizes, **own})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            for stored, of in in_files(kind, key, p):
                part = of(p)
                part.copy_(weight(stored, tuple(part.shape)))
    model.save_pretrained(folder)
    if kind == "gpt2":
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"n_ctx": 128}))  # as published files have it
    return json.loads((folder / "config.json").read_text())


def convert(folder: Path, vocabulary: str | None) -> GGUFReader:
    """The converter's file, in F32. `vocabulary` is the name of the way a byte-level tokenizer splits text."""
    out = folder / "model.gguf"
    config = ModelBase.load_hparams(folder, False)
    cls = get_model_class(config["architectures"][0])
    cls.set_vocab = TextModel._set_vocab_gpt2 if vocabulary else TextModel._set_vocab_none
    cls.get_vocab_base_pre = lambda self, tokenizer: vocabulary
    if "Gemma3" in cls.__name__:  # it would cut the table to the tokenizer
        cls.modify_tensors = lambda self, t, n, bid: super(cls, self).modify_tensors(t + self.norm_shift(n), n, bid)
    with torch.inference_mode():
        cls(folder, gguf.LlamaFileType.ALL_F32, out).write()
    return GGUFReader(out)


def metadata(reader: GGUFReader, start: tuple[str, ...]) -> dict:
    fields = {k: f for k, f in reader.fields.items() if k.startswith(start)}
    return {k: dict(types=[t.name for t in f.types], value=f.contents()) for k, f in fields.items()}


if __name__ == "__main__":
    keep = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    made, vocabularies = {}, {}
    for name in MODELS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = keep / name if keep else Path(temporary)
            config = build(name, folder)
            reader = convert(folder, None)
            arch = reader.fields["general.architecture"].contents()
            tensors = {t.name: dict(shape=[int(n) for n in reversed(t.shape)], hash=hashlib.sha256(t.data.tobytes()).hexdigest()[:16]) for t in reader.tensors}
            made[name] = dict(config=config, metadata=metadata(reader, ("general.architecture", "general.file_type", "general.quantization_version", arch + ".")), tensors=tensors)
    tokenizers = json.loads(gzip.decompress((HERE.parents[1] / "test/golden/tokenizers.json.gz").read_bytes()))
    for name, pre in dict(gpt2="gpt-2", llama3="dbrx", qwen="qwen2", smollm="smollm").items():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in tokenizers[name]["files"].items():
                (Path(folder) / file).write_text(text)
            SIZES["vocab_size"], before = 430, SIZES["vocab_size"]
            build("llama", Path(folder))
            SIZES["vocab_size"] = before
            found = metadata(convert(Path(folder), pre), ("tokenizer.",))
            found.pop("tokenizer.ggml.add_sep_token", None)  # between two texts, of which there is one
            for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
                found[key]["value"] = hashlib.sha256("\0".join(found[key]["value"]).encode()).hexdigest()[:16]
            vocabularies[name] = found
    OUT.write_text(json.dumps(dict(models=made, vocabularies=vocabularies), separators=(",", ":")) + "\n")
    print(OUT.stat().st_size, list(made))
