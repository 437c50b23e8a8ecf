"""Peer of bench/overhead.ts: what a call of a jitted function costs in JAX.

    python jax_dispatch.py [--plugin PATH.so] [--option NAME=VALUE ...]

Reads lines "STATE CALLS" and answers each with the milliseconds of CALLS calls, until they return, as a list of JSON.
The program is the one of makeCase in dispatch.ts: it changes STATE arrays of f32[8], which are donated, and returns a sum.
"""
import argparse
import functools
import json
import sys
import time

from jax_hlo import choose_client, option


@functools.cache
def make_case(size):
    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, x):
        state = [w * 0.5 + x for w in state]
        return state, state[0].sum() if state else x + 1

    case = {"state": [jnp.ones(8) for _ in range(size)]}
    x = jnp.ones(8)

    def call():
        start = time.perf_counter()
        case["state"], y = update(case["state"], x)
        took = time.perf_counter() - start
        jax.block_until_ready((case["state"], y))
        return took * 1e3

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", help="library that exports GetPjrtApi")
    parser.add_argument("--option", type=option, action="append", default=[], help="create option of the plugin")
    args = parser.parse_args()
    choose_client(args.plugin, args.option)
    for line in sys.stdin:
        size, calls = map(int, line.split())
        call = make_case(size)
        print(json.dumps([call() for _ in range(calls)]), flush=True)


if __name__ == "__main__":
    main()
