"""What transformers generates with the small models of scripts/golden/models.py, for test/models/beams.test.ts and
test/models/processors.test.ts: beams and their scores, greedy tokens under each processor, and what each processor makes of
given logits.

    python scripts/golden/generate.py      # needs torch and transformers 5; writes test/golden/generate.json
"""
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, CONFIG_MAPPING
from transformers.generation import logits_process as lp
from transformers.utils import logging

from models import MODELS, SIZES, VOCAB, weight

OUT = Path(__file__).resolve().parents[2] / "test/golden/generate.json"
NEW = 20
warnings.filterwarnings("ignore")
logging.set_verbosity_error()


def make(name: str):
    kind, own = MODELS[name]
    sizes = dict(SIZES)
    if kind == "gpt2":
        sizes = dict(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**{**sizes, **own}), attn_implementation="eager")
    model = model.float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(weight(key, tuple(p.shape)))
    model.generation_config.eos_token_id = None
    return model


def padded(prompts):
    longest = max(map(len, prompts))
    return dict(input_ids=torch.tensor([[0] * (longest - len(p)) + p for p in prompts]),
                attention_mask=torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts]))


# Few programs: with the same number of beams, prompts and ends they are the same.
BEAMS = [
    dict(num_beams=3),
    dict(num_beams=3, num_return_sequences=3),
    dict(num_beams=3, length_penalty=2.0, num_return_sequences=3),
    dict(num_beams=3, length_penalty=-0.3, early_stopping=True, num_return_sequences=2),
    dict(num_beams=3, length_penalty=0.0, early_stopping="never", num_return_sequences=3),
    dict(num_beams=3, length_penalty=1.5, early_stopping="never", repetition_penalty=1.2, num_return_sequences=3),
]
MORE = [
    (1, 0, dict(num_beams=4, num_return_sequences=4)),
    (2, 2, dict(num_beams=4, no_repeat_ngram_size=2, repetition_penalty=1.3, min_new_tokens=6, num_return_sequences=2)),
]


def ends_of(model, inputs):
    """Tokens that are likely in the middle of texts, so that beams end at different lengths."""
    out = model.generate(**inputs, max_new_tokens=NEW, num_beams=4, num_return_sequences=4, do_sample=False, pad_token_id=0)
    new = out[:, inputs["input_ids"].shape[1]:]
    tokens, counts = new[:, 2:14].unique(return_counts=True)
    order = [t for t in tokens[counts.argsort(descending=True)].tolist() if t != 0]
    at = lambda i: order[i % len(order)]
    return [None, [at(3)], [at(2), at(5)]]


def beams(name: str) -> dict:
    model = make(name)
    rng = np.random.default_rng(5)
    prompts = [rng.integers(1, VOCAB, n).tolist() for n in (9, 5)]
    runs = []
    all = [(n, 1, given) for n in ((1, 2) if name == "llama" else (2,)) for given in BEAMS]
    for n, count, given in all + (MORE if name == "llama" else []):
        which = prompts[:n]
        inputs = padded(which)
        ends = ends_of(model, inputs)[count]
        out = model.generate(**inputs, max_new_tokens=NEW, do_sample=False, pad_token_id=0, eos_token_id=ends,
                             return_dict_in_generate=True, output_scores=True, **given)
        new = out.sequences[:, inputs["input_ids"].shape[1]:].tolist()
        scores = out.sequences_scores.tolist()
        # Padding behind a text: as many tokens as it has, found by its end.
        cut = []
        for row in new:
            end = next((j + 1 for j, t in enumerate(row) if ends and t in ends), len(row))
            cut.append(row[:end])
        runs.append(dict(options=given, prompts=len(which), ends=ends or [], tokens=cut, scores=scores))
    return dict(prompts=prompts, runs=runs)


GREEDY = [
    dict(repetition_penalty=1.3),
    dict(no_repeat_ngram_size=2),
    dict(ends=1, min_new_tokens=7),
    dict(ends=1, min_length=14),
    dict(bad=1),
    dict(bad=2),
    dict(suppress=1),
    dict(begin_suppress=1),
    dict(forced_eos_token_id=33),
    dict(forced_bos_token_id=44, one=1),
    dict(ends=1, min_new_tokens=4, no_repeat_ngram_size=2, repetition_penalty=1.2, suppress=1),
]


def greedy(name: str) -> dict:
    model = make(name)
    rng = np.random.default_rng(6)
    prompts = [rng.integers(1, VOCAB, n).tolist() for n in (9, 4)]
    run = dict(do_sample=False, pad_token_id=0)
    runs = []
    for given in GREEDY:
        options = {k: v for k, v in given.items() if k not in ("ends", "bad", "suppress", "begin_suppress", "one")}
        which = [[7], [9]] if "one" in given else prompts
        if "min_length" in given:  # transformers counts padding, tsxla does not
            which = [prompts[0], prompts[0][::-1]]
        plain = model.generate(**padded(which), max_new_tokens=NEW, **run)[:, max(map(len, which)):].tolist()
        ends = [plain[0][2], plain[-1][1]] if "ends" in given else None
        if "suppress" in given:
            options["suppress_tokens"] = [plain[0][0], plain[-1][5]]
        if "begin_suppress" in given:
            options["begin_suppress_tokens"] = [plain[0][0], plain[-1][0]]
        if "bad" in given:
            a = plain[0]
            words = {1: [[a[1]], [a[3], a[4]]], 2: [[plain[-1][2]], [plain[-1][4], plain[-1][5]]]}
            options["bad_words_ids"] = words[given["bad"]]
        out = model.generate(**padded(which), max_new_tokens=NEW, eos_token_id=ends, **run, **options)
        new = out[:, max(map(len, which)):].tolist()
        cut = []
        for row in new:
            cut.append(row[: next((j + 1 for j, t in enumerate(row) if ends and t in ends), len(row))])
        runs.append(dict(options=options, prompts=which, ends=ends or [], tokens=cut))
    return dict(runs=runs)


def processors() -> list:
    """Of logits [3, 41] after texts of 12 tokens: which are left, and their sum."""
    rng = np.random.default_rng(8)
    ids = torch.from_numpy(rng.integers(0, 9, (3, 12)))
    logits = torch.from_numpy((rng.standard_normal((3, 41)) * 2.5).astype(np.float32))
    n = ids.shape[1]
    cases = [
        (dict(no_repeat_ngram_size=1), lp.NoRepeatNGramLogitsProcessor(1)),
        (dict(no_repeat_ngram_size=2), lp.NoRepeatNGramLogitsProcessor(2)),
        (dict(no_repeat_ngram_size=3), lp.NoRepeatNGramLogitsProcessor(3)),
        (dict(bad_words_ids=[[3], [int(ids[0, -1]), 6], [int(ids[1, -2]), int(ids[1, -1]), 8], [1, 2, 3, 4, 5]]),) * 1,
        (dict(min_length=13), lp.MinLengthLogitsProcessor(13, [2, 4])),
        (dict(min_length=12), lp.MinLengthLogitsProcessor(12, [2, 4])),
        (dict(min_new_tokens=5), lp.MinNewTokensLengthLogitsProcessor(n - 4, 5, [2, 4])),
        (dict(min_new_tokens=4), lp.MinNewTokensLengthLogitsProcessor(n - 4, 4, [2, 4])),
        (dict(forced_eos_token_id=7), lp.ForcedEOSTokenLogitsProcessor(n + 1, 7)),
        (dict(suppress_tokens=[0, 9, 40]), lp.SuppressTokensLogitsProcessor([0, 9, 40])),
        (dict(typical_p=0.2), lp.TypicalLogitsWarper(0.2)),
        (dict(typical_p=0.9), lp.TypicalLogitsWarper(0.9)),
        (dict(epsilon_cutoff=0.02), lp.EpsilonLogitsWarper(0.02)),
        (dict(epsilon_cutoff=0.5), lp.EpsilonLogitsWarper(0.5)),
        (dict(eta_cutoff=0.02), lp.EtaLogitsWarper(0.02)),
        (dict(eta_cutoff=0.3), lp.EtaLogitsWarper(0.3)),
        (dict(typical_p=0.8, epsilon_cutoff=0.01, eta_cutoff=0.1),
         lp.LogitsProcessorList([lp.TypicalLogitsWarper(0.8), lp.EpsilonLogitsWarper(0.01), lp.EtaLogitsWarper(0.1)])),
        (dict(repetition_penalty=1.4), lp.RepetitionPenaltyLogitsProcessor(1.4)),
    ]
    done = []
    for options, *rest in cases:
        processor = rest[0] if rest else lp.NoBadWordsLogitsProcessor(options["bad_words_ids"], [2, 4])
        y = processor(ids, logits.clone())
        done.append(dict(options=options, left=[[j for j, x in enumerate(row) if np.isfinite(x)] for row in y.tolist()],
                         sums=[sum(x for x in row if np.isfinite(x)) for row in y.tolist()]))
    return dict(ids=ids.tolist(), logits=[[round(x, 6) for x in row] for row in logits.tolist()], ends=[2, 4], cases=done)


facts = dict(new=NEW, beams={name: beams(name) for name in ("llama", "gemma2", "gpt2")},
             greedy={name: greedy(name) for name in ("qwen2-windows",)}, processors=processors())
OUT.write_text(json.dumps(facts, separators=(",", ":")) + "\n")
print(OUT, OUT.stat().st_size)
