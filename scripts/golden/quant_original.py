"""Files that the original recipe itself writes: python scripts/golden/quant_original.py CLONE test/golden/quant
CLONE is a checkout of github.com/Anemll/qwen3_apple_style_2bit_qat_lora. Its linears of three kinds in small blocks, their state
dicts as torch.save writes them, and what they compute in eval mode; with a state dict of ours as a third argument, loads that instead."""
import importlib.util
import sys
import types
from pathlib import Path

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

clone, out = Path(sys.argv[1]) / "qat_lora", Path(sys.argv[2])
package = types.ModuleType("qat_lora")  # without its __init__, which wants transformers
package.__path__ = [str(clone)]
sys.modules["qat_lora"] = package
load = lambda name: importlib.import_module(f"qat_lora.{name}")
v0, v1, v2, quantizer = load("qat_linear"), load("ane_qat_linear"), load("ane_qat_linear_v2"), load("quantizer")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp, self.self_attn = nn.Module(), nn.Module()
        self.mlp.gate_proj = nn.Linear(12, 20, bias=False)
        self.mlp.down_proj = nn.Linear(20, 12, bias=False)
        self.self_attn.q_proj = nn.Linear(12, 12, bias=True)

    def forward(self, x):
        return self.mlp.down_proj(torch.relu(self.mlp.gate_proj(x))) + self.self_attn.q_proj(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def config(lut, rank):
    return v2.AnemllQuantConfigV2(lut_size=lut, scale_rank=rank, group_size=4, force_positive_scales=False, magnitude_activation="identity")


torch.manual_seed(0)
x = torch.randn(3, 12)
out.mkdir(exist_ok=True)
model = Model()
if len(sys.argv) > 3:  # does the original take what we export?
    v2.replace_linear_with_anemll_v2(model, config(4, 2), config(16, 3), verbose=False, skip_init=True)
    state = load_file(sys.argv[3])
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing and all(k.endswith(("._Q", "._indices")) for k in unexpected), (missing, unexpected)
    for name, m in model.named_modules():
        if isinstance(m, v2.AnemllQATLinearV2):
            m._Q, m._indices, m._use_indices = state[f"{name}._Q"], state[f"{name}._indices"], True
    print((model.eval()(x) - load_file(out / "numbers.safetensors")["v2.y"]).abs().max().item())
    sys.exit()

numbers = {"x": x}
v2.replace_linear_with_anemll_v2(model, config(4, 2), config(16, 3), verbose=False)
v2.freeze_Q_all(model)
numbers["v2.y"] = model.eval()(x).detach()
torch.save(model.state_dict(), out / "v2.pt")
for m in model.modules():
    if isinstance(m, v2.AnemllQATLinearV2):
        m.snap_for_export()
numbers["v2_baked.y"] = model(x).detach()
torch.save({"model_state_dict": {k: v for k, v in model.state_dict().items() if not k.endswith("_indices")}}, out / "v2_baked.pt")

model = Model()
v1.replace_linear_with_anemll(model, v1.AnemllQuantConfig(lut_size=4, group_size=8, scale_rank=2), verbose=False)
numbers["v1.y"] = model.eval()(x).detach()
torch.save(model.state_dict(), out / "v1.pt")

model = Model()
for layer in model.layers:
    for parent, name in ((layer.mlp, "gate_proj"), (layer.mlp, "down_proj")):
        linear = getattr(parent, name)
        made = v0.QATLinear(linear.in_features, linear.out_features, bias=False, qc=quantizer.QATQuantConfig(n_bits=4))
        made.weight.data.copy_(linear.weight)
        made.set_f_init(quantizer.init_f_mse_grid_search(made.weight, quantizer.QATQuantConfig(n_bits=4)))
        setattr(parent, name, made)
numbers["v0.y"] = model.eval()(x).detach()
torch.save(model.state_dict(), out / "v0.pt")
save_file(numbers, out / "numbers.safetensors")
