"""The custom calls of cuDNN's flash attention as JAX lowers them for CUDA (no GPU is needed for that), for test/attention.test.ts:
python attention.py test/golden/attention.json && npx biome format --write test/golden/attention.json"""
import json
import math
import re
import sys

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as cudnn

cudnn.check_cudnn_version = lambda: 91000  # JAX asks the library, which is not here

# batch, heads of query and key, queries, keys, size of a head, causal, shape of the bias or None
CASES = {
    "causal": (2, 4, 4, 8, 8, 64, True, None, jnp.bfloat16),
    "more keys, grouped heads, f16": (2, 4, 2, 8, 12, 128, False, None, jnp.float16),
    "bias": (2, 4, 4, 8, 12, 16, False, (1, 4, 8, 12), jnp.bfloat16),
}


def calls(batch, heads, groups, queries, keys, d, causal, bias, dtype):
    q, k = jnp.zeros((batch, queries, heads, d), dtype), jnp.zeros((batch, keys, groups, d), dtype)
    args = (q, k, k) + ((jnp.zeros(bias, dtype),) if bias else ())
    kind = cudnn.MaskType.CAUSAL if causal else cudnn.MaskType.NO_MASK

    def loss(*xs):
        return cudnn.dot_product_attention(*xs, scale=1 / math.sqrt(d), mask_type=kind).astype(jnp.float32).sum()

    grad = jax.jit(jax.grad(loss, argnums=tuple(range(len(args)))))
    text = grad.trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    found = re.findall(r'custom_call @(__cudnn\S+)\(.*?backend_config = "(.*?)", (.*?)\} : (.*)', text)
    return [dict(target=target, config=json.loads(config.replace("\\22", '"')), layouts=layouts, types=types)
            for target, config, layouts, types in found]


json.dump({name: calls(*case) for name, case in CASES.items()}, open(sys.argv[1], "w"), indent=1)
